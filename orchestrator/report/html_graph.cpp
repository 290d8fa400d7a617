// The step graph as inline SVG: steps in layers from top to bottom by the longest way from a root, so that it fits a
// phone; edges as curves.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "orchestrator/report/html_parts.hpp"
#include "orchestrator/report/html_text.hpp"
#include "orchestrator/report/text_layout.hpp"

namespace millwright {
namespace {

constexpr int kBoxWidth = 168, kBoxHeight = 46, kGapX = 22, kGapY = 30, kMargin = 4, kDetour = 46;

struct Placed {
  const StepFacts* step;
  int layer = 0, column = 0;
  int x() const { return kMargin + column * (kBoxWidth + kGapX); }
  int y() const { return kMargin + layer * (kBoxHeight + kGapY); }
};

// Needs come before the step in a playbook; one that does not (damaged data) is left out.
std::map<std::string, Placed> place(const RunFacts& run) {
  std::map<std::string, Placed> placed;
  std::map<int, int> used;
  for (const StepFacts& step : run.steps) {
    int layer = 0;
    std::vector<std::string> before = step.needs;
    if (!step.in.empty()) before.push_back(step.in);
    for (const std::string& need : before) {
      const auto found = placed.find(need);
      if (found != placed.end()) layer = std::max(layer, found->second.layer + 1);
    }
    if (placed.count(step.id) > 0) continue;
    placed[step.id] = Placed{&step, layer, used[layer]++};
  }
  return placed;
}

// One host: its state. Several: the worst with counts.
std::pair<std::string, std::string> state_words(const RunFacts& run, const std::string& step) {
  std::map<std::string, int> counts;
  for (const std::string& host : run.hosts) {
    const std::string state = run.state_of(host, step);
    if (!state.empty()) ++counts[state];
  }
  if (counts.empty()) return {"", "not run"};
  std::string words, worst;
  int worst_rank = -1;
  for (const auto& [state, count] : counts) {
    const std::string_view shade = tone(state);
    const int rank = shade == "bad" ? 4 : shade == "warn" ? 3 : shade == "new" ? 2 : shade == "good" ? 1 : 0;
    if (rank > worst_rank) {
      worst_rank = rank;
      worst = state;
    }
    words +=
        fmt::format("{}{}{}", words.empty() ? "" : ", ", run.hosts.size() > 1 ? fmt::format("{} ", count) : "", state);
  }
  return {worst, words};
}

// An edge past other layers of the same column goes around them on the right.
std::string edge(const Placed& from, const Placed& to) {
  if (to.layer > from.layer + 1 && to.column == from.column) {
    const int x = from.x() + kBoxWidth, top = from.y() + kBoxHeight / 2, bottom = to.y() + kBoxHeight / 2 - 8;
    return fmt::format("<path class=\"edge\" marker-end=\"url(#arrow)\" d=\"M{0} {1}C{2} {1} {2} {3} {4} {3}\"/>", x,
                       top, x + kDetour, bottom, x + 2);
  }
  const int x1 = from.x() + kBoxWidth / 2, y1 = from.y() + kBoxHeight;
  const int x2 = to.x() + kBoxWidth / 2, y2 = to.y();
  return fmt::format("<path class=\"edge\" marker-end=\"url(#arrow)\" d=\"M{} {}C{} {} {} {} {} {}\"/>", x1, y1, x1,
                     y1 + kGapY / 2, x2, y2 - kGapY / 2, x2, y2 - 2);
}

}  // namespace

std::string html_graph(const RunFacts& run) {
  if (run.steps.empty()) return "";
  const std::map<std::string, Placed> placed = place(run);
  int width = 0, height = 0;
  for (const auto& [id, box] : placed) {
    width = std::max(width, box.x() + kBoxWidth + kDetour);
    height = std::max(height, box.y() + kBoxHeight + kMargin);
  }
  std::string out = fmt::format(
      "<section><h2>Steps</h2><div class=\"card scroll\"><svg role=\"img\" aria-label=\"Graph of the steps\" "
      "width=\"{0}\" "
      "height=\"{1}\" viewBox=\"0 0 {0} {1}\"><defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
      "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"mute\" fill=\"currentColor\" "
      "d=\"M0 0L8 4L0 8z\"/></marker></defs>",
      width, height);
  for (const auto& [id, box] : placed) {
    for (const std::string& need : box.step->needs) {
      if (const auto from = placed.find(need); from != placed.end() && from->second.layer < box.layer) {
        out += edge(from->second, box);
      }
    }
  }
  for (const auto& [id, box] : placed) {
    const auto [state, words] = state_words(run, id);
    out += fmt::format(
        "<g class=\"{}\"><title>{}</title><rect class=\"box\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\"/>"
        "<text x=\"{}\" y=\"{}\">{}</text><text class=\"kind\" x=\"{}\" y=\"{}\">{}</text>"
        "<text class=\"state\" text-anchor=\"end\" x=\"{}\" y=\"{}\">{}</text></g>",
        tone(state), html(id + (box.step->name.empty() ? "" : ", " + box.step->name) + ": " + words), box.x(), box.y(),
        kBoxWidth, kBoxHeight, box.x() + 10, box.y() + 19, html(cut(id, 20)), box.x() + 10, box.y() + 36,
        html(cut(box.step->uses, 14)), box.x() + kBoxWidth - 10, box.y() + 36, html(cut(words, 18)));
  }
  return out + "</svg></div></section>\n";
}

}  // namespace millwright
