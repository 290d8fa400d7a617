// How a run goes back, and how it ends.
#include <fmt/format.h>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/report/event_data.hpp"
#include "orchestrator/report/story.hpp"

namespace millwright {

void Story::rollback(const Event& event, std::vector<std::string>& out) {
  const Value& data = event.data;
  if (event.type == EventType::rollback_started) {
    add_row({host_shown(event.host), event.step, "rollback", text_in(data, "reason"), "", Colour::yellow}, out);
  } else if (event.type == EventType::undo_started) {
    running_[{event.host, event.step}] = {event.time, "undo: " + text_in(data, "title"), {}};
  } else if (event.type == EventType::undo_finished) {
    running_.erase({event.host, event.step});
    const std::string state = text_in(data, "state");
    const std::string error = error_sentence(data, "error");
    if (state == "undone" && options_.verbose == 0) {
      undone_ = {event.host, event.step, text_in(data, "title"), undone_.count + 1};
      return;
    }
    add_row({host_shown(event.host), event.step, state == "irreversible" ? "remains" : state,
             text_in(data, "title") + (error.empty() ? "" : ": " + error), "", colour_of_word(state)},
            out);
  } else if (event.type == EventType::verified_after_rollback) {
    const std::string state = text_in(data, "state");
    add_row({host_shown(event.host), event.step, "after", text_in(data, "what") + ": " + state, "", Colour::plain},
            out);
  } else {
    const std::vector<std::string> remaining = texts_in(data, "remaining");
    if (remaining.empty()) return;
    out.push_back(colour("not as before:", Colour::red));
    for (const std::string& line : remaining) out.push_back("  " + printable(line));
  }
}

// What one step had done is taken back in one line, unless every one is asked for.
void Story::tell_undone(std::vector<std::string>& out) {
  if (undone_.count == 0) return;
  const std::string text = undone_.count == 1 ? undone_.title : fmt::format("{} changes taken back", undone_.count);
  add_row({host_shown(undone_.host), undone_.step, "undone", text, "", colour_of_word("undone")}, out);
  undone_ = {};
}

void Story::finished(const Event& event, std::vector<std::string>& out) {
  running_.clear();
  const Value& data = event.data;
  out.emplace_back();
  const std::int64_t exit_code = integer_in(data, "exit_code");
  if (plan_) {
    plan_sentence(out);
    if ((exit_code != 0 || looking_) && !text_in(data, "sentence").empty()) {
      out.push_back(printable(text_in(data, "sentence")));
    }
    return;
  }
  std::string sentence = text_in(data, "sentence");
  if (sentence == "done" && !text_in(data, "endpoint").empty()) sentence.clear();
  if (!text_in(data, "endpoint").empty() && sentence.find(text_in(data, "endpoint")) == std::string::npos)
    sentence += (sentence.empty() ? "ready: " : " · ready: ") + text_in(data, "endpoint");
  const std::string cured = text_in(data, "cured_by");
  if (!cured.empty() && sentence.find(cured) == std::string::npos) sentence += " · cured by: " + cured;
  for (const std::string& line : wrap_text(sentence, options_.columns))
    if (!line.empty()) out.push_back(colour(line, exit_code == 0 ? Colour::bold : Colour::red));
  const Value counts = data.contains("counts") && data["counts"].is_object() ? data["counts"] : Value::object();
  std::string numbers = fmt::format("{} changed, {} ok, {} failed", integer_in(counts, "changed"),
                                    integer_in(counts, "ok"), integer_in(counts, "failed"));
  if (integer_in(counts, "ignored") != 0)
    numbers += fmt::format(", {} failed and ignored", integer_in(counts, "ignored"));
  if (integer_in(counts, "skipped") != 0) numbers += fmt::format(", {} skipped", integer_in(counts, "skipped"));
  if (integer_in(counts, "unreachable") != 0)
    numbers += fmt::format(", {} unreachable", integer_in(counts, "unreachable"));
  out.push_back(numbers + " in " + format_duration(Milliseconds(integer_in(data, "milliseconds"))));
  std::vector<std::string> next = {"report  millwright show " + event.run};
  if (exit_code == 130) {
    next.push_back("go on   " + command_for("resume", event.run));
  } else if (integer_in(counts, "changed") != 0 && exit_code != 3 && verb_ != "rollback") {
    next.push_back("undo    " + command_for("rollback", event.run));
  }
  const std::string one_line = join(next, "     ");
  if (width_of(one_line) <= options_.columns) next = {one_line};
  out.insert(out.end(), next.begin(), next.end());
}

}  // namespace millwright
