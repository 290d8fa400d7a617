#include "steps/smoke/rules.hpp"

#include <nlohmann/json.hpp>

namespace millwright {
namespace {

Result<VerdictKind> verdict_named(const std::string& name, const std::string& of) {
  for (const VerdictKind kind :
       {VerdictKind::pass, VerdictKind::degraded, VerdictKind::fail, VerdictKind::inconclusive}) {
    if (to_string(kind) == name) return kind;
  }
  return fail(ErrorKind::invalid, "class " + of + " has the unknown verdict '" + name + "'");
}

std::vector<std::string> strings(const Value& parent, const char* key) {
  const auto found = parent.find(key);
  return found == parent.end() ? std::vector<std::string>{} : found->get<std::vector<std::string>>();
}

// `none` stands for every state without text.
std::vector<std::string> states(const Value& row, const char* key) {
  std::vector<std::string> out;
  for (const std::string& state : strings(row, key)) {
    if (state == "none") {
      out.insert(out.end(), {"absent", "null", "empty", "blank"});
    } else {
      out.push_back(state);
    }
  }
  return out;
}

EmptyDecision read_decision(const Value& row) {
  EmptyDecision decision;
  decision.content = states(row, "content");
  decision.reasoning = states(row, "reasoning");
  decision.finish = strings(row, "finish");
  decision.tool_calls = row.value("tool_calls", "");
  decision.reasoning_has = row.value("reasoning_has", "");
  if (row.contains("max_tokens")) decision.max_tokens = row.at("max_tokens").get<std::int64_t>();
  decision.symptom_class = row.value("class", "");
  return decision;
}

SmokeThresholds read_thresholds(const Value& row) {
  SmokeThresholds t;
  row.at("tail_repetition").get_to(t.tail_repetition);
  row.at("tail_min_characters").get_to(t.tail_min_characters);
  row.at("repetition").get_to(t.repetition);
  row.at("character_run").get_to(t.character_run);
  row.at("word_characters").get_to(t.word_characters);
  row.at("script_switches").get_to(t.script_switches);
  row.at("script_min_letters").get_to(t.script_min_letters);
  row.at("foreign_letters").get_to(t.foreign_letters);
  row.at("distinct_words").get_to(t.distinct_words);
  row.at("distinct_min_words").get_to(t.distinct_min_words);
  row.at("common_words").get_to(t.common_words);
  row.at("common_min_words").get_to(t.common_min_words);
  row.at("logprob_max").get_to(t.logprob_max);
  row.at("draft_acceptance").get_to(t.draft_acceptance);
  row.at("baseline_speed").get_to(t.baseline_speed);
  row.at("baseline_first_token").get_to(t.baseline_first_token);
  row.at("baseline_grace_seconds").get_to(t.baseline_grace_seconds);
  row.at("accuracy_drop").get_to(t.accuracy_drop);
  return t;
}

void read_questions(const Value& row, SmokeRules& rules) {
  row.at("needed").get_to(rules.needed);
  row.at("max_tokens").get_to(rules.answer_tokens);
  row.at("thinking_max_tokens").get_to(rules.thinking_tokens);
  row.at("long_thinking_max_tokens").get_to(rules.long_thinking_tokens);
  for (const Value& question : row.at("questions")) {
    rules.questions.push_back(
        {question.at("id").get<std::string>(), question.at("ask").get<std::string>(), strings(question, "expect")});
  }
}

SmokeRules read_probes(const Value& file) {
  SmokeRules rules;
  for (const auto& [level, probes] : file.at("levels").items()) {
    rules.levels[level] = probes.get<std::vector<std::string>>();
  }
  const Value& limits = file.at("limits");
  limits.at("body_bytes").get_to(rules.body_bytes);
  limits.at("kept_bytes").get_to(rules.kept_bytes);
  rules.request_timeout = Seconds(limits.at("request_seconds").get<int>());
  rules.connect_timeout = Seconds(limits.at("connect_seconds").get<int>());
  rules.thresholds = read_thresholds(file.at("thresholds"));
  file.at("first_token").at("ask").get_to(rules.first_token_ask);
  file.at("first_token").at("max_tokens").get_to(rules.first_token_tokens);
  read_questions(file.at("known_answers"), rules);
  file.at("prose").at("ask").get_to(rules.prose_ask);
  file.at("prose").at("max_tokens").get_to(rules.prose_tokens);
  file.at("raw_twin").at("prompt").get_to(rules.raw_prompt);
  file.at("raw_twin").at("max_tokens").get_to(rules.raw_tokens);
  file.at("tools").at("ask").get_to(rules.tools_ask);
  file.at("tools").at("max_tokens").get_to(rules.tools_tokens);
  file.at("needle").at("tokens").get_to(rules.needle_tokens);
  file.at("needle").at("tokens_per_word").get_to(rules.tokens_per_word);
  file.at("repeat").at("words").get_to(rules.repeat_words);
  file.at("repeat").at("times").get_to(rules.repeats);
  file.at("parallel").at("requests").get_to(rules.parallel_requests);
  file.at("accuracy").at("questions").get_to(rules.accuracy_questions);
  file.at("accuracy").at("max_tokens").get_to(rules.accuracy_tokens);
  for (const Value& row : file.at("decisions")) rules.decisions.push_back(read_decision(row));
  for (const auto& [name, list] : file.at("markers").items()) {
    rules.markers[name] = list.get<std::vector<std::string>>();
  }
  return rules;
}

}  // namespace

Result<SymptomClasses> SymptomClasses::from(const Value& classes_file) {
  SymptomClasses classes;
  try {
    for (const auto& [name, row] : classes_file.at("classes").items()) {
      SymptomClass entry;
      entry.name = name;
      row.at("stage").get_to(entry.stage);
      row.at("sentence").get_to(entry.sentence);
      row.at("looks_like").get_to(entry.looks_like);
      row.at("why").get_to(entry.why);
      row.at("cure").get_to(entry.cure);
      row.at("first").get_to(entry.first);
      const auto verdict = verdict_named(row.at("verdict").get<std::string>(), name);
      if (!verdict) return fail(verdict.error());
      entry.verdict = *verdict;
      classes.classes_[name] = std::move(entry);
    }
  } catch (const Value::exception& problem) {
    return fail(ErrorKind::invalid, std::string("knowledge file classes.yml: ") + problem.what());
  }
  return classes;
}

const SymptomClass* SymptomClasses::find(std::string_view name) const {
  const auto found = classes_.find(name);
  return found == classes_.end() ? nullptr : &found->second;
}

std::vector<std::string> SymptomClasses::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : classes_) out.push_back(name);
  return out;
}

const std::vector<std::string>& SmokeRules::marker_list(std::string_view name) const {
  static const std::vector<std::string> none;
  const auto found = markers.find(name);
  return found == markers.end() ? none : found->second;
}

Result<SmokeRules> SmokeRules::from(const Value& probes_file, const Value& classes_file) {
  auto classes = SymptomClasses::from(classes_file);
  if (!classes) return fail(classes.error());
  SmokeRules rules;
  try {
    rules = read_probes(probes_file);
  } catch (const Value::exception& problem) {
    return fail(ErrorKind::invalid, std::string("knowledge file probes.yml: ") + problem.what());
  }
  rules.classes = std::move(*classes);
  for (const EmptyDecision& decision : rules.decisions) {
    if (!decision.symptom_class.empty() && rules.classes.find(decision.symptom_class) == nullptr) {
      return fail(ErrorKind::invalid,
                  "knowledge file probes.yml: class '" + decision.symptom_class + "' is not in classes.yml");
    }
  }
  return rules;
}

}  // namespace millwright
