// The smoke test's data: classes.yml and probes.yml as typed values.
//
// Immutable once made; may be read from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"
#include "steps/contract/step.hpp"

namespace millwright {

struct SymptomClass {
  std::string name;
  std::string stage;
  VerdictKind verdict = VerdictKind::fail;  // what a test that meets it says
  std::string sentence, looks_like, why, cure, first;
};

// The closed vocabulary of playbooks/knowledge/classes.yml.
class SymptomClasses {
 public:
  static Result<SymptomClasses> from(const Value& classes_file);
  const SymptomClass* find(std::string_view name) const;  // nullptr: no such class
  std::vector<std::string> names() const;                 // sorted

 private:
  std::map<std::string, SymptomClass, std::less<>> classes_;
};

struct SmokeThresholds {
  double tail_repetition = 0, repetition = 0, script_switches = 0, foreign_letters = 0, distinct_words = 0,
         common_words = 0, logprob_max = 0, draft_acceptance = 0, baseline_speed = 0, baseline_first_token = 0,
         baseline_grace_seconds = 0, accuracy_drop = 0;
  std::size_t tail_min_characters = 0, character_run = 0, word_characters = 0, script_min_letters = 0,
              distinct_min_words = 0, common_min_words = 0;
};

struct KnownQuestion {
  std::string id, ask;
  std::vector<std::string> expect;  // one of them, as whole words, in normal form
};

// One row of the table that decides which empty answer it is.
struct EmptyDecision {
  std::vector<std::string> content, reasoning, finish;  // empty: any
  std::string tool_calls;                               // "some", "none" or empty
  std::string reasoning_has;                            // name of a marker list, or empty
  std::optional<std::int64_t> max_tokens;               // completion_tokens at most
  std::string symptom_class;                            // empty: no fault
};

struct SmokeRules {
  SymptomClasses classes;
  std::map<std::string, std::vector<std::string>, std::less<>> levels;  // probe names in order
  std::size_t body_bytes = 0, kept_bytes = 0;
  Milliseconds request_timeout{0}, connect_timeout{0};
  SmokeThresholds thresholds;
  std::string first_token_ask;
  int first_token_tokens = 0;
  std::vector<KnownQuestion> questions;
  int needed = 0;
  int answer_tokens = 0, thinking_tokens = 0, long_thinking_tokens = 0;
  std::string prose_ask;
  int prose_tokens = 0;
  std::string raw_prompt;
  int raw_tokens = 0;
  std::string tools_ask;
  int tools_tokens = 0;
  std::vector<std::int64_t> needle_tokens;  // lengths of the texts, rising
  double tokens_per_word = 0;               // of filler text, before the server has counted
  std::size_t repeat_words = 0;
  int repeats = 0;
  int parallel_requests = 0;
  int accuracy_questions = 0, accuracy_tokens = 0;
  std::vector<EmptyDecision> decisions;
  std::map<std::string, std::vector<std::string>, std::less<>> markers;

  const std::vector<std::string>& marker_list(std::string_view name) const;
  // Both documents as the knowledge loader gives them (checked against their schemas). An error of kind invalid names
  // a class that does not exist or a value that cannot be read.
  static Result<SmokeRules> from(const Value& probes_file, const Value& classes_file);
};

}  // namespace millwright
