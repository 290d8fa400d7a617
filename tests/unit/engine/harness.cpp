#include "tests/unit/engine/harness.hpp"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "orchestrator/base/text.hpp"
#include "orchestrator/report/views.hpp"
#include "orchestrator/transport/connector.hpp"
#include "tests/support/passing_connection.hpp"
#include "tests/unit/engine/kinds.hpp"

namespace millwright::testing {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "mw-engine-XXXXXX").string();
  path_ = mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() {
  if (removal_ == Removal::at_end) fs::remove_all(path_);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void write_file(const std::string& path, const std::string& content) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

std::string tree(const std::string& folder) {
  std::vector<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).string();
    lines.push_back(entry.is_directory() ? name + "/" : name + ": " + read_file(entry.path().string()));
  }
  std::sort(lines.begin(), lines.end());
  return join(lines, "\n");
}

// Notes what goes over the line, one round trip a call.
class WatchedConnection final : public PassingConnection {
 public:
  WatchedConnection(Lab& lab, std::string node, std::unique_ptr<Connection> inner)
      : PassingConnection(std::move(inner)), lab_(lab), node_(std::move(node)) {}
  std::string name() const override { return node_; }
  Result<CommandResult> run(const Command& command) override {
    lab_.note(node_, {command.script});
    return inner().run(command);
  }
  Result<std::vector<CommandResult>> run_batch(const std::vector<Command>& commands) override {
    std::vector<std::string> scripts;
    for (const Command& command : commands) scripts.push_back(command.script);
    lab_.note(node_, scripts);
    return inner().run_batch(commands);
  }
  Result<void> upload(const Upload& upload) override {
    lab_.note(node_, {"upload " + upload.path});
    return inner().upload(upload);
  }

 private:
  Lab& lab_;
  const std::string node_;
};

Lab::Lab(Clock& clock) : real_(make_connector(clock)) {}

Result<std::unique_ptr<Connection>> Lab::connect(const Target& target) {
  Faults faults;
  {
    const Lock guard(mutex_);
    if (refused_.count(target.name) != 0) return fail(ErrorKind::connect, "no route to " + target.name);
    if (const auto it = faults_.find(target.name); it != faults_.end()) faults = it->second;
  }
  Target local = target;
  local.via = Via::local;
  Result<std::unique_ptr<Connection>> connection = real_->connect(local);
  if (!connection) return connection;
  auto faulty = std::make_unique<FaultyConnection>(std::move(*connection), faults);
  return std::make_unique<WatchedConnection>(*this, target.name, std::move(faulty));
}

Result<std::unique_ptr<Connection>> Lab::hop(Connection& host, const ContainerTarget& target) {
  if (!fs::exists(target.id)) return fail(ErrorKind::connect, "no container " + target.id);
  Target local;
  local.name = host.name() + "/" + target.id;
  local.via = Via::local;
  Result<std::unique_ptr<Connection>> connection = real_->connect(local);
  if (!connection) return connection;
  return std::make_unique<WatchedConnection>(*this, local.name, std::move(*connection));
}

void Lab::refuse(const std::string& host) {
  const Lock guard(mutex_);
  refused_.insert(host);
}

void Lab::break_line(const std::string& host, Faults faults) {
  const Lock guard(mutex_);
  faults_[host] = std::move(faults);
}

void Lab::before_script(std::function<void(const std::string&, const std::string&)> hook) {
  const Lock guard(mutex_);
  hook_ = std::move(hook);
}

void Lab::note(const std::string& node, const std::vector<std::string>& scripts) {
  std::function<void(const std::string&, const std::string&)> hook;
  {
    const Lock guard(mutex_);
    Traffic& traffic = traffic_[node];
    ++traffic.round_trips;
    traffic.trips.push_back(scripts);
    traffic.scripts.insert(traffic.scripts.end(), scripts.begin(), scripts.end());
    hook = hook_;
  }
  if (!hook) return;
  for (const std::string& script : scripts) hook(node, script);
}

Traffic Lab::traffic(const std::string& node) const {
  const Lock guard(mutex_);
  const auto it = traffic_.find(node);
  return it == traffic_.end() ? Traffic() : it->second;
}

void Lab::clear_traffic() {
  const Lock guard(mutex_);
  traffic_.clear();
}

// MILLWRIGHT_EVENTS_TO names a file that gets them too, as --json prints them: tests/differential/events.py.
void EventList::on_event(const Event& event) {
  const Lock guard(mutex_);
  static const char* const file = std::getenv("MILLWRIGHT_EVENTS_TO");
  if (file != nullptr) {
    std::ofstream(file, std::ios::app) << event_json(event).dump(-1, ' ', false, Value::error_handler_t::replace)
                                       << '\n';
  }
  events_.push_back(event);
  if (heard_) heard_(event);
}

std::vector<Event> EventList::all() const {
  const Lock guard(mutex_);
  return events_;
}

std::vector<Event> EventList::of(EventType type) const {
  std::vector<Event> out;
  for (const Event& event : all()) {
    if (event.type == type) out.push_back(event);
  }
  return out;
}

std::optional<Remedy> ListedRemedies::next(const RemedyQuery& query) const {
  for (const auto& [symptom, remedy] : rows_) {
    const bool tried = std::find(query.tried.begin(), query.tried.end(), remedy.id) != query.tried.end();
    if (symptom == query.symptom_class && !tried) return remedy;
  }
  return {};
}

Bench::Bench() {
  register_test_kinds(registry);
  options.node_state_dir = folder.path() + "/state";
}

Bench::Bench(const Bench& other, Journal& given) : folder(other.folder.path()), journal(&given) {
  register_test_kinds(registry);
  options = other.options;
}

Engine Bench::engine() {
  sink = std::make_unique<EventList>(heard);
  EngineServices services;
  services.connector = &lab;
  services.journal = journal;
  services.sink = sink.get();
  services.clock = &clock;
  services.http = &http;
  services.registry = &registry;
  services.remedies = &remedies;
  services.remembered = remembered;
  return Engine(services, interrupt);
}

PlayHost Bench::host(const std::string& name) const {
  PlayHost host;
  host.target.name = name;
  host.target.via = Via::local;
  fs::create_directories(dir(name));
  host.vars = {{"dir", dir(name)}};
  return host;
}

std::string Bench::text_of(const std::string& playbook) const {
  return replace_all(playbook, "{dir}", "{{ vars.dir }}");
}

Result<RunSummary> Bench::note(Result<RunSummary> result) {
  error.reset();
  if (result) {
    last = *result;
  } else {
    error = result.error();
  }
  return result;
}

Result<RunSummary> Bench::apply(const std::string& playbook, const std::vector<std::string>& names) {
  const std::string text = text_of(playbook);
  auto parsed = parse_playbook(text, "test.yml", registry);
  if (!parsed) return note(fail(parsed.error().front()));
  std::vector<PlayHost> hosts;
  for (const std::string& name : names) hosts.push_back(host(name));
  return note(engine().run(*parsed, text, inputs, hosts, options));
}

Result<RunSummary> Bench::resume(const std::string& run) { return note(engine().resume(run, options)); }

Result<RunSummary> Bench::look_again(const std::string& run, Asking asking) {
  RunOptions again = options;
  again.asking = asking;
  return note(engine().look_again(run, again));
}

Result<RunSummary> Bench::rollback(const std::string& run, const std::vector<std::string>& hosts) {
  return note(engine().rollback(run, hosts, options));
}

Result<RunSummary> Bench::rollback_from_node(const std::string& run, const std::string& name) {
  return note(engine().rollback_from_node(host(name), run, options));
}

std::vector<Event> Bench::events(EventType type) const { return sink->of(type); }

std::vector<std::string> Bench::results() const {
  std::vector<std::string> out;
  for (const Event& event : events(EventType::step_finished)) {
    out.push_back(event.host + " " + event.step + " " + event.data["state"].get<std::string>());
  }
  return out;
}

}  // namespace millwright::testing
