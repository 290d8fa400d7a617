// Which version a log is of that does not say it: by the arguments that it prints, by what that version would have
// refused, and by whether its figures come out of that version's arithmetic.
//
// Pure; safe from any thread.
#pragma once

#include "steps/server/planner/log_reader.hpp"
#include "steps/server/planner/plan.hpp"

namespace millwright::planner {

struct VersionGuess {
  std::string version;                // the newest that is possible
  std::vector<std::string> possible;  // of the versions that the data was read from, oldest first
  bool figures_agree = true;          // false: the log's own figures come out of no version's arithmetic
};

// Without a model or GPUs only the arguments are looked at.
VersionGuess guess_version(const Knowledge& knowledge, const LogReading& reading, const Model* model,
                           const std::vector<Gpu>& gpus);
// A sentence that says so.
std::string words_of(const VersionGuess& guess);

// Whether the arithmetic of `query`, with what the log measured before the pool, ends where the log does and gives its
// tokens and slots.
bool agrees(const LogReading& reading, const Query& query);

}  // namespace millwright::planner
