#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orchestrator/base/text.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/journal/journal.hpp"

namespace millwright {
namespace {

struct Options {
  std::string name;
  bool yes = false;
};

int list(const Session& session, const std::vector<LockRecord>& locks) {
  if (session.common.json) {
    Value out = Value::array();
    for (const LockRecord& lock : locks) {
      out.push_back({{"name", lock.name}, {"holder", lock.holder}, {"why", lock.why}, {"since", iso_utc(lock.since)}});
    }
    session.console.out(out.dump(2, ' ', false, Value::error_handler_t::replace) + "\n");
    return kDone;
  }
  if (locks.empty()) session.console.out("nothing is locked\n");
  for (const LockRecord& lock : locks) {
    session.console.out(fmt::format("{}  held by {} since {}{}\n", lock.name, lock.holder, iso_utc(lock.since),
                                    lock.why.empty() ? "" : ": " + lock.why));
  }
  return kDone;
}

int run(const Session& session, const Options& options) {
  const auto journal = session.open_journal();
  if (!journal) return session.fail_with(journal.error());
  const auto locks = (*journal)->locks();
  if (!locks) return session.fail_with(locks.error());
  if (options.name.empty()) return list(session, *locks);
  std::vector<std::string> names;
  for (const LockRecord& lock : *locks) {
    names.push_back(lock.name);
    if (lock.name != options.name && lock.name != "node:" + options.name) continue;
    const std::string question = fmt::format(
        "{} is held by {}. If that run still lives, both will change the node. Unlock?", lock.name, lock.holder);
    if (!options.yes && !session.confirm(question)) return kUsage;
    const auto unlocked = (*journal)->unlock(lock.name, lock.holder);
    if (!unlocked) return session.fail_with(unlocked.error());
    session.console.out(fmt::format("{} is free\n", lock.name));
    return kDone;
  }
  const auto near = nearest(options.name, names);
  return session.fail_with(
      make_error(ErrorKind::usage, fmt::format("'{}' is not locked", options.name))
          .with_hint(near ? fmt::format("did you mean '{}'?", *near) : "without a name, all locks are listed"));
}

}  // namespace

void add_unlock(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("unlock", "List locks, or free one whose holder is gone");
  verb->add_option("name", options->name, "The lock: node:gpu1, or just gpu1")->type_name("NAME");
  verb->add_flag("-y,--yes", options->yes, "Do not ask");
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright unlock", "millwright unlock gpu1 -y"});
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
