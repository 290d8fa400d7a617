#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "inventory/inventory.hpp"
#include "orchestrator/base/read_file.hpp"
#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

// Long enough for a person to unlock a password store, short enough that a run does not hang.
constexpr auto kCommandDeadline = std::chrono::minutes(2);
constexpr std::size_t kMaxSecret = 1u << 20;
constexpr const char* kForms = "a secret is env:NAME, file:PATH or command:CMD";

Error secret_error(const SourceMark& mark, std::string message, std::string hint) {
  return make_error(ErrorKind::invalid, std::move(message)).at(mark).with_hint(std::move(hint));
}

std::string without_last_newline(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (!text.empty() && text.back() == '\r') text.pop_back();
  return text;
}

Result<std::string> from_environment(const std::string& name, const SourceMark& mark) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0')
    return fail(secret_error(mark, fmt::format("the secret env:{} is not set", name),
                             fmt::format("export {}=... before you start millwright", name)));
  return std::string(value);
}

Result<std::string> from_file(std::string path, const SourceMark& mark) {
  if (starts_with(path, "~/")) {
    const char* home = std::getenv("HOME");
    path = std::string(home == nullptr ? "" : home) + path.substr(1);
  } else if (!starts_with(path, "/")) {
    path = (std::filesystem::path(mark.file).parent_path() / path).string();
  }
  auto bytes = read_file(path, kMaxSecret);
  if (!bytes)
    return fail(secret_error(mark, "this secret: " + bytes.error().message,
                             "a relative path starts at the file that names it; " + bytes.error().hint));
  return without_last_newline(std::move(*bytes));
}

struct Child {
  pid_t pid = -1;
  int out = -1;
  int err = -1;
};

std::optional<Child> start(const std::string& command) {
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return std::nullopt;
  if (::pipe2(err.data(), O_CLOEXEC) != 0) {
    ::close(out[0]);
    ::close(out[1]);
    return std::nullopt;
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, 0);
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  if (pid < 0) {
    ::close(out[0]);
    ::close(err[0]);
    return std::nullopt;
  }
  return Child{pid, out[0], err[0]};
}

enum class Ended { finished, too_late };

// Reads both streams to their ends, so that neither can block the command.
Ended collect(const Child& child, std::string& out, std::string& err) {
  const auto end = std::chrono::steady_clock::now() + kCommandDeadline;
  std::array<pollfd, 2> streams = {pollfd{child.out, POLLIN, 0}, pollfd{child.err, POLLIN, 0}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Ended::too_late;
    if (::poll(streams.data(), streams.size(), static_cast<int>(left.count())) < 0) continue;
    for (pollfd& stream : streams) {
      if (stream.fd < 0 || stream.revents == 0) continue;
      std::array<char, 4096> buffer{};
      const ssize_t size = ::read(stream.fd, buffer.data(), buffer.size());
      if (size <= 0) {
        stream.fd = -1;
        continue;
      }
      std::string& into = stream.fd == child.out ? out : err;
      if (into.size() < kMaxSecret) into.append(buffer.data(), static_cast<std::size_t>(size));
    }
  }
  return Ended::finished;
}

Result<std::string> from_command(const std::string& command, const SourceMark& mark) {
  const std::optional<Child> child = start(command);
  if (!child)
    return fail(secret_error(mark, "cannot start a shell for the secret command", "is the machine out of processes?"));
  std::string out;
  std::string err;
  const Ended ended = collect(*child, out, err);
  if (ended == Ended::too_late) ::kill(-child->pid, SIGKILL);
  int status = 0;
  while (::waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
  }
  ::close(child->out);
  ::close(child->err);
  if (ended == Ended::too_late)
    return fail(secret_error(mark, fmt::format("the secret command '{}' did not end within 2 minutes", command),
                             "run it by hand: does it wait for input?"));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    Error error =
        secret_error(mark, fmt::format("the secret command '{}' failed", command), "run it by hand to see why");
    error.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    error.detail = err.substr(0, 2000);
    return fail(std::move(error));
  }
  if (out.size() >= kMaxSecret)
    return fail(secret_error(mark, fmt::format("the secret command '{}' printed more than 1 MiB", command), kForms));
  return without_last_newline(out);
}

}  // namespace

Result<std::string> resolve_secret(const std::string& reference, const SourceMark& mark) {
  const std::size_t colon = reference.find(':');
  const std::string scheme = reference.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : std::string(trim(reference.substr(colon + 1)));
  const std::vector<std::string> known = {"env", "file", "command", "age"};
  if (colon == std::string::npos || std::find(known.begin(), known.end(), scheme) == known.end()) {
    const auto near = nearest(scheme, {"env", "file", "command"});
    return fail(secret_error(mark, fmt::format("'{}' is no reference to a secret", reference),
                             near && colon != std::string::npos ? fmt::format("did you mean '{}:'?", *near) : kForms));
  }
  if (scheme == "age")
    return fail(secret_error(mark, "secrets encrypted with age are not built yet",
                             "use env:NAME or file:PATH, or let age decrypt: command:age -d -i KEY FILE"));
  if (rest.empty()) return fail(secret_error(mark, fmt::format("'{}' names nothing", reference), kForms));
  auto value = scheme == "env"    ? from_environment(rest, mark)
               : scheme == "file" ? from_file(rest, mark)
                                  : from_command(rest, mark);
  if (!value) return value;
  if (value->empty())
    return fail(secret_error(mark, fmt::format("the secret {} is empty", reference), "give it a value"));
  redactor().add(*value);
  return value;
}

}  // namespace millwright
