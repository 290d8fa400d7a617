// What the planner is asked, and what an engine's arithmetic answers for one scenario.
//
// Value types; safe from any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "steps/server/planner/engine_facts.hpp"
#include "steps/server/planner/gpu_spec.hpp"
#include "steps/server/planner/model_files.hpp"

namespace millwright::planner {

// Flags by their first name in the flag table ("tensor-parallel-size"), with the value as given; a switch has "true".
class Settings {
 public:
  void set(const std::string& name, const std::string& value) { values_[name] = value; }
  void unset(const std::string& name) { values_.erase(name); }
  bool has(const std::string& name) const { return values_.count(name) > 0; }
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  double number(const std::string& name, double otherwise) const;
  int integer(const std::string& name, int otherwise) const { return whole_of(number(name, otherwise)); }
  // A switch that is given: "", true, yes, 1, on.
  bool on(const std::string& name) const;
  const std::map<std::string, std::string>& all() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

// Measured terms, in GiB a GPU, that take the place of what would be worked out.
struct Given {
  std::optional<double> weights_gib;
  std::optional<double> pre_gib;   // free before the weights, after the communication is set up
  std::optional<double> post_gib;  // free after the weights
  std::optional<double> kv_pool_gib;
  std::optional<double> activation_gib;
  std::optional<double> non_torch_gib;
  std::optional<double> graphs_gib;

  // usage: no such term (with the nearest), or no number.
  Result<void> set(const std::string& term, const std::string& value);
};

// A number of tokens as a person writes it: 32768, 32k or 32K (1024 each), 1M (1024 x 1024). usage: anything else, and
// what nobody can ask for.
Result<int> tokens_of(const std::string& text);

struct Query {
  Model model;
  EngineFacts facts;
  std::vector<Gpu> gpus;
  Settings set;
  Given given;
  std::optional<int> context;
  std::optional<int> concurrency;
};

// Where a start would end.
enum class Stage { starts, before_weights, pool_sizing, one_request, state_slots, after_pool, weights };

struct RankOutcome {
  double total_gib = 0;
  double weights_gib = 0;
  double kv_pool_gib = 0;
  double state_gib = 0;
  double graphs_gib = 0;
  double activation_gib = 0;
  double other_gib = 0;     // context, communication, tables: taken, but none of the above
  double headroom_gib = 0;  // below zero: so much is missing
};

struct Outcome {
  Stage ends = Stage::starts;
  std::string engine_says;  // the message that the engine would end with
  double missing_gib = 0;   // per GPU of the tightest rank, when it does not start
  double kv_tokens = 0;
  double concurrency = 0;  // requests of max_model_len at once
  double state_slots = 0;
  double max_running = 0;
  int max_model_len = 0;
  int most_model_len = 0;  // that one request could have
  double fraction = 0;     // of memory that the engine takes
  std::vector<RankOutcome> ranks;
  std::size_t tightest = 0;
  std::vector<std::string> notes;

  bool starts() const { return ends == Stage::starts; }
  // Where it ends first is what counts: later ends of the same start are left out.
  void end_at(Stage stage, std::string message, double missing);
};

// How the GPUs are used: ranks = tp * pp of each replica (data parallelism); further GPUs are idle. SGLang's attention
// data parallelism shares the ranks of one replica instead.
struct Layout {
  int tp = 1;
  int pp = 1;
  int replicas = 1;
  int ranks() const { return tp * pp; }
  int gpus() const { return ranks() * replicas; }
};

Outcome sglang_outcome(const Query& query, const Layout& layout, Scenario scenario);
Outcome vllm_outcome(const Query& query, const Layout& layout, Scenario scenario);
Outcome llama_cpp_outcome(const Query& query, const Layout& layout, Scenario scenario);
Outcome outcome_of(const Query& query, const Layout& layout, Scenario scenario);

}  // namespace millwright::planner
