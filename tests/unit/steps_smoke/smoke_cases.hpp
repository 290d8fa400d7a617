// Servers that go wrong in one way each, and the class that the smoke test must name. Ids are those of the public cases
// in docs/smoke.md where a case is one of them.
#pragma once

#include <string>
#include <vector>

#include "tests/support/replay_server.hpp"

namespace millwright {

struct SmokeCase {
  std::string name;
  ReplayBehaviour behaviour;
  std::string verdict;        // "pass", "fail", ...
  std::string symptom_class;  // empty on pass
  std::string probe;          // the probe that finds it; empty on pass
  std::string level = "quick";
};

std::vector<SmokeCase> smoke_cases();
// Those that only a deeper level finds: long prompts, repeats, parallel requests, tools.
std::vector<SmokeCase> deep_smoke_cases();

}  // namespace millwright
