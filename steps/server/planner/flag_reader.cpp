#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/plan.hpp"

namespace millwright::planner {
namespace {

// What a value has to be, for the flags that the arithmetic reads. Lists of words are data: FlagTable::choices.
enum class Wants { whole, size, real, list, drafts, toggle, word };
struct Rule {
  const char* name;
  Wants wants;
  double least;
  double most;          // 0: no limit
  bool above_least;     // `least` itself is not possible
  const char* instead;  // words, each between spaces, that stand for no number
  const char* words;    // what is possible
};

constexpr const char* kCount = "a whole number from 1 to 2000000000";
constexpr double kMostCount = 2e9;  // what an engine keeps in 32 bits
constexpr double kMostBytes = 64.0 * 1024 * 1024 * 1024 * 1024;
constexpr const char* kToggle = "a switch: given alone or with true; left out, or false";
// What the engines themselves understand, and what their flag table spells as true and false.
constexpr const char* kTrue = " true True yes on 1 ";
constexpr const char* kFalse = " false False no off 0 ";
constexpr Rule kRules[] = {
    {"tensor-parallel-size", Wants::whole, 1, 0, false, "", kCount},
    {"pipeline-parallel-size", Wants::whole, 1, 0, false, "", kCount},
    {"data-parallel-size", Wants::whole, 1, 0, false, "", kCount},
    {"expert-parallel-size", Wants::whole, 1, 0, false, "", kCount},
    {"max-running-requests", Wants::whole, 1, 0, false, "", kCount},
    {"max-num-seqs", Wants::whole, 1, 0, false, "", kCount},
    {"max-total-tokens", Wants::whole, 1, 0, false, "", kCount},
    {"max-mamba-cache-size", Wants::whole, 1, 0, false, "", kCount},
    {"max-prefill-tokens", Wants::whole, 1, 0, false, "", kCount},
    {"context-length", Wants::whole, 1, 0, false, "", kCount},
    {"page-size", Wants::whole, 1, 0, false, "", kCount},
    {"block-size", Wants::whole, 1, 0, false, "", kCount},
    {"cuda-graph-max-bs", Wants::whole, 1, 0, false, "", kCount},
    {"cuda-graph-max-bs-decode", Wants::whole, 1, 0, false, "", kCount},
    {"num-gpu-blocks-override", Wants::whole, 1, 0, false, "", kCount},
    {"speculative-num-draft-tokens", Wants::whole, 1, 0, false, "", kCount},
    {"speculative-num-steps", Wants::whole, 1, 0, false, "", kCount},
    {"speculative-eagle-topk", Wants::whole, 1, 0, false, "", kCount},
    {"ubatch-size", Wants::whole, 1, 0, false, "", kCount},
    {"batch-size", Wants::whole, 1, 0, false, "", kCount},
    {"n-cpu-moe", Wants::whole, 0, 0, false, "", "a whole number from 0"},
    {"spec-draft-n-max", Wants::whole, 0, 0, false, "", "a whole number from 0"},
    {"fit-ctx", Wants::whole, 0, 0, false, "", "a whole number from 0"},
    {"chunked-prefill-size", Wants::whole, -1, 0, false, "", "a whole number from 1, or -1: prompts in one piece"},
    {"ctx-size", Wants::whole, 0, 0, false, "", "a whole number from 1, or 0: what the model was made for"},
    {"parallel", Wants::whole, 1, 0, false, " -1 ", "a whole number from 1, or -1: chosen by the server"},
    {"n-gpu-layers", Wants::whole, 0, 0, false, " auto all -1 ", "a whole number from 0, auto or all"},
    {"max-num-batched-tokens", Wants::size, 1, 0, false, "", "a whole number from 1; 8k is 8000 and 8K is 8192"},
    {"kv-cache-memory-bytes", Wants::size, 1, 0, false, "", "bytes; 8g is 8000000000 and 8G is 8589934592"},
    {"mem-fraction-static", Wants::real, 0, 1, true, "", "a number above 0 and up to 1"},
    {"gpu-memory-utilization", Wants::real, 0, 1, true, "", "a number above 0 and up to 1"},
    {"mamba-full-memory-ratio", Wants::real, 0, 0, true, "", "a number above 0: memory of states by that of tokens"},
    {"swa-full-tokens-ratio", Wants::real, 0, 0, true, "", "a number above 0"},
    {"tensor-split", Wants::list, 0, 0, false, "", "a share for each GPU, as in 3,1"},
    {"fit-target", Wants::list, 0, 0, false, "", "MiB, one number or one for each GPU"},
    {"flash-attn", Wants::word, 0, 0, false, " on off auto enabled disabled true false 1 0 -1 ", "on, off or auto"},
    {"speculative-config", Wants::drafts, 1, 0, false, "",
     R"(JSON as in {"method": "mtp", "num_speculative_tokens": 3}, with at least one token)"}};
// Switches that the arithmetic reads.
constexpr const char* kToggles[] = {"enforce-eager",
                                    "enable-chunked-prefill",
                                    "no-enable-chunked-prefill",
                                    "enable-prefix-caching",
                                    "no-enable-prefix-caching",
                                    "enable-expert-parallel",
                                    "disable-hybrid-kv-cache-manager",
                                    "language-model-only",
                                    "disable-cuda-graph",
                                    "disable-piecewise-cuda-graph",
                                    "enable-piecewise-cuda-graph",
                                    "disable-hybrid-swa-memory",
                                    "disable-radix-cache",
                                    "disable-overlap-schedule",
                                    "enable-dp-attention",
                                    "language-only",
                                    "cpu-moe",
                                    "no-kv-offload",
                                    "kv-unified",
                                    "swa-full"};
constexpr Rule kSwitch = {"", Wants::toggle, 0, 0, false, "", kToggle};
constexpr Rule kContext = {"max-model-len", Wants::size, 1, 0, false, "", "a whole number from 1; 8k is 8000"};
constexpr Rule kAutoContext = {"max-model-len",
                               Wants::size,
                               1,
                               0,
                               false,
                               " auto -1 ",
                               "a whole number from 1, 8k (8000), or auto: as much as fits"};

const Rule* rule_of(const std::string& name, const EngineFacts& facts) {
  if (name == "max-model-len") return facts.flag("auto_context") ? &kAutoContext : &kContext;
  if (std::find(std::begin(kToggles), std::end(kToggles), name) != std::end(kToggles)) return &kSwitch;
  const auto* found =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& rule) { return name == rule.name; });
  return found == std::end(kRules) ? nullptr : found;
}

bool in_range(const Rule& rule, double number) {
  const bool bytes = std::string_view(rule.name) == "kv-cache-memory-bytes";
  if (rule.wants != Wants::real && number > (bytes ? kMostBytes : kMostCount)) return false;
  if (!std::isfinite(number) || number < rule.least || (rule.above_least && number <= rule.least)) return false;
  return rule.most <= 0 || number <= rule.most;
}

bool is_number(const Rule& rule, const std::string& value) {
  const bool letter = rule.wants == Wants::size && std::string_view("kKmMgGtT").find(value.back()) != std::string::npos;
  const std::string digits = letter ? value.substr(0, value.size() - 1) : value;
  char* end = nullptr;
  const double number = std::strtod(digits.c_str(), &end);
  const bool plain = digits.find_first_not_of("0123456789.-+eE") == std::string::npos;
  if (digits.empty() || *end != '\0' || !plain) return false;
  const bool whole = number == std::floor(number) && digits.find_first_of(".eE") == std::string::npos;
  Settings written;
  written.set("value", value);
  return in_range(rule, letter ? written.number("value", number) : number) &&
         (rule.wants == Wants::real || letter || whole);
}

bool is_draft_config(const std::string& value) {
  const Value config = Value::parse(value, nullptr, false);
  if (!config.is_object()) return false;
  const auto tokens = config.find("num_speculative_tokens");
  const auto method = config.find("method");
  if (method != config.end() && !method->is_string() && !method->is_null()) return false;
  return tokens == config.end() || (tokens->is_number_integer() && tokens->get<double>() >= 1);
}

// The key `method` of --speculative-config; empty when it has none (vLLM then tells it from the draft model).
std::string draft_method(const std::string& value) {
  const Value config = Value::parse(value, nullptr, false);
  if (!config.is_object() || !config.contains("method") || !config.at("method").is_string()) return {};
  return config.at("method").get<std::string>();
}

bool is_among(const char* words, const std::string& value) {
  return value.find(' ') == std::string::npos &&
         std::string_view(words).find(" " + value + " ") != std::string_view::npos;
}

bool is_possible(const Rule& rule, const std::string& value) {
  if (value.empty()) return false;
  if (is_among(rule.instead, value)) return true;
  if (rule.wants == Wants::toggle) return is_among(kTrue, value) || is_among(kFalse, value);
  if (rule.wants == Wants::word) return false;
  if (rule.wants == Wants::drafts) return is_draft_config(value);
  if (rule.wants != Wants::list) return is_number(rule, value);
  const auto parts = split(value, ',');
  return std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    return !part.empty() && is_number({"", Wants::real, 0, 0, false, "", ""}, part);
  });
}

}  // namespace

std::optional<InvalidFlag> impossible_value(const FlagTable& table, const EngineFacts& facts, const std::string& name,
                                            const std::string& spelled, const std::string& value) {
  const Rule* rule = rule_of(name, facts);
  const bool drafts = rule != nullptr && rule->wants == Wants::drafts;
  const auto choices = table.choices(name);
  const std::string chosen = drafts ? draft_method(value) : value;
  if (!choices.empty() && !(drafts && chosen.empty()) &&
      std::find(choices.begin(), choices.end(), chosen) == choices.end()) {
    const auto near = nearest(chosen, choices);
    return InvalidFlag{spelled,
                       fmt::format("{} {} has no {} '{}'", facts.title(), facts.version().text(),
                                   drafts ? "method of " + name : name, chosen),
                       (near ? fmt::format("did you mean {}? Possible are ", *near) : std::string("possible are ")) +
                           join(choices, ", ")};
  }
  if (rule == nullptr || is_possible(*rule, value)) return {};
  return InvalidFlag{spelled, fmt::format("'{}' is no value of --{}", value, name),
                     fmt::format("it is {}", rule->words)};
}

namespace {

InvalidFlag unknown_flag(const FlagTable::Found& found, const EngineFacts& facts, const std::string& word) {
  InvalidFlag out;
  out.flag = word;
  out.message = fmt::format("{} {} has no flag --{}", facts.title(), facts.version().text(), word);
  if (found.known_elsewhere)
    out.message += fmt::format(" (versions {} have it)", found.versions.empty() ? "of another time" : found.versions);
  out.hint = found.near.empty() ? "see its --help" : fmt::format("did you mean --{}?", found.near);
  return out;
}

// llama.cpp's switches have a name for each of their two positions, in one row of the table.
bool is_negative(const std::string& word) {
  return starts_with(word, "no-") || word == "nkvo" || word == "nocb" || word == "nr";
}

// "true" or "false" of flag `name`, given as `word`.
std::string position_of(const std::string& name, const std::string& word, const std::string& value) {
  const bool on = is_among(kTrue, value);
  return (is_negative(name) == is_negative(word)) == on ? "true" : "false";
}

// A variable of the server's environment, which some switches are.
bool is_variable(const std::string& word) {
  return word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos &&
         word.find('_') != std::string::npos;
}

void set_variable(const EngineFacts& facts, const std::string& word, const std::string& value, GivenFlags& out) {
  const std::string known = facts.text("longer_context_variable");
  if (word == known) {
    out.set.set(word, value == "true" ? "1" : value);
    out.spelling[word] = word;
    return;
  }
  out.invalid.push_back({word, fmt::format("of {}'s environment the arithmetic does not read {}", facts.title(), word),
                         known.empty() ? "leave it out" : fmt::format("it reads {}", known)});
}

}  // namespace

Result<GivenFlags> read_flags(const FlagTable& table, const EngineFacts& facts, const std::vector<std::string>& given) {
  GivenFlags out;
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    std::string word = text.substr(0, equals);
    word.erase(0, std::min(word.find_first_not_of('-'), word.size()));
    if (word.empty())
      return fail(make_error(ErrorKind::usage, fmt::format("'{}' names no flag", text))
                      .with_hint("as in --set tensor-parallel-size=2"));
    const std::string value = equals == std::string::npos ? "true" : text.substr(equals + 1);
    if (is_variable(word)) {
      set_variable(facts, word, value, out);
      continue;
    }
    const FlagTable::Found found = table.find(word);
    if (found.name.empty()) {
      out.invalid.push_back(unknown_flag(found, facts, replace_all(word, "_", "-")));
      continue;
    }
    // A short name has one dash and is the long one's.
    const std::string spelled = found.one_dash ? found.name : found.spelling;
    if (auto wrong = impossible_value(table, facts, found.name, spelled, value)) {
      out.invalid.push_back(std::move(*wrong));
      continue;
    }
    const Rule* rule = rule_of(found.name, facts);
    const bool toggle = rule != nullptr && rule->wants == Wants::toggle;
    const std::string position = toggle ? position_of(found.name, replace_all(word, "_", "-"), value) : value;
    out.set.set(found.name, position);
    // Under its own name where it is on: "--kv-offload" alone would say the opposite of "no-kv-offload: true".
    out.spelling[found.name] = toggle && is_negative(spelled) != is_negative(found.name) ? found.name : spelled;
  }
  return out;
}

}  // namespace millwright::planner
