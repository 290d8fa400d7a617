// A regular expression of the data, held against the lines of a log.
//
// Compiled once, in time that grows with the line at most: a match that takes too many steps is none. Move-only; not
// for two threads at once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/error.hpp"

namespace millwright::planner {

class LinePattern {
 public:
  // invalid: no regular expression, with what is wrong and where.
  static Result<LinePattern> compile(const std::string& expression);

  // The groups of the first match, without the whole; one that took no part is empty.
  std::optional<std::vector<std::string>> groups(std::string_view line) const;

 private:
  struct Compiled;
  struct Free {
    void operator()(Compiled* compiled) const;
  };
  std::unique_ptr<Compiled, Free> compiled_;
};

}  // namespace millwright::planner
