#include "steps/server/memory_planner.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "steps/server/model_headers.hpp"
#include "steps/server/planner/host_memory.hpp"

namespace millwright {

namespace {

// Classes that mean: the memory of the GPU (or the part of the host's that stands in for it) was shared out wrongly.
constexpr std::array kMemoryClasses = {"memory_pool_too_small", "gpu_out_of_memory", "out_of_memory",
                                       "context_too_long"};

// Flags that are what the user came for: a plan that lowers one is offered, never taken.
constexpr std::array kWanted = {"context-length", "max-model-len", "ctx-size"};

std::string ways_of(const std::vector<planner::LadderStep>& steps) {
  return steps.empty() ? "a smaller quantisation, or more GPUs" : "one of: " + planner::words_of(steps);
}

bool is_switch_value(const std::vector<std::string>& words, std::size_t next) {
  if (next >= words.size()) return true;
  const std::string& word = words[next];
  const bool number = word.size() > 1 && word[0] == '-' && (word[1] >= '0' && word[1] <= '9');
  return starts_with(word, "-") && !number;
}

// The first step that leaves alone what the user came for.
const planner::LadderStep* acceptable(const std::vector<planner::LadderStep>& steps, const planner::GivenFlags& flags) {
  for (const planner::LadderStep& step : steps) {
    const bool lowers = std::any_of(step.changes.begin(), step.changes.end(), [&](const planner::FlagChoice& change) {
      return std::find(kWanted.begin(), kWanted.end(), change.name) != kWanted.end() && flags.set.has(change.name);
    });
    if (!lowers) return &step;
  }
  return nullptr;
}

MemoryDecision decision_of(const planner::LadderStep& step) {
  MemoryDecision out;
  out.changes = step.changes;
  out.sentence = planner::words_of(step.changes);
  if (!step.changes.empty()) out.sentence += " (" + step.changes.front().reason + ")";
  return out;
}

}  // namespace

std::vector<std::string> settings_of(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!starts_with(words[i], "-") || words[i].size() < 2) continue;
    const std::string name = words[i].substr(words[i].find_first_not_of('-'));
    if (name.find('=') != std::string::npos) {
      out.push_back(name);
    } else if (is_switch_value(words, i + 1)) {
      out.push_back(name + "=true");
    } else {
      out.push_back(name + "=" + words[++i]);
    }
  }
  return out;
}

std::vector<std::string> apply_changes(const std::vector<std::string>& extra_flags,
                                       const std::vector<planner::FlagChoice>& changes,
                                       const planner::FlagTable& table) {
  const auto changed = [&](const std::string& word) {
    const std::string name = table.find(word.substr(0, word.find('='))).name;
    return std::any_of(changes.begin(), changes.end(), [&](const planner::FlagChoice& change) {
      return !name.empty() && table.find(change.name).name == name;
    });
  };
  std::vector<std::string> out;
  for (std::size_t i = 0; i < extra_flags.size(); ++i) {
    const std::string& word = extra_flags[i];
    if (!starts_with(word, "--") || !changed(word)) {
      out.push_back(word);
      continue;
    }
    if (word.find('=') == std::string::npos && !is_switch_value(extra_flags, i + 1)) ++i;
  }
  for (const planner::FlagChoice& change : changes) {
    out.push_back("--" + change.name);
    if (change.value != "true") out.push_back(change.value);
  }
  return out;
}

std::string value_in(const std::vector<std::string>& words, const std::string& name, const planner::FlagTable& table) {
  std::string out;
  for (const std::string& setting : settings_of(words)) {
    const std::size_t equals = setting.find('=');
    const std::string found = table.find(setting.substr(0, equals)).name;
    if (!found.empty() && found == table.find(name).name) out = setting.substr(equals + 1);
  }
  return out;
}

std::vector<planner::FlagChoice> still_wanted(const std::vector<LearnedFlag>& learned,
                                              const std::vector<std::string>& words, const planner::FlagTable& table) {
  std::vector<planner::FlagChoice> out;
  for (const LearnedFlag& one : learned) {
    const std::string given = value_in(words, one.flag.name, table);
    if (given.empty() || given == one.instead_of) out.push_back(one.flag);
  }
  return out;
}

Result<std::unique_ptr<MemoryPlanner>> MemoryPlanner::make(const Knowledge& knowledge, StepContext& context,
                                                           const ServerSpec& spec) {
  auto facts = planner::engine_facts(knowledge, spec.engine, spec.version);
  if (!facts) return fail(wrap(facts.error(), "memory: auto"));
  auto table = planner::FlagTable::load(knowledge, facts->engine(), facts->version());
  if (!table) return fail(wrap(table.error(), "memory: auto"));
  auto model = model_on_node(context, spec.model);
  if (!model) return fail(wrap(model.error(), "memory: auto"));
  std::vector<planner::Gpu> gpus;
  // An engine that fits itself to GPUs is planned for the host's memory alone.
  const bool on_cpu = spec.device == "cpu" || facts->engine() == "llama.cpp";
  if (on_cpu) {
    planner::Gpu host;
    host.title = "the host's memory";
    host.total_gib = 1;  // what a log measures takes the place of it
    gpus.push_back(host);
  } else {
    NodeCommand command;
    command.script = planner::gpu_question();
    auto answer = context.node().run(command);
    if (!answer) return fail(answer.error());
    auto found = planner::parse_gpu_answer(knowledge, answer->out);
    if (!found) return fail(wrap(found.error(), "memory: auto"));
    gpus = std::move(*found);
  }
  return std::make_unique<MemoryPlanner>(knowledge, std::move(*model), std::move(*facts), std::move(*table),
                                         std::move(gpus), on_cpu);
}

MemoryPlanner::MemoryPlanner(const Knowledge& knowledge, planner::Model model, planner::EngineFacts facts,
                             planner::FlagTable table, std::vector<planner::Gpu> gpus, bool on_cpu)
    : knowledge_(knowledge),
      model_(std::move(model)),
      facts_(std::move(facts)),
      table_(std::move(table)),
      gpus_(std::move(gpus)),
      on_cpu_(on_cpu) {}

bool MemoryPlanner::flags_share_it_out(const std::string& symptom_class) {
  return std::find(kMemoryClasses.begin(), kMemoryClasses.end(), symptom_class) != kMemoryClasses.end();
}

planner::Query MemoryPlanner::query_of(const std::vector<std::string>& words, planner::GivenFlags& flags) const {
  if (auto read = planner::read_flags(table_, facts_, settings_of(words))) flags = std::move(*read);
  // What the planner does not know of was checked before and is no matter of memory.
  flags.invalid.clear();
  return planner::Query{model_, facts_, gpus_, flags.set, {}, {}, {}};
}

Result<MemoryDecision> MemoryPlanner::before(const std::vector<std::string>& words) const {
  if (on_cpu_) return MemoryDecision{};
  planner::GivenFlags flags;
  const planner::Query query = query_of(words, flags);
  const planner::Plan plan = planner::make_plan(knowledge_, query, flags, table_);
  if (!plan.invalid.empty()) {
    return fail(make_error(ErrorKind::refused, plan.sentence).with_hint(plan.invalid.front().hint));
  }
  if (plan.likely.starts()) {
    MemoryDecision out;
    out.sentence = plan.sentence;
    if (plan.layout.tp > 1 && !query.set.has("tensor-parallel-size")) {
      for (const planner::FlagChoice& flag : plan.flags) {
        if (table_.find(flag.name).name == "tensor-parallel-size") out.changes.push_back(flag);
      }
    }
    return out;
  }
  if (const planner::LadderStep* step = acceptable(plan.ladder, flags)) return decision_of(*step);
  if (plan.decision != planner::Decision::does_not_fit) return MemoryDecision{{}, plan.sentence, {}};
  return fail(make_error(ErrorKind::refused, plan.sentence)
                  .with_class("memory_pool_too_small")
                  .with_hint("give " + ways_of(plan.ladder)));
}

Result<MemoryDecision> MemoryPlanner::after_kill(const std::vector<std::string>& words, const HostLimit& limit,
                                                 const KnownFlags* launcher) const {
  planner::GivenFlags flags;
  const planner::Query query = query_of(words, flags);
  const double limit_gib = static_cast<double>(limit.bytes) / planner::kGiB;
  planner::EngineHost host = host_;
  host.on_cpu = on_cpu_;
  planner::HostReplan next = facts_.engine() == "llama.cpp"
                                 ? planner::replan_host(query, table_, limit_gib, limit.whose)
                                 : planner::replan_engine_host(query, table_, host, limit_gib, limit.whose);
  const auto unknown = [launcher](const planner::LadderStep& step) {
    return std::any_of(step.changes.begin(), step.changes.end(), [launcher](const planner::FlagChoice& change) {
      std::string hint;
      return launcher != nullptr && !launcher->complaint("--" + change.name, hint).empty();
    });
  };
  next.next.erase(std::remove_if(next.next.begin(), next.next.end(), unknown), next.next.end());
  if (next.next.empty()) {
    const auto enough = static_cast<std::uint64_t>(std::ceil(next.least_gib * 1024)) << 20U;
    const std::string needed = limit.whose == "memory_max" ? "give memory_max: " + format_size(enough)
                                                           : "it needs " + format_size(enough) + " of " + limit.whose;
    return fail(make_error(ErrorKind::failed_test, next.verdict)
                    .with_class("oom_killed")
                    .with_hint(needed + ", or a smaller model"));
  }
  MemoryDecision out = decision_of(next.next.front());
  out.arithmetic = std::move(next.arithmetic);
  return out;
}

std::optional<planner::FlagChoice> MemoryPlanner::bounded_prompt_cache(const std::vector<std::string>& words,
                                                                       const std::vector<std::string>& given,
                                                                       const HostLimit& limit,
                                                                       const KnownFlags* launcher) const {
  if (facts_.engine() != "llama.cpp") return std::nullopt;
  planner::GivenFlags flags;
  const planner::Query query = query_of(words, flags);
  auto flag = planner::bounded_prompt_cache(query, table_, static_cast<double>(limit.bytes) / planner::kGiB);
  if (!flag || !value_in(given, flag->name, table_).empty()) return std::nullopt;
  std::string hint;
  if (launcher != nullptr && !launcher->complaint("--" + flag->name, hint).empty()) return std::nullopt;
  return flag;
}

Result<MemoryDecision> MemoryPlanner::after(const std::vector<std::string>& words, const std::string& log) {
  auto reading = planner::read_log(knowledge_, log, facts_.engine());
  if (!reading) return fail(reading.error());
  if (!reading->failure || !planner::is_about_memory(*reading->failure)) {
    return fail(ErrorKind::failed_test, "the log says nothing about memory that a flag would share out");
  }
  planner::GivenFlags flags;
  planner::Query query = query_of(words, flags);
  const planner::GivenFlags asked = flags;
  planner::add_logged_flags(*reading, table_, flags);
  query.set = flags.set;
  const planner::Replan next = planner::replan(knowledge_, query, flags, table_, *reading, earlier_);
  const std::string symptom_class = reading->failure->symptom_class;
  earlier_.push_back(std::move(*reading));
  const planner::LadderStep* step = next.opposite ? nullptr : acceptable(next.next, asked);
  if (step == nullptr) {
    return fail(make_error(ErrorKind::failed_test, next.verdict)
                    .with_class(symptom_class)
                    .with_hint("give " + ways_of(next.next)));
  }
  MemoryDecision out = decision_of(*step);
  out.arithmetic = next.arithmetic;
  return out;
}

}  // namespace millwright
