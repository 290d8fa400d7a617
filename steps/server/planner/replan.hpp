// From the log of a start to the next start: the measured terms take the place of the predicted ones, and the flags are
// solved for again.
//
// Pure; safe from any thread.
#pragma once

#include "steps/server/planner/log_reader.hpp"
#include "steps/server/planner/plan.hpp"

namespace millwright::planner {

struct Compared {
  std::string term;
  double measured = 0;
  double predicted = 0;
  std::string remark;  // when they are too far apart to be the same thing
};

struct Replan {
  Plan plan;                       // of the same flags, with what the log measured
  std::vector<Compared> compared;  // predicted without the log
  std::vector<std::string> arithmetic;
  std::vector<LadderStep> next;  // one or two changes each, the cheapest first
  std::string verdict;           // a sentence: what happened, and what to do
  bool opposite = false;         // two logs whose cures exclude each other
  bool memory = true;            // false: no memory was missing (a flag, a library)
};

// False: a flag, a library, a port, the host's memory, another process on the GPU.
bool is_about_memory(const LogFailure& failure);
// What to do about a failure that is none of the GPU's memory; the nearest flag where one is unknown.
std::string verdict_without_memory(const LogFailure& failure, const FlagTable& table);

// The flags that the server ran with, of those that this version knows and the arithmetic reads; `--set` of the command
// line wins over the log.
void add_logged_flags(const LogReading& reading, const FlagTable& table, GivenFlags& flags);
// Terms of the log that pin the arithmetic; --given of the command line wins.
void add_logged_terms(const LogReading& reading, Given& given);

// `query` has the flags of the log; `given` of the command line only. Earlier readings: of the tries before, oldest
// first.
Replan replan(const Knowledge& knowledge, const Query& query, const GivenFlags& flags, const FlagTable& table,
              const LogReading& reading, const std::vector<LogReading>& earlier);

// Where the log is not of what was named: another version of the engine, another model. A sentence each.
std::vector<std::string> log_mismatches(const Knowledge& knowledge, const LogReading& reading, const Query& query,
                                        const std::string& model);

Value to_json(const LogReading& reading, const std::string& file);
Value to_json(const Replan& replan);
std::string as_text(const LogReading& reading, const std::string& file);
std::string as_text(const Replan& replan, const Query& query, const std::string& model);

}  // namespace millwright::planner
