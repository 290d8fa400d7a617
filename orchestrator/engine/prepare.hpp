// From a step of the playbook to inputs that a step kind can use: names in scope, `when`, `foreach`, rendering, checks.
//
// Pure over the board; may be called from the host's worker only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/engine/run_context.hpp"

namespace millwright {

// One step on one host, or one item of its `foreach`.
struct Unit {
  std::size_t step = 0;
  const StepDecl* decl = nullptr;
  std::optional<std::size_t> index;
  Value item;

  std::string key() const { return index ? decl->id + "[" + std::to_string(*index) + "]" : decl->id; }
};

struct Prepared {
  bool wanted = true;  // what `when` says
  Value inputs = Value::object();
};

// Nothing: it reads outputs of steps that have not run yet.
Result<std::optional<std::vector<Unit>>> units_of(const RunContext& run, const PlayHost& host, std::size_t step);
// `replace` holds inputs that a remedy has changed.
Result<std::optional<Prepared>> prepare(const RunContext& run, const PlayHost& host, const Unit& unit,
                                        const Value& replace);

// What is wrong with a step whatever the steps before it will do, as far as its inputs are known before them: nothing
// when it is as it should be, will not run, or cannot be judged yet.
Result<void> judge(const RunContext& run, const PlayHost& host, const Unit& unit);

}  // namespace millwright
