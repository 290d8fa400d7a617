// Engine tests as text: a playbook and hosts in, "host step result" lines out. Nodes are this machine's own /bin/sh
// working in a temporary folder, through the real local connection, watched and broken on purpose.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/engine/engine.hpp"
#include "orchestrator/journal/memory_journal.hpp"
#include "orchestrator/transport/testing/faulty_connection.hpp"

namespace millwright::testing {

class TemporaryFolder {
 public:
  TemporaryFolder();
  explicit TemporaryFolder(std::string borrowed) : path_(std::move(borrowed)), removal_(Removal::leave) {}
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  enum class Removal { at_end, leave };
  std::string path_;
  Removal removal_ = Removal::at_end;
};

std::string read_file(const std::string& path);  // "" when there is none
void write_file(const std::string& path, const std::string& content);
// Paths and contents of all files below, as lines; what two states are compared by.
std::string tree(const std::string& folder);

// What happened on the way to one node.
struct Traffic {
  int round_trips = 0;
  std::vector<std::string> scripts;
  std::vector<std::vector<std::string>> trips;  // the same by round trip
};

class Lab final : public Connector {
 public:
  explicit Lab(Clock& clock);
  Result<std::unique_ptr<Connection>> connect(const Target& target) override;
  // Containers of backend "lab" exist while the file that is their id does.
  Result<std::unique_ptr<Connection>> hop(Connection& host, const ContainerTarget& target) override;

  void refuse(const std::string& host);
  void break_line(const std::string& host, Faults faults);
  // Called before each script that goes to a node, on the worker's thread.
  void before_script(std::function<void(const std::string& node, const std::string& script)> hook);
  Traffic traffic(const std::string& node) const;  // since it was last cleared
  void clear_traffic();

 private:
  friend class WatchedConnection;
  void note(const std::string& node, const std::vector<std::string>& scripts);

  std::unique_ptr<Connector> real_;
  mutable Mutex mutex_;
  std::set<std::string> refused_ MW_GUARDED_BY(mutex_);
  std::map<std::string, Faults> faults_ MW_GUARDED_BY(mutex_);
  std::map<std::string, Traffic> traffic_ MW_GUARDED_BY(mutex_);
  std::function<void(const std::string&, const std::string&)> hook_ MW_GUARDED_BY(mutex_);
};

class EventList final : public EventSink {
 public:
  explicit EventList(std::function<void(const Event&)> heard = {}) : heard_(std::move(heard)) {}
  void on_event(const Event& event) override;
  std::vector<Event> all() const;
  std::vector<Event> of(EventType type) const;

 private:
  const std::function<void(const Event&)> heard_;
  mutable Mutex mutex_;
  std::vector<Event> events_ MW_GUARDED_BY(mutex_);
};

class NoHttp final : public HttpClient {
 public:
  Result<HttpResponse> send(const HttpRequest&) override { return fail(ErrorKind::connect, "no HTTP in this test"); }
};

// Remedies by class, tried in order, each once.
class ListedRemedies final : public RemedyAdvisor {
 public:
  void add(const std::string& symptom_class, Remedy remedy) { rows_.emplace_back(symptom_class, std::move(remedy)); }
  std::optional<Remedy> next(const RemedyQuery& query) const override;

 private:
  std::vector<std::pair<std::string, Remedy>> rows_;
};

// One lab with an engine; several runs may follow each other in it.
class Bench {
 public:
  Bench();
  // Goes on in the folder of another one, with a journal of its own.
  Bench(const Bench& other, Journal& journal);

  // {dir} in the text stands for the folder of the host, made on first use.
  Result<RunSummary> apply(const std::string& playbook, const std::vector<std::string>& hosts = {"h1"});
  Result<RunSummary> resume(const std::string& run);
  Result<RunSummary> look_again(const std::string& run, Asking asking);
  Result<RunSummary> rollback(const std::string& run, const std::vector<std::string>& hosts = {});
  Result<RunSummary> rollback_from_node(const std::string& run, const std::string& name = "h1");
  PlayHost host(const std::string& name) const;
  std::string dir(const std::string& host) const { return folder.path() + "/" + host; }
  // The last run's steps: "h1 conf changed", in the order in which they finished.
  std::vector<std::string> results() const;
  std::vector<Event> all_events() const { return sink->all(); }
  std::vector<Event> events(EventType type) const;  // of the last run, as far as this process saw it
  std::string text_of(const std::string& playbook) const;

  TemporaryFolder folder;
  SystemClock clock;
  Lab lab{clock};
  MemoryJournal memory;
  Journal* journal = &memory;
  StepRegistry registry;
  ListedRemedies remedies;
  RemedyMemory* remembered = nullptr;
  NoHttp http;
  InterruptLevel interrupt{0};
  RunOptions options;
  std::function<void(const Event&)> heard;  // called for each event of the next run, on the thread that says it
  Value inputs = Value::object();
  std::unique_ptr<EventList> sink;
  RunSummary last;
  std::optional<Error> error;

 private:
  Engine engine();
  Result<RunSummary> note(Result<RunSummary> result);
};

}  // namespace millwright::testing
