#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/replan.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

constexpr double kSameWeights = 1.3;  // padding, a draft model, another tower: never so much

// The part of "org/name" or "/srv/models/name/" by which models are told apart.
std::string last_part(std::string name) {
  while (!name.empty() && name.back() == '/') name.pop_back();
  name.erase(0, name.find_last_of('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

bool is_repository(const std::string& name) {
  return std::count(name.begin(), name.end(), '/') == 1 && name.front() != '/' && name.front() != '.';
}

// A folder can have any name; what both call by a repository's, or the data knows under either, can be compared.
bool is_other_model(const Knowledge& knowledge, const std::string& logged, const std::string& named) {
  if (logged.empty() || last_part(logged) == last_part(named)) return false;
  if (is_repository(logged) && is_repository(named)) return true;
  const auto one = known_model(knowledge, last_part(logged)), other = known_model(knowledge, last_part(named));
  return one && other && one->shape.name != other->shape.name;
}

std::optional<std::string> other_weights(const LogReading& reading, const Query& query, const std::string& model) {
  const auto measured = reading.term("weights_gib");
  const Layout layout = within(layout_of(query), query);
  if (!measured || *measured <= 0 || reading.on_cpu || query.given.weights_gib || layout.pp > 1) return {};
  const double expected = weights_gib(query, layout, 0, false, Scenario::likely);
  const double with_drafts = weights_gib(query, layout, 0, true, Scenario::likely);
  if (*measured * kSameWeights >= expected && *measured <= with_drafts * kSameWeights) return {};
  return fmt::format(
      "the log's weights take {:.2f} GiB a GPU, those of {} would take {:.2f}: it is of another model, another "
      "quantisation, or another number of GPUs",
      *measured, model, expected);
}

}  // namespace

std::vector<std::string> log_mismatches(const Knowledge& knowledge, const LogReading& reading, const Query& query,
                                        const std::string& model) {
  std::vector<std::string> out;
  const auto version = Version::parse(reading.version);
  if (!reading.version.empty() && version && !(*version == query.facts.version()))
    out.push_back(fmt::format("the log is of {} {}, and is read as one of {}: --engine {}@{}", query.facts.title(),
                              reading.version, query.facts.version().text(), query.facts.engine(), reading.version));
  if (is_other_model(knowledge, reading.model, model))
    out.push_back(fmt::format("the log is of the model {}, and is compared with {}", reading.model, model));
  else if (const auto weights = other_weights(reading, query, model))
    out.push_back(*weights);
  return out;
}

}  // namespace millwright::planner
