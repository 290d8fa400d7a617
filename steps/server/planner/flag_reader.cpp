#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/plan.hpp"

namespace millwright::planner {
namespace {

// What a value has to be, for the flags that the arithmetic reads.
enum class Wants { whole, share, positive, json };
struct Rule {
  const char* name;
  Wants wants;
};
constexpr Rule kRules[] = {{"tensor-parallel-size", Wants::whole},
                           {"pipeline-parallel-size", Wants::whole},
                           {"data-parallel-size", Wants::whole},
                           {"mem-fraction-static", Wants::share},
                           {"gpu-memory-utilization", Wants::share},
                           {"max-running-requests", Wants::whole},
                           {"max-num-seqs", Wants::whole},
                           {"context-length", Wants::whole},
                           {"max-num-batched-tokens", Wants::positive},
                           {"chunked-prefill-size", Wants::positive},
                           {"mamba-full-memory-ratio", Wants::positive},
                           {"max-mamba-cache-size", Wants::whole},
                           {"page-size", Wants::whole},
                           {"block-size", Wants::whole},
                           {"parallel", Wants::positive},
                           {"ctx-size", Wants::positive},
                           {"speculative-num-draft-tokens", Wants::whole},
                           {"speculative-config", Wants::json},
                           {"swa-full-tokens-ratio", Wants::positive},
                           {"cuda-graph-max-bs", Wants::whole},
                           {"max-total-tokens", Wants::whole}};

std::string complaint(const std::string& name, const std::string& value) {
  for (const Rule& rule : kRules) {
    if (name != rule.name) continue;
    if (rule.wants == Wants::json) return Value::parse(value, nullptr, false).is_object() ? "" : "is no JSON object";
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    const bool read = !value.empty() && (*end == '\0' || ((*end == 'k' || *end == 'K') && end[1] == '\0'));
    if (!read || !std::isfinite(number)) return "is no number";
    if (rule.wants == Wants::share && (number <= 0 || number > 1)) return "is not between 0 and 1";
    if (rule.wants == Wants::whole && (number < 1 || number != std::floor(number))) return "is no whole number from 1";
    return "";
  }
  return "";
}

InvalidFlag unknown_flag(const FlagTable::Found& found, const EngineFacts& facts, const std::string& word) {
  InvalidFlag out;
  out.flag = word;
  out.message = fmt::format("{} {} has no flag --{}", facts.title(), facts.version().text(), word);
  if (found.known_elsewhere)
    out.message += fmt::format(" (versions {} have it)", found.versions.empty() ? "of another time" : found.versions);
  out.hint = found.near.empty() ? "see its --help" : fmt::format("did you mean --{}?", found.near);
  return out;
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
    const FlagTable::Found found = table.find(word);
    if (found.name.empty()) {
      out.invalid.push_back(unknown_flag(found, facts, replace_all(word, "_", "-")));
      continue;
    }
    if (const std::string wrong = complaint(found.name, value); !wrong.empty())
      return fail(
          make_error(ErrorKind::usage, fmt::format("--set {}: '{}' {}", word, value, wrong))
              .with_hint(fmt::format("{} {} --help says what it takes", facts.title(), facts.version().text())));
    out.set.set(found.name, value);
    out.spelling[found.name] = found.spelling;
  }
  return out;
}

}  // namespace millwright::planner
