// A quantity that is not known exactly: what it is at least, most likely, and at most.
#pragma once

#include <algorithm>
#include <cmath>

#include "orchestrator/base/value.hpp"

namespace millwright::planner {

// Figures of files that anybody may have written: no number there is one too large for an int.
inline int whole_of(double value) {
  if (!(value > -2e9)) return 0;  // not a number, too
  return value < 2e9 ? static_cast<int>(value) : 2000000000;
}

struct Range {
  double low = 0;
  double mid = 0;
  double high = 0;

  static Range exactly(double value) { return {value, value, value}; }
  static Range around(double value, double share) { return {value * (1 - share), value, value * (1 + share)}; }
  Range times(double factor) const { return {low * factor, mid * factor, high * factor}; }
};

// Which end of every uncertain term a calculation takes: `roomy` takes what leaves the most memory.
enum class Scenario { roomy, likely, tight };

inline double pick(const Range& used, Scenario scenario) {
  return scenario == Scenario::roomy ? used.low : scenario == Scenario::tight ? used.high : used.mid;
}

inline Range range_of(double a, double likely, double b) {
  return {std::min({a, likely, b}), likely, std::max({a, likely, b})};
}

}  // namespace millwright::planner
