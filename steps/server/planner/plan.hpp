// The planner's answer: does it fit, what is where, and which flags to launch with.
//
// Pure; safe from any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "steps/server/planner/query.hpp"

namespace millwright::planner {

enum class Decision { fits, does_not_fit, try_it };
const char* to_string(Decision decision);

struct FlagChoice {
  std::string name;   // as that engine version spells it, without dashes
  std::string value;  // "true" for a switch
  std::string reason;
};

// "--name value", or "--name" of a switch; several as "--a 1 and --b", or with other words between them.
std::string words_of(const FlagChoice& change);
std::string words_of(const std::vector<FlagChoice>& changes, const char* between = " and ");

struct InvalidFlag {
  std::string flag;     // name as given, or the setting that it is about
  std::string message;  // what is wrong
  std::string hint;     // what to do
};

// One step of the ladder: changes that make it fit, and what then comes out.
struct LadderStep {
  std::vector<FlagChoice> changes;
  Decision decision = Decision::try_it;
  double kv_tokens = 0;
  double max_running = 0;
  int max_model_len = 0;
  double headroom_gib = 0;
};

// The changes of each step, with "; " between them.
std::string words_of(const std::vector<LadderStep>& steps);

struct RankPlan {
  int rank = 0;
  std::string gpu;
  double total_gib = 0;
  Range weights_gib, kv_pool_gib, state_gib, graphs_gib, activation_gib, other_gib, headroom_gib;
};

struct Plan {
  Decision decision = Decision::try_it;
  std::string sentence;
  Range kv_tokens;
  std::vector<RankPlan> ranks;
  std::size_t tightest = 0;
  double state_slots = 0;
  double max_running_requests = 0;
  int max_model_len = 0;
  double missing_gib = 0;   // per GPU, when it does not fit
  std::string engine_says;  // the message that the likely case ends with
  Layout layout;
  Outcome likely;
  std::vector<FlagChoice> flags;
  std::vector<LadderStep> ladder;
  std::vector<InvalidFlag> invalid;
  std::vector<std::string> notes;
};

// Flags as given, with those that this version does not know in `invalid`.
struct GivenFlags {
  Settings set;
  std::map<std::string, std::string> spelling;  // of each name, as it was given or as this version takes it
  std::vector<InvalidFlag> invalid;
};
// usage: not NAME=VALUE (a switch may leave the value out).
Result<GivenFlags> read_flags(const FlagTable& table, const EngineFacts& facts, const std::vector<std::string>& given);

// What is wrong with the value of flag `name` (its first name), spelled `spelled` on the command line; nothing when it
// is possible, or when nobody knows.
std::optional<InvalidFlag> impossible_value(const FlagTable& table, const EngineFacts& facts, const std::string& name,
                                            const std::string& spelled, const std::string& value);

// How many GPUs each replica takes: the flags', else as many as divide the heads.
Layout layout_of(const Query& query);
// As much of it as there are GPUs for: more is refused by check_validity, and figures are those of what is there.
Layout within(Layout layout, const Query& query);
// Divisions that do not come out, dtypes that the GPU cannot, GPUs that are not there.
std::vector<InvalidFlag> check_validity(const Knowledge& knowledge, const Query& query, const Layout& layout);

Plan make_plan(const Knowledge& knowledge, const Query& query, const GivenFlags& flags, const FlagTable& table);

// The changes that would make `query` start, the cheapest first; `table` spells them for the version. At most `most`.
std::vector<LadderStep> solve(const Query& query, const Layout& layout, const Outcome& now, const FlagTable& table,
                              std::size_t most);

// The words of the launch line, for a shell.
std::string launch_line(const Query& query, const Plan& plan, const std::string& model);

}  // namespace millwright::planner
