#include "steps/server/planner/version_guess.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/replan.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

constexpr double kNear = 0.02;  // of measured tokens

bool near(double predicted, double measured) { return std::abs(predicted - measured) <= kNear * measured + 1; }

// The versions that the data was read from and the arithmetic covers, oldest first.
std::vector<EngineFacts> read_versions(const Knowledge& knowledge, const std::string& engine) {
  std::vector<EngineFacts> out;
  const Value& document = knowledge.file("engine_flags");
  const auto engines = document.find("engines");
  if (engines == document.end() || !engines->contains(engine)) return out;
  for (const Value& one : engines->at(engine).at("checked")) {
    if (auto facts = engine_facts(knowledge, engine, one.get<std::string>())) out.push_back(std::move(*facts));
  }
  return out;
}

// Arguments that other versions have and this one has not.
int strangers(const LogReading& reading, const FlagTable& table) {
  int out = 0;
  for (const auto& [name, value] : reading.arguments) {
    const FlagTable::Found found = table.find(name);
    out += found.name.empty() && found.known_elsewhere ? 1 : 0;
  }
  return out;
}

// It came further than a version comes that refuses these flags.
bool is_refused(const Knowledge& knowledge, const LogReading& reading, const Query& query) {
  const bool began = !reading.reached.empty() || reading.ready;
  return began && !check_validity(knowledge, query, layout_of(query)).empty();
}

}  // namespace

bool agrees(const LogReading& reading, const Query& query) {
  Query measured = query;
  add_logged_terms(reading, measured.given);
  const Outcome outcome = outcome_of(measured, within(layout_of(query), query), Scenario::likely);
  const bool early =
      reading.failure && (reading.failure->where == "pool_sizing" || reading.failure->where == "state_slots" ||
                          reading.failure->where == "one_request");
  const bool ends_early = outcome.ends == Stage::pool_sizing || outcome.ends == Stage::state_slots ||
                          outcome.ends == Stage::one_request || outcome.ends == Stage::weights;
  if (early) return ends_early;
  const auto tokens = reading.term("kv_tokens");
  if (tokens && *tokens > 0 && !near(outcome.kv_tokens, *tokens)) return false;
  const auto slots = reading.term("state_slots");
  return !slots || *slots <= 0 || near(outcome.state_slots, *slots);
}

VersionGuess guess_version(const Knowledge& knowledge, const LogReading& reading, const Model* model,
                           const std::vector<Gpu>& gpus) {
  struct Candidate {
    std::string version;
    int unknown = 0;
    bool agrees = true;
  };
  std::vector<Candidate> all;
  for (const EngineFacts& facts : read_versions(knowledge, reading.engine)) {
    const auto table = FlagTable::load(knowledge, facts.engine(), facts.version());
    if (!table) continue;
    Candidate one{facts.version().text(), strangers(reading, *table), true};
    if (model != nullptr && !gpus.empty()) {
      GivenFlags flags;
      add_logged_flags(reading, *table, flags);
      const Query query{*model, facts, gpus, flags.set, {}, {}, {}};
      one.unknown += is_refused(knowledge, reading, query) ? 1 : 0;
      one.agrees = agrees(reading, query);
    }
    all.push_back(std::move(one));
  }
  VersionGuess out;
  int least = 1 << 20;
  for (const Candidate& one : all) least = std::min(least, one.unknown);
  out.figures_agree =
      std::any_of(all.begin(), all.end(), [&](const Candidate& one) { return one.unknown == least && one.agrees; });
  for (const Candidate& one : all) {
    if (one.unknown == least && (one.agrees || !out.figures_agree)) out.possible.push_back(one.version);
  }
  if (!out.possible.empty()) out.version = out.possible.back();
  return out;
}

std::string words_of(const VersionGuess& guess) {
  std::string out = fmt::format(
      "{} assumed: the log does not say it; of the versions known here its flags and figures "
      "leave {}",
      guess.version, join(guess.possible, ", "));
  if (!guess.figures_agree) out += "; but the log's own figures come out of none of them: trust none below";
  return out;
}

}  // namespace millwright::planner
