#include "orchestrator/base/error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace millwright {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::invalid:
      return "invalid";
    case ErrorKind::connect:
      return "connect";
    case ErrorKind::auth:
      return "auth";
    case ErrorKind::host_key:
      return "host_key";
    case ErrorKind::timeout:
      return "timeout";
    case ErrorKind::remote_exit:
      return "remote_exit";
    case ErrorKind::transfer:
      return "transfer";
    case ErrorKind::refused:
      return "refused";
    case ErrorKind::stale:
      return "stale";
    case ErrorKind::failed_test:
      return "failed_test";
    case ErrorKind::interrupted:
      return "interrupted";
    case ErrorKind::busy:
      return "busy";
    case ErrorKind::io:
      return "io";
    case ErrorKind::internal:
      return "internal";
  }
  return "internal";
}

Error& Error::with_hint(std::string text) & {
  hint = std::move(text);
  return *this;
}
Error&& Error::with_hint(std::string text) && {
  hint = std::move(text);
  return std::move(*this);
}
Error&& Error::at(SourceMark mark) && {
  where = std::move(mark);
  return std::move(*this);
}
Error&& Error::with_class(std::string name) && {
  symptom_class = std::move(name);
  return std::move(*this);
}

Error make_error(ErrorKind kind, std::string message) {
  Error error;
  error.kind = kind;
  error.message = std::move(message);
  return error;
}

Error wrap(Error error, std::string context) {
  error.context.push_back(std::move(context));
  return error;
}

std::string render(const Error& error) {
  std::string out;
  if (error.where) {
    const SourceMark& mark = *error.where;
    out += fmt::format("{}:{}:{}: error: {}\n", mark.file, mark.line, mark.column, error.message);
    if (!mark.line_text.empty()) {
      std::string pad;
      const auto column = static_cast<std::size_t>(std::max(mark.column, 1)) - 1;
      for (char c : mark.line_text.substr(0, column)) pad += c == '\t' ? '\t' : ' ';
      out += fmt::format("{:5} | {}\n", mark.line, mark.line_text);
      out += fmt::format("      | {}{}", pad, std::string(static_cast<std::size_t>(std::max(mark.length, 1)), '^'));
      out += error.hint.empty() ? "\n" : fmt::format(" {}\n", error.hint);
    } else if (!error.hint.empty()) {
      out += fmt::format("      {}\n", error.hint);
    }
  } else {
    out += fmt::format("error: {}\n", error.message);
    if (!error.hint.empty()) out += fmt::format("      {}\n", error.hint);
  }
  for (const std::string& frame : error.context) out += fmt::format("      while {}\n", frame);
  if (!error.detail.empty()) {
    out += "      it said:\n";
    std::size_t from = 0;
    while (from < error.detail.size()) {
      const std::size_t to = std::min(error.detail.find('\n', from), error.detail.size());
      out += fmt::format("        {}\n", error.detail.substr(from, to - from));
      from = to + 1;
    }
  }
  return out;
}

}  // namespace millwright
