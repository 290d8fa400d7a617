#include "orchestrator/engine/node_lock.hpp"

#include <fmt/format.h>

#include <charconv>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/dead_man.hpp"
#include "orchestrator/journal/process_identity.hpp"

namespace millwright {

namespace {

// run | holder | machine | boot | pid namespace | pid | start | since | why
constexpr std::size_t field_count = 9;

std::string field(std::string text) {
  text = replace_all(std::move(text), "|", "/");
  return replace_all(std::move(text), "\n", " ");
}

}  // namespace

std::string node_lock_text(const RunContext& run) {
  const ProcessIdentity self = this_process();
  return join({field(run.holder), field(self.machine), self.boot, self.pid_namespace, std::to_string(self.pid),
               self.start, iso_utc(run.services.clock->now()), field(run.options.why)},
              "|");
}

namespace {

// As HostSession::state_dir has it.
constexpr const char* find_state =
    "if [ \"$(id -u)\" = 0 ]; then S=/var/lib/millwright; else S=\"$HOME/.local/state/millwright\"; fi\n";

}  // namespace

std::string take_by_hand_script(const std::string& holder, const std::string& since, const std::string& why) {
  const std::string target = join({kByHand, field(holder), "", "", "", "0", "", since, field(why)}, "|");
  return std::string(find_state) +
         "umask 077; mkdir -p \"$S\" && { chmod 711 \"$S\" 2>/dev/null || :; }\n"
         "ln -s " +
         shell_quote(target) + " \"$S/lock\" 2>/dev/null && exit 0\nreadlink \"$S/lock\" && exit 77\nexit 73\n";
}

std::string read_lock_script() { return std::string(find_state) + "readlink \"$S/lock\" || :\n"; }

std::string free_lock_script(const std::string& held) {
  return std::string(find_state) + "[ \"$(readlink \"$S/lock\" 2>/dev/null)\" != " + shell_quote(held) +
         " ] || rm -f \"$S/lock\"\n";
}

Error node_lock_error(const std::string& node, const std::string& held) {
  const std::vector<std::string> fields = split(held, '|');
  Error error;
  if (fields.size() == field_count && fields[0] == kByHand) {
    error = make_error(ErrorKind::busy, fmt::format("{} is locked by hand by {} since {}{}", node, fields[1], fields[7],
                                                    fields[8].empty() ? "" : ": " + fields[8]));
    error.hint = fmt::format("ask them; millwright unlock {} -i INVENTORY frees it", node);
    return error;
  }
  if (fields.size() < field_count) {
    error = make_error(ErrorKind::busy, fmt::format("{} is locked by somebody else: {}", node, held));
  } else {
    // The holder is "user@machine pid 1 run RUN": the run is said already.
    const std::string who = fields[1].substr(0, fields[1].find(" run "));
    error = make_error(ErrorKind::busy, fmt::format("{} is locked by run {} of {} since {}{}", node, fields[0], who,
                                                    fields[7], fields[8].empty() ? "" : ": " + fields[8]));
  }
  error.hint =
      "wait for it with --lock-wait; if that run is dead: millwright resume or rollback it, or millwright unlock";
  return error;
}

Liveness holder_liveness(const std::string& held) {
  const std::vector<std::string> fields = split(held, '|');
  if (fields.size() < field_count || fields[0] == kByHand) return Liveness::unknown;
  ProcessIdentity holder{fields[2], fields[3], fields[4], 0, fields[6]};
  std::from_chars(fields[5].data(), fields[5].data() + fields[5].size(), holder.pid);
  return liveness(holder);
}

bool holder_is_dead(const std::string& held) { return holder_liveness(held) == Liveness::dead; }

Result<void> break_node_lock(NodeSession& node, const std::string& state_dir, Become become, const std::string& held) {
  Command command;
  command.become = become;
  command.script = dismiss_dead_men_script(held.substr(0, held.find('|'))) +
                   fmt::format("L={}/lock\n[ \"$(readlink \"$L\" 2>/dev/null)\" != {} ] || rm -f \"$L\"\n",
                               shell_quote(state_dir), shell_quote(held));
  command.deadline = std::chrono::minutes(2);
  const Result<CommandResult> done = node.connection->run(command);
  if (!done) return fail(done.error());
  return {};
}

}  // namespace millwright
