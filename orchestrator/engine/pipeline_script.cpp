#include "orchestrator/engine/pipeline_script.hpp"

#include <fmt/format.h>

#include <string_view>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/action_script.hpp"

namespace millwright {

namespace {

// Sets `next`; empty when nothing has begun.
std::string read_gate(const std::string& file) {
  return "G=" + shell_quote(file) + "; next=; [ ! -f \"$G\" ] || read -r next <\"$G\"\n";
}

std::string open_next(const Gate& gate) {
  return fmt::format("echo {} >{} || exit 1\n", gate.place + 1, shell_quote(gate.file));
}

// A pattern of `case`: the pieces as they are, anything in between. The dot keeps the newlines at the end.
std::string pattern_of(const Expectation& expected) {
  std::string out;
  for (const std::string& piece : expected.pieces) {
    if (!out.empty()) out += '*';
    out += shell_quote(piece);
  }
  return out + "'.'";
}

std::string note_of(const std::string& key) { return "as-expected-" + sha256_hex(key).substr(0, 16); }

}  // namespace

std::string gate_text(const Gate& gate) {
  return read_gate(gate.file) + fmt::format("[ \"$next\" = {} ] || exit {}\n", gate.place, gate_closed);
}

std::string check_script(const Gate& gate, const std::vector<Question>& questions, const Answers& planned_on) {
  return gate_text(gate) + "umask 077\nmw_guard=$G.guard\n" +
         guard_script(questions, planned_on, fmt::format("exit {}", check_stale)) + open_next(gate);
}

std::string after_script(const std::string& question, const std::string& remote_dir, const Expectation* expected) {
  const std::string begun = "[ -d " + shell_quote(remote_dir) + " ] || exit 0\n";
  if (expected == nullptr) return begun + question;
  return begun + "said=$( ( eval " + shell_quote(starts_with(question, "-") ? " " + question : question) +
         "\n); echo \".$?\")\n"
         "code=${said##*.}; said=${said%.*}\n"
         "if [ \"$code\" = 0 ]; then\n  case \"$said.\" in\n    " +
         pattern_of(*expected) + ") umask 077; true >" + shell_quote(remote_dir + "/" + note_of(expected->key)) +
         " ;;\n  esac\nfi\nprintf '%s' \"$said\"; exit \"$code\"\n";
}

std::string judge_script(const Gate& gate, const std::string& remote_dir, std::size_t expectations) {
  return read_mark_script(remote_dir) +
         "[ \"$mw_last\" = 'done 0' ] || exit 0\n"
         "set -- \"$D\"/as-expected-*; [ -e \"$1\" ] || shift\n" +
         fmt::format("[ \"$#\" = {} ] || exit 0\n", expectations) + open_next(gate) + "echo passed=yes\n";
}

bool judged_passed(const std::string& out) {
  constexpr std::string_view line = "\npassed=yes\n";
  return out.size() > line.size() && out.compare(out.size() - line.size(), line.size(), line) == 0;
}

std::string end_script(const std::string& gate_file, std::size_t pieces) {
  return read_gate(gate_file) + fmt::format("if [ \"$next\" = {} ]; then echo through; else echo closed; fi\n", pieces);
}

std::string unless_through(const std::string& gate_file, std::size_t pieces) {
  return read_gate(gate_file) + fmt::format("[ \"$next\" != {} ] || exit 0\n", pieces);
}

}  // namespace millwright
