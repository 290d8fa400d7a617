#include "orchestrator/transport/frame.hpp"

#include <sys/random.h>

#include <array>
#include <cctype>
#include <cstdlib>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

bool is_variable_name(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return true;
}

}  // namespace

std::string make_nonce() {
  std::array<unsigned char, 16> bytes{};
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string lane_greeting(const std::string& nonce) {
  // Descriptor 3 is where scripts' errors go; what the lane's shell itself says (a child that was killed) goes nowhere.
  // Who it is stays in mw_uid, for scripts that need it.
  return "exec 3>&2 2>/dev/null; umask 022; cd \"$HOME\" || cd /; mw_uid=$(id -u); printf '%s%s\\n%s\\n' " + nonce +
         " \"$$ $mw_uid\" " + nonce + "; printf '%s\\n%s\\n' " + nonce + ' ' + nonce + " >&3\n";
}

std::string printf_word(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 16);
  for (const char c : bytes) {
    if (c == '%') {
      text += "%%";
    } else if (c == '\\') {
      text += "\\\\";
    } else if (c == '\0') {
      text += "\\000";
    } else {
      text += c;
    }
  }
  // A format that starts with '-' would be read as an option.
  if (!text.empty() && text[0] == '-') text.replace(0, 1, "\\055");
  return shell_quote(text);
}

Result<std::string> frame_command(const Command& command, const std::string& nonce) {
  std::string exports;
  for (const auto& [name, value] : command.env) {
    if (!is_variable_name(name)) {
      return fail(make_error(ErrorKind::usage, "'" + name + "' is not a name for an environment variable")
                      .with_hint("use letters, digits and underscores, not starting with a digit"));
    }
    exports += "export " + name + '=' + shell_quote(value) + "; ";
  }
  // The glob names the subshell's own process id without starting anything; without /proc it stays as it is. The
  // nonce is written in two halves, so that an echo of this text is not taken for the frame.
  const std::string mark = nonce.substr(0, 16) + "''" + nonce.substr(16);
  // eval would take a leading '-' for an option.
  const std::string script = starts_with(command.script, "-") ? ' ' + command.script : command.script;
  const std::string end = "printf '%s%d\\n' " + mark + " $?; printf '%s\\n' " + mark + " >&3\n";
  std::string text;
  if (!command.keep_as.empty()) {
    if (!is_variable_name(command.keep_as) || !command.input.empty()) {
      return fail(ErrorKind::usage, "'" + command.keep_as + "' cannot hold what a command prints");
    }
    // Braces start no shell of their own: the variable is the lane's, and descriptor 4 its standard output.
    return "{ " + command.keep_as + "=$( exec 2>&3 3>&- </dev/null; printf '%s\\n' " + mark +
           " >&2; printf '%s%s\\n' " + mark + " /proc/self/task/[0-9]* >&4; exec 4>&-; " + exports + "eval " +
           shell_quote(script) + "\n); } 4>&1\n" + end;
  }
  if (!command.input.empty()) text += "printf " + printf_word(command.input) + " | ";
  text += "( exec 2>&3 3>&-";
  if (command.input.empty()) text += " </dev/null";
  text += "; printf '%s\\n' " + mark + " >&2; printf '%s%s\\n' " + mark + " /proc/self/task/[0-9]*; " + exports +
          "eval " + shell_quote(script) + "\n)\n" + end;
  return text;
}

std::string_view FrameReader::until_nonce(std::string_view bytes, std::string* payload, State next) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (matched_ == 0) {
      const std::size_t found = bytes.find(nonce_[0], i);
      const std::size_t end = found == std::string_view::npos ? bytes.size() : found;
      if (payload != nullptr) payload->append(bytes.substr(i, end - i));
      if (end == bytes.size()) return {};
      i = end;
    }
    if (bytes[i] == nonce_[matched_]) {
      if (++matched_ == nonce_.size()) {
        matched_ = 0;
        state_ = next;
        return bytes.substr(i + 1);
      }
      continue;
    }
    // The longest end of what matched so far that is itself a beginning of the nonce stays held back.
    std::string held = nonce_.substr(0, matched_) + bytes[i];
    std::size_t keep = matched_;
    while (keep > 0 && held.compare(held.size() - keep, keep, nonce_, 0, keep) != 0) --keep;
    if (payload != nullptr) payload->append(held, 0, held.size() - keep);
    matched_ = keep;
  }
  return {};
}

std::string_view FrameReader::until_newline(std::string_view bytes, State next) {
  const std::size_t end = bytes.find('\n');
  line_.append(bytes.substr(0, end));
  if (end == std::string_view::npos) return {};
  if (next == State::inside) {
    opening_ = line_;
  } else {
    exit_code_ = std::atoi(line_.c_str());
  }
  line_.clear();
  state_ = next;
  return bytes.substr(end + 1);
}

std::string_view FrameReader::feed(std::string_view bytes, std::string& payload) {
  while (!bytes.empty() && state_ != State::done) {
    switch (state_) {
      case State::before:
        bytes = until_nonce(bytes, nullptr, State::opening);
        break;
      case State::opening:
        bytes = until_newline(bytes, State::inside);
        break;
      case State::inside:
        bytes = until_nonce(bytes, &payload, State::closing);
        break;
      case State::closing:
        bytes = until_newline(bytes, State::done);
        break;
      case State::done:
        break;
    }
  }
  return bytes;
}

}  // namespace millwright
