// Errors are values: what went wrong, where in whose file, through which chain, and what to do next.
//
// Value types; may be copied between threads freely. Nothing here throws except std::bad_alloc.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace millwright {

// A place in a text that a person wrote. Lines and columns count from 1; columns count bytes.
struct SourceMark {
  std::string file;
  int line = 0;
  int column = 0;
  int length = 1;         // bytes to underline
  std::string line_text;  // the offending line, without its newline

  friend bool operator==(const SourceMark&, const SourceMark&) = default;
};

// Closed set: callers decide by kind, people read the message.
enum class ErrorKind {
  usage,        // wrong command line
  invalid,      // playbook, inventory or knowledge file is wrong; always has a SourceMark where one is known
  connect,      // no route, refused, DNS, connection lost
  auth,         // login refused
  host_key,     // unknown or changed host key
  timeout,      // a deadline passed
  remote_exit,  // a command on the node ended with a non-zero status
  transfer,     // a file did not arrive whole (hash, space, permissions)
  refused,      // a precondition on the node says no; nothing was changed
  stale,        // the answers an action was planned on no longer hold
  failed_test,  // a server runs but does not work; has a symptom class
  interrupted,  // the user or a lost lock ended it
  busy,         // somebody else holds the lock
  io,           // local file or database
  internal,     // a bug in millwright
};

std::string_view to_string(ErrorKind kind);

// The message says what is wrong, the hint what to do about it. `context` is the chain from the innermost cause
// outwards
// ("while ..."), filled by `wrap`.
struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  std::string hint;
  std::optional<SourceMark> where;
  std::vector<std::string> context;
  std::string symptom_class;  // for failed_test and failed starts: a name of playbooks/knowledge/classes.yml
  int exit_code = 0;          // for remote_exit: the command's status
  std::string detail;         // for remote_exit: the end of stderr (at most a few KiB)

  Error& with_hint(std::string text) &;
  Error&& with_hint(std::string text) &&;
  Error&& at(SourceMark mark) &&;
  Error&& with_class(std::string name) &&;
};

Error make_error(ErrorKind kind, std::string message);

// Adds an outer frame to the chain: wrap(e, "reading inventory hosts.yml").
Error wrap(Error error, std::string context);

// One error as compilers print them: "file:line:col: error: message", the line, a caret line with the hint, the chain.
// Without a mark: "error: message", hint, chain. Ends with a newline.
std::string render(const Error& error);

template <class T>
using Result = tl::expected<T, Error>;
using Failure = tl::unexpected<Error>;

// return fail(ErrorKind::connect, "...") from any function that returns a Result.
inline Failure fail(ErrorKind kind, std::string message) { return Failure(make_error(kind, std::move(message))); }
inline Failure fail(Error error) { return Failure(std::move(error)); }

}  // namespace millwright
