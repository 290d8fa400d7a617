#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/report/event_data.hpp"
#include "orchestrator/report/story.hpp"

namespace millwright {
namespace {

constexpr std::size_t kIndent = 6;
constexpr std::size_t kUndoColumn = 40;
constexpr std::size_t kMostDiffLines = 200;

Colour diff_colour(const std::string& line) {
  if (starts_with(line, "+")) return Colour::green;
  if (starts_with(line, "-")) return Colour::red;
  return Colour::plain;
}

std::string bar(double fraction) {
  constexpr std::size_t width = 11;
  const auto filled = static_cast<std::size_t>(std::min(1.0, std::max(0.0, fraction)) * static_cast<double>(width));
  std::string inside(filled, '=');
  if (filled < width) inside += '>';
  inside.resize(width, ' ');
  return "[" + inside + "]";
}

}  // namespace

// As in `plan`, and for `apply -D`: the words, each action with its undo, then the lines that change.
void Story::planned(const Event& event, std::vector<std::string>& out) {
  const Value& data = event.data;
  const std::string state = text_in(data, "state");
  if (state == "change") {
    ++plan_counts_.change;
  } else if (state == "ok") {
    ++plan_counts_.ok;
  } else {
    ++plan_counts_.unknown;
  }
  if (!plan_ && !options_.diffs) return;
  if (!plan_ && state != "change") return;
  if (plan_ && (many() || looking_) && state == "ok" && options_.verbose == 0) return;
  if (looking_ && state == "unknown" && options_.verbose == 0) return;
  const std::string words = state == "change" ? (looking_ ? "differs" : "will change")
                            : state == "ok"   ? "as wanted"
                            : looking_        ? "not asked"
                                              : "known when it runs";
  std::string head = pad(cut(host_shown(event.host), host_width_), host_width_) + "  " +
                     pad(cut(event.step, step_width_), step_width_) + "  " +
                     colour(words, state == "change" ? Colour::yellow
                                   : state == "ok"   ? Colour::green
                                                     : Colour::plain);
  const std::string summary = printable(text_in(data, "summary"));
  std::string name = called(event.step);
  if (!summary.empty() && summary != words) {
    head += "  " + printable(name) + summary;
  } else if (!name.empty()) {
    head += "  " + printable(name.substr(0, name.rfind(" · ")));
  }
  out.push_back(options_.paint == Paint::yes ? head : cut(head, std::max<std::size_t>(options_.columns, 40)));
  const std::string indent(kIndent, ' ');
  if (data.contains("actions") && data["actions"].is_array()) {
    for (const Value& action : data["actions"]) {
      if (!action.is_object()) continue;
      const bool reversible = !action.contains("reversible") || action["reversible"] != false;
      if (!reversible) ++plan_counts_.irreversible;
      const Value marks = action.contains("marks") ? action["marks"] : Value();
      const bool reboots = (marks.is_object() && marks.contains("needs_reboot") && marks["needs_reboot"] == true) ||
                           (marks.is_array() && std::find(marks.begin(), marks.end(), "needs_reboot") != marks.end());
      if (reboots) plan_counts_.reboots.insert(event.host);
      const std::string undo = looking_                                ? ""
                               : !reversible                           ? "cannot be taken back"
                               : text_in(action, "undo_title").empty() ? ""
                                                                       : "undo: " + text_in(action, "undo_title");
      std::string line = indent + printable(text_in(action, "title"));
      if (!undo.empty()) {
        const bool beside = width_of(line) + 2 <= kUndoColumn && kUndoColumn + width_of(undo) <= options_.columns;
        if (!beside) {
          for (const std::string& part : wrap_text(line, options_.columns)) out.push_back(part);
          line = indent + "  ";
        } else {
          line = pad(line, kUndoColumn);
        }
        line += colour(printable(undo), reversible ? Colour::dim : Colour::red);
      }
      out.push_back(line);
      if (options_.verbose >= 1) {
        for (const std::string& script_line : split_lines(text_in(action, "script")))
          out.push_back(indent + "  | " + printable(script_line));
      }
    }
  }
  const std::vector<std::string> lines = split_lines(text_in(data, "diff"));
  for (std::size_t i = 0; i < lines.size() && i < kMostDiffLines; ++i)
    out.push_back(indent + "  " + colour(printable(lines[i]), diff_colour(lines[i])));
  if (lines.size() > kMostDiffLines)
    out.push_back(fmt::format("{}  … {} more lines", indent, lines.size() - kMostDiffLines));
}

// Steps of a plan that nothing is known of are told too: why there is no more of them.
bool Story::not_planned(const Event& event, std::vector<std::string>& out) const {
  const std::string state = text_in(event.data, "state");
  if (state != "cancelled" && state != "skipped") return false;
  const bool quiet = (many() || looking_ || text_in(event.data, "summary") == "not chosen") && options_.verbose == 0;
  if (quiet) return true;
  const std::string words = state == "cancelled" ? "not planned" : "skipped";
  std::string line = pad(cut(host_shown(event.host), host_width_), host_width_) + "  " +
                     pad(cut(event.step, step_width_), step_width_) + "  " + colour(words, Colour::dim) + "  " +
                     printable(called(event.step) + text_in(event.data, "summary"));
  out.push_back(options_.paint == Paint::yes ? line : cut(line, std::max<std::size_t>(options_.columns, 40)));
  return true;
}

void Story::plan_sentence(std::vector<std::string>& out) const {
  if (looking_) return;
  std::string line =
      fmt::format("{} host{}: {} to change, {} as wanted, {} known when it runs", hosts_.size(),
                  hosts_.size() == 1 ? "" : "s", plan_counts_.change, plan_counts_.ok, plan_counts_.unknown);
  line += plan_counts_.reboots.empty()
              ? " · no reboot"
              : " · reboots " + join({plan_counts_.reboots.begin(), plan_counts_.reboots.end()}, ", ");
  if (plan_counts_.irreversible != 0) line += fmt::format(" · {} cannot be taken back", plan_counts_.irreversible);
  for (const std::string& part : wrap_text(line, options_.columns)) out.push_back(colour(part, Colour::bold));
}

std::vector<std::string> Story::running(TimePoint now) const {
  std::vector<std::string> out;
  if (many()) {
    for (const std::string& step : steps_) {
      const auto found = counts_.find(step);
      if (found != counts_.end() && found->second.running > 0) out.push_back(counts_line(step, found->second));
    }
    return out;
  }
  for (const auto& [key, state] : running_) {
    const auto elapsed = std::max(Milliseconds(0), std::chrono::duration_cast<Milliseconds>(now - state.since));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(elapsed).count();
    std::string right = seconds == 0   ? ""
                        : seconds < 60 ? fmt::format("{} s", seconds)
                                       : format_duration(std::chrono::seconds(seconds));
    if (state.fraction) right = bar(*state.fraction);
    const std::size_t room = options_.columns > text_column() + 20 ? options_.columns - text_column() : 20;
    const std::size_t for_text = room > width_of(right) + 1 ? room - width_of(right) - 1 : 1;
    const Row row{host_shown(key.first), key.second, "running", "", "", Colour::cyan};
    out.push_back(row_head(row) + pad(cut(printable(called(key.second) + state.text), for_text), for_text) + " " +
                  right);
  }
  return out;
}

}  // namespace millwright
