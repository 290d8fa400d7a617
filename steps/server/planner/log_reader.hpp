// What the log of a start says about memory: measured terms of a start that went well, and of one that failed where and
// why. Patterns are data (playbooks/knowledge/planner/memory_log.yml).
//
// Pure; safe from any thread. Lines longer than 8 KiB are looked at in their first 8 KiB only (but for the arguments).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/knowledge.hpp"

namespace millwright::planner {

struct LogFailure {
  std::string where;  // before_weights, weights, pool_sizing, state_slots, one_request, after_pool, graph_capture, ...
  std::string symptom_class;
  std::string sentence;
  std::string line;
  int line_number = 0;
  std::map<std::string, double> numbers;
};

struct LogReading {
  std::string engine;
  std::string looks_like;  // the engine whose lines are in it; empty: nobody's
  std::string version;     // when the log says it
  std::string model;       // path or name that the server was given
  std::map<std::string, double> terms;
  std::map<std::string, std::string> arguments;  // as the log prints them, with dashes for underscores
  std::string reached;                           // the last milestone; empty: none
  std::optional<LogFailure> failure;             // of the start; of one that came up: while it served
  bool ready = false;
  bool on_cpu = false;  // the pools are in the host's memory: no GPU's figures can be compared

  std::optional<double> term(const std::string& name) const;  // *_gib also from *_mib
};

// Of several starts in one text, as the journal of a unit has them, the last counts. `engine` empty: recognised. usage:
// nothing in it is of a known engine; invalid: a pattern of the data is broken.
Result<LogReading> read_log(const Knowledge& knowledge, std::string_view text, const std::string& engine);

// usage: it is another engine's, or nothing in it is of a start.
Result<void> check_is_log(const LogReading& reading);

// The arguments of one line "server_args=ServerArgs(a=1, b='x')", "server_args={'a': 1}" or "non-default args: {...}".
std::map<std::string, std::string> arguments_of(std::string_view line);

}  // namespace millwright::planner
