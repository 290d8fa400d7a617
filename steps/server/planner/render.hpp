// The plan as JSON and as text for a terminal. Pure; nothing here prints.
#pragma once

#include <string>

#include "steps/server/planner/plan.hpp"

namespace millwright::planner {

inline constexpr int kPlanSchemaVersion = 1;

// Every quantity is {low, mid, high} in GiB (kv_tokens in tokens); at the top those of the tightest rank.
Value to_json(const Plan& plan, const Query& query, const std::string& model);
// A bar a GPU, the sentence, what is invalid, the ladder, notes and the launch line; `columns` wide at most.
std::string as_text(const Plan& plan, const Query& query, const std::string& model, std::size_t columns);
// Lines broken at blanks to `columns`, what follows under the text of the first; bars and lines to copy stay whole.
std::string broken(const std::string& text, std::size_t columns);

}  // namespace millwright::planner
