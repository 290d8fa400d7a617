// A quantity that is not known exactly: what it is at least, most likely, and at most.
#pragma once

#include <algorithm>

#include "orchestrator/base/value.hpp"

namespace millwright::planner {

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
