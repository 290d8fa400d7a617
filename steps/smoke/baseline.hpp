// How fast the server was when it was good, and whether it is now much slower: usable, but something changed (a
// fallback kernel, a power limit, another tenant).
//
// Pure; safe from any thread.
#pragma once

#include <optional>
#include <string_view>

#include "steps/smoke/smoke.hpp"

namespace millwright {

struct SmokeBaseline {
  std::optional<double> first_token_seconds;
  std::optional<double> tokens_per_second;
  std::optional<double> accuracy;
};

// From the JSON of an earlier test (to_json). Fails with `invalid` when it is none.
Result<SmokeBaseline> read_baseline(std::string_view json);

// Turns a pass into `fail`, class accuracy_drop, when less is right than was, and into `degraded`, class
// slower_than_baseline, when a speed is beyond the thresholds of probes.yml; adds a probe named "speed" that says both
// figures, and one named "score" where both have an accuracy. Nothing happens to a report with another verdict than
// pass.
void compare_with_baseline(SmokeReport& report, const SmokeBaseline& baseline, const SmokeRules& rules);

}  // namespace millwright
