// releases: the servers of a host and of the containers in it, what each has run, and what of it nothing needs any
// more.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/cli/engine_run.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/play.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/engine/node_lock.hpp"
#include "orchestrator/transport/connection.hpp"
#include "steps/server/releases.hpp"
#include "steps/server/server_spec.hpp"

namespace millwright {
namespace {

struct Options : ReleaseSwitch {
  bool prune = false;
};

constexpr int kUnreachable = static_cast<int>(ExitCode::unreachable);
constexpr int kLockHeld = static_cast<int>(ExitCode::lock_held);
constexpr int kHeldStatus = 77;                           // of take_by_hand_script
constexpr auto kLookDeadline = std::chrono::minutes(10);  // environments are measured, file by file

constexpr const char* kContainers = R"sh(if command -v lxc-ls >/dev/null && ! command -v pct >/dev/null; then
  for name in $(lxc-ls --running -1 2>/dev/null); do echo "lxc $name"; done
fi
if command -v pct >/dev/null; then pct list 2>/dev/null | awk 'NR > 1 && $2 == "running" { print "pct " $1 }'; fi
if command -v incus >/dev/null; then incus list -f csv -c n status=running 2>/dev/null | sed 's/^/incus /'; fi
)sh";

// One place where servers live: the host itself, or a container in it.
struct Place {
  std::string title;          // "gpu1", "gpu1/llm"
  ContainerTarget container;  // empty backend: the host
  Connection* connection = nullptr;
  NodeReleases found;
};

// Owns the way to a host and into its containers while the verb runs.
struct Visit {
  PlayHost host;
  std::unique_ptr<Connector> connector;
  std::unique_ptr<Connection> way;
  std::vector<std::unique_ptr<Connection>> hops;
  std::vector<Place> places;
};

Result<CommandResult> run_on(Connection& connection, Become become, const std::string& script) {
  Command command;
  command.script = script;
  command.become = become;
  command.deadline = kLookDeadline;
  return connection.run(command);
}

// Into a container one comes as root already.
Become become_in(const Visit& visit, const Place& place) {
  return place.container.backend.empty() ? visit.host.target.become : Become::no;
}

Result<PlayHost> host_named(const Session& session, const Options& options, const std::string& name) {
  const auto inventory = load_inventory(session, options.inventory);
  if (!inventory) return fail(inventory.error().front());
  const auto names = match_hosts(*inventory, name, options.inventory);
  if (!names) return fail(names.error());
  if (names->size() != 1) {
    return fail(make_error(ErrorKind::usage, fmt::format("'{}' is {} hosts", name, names->size()))
                    .with_hint("one at a time: name one host of the inventory"));
  }
  return play_host(*inventory, names->front());
}

Result<void> look(Visit& visit, Place& place) {
  auto answer = run_on(*place.connection, become_in(visit, place), releases_script());
  if (!answer) return fail(wrap(answer.error(), "asking " + place.title));
  auto found = parse_releases(answer->out);
  if (!found) return fail(wrap(found.error(), place.title));
  place.found = std::move(*found);
  return {};
}

Result<void> visit_host(const Session& session, Visit& visit) {
  visit.connector = session.wiring.make_connector(*session.wiring.clock);
  auto way = visit.connector->connect(visit.host.target);
  if (!way) return fail(wrap(way.error(), "connecting to " + visit.host.target.name));
  visit.way = std::move(*way);
  visit.places.push_back({visit.host.target.name, {}, visit.way.get(), {}});
  auto containers = run_on(*visit.way, visit.host.target.become, kContainers);
  if (!containers) return fail(wrap(containers.error(), "asking " + visit.host.target.name));
  for (const std::string& line : split_lines(containers->out)) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string::npos) continue;
    const ContainerTarget target{line.substr(0, blank), line.substr(blank + 1)};
    auto hop = visit.connector->hop(*visit.way, target);
    if (!hop) return fail(wrap(hop.error(), "entering " + visit.host.target.name + "/" + target.id));
    visit.hops.push_back(std::move(*hop));
    visit.places.push_back({visit.host.target.name + "/" + target.id, target, visit.hops.back().get(), {}});
  }
  for (Place& place : visit.places) {
    if (auto looked = look(visit, place); !looked) return looked;
  }
  return {};
}

// Leaves what `wanted` (the parts behind the host) names. A part alone is a container, else a server anywhere.
void keep_named(Visit& visit, const std::vector<std::string>& wanted) {
  std::vector<Place> kept;
  const bool container =
      !wanted.empty() && std::any_of(visit.places.begin(), visit.places.end(),
                                     [&](const Place& place) { return place.container.id == wanted[0]; });
  for (Place& place : visit.places) {
    if (container && place.container.id != wanted[0]) continue;
    const std::string server = wanted.size() > 1 ? wanted[1] : container || wanted.empty() ? "" : wanted[0];
    if (!server.empty()) {
      auto& servers = place.found.servers;
      servers.erase(
          std::remove_if(servers.begin(), servers.end(), [&](const ServerRow& row) { return row.name != server; }),
          servers.end());
      if (servers.empty()) continue;
    }
    // Of containers only those that have anything of ours.
    const bool empty = place.found.servers.empty() && place.found.environments.empty();
    if (!empty || place.container.backend.empty()) kept.push_back(std::move(place));
  }
  visit.places = std::move(kept);
}

int show(const Session& session, const Visit& visit, ReleaseFlags flags) {
  if (session.common.json) {
    Value out = Value::array();
    for (const Place& place : visit.places) out.push_back(releases_json(place.title, place.found));
    session.console.out(out.dump(2, ' ', false, Value::error_handler_t::replace) + "\n");
    return kDone;
  }
  const bool elsewhere = visit.places.size() > 1;
  std::string out;
  for (const Place& place : visit.places) {
    const bool empty = place.found.servers.empty() && place.found.environments.empty();
    if (empty && elsewhere) continue;
    out += (out.empty() ? "" : "\n") + releases_table(place.title, place.found, flags);
  }
  session.console.out(out);
  return kDone;
}

// ---- prune ---------------------------------------------------------------------------------------------------------

std::string describe(const Place& place, const Unneeded& gone) {
  std::string out;
  for (const auto& [server, number] : gone.releases)
    out += fmt::format("{}  release {} of {}\n", place.title, number, server);
  for (const EnvironmentRow& row : gone.environments)
    out += fmt::format("{}  {}  {}\n", place.title, row.folder, format_size(row.bytes));
  return out;
}

// While it works, no run changes the host.
Result<std::string> hold(const Session& session, Visit& visit) {
  const std::string since = iso_utc(session.wiring.clock->now());
  auto taken =
      run_on(*visit.way, visit.host.target.become, take_by_hand_script("releases --prune", since, "removing releases"));
  if (!taken) return fail(taken.error());
  if (taken->exit_code == kHeldStatus)
    return fail(node_lock_error(visit.host.target.name, std::string(trim(taken->out))));
  if (taken->exit_code != 0) {
    return fail(ErrorKind::refused, fmt::format("{} cannot be locked: {}", visit.host.target.name, trim(taken->err)));
  }
  auto held = run_on(*visit.way, visit.host.target.become, read_lock_script());
  if (!held) return fail(held.error());
  return std::string(trim(held->out));
}

int prune(const Session& session, const Options& options, Visit& visit) {
  std::vector<std::pair<Place*, Unneeded>> work;
  std::string shown;
  for (Place& place : visit.places) {
    Unneeded gone = unneeded(place.found);
    if (gone.empty()) continue;
    shown += describe(place, gone);
    work.emplace_back(&place, std::move(gone));
  }
  if (work.empty()) {
    session.console.out("everything there is needed\n");
    return kDone;
  }
  session.console.out(shown);
  if (!options.yes && !session.confirm("Remove these?")) return kUsage;
  const auto held = hold(session, visit);
  if (!held) {
    session.fail_with(held.error());
    return held.error().kind == ErrorKind::busy ? kLockHeld : kUnreachable;
  }
  int code = kDone;
  for (const auto& [place, gone] : work) {
    auto done = run_on(*place->connection, become_in(visit, *place), prune_script(gone));
    if (!done) {
      session.fail_with(done.error());
      code = kUnreachable;
    } else if (done->exit_code != 0) {
      code = session.fail_with(make_error(ErrorKind::refused, place->title + ": " + std::string(trim(done->err))));
    }
  }
  if (auto freed = run_on(*visit.way, visit.host.target.become, free_lock_script(*held)); !freed) {
    session.fail_with(freed.error());
    return kUnreachable;
  }
  if (code == kDone) session.console.out("removed\n");
  return code;
}

// ---- another release -----------------------------------------------------------------------------------------------

Result<PlayOptions> play_of(Visit& visit, const Options& options, Place& place, const ServerRow& server,
                            const ReleaseRow& release) {
  PlayOptions play;
  const bool boxed = !place.container.backend.empty();
  if (boxed && place.container.backend != "lxc") {
    return fail(
        make_error(ErrorKind::refused, "servers in containers of " + place.container.backend + " are only listed")
            .with_hint("switch it from inside the container"));
  }
  play.playbook = shipped_playbooks() + (boxed ? "/run-release-in-container.yml" : "/run-release.yml");
  play.inventory = options.inventory;
  play.inventory.limit = visit.host.target.name;
  play.lock_wait = options.lock_wait;
  Value inputs = {
      {"name", server.name}, {"release", release.number}, {"engine", release.engine}, {"model", release.model}};
  if (boxed) inputs["container"] = place.container.id;
  const std::string key_file =
      "/var/lib/millwright/servers/" + server.name + "/releases/" + std::to_string(release.number) + "/" + kClientKey;
  auto key = run_on(*place.connection, become_in(visit, place), "cat " + shell_quote(key_file) + " 2>/dev/null || :\n");
  if (!key) return fail(key.error());
  if (const std::string text(trim(key->out)); !text.empty()) {
    redactor().add(text);
    inputs["api_key"] = text;
  }
  play.extra.push_back(inputs.dump());
  return play;
}

int switch_to(const Session& session, const Options& options, Visit& visit) {
  std::vector<std::pair<Place*, const ServerRow*>> found;
  for (Place& place : visit.places) {
    for (const ServerRow& server : place.found.servers) found.emplace_back(&place, &server);
  }
  if (found.size() != 1) {
    return session.fail_with(make_error(ErrorKind::usage, fmt::format("'{}' is {} servers", options.what, found.size()))
                                 .with_hint("name one, as HOST/NAME or HOST/CONTAINER/NAME"));
  }
  const auto [place, server] = found.front();
  const ReleaseRow* release = server->find(options.to);
  if (release == nullptr) {
    std::vector<std::string> there;
    for (const ReleaseRow& row : server->releases) there.push_back(std::to_string(row.number));
    return session.fail_with(
        make_error(ErrorKind::usage, fmt::format("{} of {} has no release {}", server->name, place->title, options.to))
            .with_hint("it has " + (there.empty() ? "none" : join(there, ", "))));
  }
  const std::string question = fmt::format("{}: {} {} of release {} in place of what runs now?", place->title,
                                           release->engine, release->version, release->number);
  if (!options.yes && !session.confirm(question)) return kUsage;
  const auto options_of_play = play_of(visit, options, *place, *server, *release);
  if (!options_of_play) return session.fail_with(options_of_play.error());
  const auto kinds = load_step_kinds(session);
  if (!kinds) return session.refuse(kinds.error());
  const auto play = prepare_play(session, kinds->registry, *options_of_play);
  if (!play) return session.refuse(play.error());
  return run_engine(session, *kinds, Diffs::no, [&](Engine& engine) {
    return engine.run(play->playbook, play->text, play->inputs, play->hosts, play->options);
  });
}

int run(const Session& session, const Options& options) {
  std::vector<std::string> parts = split(options.what, '/');
  const std::string name = parts.front();
  parts.erase(parts.begin());
  if (parts.size() > 2) {
    return session.refuse(make_error(ErrorKind::usage, "'" + options.what + "' has too many parts")
                              .with_hint("HOST, HOST/NAME, HOST/CONTAINER or HOST/CONTAINER/NAME"));
  }
  auto host = host_named(session, options, name);
  if (!host) return session.refuse(host.error());
  Visit visit;
  visit.host = std::move(*host);
  if (auto visited = visit_host(session, visit); !visited) {
    session.fail_with(visited.error());
    return kUnreachable;
  }
  // What one server does not need, another one of the same node may.
  if (!options.prune) keep_named(visit, parts);
  if (options.prune && !parts.empty()) {
    return session.refuse(
        make_error(ErrorKind::usage, "--prune looks at a whole host").with_hint("name only the host"));
  }
  if (options.prune) return prune(session, options, visit);
  if (options.to > 0) return switch_to(session, options, visit);
  if (visit.places.empty()) {
    return session.fail_with(make_error(ErrorKind::usage, "there is no server " + options.what)
                                 .with_hint("`millwright releases " + name + "` lists what there is"));
  }
  return show(session, visit, parts.empty() ? ReleaseFlags::left_out : ReleaseFlags::shown);
}

}  // namespace

int run_release_again(const Session& session, const ReleaseSwitch& wish) {
  Options options;
  static_cast<ReleaseSwitch&>(options) = wish;
  return run(session, options);
}

void add_releases(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("releases", "Model servers of a host: what each ran and runs");
  verb->add_option("what", options->what, "A host, with /SERVER or /CONTAINER/SERVER for one of it")
      ->type_name("HOST")
      ->required();
  auto* to = verb->add_option("--to", options->to, "Run release N of that server again, and test it")
                 ->type_name("N")
                 ->check(CLI::PositiveNumber);
  verb->add_flag("--prune", options->prune, "Remove releases and environments that nothing needs")->excludes(to);
  verb->add_flag("-y,--yes", options->yes, "Do not ask");
  verb->add_option("--lock-wait", options->lock_wait, "With --to: how long to wait for a host that is held");
  add_inventory_options(*verb, options->inventory);
  add_common_options(*verb, session.common);
  verb->footer(
      "\nLooks at the host and at the containers that run in it; needs root there. Of\n"
      "one server (HOST/SERVER) the flags of each release are shown; --json has all.\n"
      "--prune keeps what runs and, of each server, the last release that passed a\n"
      "test: it goes when the next one has passed. --to is undone when the test fails.\n"
      "Exit codes: 0 done, 1 usage, 4 unreachable, 7 lock held; of --to: those of apply\n"
      "\nExamples:\n  millwright releases gpu1 -i hosts.yml\n"
      "  millwright releases gpu1/llm -i hosts.yml --to 3\n"
      "  millwright releases gpu1 -i hosts.yml --prune\n"
      "  millwright releases gpu1 -i hosts.yml --json | jq '.[].servers[].name'");
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
