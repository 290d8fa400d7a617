#include "steps/server/planner/render.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

double rounded(double value) {
  const double out = std::round(value * 1e4) / 1e4;
  return std::isfinite(out) ? (out == 0 ? 0.0 : out) : 0.0;
}

Value json_of(const Range& range) {
  return {{"low", rounded(range.low)}, {"mid", rounded(range.mid)}, {"high", rounded(range.high)}};
}

Value whole(const Range& range) {
  return {{"low", static_cast<std::int64_t>(range.low)},
          {"mid", static_cast<std::int64_t>(range.mid)},
          {"high", static_cast<std::int64_t>(range.high)}};
}

// Numbers and switches as such, so that whoever reads it need not guess.
Value value_of(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  const Value parsed = Value::parse(text, nullptr, false);
  return parsed.is_number() || parsed.is_object() ? parsed : Value(text);
}

void put_terms(Value& out, const RankPlan& rank) {
  out["kv_pool_gib"] = json_of(rank.kv_pool_gib);
  out["weights_gib"] = json_of(rank.weights_gib);
  out["state_gib"] = json_of(rank.state_gib);
  out["graphs_gib"] = json_of(rank.graphs_gib);
  out["activation_gib"] = json_of(rank.activation_gib);
  out["other_gib"] = json_of(rank.other_gib);
  out["headroom_gib"] = json_of(rank.headroom_gib);
}

Value json_of(const FlagChoice& flag) {
  return {{"name", flag.name}, {"value", value_of(flag.value)}, {"reason", flag.reason}};
}

Value json_of(const LadderStep& step) {
  Value changes = Value::array();
  for (const FlagChoice& change : step.changes) changes.push_back(json_of(change));
  return {{"flags", changes},
          {"decision", to_string(step.decision)},
          {"kv_tokens", static_cast<std::int64_t>(step.kv_tokens)},
          {"max_running_requests", static_cast<std::int64_t>(step.max_running)},
          {"max_model_len", step.max_model_len},
          {"headroom_gib", rounded(step.headroom_gib)}};
}

// Parts of a bar, in this order; the letters are those of the key.
struct BarPart {
  char letter;
  const char* name;
  double gib;
};

std::vector<BarPart> parts_of(const RankPlan& rank, const std::string& engine) {
  // vLLM keeps states and tokens in one pool, of which the states are a part.
  const double kv = engine == "vllm" ? rank.kv_pool_gib.mid - rank.state_gib.mid : rank.kv_pool_gib.mid;
  return {{'W', "weights", rank.weights_gib.mid},
          {'S', "states", rank.state_gib.mid},
          {'K', "KV cache", kv},
          {'G', "graphs", rank.graphs_gib.mid},
          {'A', "activation", rank.activation_gib.mid},
          {'o', "other", rank.other_gib.mid}};
}

std::string bar(const RankPlan& rank, const std::string& engine, std::size_t width) {
  std::string out;
  double done = 0;
  for (const BarPart& part : parts_of(rank, engine)) {
    done += std::max(0.0, part.gib);
    const auto end = static_cast<std::size_t>(
        std::lround(std::min(1.0, done / std::max(0.1, rank.total_gib)) * static_cast<double>(width)));
    if (end > out.size()) out.append(end - out.size(), part.letter);
  }
  out.append(width - std::min(width, out.size()), '.');
  return out;
}

std::string legend(const RankPlan& rank, const std::string& engine) {
  std::vector<std::string> words;
  for (const BarPart& part : parts_of(rank, engine)) {
    if (std::abs(part.gib) >= 0.005) words.push_back(fmt::format("{} {} {:.2f}", part.letter, part.name, part.gib));
  }
  words.push_back(
      fmt::format("{} {:.2f}", rank.headroom_gib.mid < 0 ? "missing" : "to spare", std::abs(rank.headroom_gib.mid)));
  return join(words, ", ");
}

std::string ladder_text(const Plan& plan) {
  if (plan.ladder.empty()) return "";
  std::string out = plan.likely.starts() ? "To be sure, one of:\n" : "What makes it fit, one of:\n";
  for (const LadderStep& step : plan.ladder) {
    out += fmt::format("  {:<44} {}: {:.0f} tokens, {:.0f} requests, {:.1f} GiB to spare\n",
                       words_of(step.changes, " "), step.decision == Decision::fits ? "fits" : "try ", step.kv_tokens,
                       step.max_running, step.headroom_gib);
    for (const FlagChoice& change : step.changes) out += fmt::format("      {}\n", change.reason);
  }
  return out;
}

}  // namespace

Value to_json(const Plan& plan, const Query& query, const std::string& model) {
  Value out = {{"schema_version", kPlanSchemaVersion},
               {"decision", to_string(plan.decision)},
               {"sentence", plan.sentence},
               {"model", model},
               {"engine", query.facts.engine()},
               {"engine_version", query.facts.version().text()},
               {"tensor_parallel", plan.layout.tp},
               {"pipeline_parallel", plan.layout.pp},
               {"replicas", plan.layout.replicas},
               {"weights_from", to_string(query.model.weight_source)},
               {"kv_tokens", whole(plan.kv_tokens)},
               {"state_slots", static_cast<std::int64_t>(plan.state_slots)},
               {"max_running_requests", static_cast<std::int64_t>(plan.max_running_requests)},
               {"max_model_len", plan.max_model_len},
               {"missing_gib", rounded(plan.missing_gib)},
               {"fraction", rounded(plan.likely.fraction)}};
  if (!plan.engine_says.empty()) out["engine_says"] = plan.engine_says;
  put_terms(out, plan.ranks[plan.tightest]);
  out["ranks"] = Value::array();
  for (const RankPlan& rank : plan.ranks) {
    Value row = {{"rank", rank.rank}, {"gpu", rank.gpu}, {"total_gib", rounded(rank.total_gib)}};
    put_terms(row, rank);
    out["ranks"].push_back(std::move(row));
  }
  for (const char* list : {"flags", "ladder", "invalid"}) out[list] = Value::array();
  for (const FlagChoice& flag : plan.flags) out["flags"].push_back(json_of(flag));
  for (const LadderStep& step : plan.ladder) out["ladder"].push_back(json_of(step));
  for (const InvalidFlag& one : plan.invalid)
    out["invalid"].push_back({{"flag", one.flag}, {"message", one.message}, {"hint", one.hint}});
  out["notes"] = plan.notes;
  if (plan.invalid.empty()) out["launch"] = launch_line(query, plan, model);
  return out;
}

std::string as_text(const Plan& plan, const Query& query, const std::string& model, std::size_t columns) {
  std::string out;
  std::size_t longest = 0;
  for (const RankPlan& rank : plan.ranks) longest = std::max(longest, rank.gpu.size());
  const std::size_t beside = longest + 22;  // "GPU 0  [", "] ", the size and two blanks
  const std::size_t width = std::clamp<std::size_t>(columns > beside ? columns - beside : 20, 20, 72);
  const std::string& engine = query.facts.engine();
  if (plan.invalid.empty()) {
    for (const RankPlan& rank : plan.ranks) {
      out +=
          fmt::format("GPU {:<2} [{}] {:.1f} GiB  {}\n", rank.rank, bar(rank, engine, width), rank.total_gib, rank.gpu);
      if (static_cast<std::size_t>(rank.rank) == plan.tightest) out += fmt::format("       {}\n", legend(rank, engine));
    }
  }
  out += plan.sentence + "\n";
  for (const InvalidFlag& one : plan.invalid) {
    const bool variable = one.flag.find('_') != std::string::npos;  // of the environment
    out += fmt::format("invalid  {}{}: {}\n", variable || one.flag == "gpus" ? "" : "--", one.flag, one.message);
    if (!one.hint.empty()) out += fmt::format("         {}\n", one.hint);
  }
  if (!plan.engine_says.empty() && plan.invalid.empty())
    out += fmt::format("The engine would end with: {}\n", plan.engine_says);
  out += ladder_text(plan);
  for (const std::string& note : plan.notes) out += fmt::format("note     {}\n", note);
  if (!plan.invalid.empty()) return out;
  for (const FlagChoice& flag : plan.flags) {
    if (flag.reason != "as asked") out += fmt::format("flag     --{} {}: {}\n", flag.name, flag.value, flag.reason);
  }
  out += fmt::format("Sizes of the weights are from {}.\n", to_string(query.model.weight_source));
  out += "Launch:\n  " + launch_line(query, plan, model) + "\n";
  return out;
}

std::string broken(const std::string& text, std::size_t columns) {
  constexpr std::size_t label = 9;  // "note     "
  constexpr std::size_t narrowest = 40;
  const std::size_t width = std::max(columns, narrowest);
  std::string out;
  bool to_copy = false;
  for (const std::string& line : split_lines(text)) {
    const std::size_t blanks = std::min(line.find_first_not_of(' '), line.size());
    const bool labelled = line.size() > label && line[label - 1] == ' ' && line.find("  ") < label && blanks == 0;
    const std::string indent(labelled ? label : blanks, ' ');
    std::string rest = line;
    while (!to_copy && rest.size() > width && !starts_with(line, "GPU ")) {
      std::size_t at = rest.rfind(' ', width);
      if (at == std::string::npos || at <= indent.size()) at = rest.find(' ', std::max(width, indent.size()));
      if (at == std::string::npos) break;
      out += rest.substr(0, at) + "\n";
      rest = indent + rest.substr(at + 1);
    }
    out += rest + "\n";
    to_copy = line == "Launch:";
  }
  return out;
}

}  // namespace millwright::planner
