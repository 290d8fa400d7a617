// lock and unlock: who holds a node, in this journal and on the node itself.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orchestrator/base/text.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/play.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/engine/node_lock.hpp"
#include "orchestrator/journal/journal.hpp"
#include "orchestrator/journal/process_identity.hpp"

namespace millwright {
namespace {

struct Options {
  std::string name;
  std::string why;
  InventoryOptions inventory;
  bool yes = false;
  bool force = false;
};

constexpr int kLockHeld = static_cast<int>(ExitCode::lock_held);
constexpr int kUnreachable = static_cast<int>(ExitCode::unreachable);

std::string_view to_string(Liveness process) {
  switch (process) {
    case Liveness::alive:
      return "alive";
    case Liveness::dead:
      return "dead";
    case Liveness::unknown:
      return "unknown";
  }
  return "unknown";
}

// Behind who holds it; empty for a person.
std::string whether_it_runs(Liveness process) {
  switch (process) {
    case Liveness::alive:
      return ", which is running";
    case Liveness::dead:
      return ", which runs no more";
    case Liveness::unknown:
      return "; whether it still runs cannot be seen from here";
  }
  return {};
}

// Freeing the lock of a run that lives lets two of them change one node: that has to be said in so many words.
Error still_held(const std::string& what, Liveness process) {
  return make_error(ErrorKind::busy, what + whether_it_runs(process))
      .with_hint(process == Liveness::alive
                     ? "wait for it, or end it with Ctrl-C there; --force frees the lock all the same"
                     : "look where it was started; --force frees the lock all the same");
}

int list(const Session& session, const std::vector<LockRecord>& locks) {
  if (session.common.json) {
    Value out = Value::array();
    for (const LockRecord& lock : locks) {
      out.push_back({{"name", lock.name},
                     {"holder", lock.holder},
                     {"why", lock.why},
                     {"since", iso_utc(lock.since)},
                     {"process", lock.by_hand ? Value() : Value(to_string(lock.process))},
                     {"by_hand", lock.by_hand}});
    }
    session.console.out(out.dump(2, ' ', false, Value::error_handler_t::replace) + "\n");
    return kDone;
  }
  if (locks.empty()) session.console.out("nothing is locked\n");
  for (const LockRecord& lock : locks) {
    session.console.out(fmt::format("{}  held {} {} since {}{}{}\n", lock.name, lock.by_hand ? "by hand by" : "by",
                                    lock.holder, iso_utc(lock.since), lock.why.empty() ? "" : ": " + lock.why,
                                    lock.by_hand ? "" : whether_it_runs(lock.process)));
  }
  return kDone;
}

// Whoever it is, not the process: that ends with this call.
std::string person() {
  const std::string process = describe_this_process();
  return process.substr(0, process.find(" pid "));
}

// Runs a script on one node, as the user who would work there.
Result<CommandResult> on_node(const Session& session, const PlayHost& host, const std::string& script) {
  const std::unique_ptr<Connector> connector = session.wiring.make_connector(*session.wiring.clock);
  auto connection = connector->connect(host.target);
  if (!connection) return fail(wrap(connection.error(), "connecting to " + host.target.name));
  Command command;
  command.script = script;
  command.become = host.target.become;
  return (*connection)->run(command);
}

Result<PlayHost> host_named(const Session& session, const Options& options) {
  const auto inventory = load_inventory(session, options.inventory);
  if (!inventory) return fail(inventory.error().front());
  const auto names = match_hosts(*inventory, options.name, options.inventory);
  if (!names) return fail(names.error());
  if (names->size() != 1) {
    return fail(make_error(ErrorKind::usage, fmt::format("'{}' is {} hosts", options.name, names->size()))
                    .with_hint("one at a time: name one host of the inventory"));
  }
  return play_host(*inventory, names->front());
}

int lock_node(const Session& session, const Options& options) {
  const auto host = host_named(session, options);
  if (!host) return session.refuse(host.error());
  const std::string& name = host->target.name;
  const auto journal = session.open_journal();
  if (!journal) return session.fail_with(journal.error());
  const TimePoint now = session.wiring.clock->now();
  LockRecord record{"node:" + name, person(), options.why, now, true};
  if (const auto locked = (*journal)->lock(record); !locked) {
    session.fail_with(locked.error());
    return kLockHeld;
  }
  const auto done = on_node(session, *host, take_by_hand_script(record.holder, iso_utc(now), options.why));
  if (done && done->exit_code == 0) {
    session.console.out(fmt::format("{} is locked: {}\nfree it  millwright unlock {}\n", name, options.why, name));
    return kDone;
  }
  // Half a lock would be taken for a whole one.
  if (const auto freed = (*journal)->unlock(record.name, record.holder); !freed) session.fail_with(freed.error());
  if (!done) {
    session.fail_with(done.error());
    return kUnreachable;
  }
  constexpr int held_status = 77;
  if (done->exit_code == held_status) {
    session.fail_with(node_lock_error(name, std::string(trim(done->out))));
    return kLockHeld;
  }
  return session.fail_with(make_error(ErrorKind::refused, fmt::format("{} cannot be locked: {}", name, trim(done->err)))
                               .with_hint("is there space left, and may this user write to the state folder there?"));
}

// The node's own lock; nothing to do when it is free. A node that is not in the inventory has none that can be reached.
int free_on_node(const Session& session, const Options& options) {
  const auto host = host_named(session, options);
  if (!host) return session.refuse(host.error());
  const std::string& name = host->target.name;
  const auto read = on_node(session, *host, read_lock_script());
  if (!read) {
    session.fail_with(read.error());
    return kUnreachable;
  }
  const std::string held(trim(read->out));
  if (held.empty()) {
    session.console.out(fmt::format("{} is free on the node\n", name));
    return kDone;
  }
  const std::string said = node_lock_error(name, held).message;
  const bool by_hand = starts_with(held, std::string(kByHand) + "|");
  if (!by_hand && !options.force && !holder_is_dead(held)) {
    session.fail_with(still_held(said, holder_liveness(held)));
    return kLockHeld;
  }
  const std::string question = said + ". Unlock?";
  if (!options.yes && !session.confirm(question)) return kUsage;
  const auto freed = on_node(session, *host, free_lock_script(held));
  if (!freed) {
    session.fail_with(freed.error());
    return kUnreachable;
  }
  session.console.out(fmt::format("{} is free on the node\n", name));
  return kDone;
}

int unlock(const Session& session, const Options& options) {
  const auto journal =
      inventory_sources(options.inventory).empty() ? session.open_kept_journal() : session.open_journal();
  if (!journal) return session.fail_with(journal.error());
  const auto locks = (*journal)->locks();
  if (!locks) return session.fail_with(locks.error());
  if (options.name.empty()) return list(session, *locks);
  const bool also_there = !inventory_sources(options.inventory).empty();
  std::vector<std::string> names;
  for (const LockRecord& lock : *locks) {
    names.push_back(lock.name);
    if (lock.name != options.name && lock.name != "node:" + options.name) continue;
    const std::string said = fmt::format("{} is held {}{}{}", lock.name, lock.by_hand ? "by hand by " : "by ",
                                         lock.holder, lock.why.empty() ? "" : " (" + lock.why + ")");
    if (!lock.by_hand && !options.force && lock.process != Liveness::dead) {
      session.fail_with(still_held(said, lock.process));
      return kLockHeld;
    }
    const std::string question = said + (lock.by_hand ? "" : whether_it_runs(lock.process)) + ". Unlock?";
    if (!options.yes && !session.confirm(question)) return kUsage;
    const auto unlocked = (*journal)->unlock(lock.name, lock.holder);
    if (!unlocked) return session.fail_with(unlocked.error());
    session.console.out(fmt::format("{} is free\n", lock.name));
    if (lock.by_hand && !also_there) {
      session.console.out("the node itself still says that it is locked: add -i INVENTORY to free it there too\n");
    }
    return also_there ? free_on_node(session, options) : kDone;
  }
  if (also_there) return free_on_node(session, options);
  const auto near = nearest(options.name, names);
  return session.fail_with(
      make_error(ErrorKind::usage, fmt::format("'{}' is not locked", options.name))
          .with_hint(near ? fmt::format("did you mean '{}'?", *near)
                          : "without a name, all locks are listed; -i INVENTORY looks at the node itself"));
}

}  // namespace

void add_lock(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("lock", "Hold a node by hand: no run changes it meanwhile");
  verb->add_option("host", options->name, "A host of the inventory")->type_name("HOST")->required();
  verb->add_option("--why", options->why, "Shown to everybody who meets the lock")->type_name("TEXT")->required();
  add_inventory_options(*verb, options->inventory);
  add_common_options(*verb, session.common);
  verb->footer(
      "\nThe lock is in this journal and on the node, so other controllers meet it too.\n"
      "Exit codes: 0 locked, 1 usage, 4 unreachable, 7 somebody else holds it\n"
      "\nExamples:\n  millwright lock gpu1 -i hosts.yml --why 'new power supply, back at 4'\n"
      "  millwright unlock gpu1 -i hosts.yml");
  verb->callback(
      [&session, options] { session.chosen = [&session, options] { return lock_node(session, *options); }; });
}

void add_unlock(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("unlock", "List locks, or free one");
  verb->add_option("name", options->name, "The lock: node:gpu1, or just gpu1")->type_name("NAME");
  verb->add_flag("-y,--yes", options->yes, "Do not ask");
  verb->add_flag("--force", options->force, "Also the lock of a run that is not known to be dead");
  add_inventory_options(*verb, options->inventory);
  add_common_options(*verb, session.common);
  verb->footer(
      "\nA lock whose run is dead is free anyway: the next run takes it over.\n"
      "Exit codes: 0 free, 1 usage, 4 unreachable, 7 its run lives, or may live\n"
      "\nExamples:\n  millwright unlock                       who holds what\n"
      "  millwright unlock gpu1 -i hosts.yml     on the node itself too\n"
      "  millwright unlock gpu1 --force -y");
  verb->callback([&session, options] { session.chosen = [&session, options] { return unlock(session, *options); }; });
}

}  // namespace millwright
