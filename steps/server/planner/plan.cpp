#include "steps/server/planner/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/server/planner/sglang.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {

const char* to_string(Decision decision) {
  return decision == Decision::fits ? "fits" : decision == Decision::does_not_fit ? "does_not_fit" : "try";
}

std::string words_of(const FlagChoice& change) {
  return change.value == "true" ? "--" + change.name : "--" + change.name + " " + change.value;
}

std::string words_of(const std::vector<FlagChoice>& changes, const char* between) {
  std::vector<std::string> out;
  for (const FlagChoice& change : changes) out.push_back(words_of(change));
  return join(out, between);
}

std::string words_of(const std::vector<LadderStep>& steps) {
  std::vector<std::string> out;
  for (const LadderStep& step : steps) out.push_back(words_of(step.changes));
  return join(out, "; ");
}

namespace {

constexpr std::size_t kLadderSteps = 4;

void fill_ranks(Plan& plan, const Query& query, const Outcome& roomy, const Outcome& likely, const Outcome& tight) {
  for (std::size_t rank = 0; rank < likely.ranks.size(); ++rank) {
    const RankOutcome& a = roomy.ranks[rank];
    const RankOutcome& b = likely.ranks[rank];
    const RankOutcome& c = tight.ranks[rank];
    RankPlan out;
    out.rank = static_cast<int>(rank);
    out.gpu = gpu_of_rank(query, out.rank).title;
    out.total_gib = b.total_gib;
    out.weights_gib = range_of(a.weights_gib, b.weights_gib, c.weights_gib);
    out.kv_pool_gib = range_of(a.kv_pool_gib, b.kv_pool_gib, c.kv_pool_gib);
    out.state_gib = range_of(a.state_gib, b.state_gib, c.state_gib);
    out.graphs_gib = range_of(a.graphs_gib, b.graphs_gib, c.graphs_gib);
    out.activation_gib = range_of(a.activation_gib, b.activation_gib, c.activation_gib);
    out.other_gib = range_of(a.other_gib, b.other_gib, c.other_gib);
    out.headroom_gib = range_of(a.headroom_gib, b.headroom_gib, c.headroom_gib);
    plan.ranks.push_back(out);
  }
  for (std::size_t rank = 1; rank < plan.ranks.size(); ++rank) {
    if (plan.ranks[rank].headroom_gib.mid < plan.ranks[plan.tightest].headroom_gib.mid) plan.tightest = rank;
  }
  if (query.facts.engine() == "vllm") plan.tightest = likely.tightest;
}

std::string engine_name(const Query& query) { return query.facts.title() + " " + query.facts.version().text(); }

std::string gpus_name(const Query& query, const Layout& layout) {
  const int used = std::min<int>(layout.gpus(), static_cast<int>(query.gpus.size()));
  return used == 1 ? query.gpus.front().title : fmt::format("{} x {}", used, query.gpus.front().title);
}

std::string thousands(double value) {
  std::string digits = fmt::format("{:.0f}", std::max(0.0, value));
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string sentence_of(const Plan& plan, const Query& query) {
  const std::string head =
      fmt::format("{} on {} with {}", query.model.shape.name, gpus_name(query, plan.layout), engine_name(query));
  if (!plan.invalid.empty()) {
    const char* verb = plan.invalid.front().flag == "context" ? "does not serve that" : "cannot start";
    return fmt::format("{} {}: {}.", head, verb, plan.invalid.front().message);
  }
  if (plan.decision == Decision::fits)
    return fmt::format(
        "{} fits: {} tokens of KV cache and {} requests at once{}, with {:.1f} GiB to spare on the tightest GPU.", head,
        thousands(plan.kv_tokens.mid), thousands(plan.max_running_requests),
        plan.layout.replicas > 1 ? fmt::format(" in each of {} replicas", plan.layout.replicas) : std::string(),
        plan.ranks[plan.tightest].headroom_gib.mid);
  if (plan.decision == Decision::try_it && plan.likely.starts())
    return fmt::format("{} should fit ({} tokens, {:.1f} GiB to spare), but not by enough to be sure: try it.", head,
                       thousands(plan.kv_tokens.mid), plan.ranks[plan.tightest].headroom_gib.mid);
  std::string out =
      fmt::format("{} {}: it needs {:.1f} GiB more per GPU", head,
                  plan.decision == Decision::try_it ? "probably does not fit" : "does not fit", plan.missing_gib);
  if (plan.ladder.empty()) return out + ", and no flag makes that up: a smaller quantisation, or more GPUs.";
  return out + ", or one of these: " + words_of(plan.ladder) + ".";
}

void choose_flags(Plan& plan, const Query& query, const GivenFlags& given, const FlagTable& table) {
  for (const auto& [name, value] : given.set.all()) {
    const auto spelled = given.spelling.find(name);
    plan.flags.push_back({spelled == given.spelling.end() ? name : spelled->second, value, "as asked"});
  }
  const auto add = [&](const char* name, const std::string& value, const std::string& reason) {
    const FlagTable::Found found = table.find(name);
    if (!given.set.has(name) && !found.name.empty()) plan.flags.push_back({found.spelling, value, reason});
  };
  const std::string& engine = query.facts.engine();
  if (engine != "llama.cpp" && plan.layout.tp > 1)
    add("tensor-parallel-size", std::to_string(plan.layout.tp),
        fmt::format("{} GPUs, and {} heads divide by it", query.gpus.size(), query.model.shape.heads));
  if (query.context) {
    const char* name = engine == "sglang" ? "context-length" : engine == "vllm" ? "max-model-len" : "ctx-size";
    // llama.cpp shares its context between the slots that were asked for.
    const int slots = engine == "llama.cpp" ? query.concurrency.value_or(1) : 1;
    add(name, fmt::format("{:.0f}", static_cast<double>(*query.context) * slots),
        slots > 1 ? fmt::format("{} tokens for each of {} slots", *query.context, slots)
                  : "the context that was asked for");
  }
  if (query.concurrency) {
    const char* name = engine == "sglang" ? "max-running-requests" : engine == "vllm" ? "max-num-seqs" : "parallel";
    add(name, std::to_string(*query.concurrency), "the requests at once that were asked for");
  }
  // A first try: the cheapest change that makes it fit comes with the launch line.
  if (plan.likely.starts() || plan.ladder.empty()) return;
  for (const FlagChoice& change : plan.ladder.front().changes) {
    const std::string name = table.find(change.name).name;
    const auto same = std::find_if(plan.flags.begin(), plan.flags.end(),
                                   [&](const FlagChoice& flag) { return table.find(flag.name).name == name; });
    if (same != plan.flags.end()) {
      *same = {change.name, change.value, fmt::format("{} (instead of {})", change.reason, same->value)};
    } else {
      plan.flags.push_back(change);
    }
  }
}

// Later versions are answered by what the newest one that was read does, which they need not do.
void warn_of_version(Plan& plan, const Query& query, const Knowledge& knowledge) {
  if (query.facts.engine() == "llama.cpp") return;  // its packages count in ways of their own
  const std::string text = query.facts.version().text();
  const auto asked = Version::parse(text.substr(0, text.find('+')));
  const Value engines = knowledge.file("memory").value("engines", Value::object());
  const auto engine = engines.find(query.facts.engine());
  if (engine == engines.end() || !asked) return;
  const auto newest = Version::parse(engine->value("newest", ""));
  if (newest && *asked > *newest)
    plan.notes.push_back(fmt::format("{} {} is newer than all that is known here: the arithmetic is that of {}",
                                     query.facts.title(), text, newest->text()));
}

void warn(Plan& plan, const Query& query) {
  if (!plan.invalid.empty()) return;  // the figures are of flags that it will not start with
  if (query.concurrency && query.context && plan.kv_tokens.mid > 0 && plan.likely.concurrency < *query.concurrency)
    plan.notes.push_back(fmt::format("{} requests of {} tokens do not fit at once: {:.1f} do; the others wait",
                                     *query.concurrency, plan.max_model_len, plan.likely.concurrency));
  if (query.facts.engine() == "sglang" && plan.likely.starts() && plan.kv_tokens.mid < plan.max_model_len)
    plan.notes.push_back(
        fmt::format("the pool holds {} tokens, which is less than the context of {}: longer requests are refused",
                    thousands(plan.kv_tokens.mid), plan.max_model_len));
  const int gpus = static_cast<int>(query.gpus.size());
  if (plan.layout.gpus() < gpus) {
    const int more = gpus / plan.layout.ranks();
    plan.notes.push_back(fmt::format("{} of {} GPUs are used{}", plan.layout.gpus(), gpus,
                                     more > plan.layout.replicas
                                         ? fmt::format(": --data-parallel-size {} is that many replicas", more)
                                         : std::string()));
  }
  if (query.facts.engine() == "llama.cpp" && plan.likely.starts() &&
      plan.max_model_len < query.model.shape.max_positions && !query.set.has("ctx-size") && !query.context)
    plan.notes.push_back(
        fmt::format("--fit lowers the context from {} to {}", query.model.shape.max_positions, plan.max_model_len));
  const int trained = longest_context(query).usual;
  if (fits_context_itself(query) && plan.likely.starts() && plan.max_model_len < trained)
    plan.notes.push_back(fmt::format("auto-fit lowers the context from {} to {}", trained, plan.max_model_len));
  if (query.facts.engine() == "llama.cpp" && trained > 0 && plan.max_model_len > trained)
    plan.notes.push_back(fmt::format(
        "the model was made for {} tokens: the server caps a slot there, and cells beyond it lie idle", trained));
  if (query.set.has("speculative-draft-model-path") || query.set.has("model-draft"))
    plan.notes.push_back(
        "the weights and cache of the separate draft model are not counted: give what it takes as --given graphs_gib, "
        "or leave room for it");
}

}  // namespace

Layout within(Layout layout, const Query& query) {
  const int gpus = static_cast<int>(query.gpus.size());
  layout.tp = std::clamp(layout.tp, 1, gpus);
  layout.pp = std::clamp(layout.pp, 1, std::max(1, gpus / layout.tp));
  layout.replicas = std::clamp(layout.replicas, 1, std::max(1, gpus / layout.ranks()));
  return layout;
}

Plan make_plan(const Knowledge& knowledge, const Query& query, const GivenFlags& flags, const FlagTable& table) {
  Plan plan;
  plan.layout = layout_of(query);
  plan.invalid = flags.invalid;
  for (InvalidFlag& one : check_validity(knowledge, query, plan.layout)) plan.invalid.push_back(std::move(one));
  plan.layout = within(plan.layout, query);
  const Outcome roomy = outcome_of(query, plan.layout, Scenario::roomy);
  const Outcome tight = outcome_of(query, plan.layout, Scenario::tight);
  plan.likely = outcome_of(query, plan.layout, Scenario::likely);
  fill_ranks(plan, query, roomy, plan.likely, tight);
  plan.kv_tokens = range_of(tight.kv_tokens, plan.likely.kv_tokens, roomy.kv_tokens);
  plan.state_slots = plan.likely.state_slots;
  plan.max_running_requests = plan.likely.max_running;
  plan.max_model_len = plan.likely.max_model_len;
  plan.engine_says = plan.likely.engine_says;
  plan.decision = tight.starts() ? Decision::fits : roomy.starts() ? Decision::try_it : Decision::does_not_fit;
  // SGLang starts with a pool smaller than one request, and refuses what is longer: not what --context asks for.
  if (plan.invalid.empty() && query.context && plan.decision == Decision::fits && plan.kv_tokens.mid < *query.context) {
    plan.invalid.push_back({"context",
                            fmt::format("the pool has {:.0f} tokens, and a request of {} would be refused",
                                        plan.kv_tokens.mid, *query.context),
                            fmt::format("--context {:.0f}, a smaller KV type, or more GPUs", plan.kv_tokens.low)});
  }
  if (!plan.invalid.empty()) plan.decision = Decision::does_not_fit;
  plan.missing_gib = plan.likely.starts() ? 0 : plan.likely.missing_gib;
  plan.notes = query.model.notes;
  const Outcome& worse = plan.likely.starts() ? tight : plan.likely;
  if (plan.invalid.empty() && !worse.starts()) plan.ladder = solve(query, plan.layout, worse, table, kLadderSteps);
  warn(plan, query);
  warn_of_version(plan, query, knowledge);
  choose_flags(plan, query, flags, table);
  plan.sentence = sentence_of(plan, query);
  return plan;
}

std::string launch_line(const Query& query, const Plan& plan, const std::string& model) {
  std::vector<std::string> words = query.facts.launch();
  std::string environment;
  if (!query.facts.model_flag().empty()) words.push_back(query.facts.model_flag());
  words.push_back(query.model.repository.empty() ? model : query.model.repository);
  for (const FlagChoice& flag : plan.flags) {
    if (flag.name == query.facts.text("longer_context_variable")) {
      environment += flag.name + "=" + shell_quote(flag.value) + " ";
    } else if (flag.value != "false") {
      words.push_back("--" + flag.name);
      if (flag.value != "true") words.push_back(flag.value);
    } else if (query.facts.engine() == "vllm") {
      // Its switches have both ways; the others' are off without a word.
      words.push_back(starts_with(flag.name, "no-") ? "--" + flag.name.substr(3) : "--no-" + flag.name);
    }
  }
  return environment + shell_join(words);
}

}  // namespace millwright::planner
