#include "orchestrator/report/story.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/report/event_data.hpp"

namespace millwright {
namespace {

constexpr std::size_t kWordWidth = 9;
constexpr std::size_t kWidestHost = 20;
constexpr std::size_t kWidestStep = 16;

Colour colour_of(std::string_view word) {
  if (word == "ok" || word == "pass" || word == "undone") return Colour::green;
  if (word == "changed" || word == "degraded") return Colour::yellow;
  if (word == "failed" || word == "fail" || word == "unreachable" || word == "refused") return Colour::red;
  if (word == "running") return Colour::cyan;
  if (word == "skipped" || word == "cancelled") return Colour::dim;
  return Colour::plain;
}

}  // namespace

std::string Story::colour(const std::string& text, Colour which) const {
  return options_.paint == Paint::yes ? painted(text, which) : text;
}

std::size_t Story::text_column() const { return host_width_ + 2 + step_width_ + 2 + kWordWidth + 1; }

std::string Story::row_head(const Row& row) const {
  return pad(cut(row.host, host_width_), host_width_) + "  " + pad(cut(row.step, step_width_), step_width_) + "  " +
         colour(pad(row.word, kWordWidth), row.colour) + " ";
}

// The text wraps under itself; what stands on the right keeps its column in the first line.
void Story::add_row(const Row& row, std::vector<std::string>& out) const {
  const std::size_t room = options_.columns > text_column() + 20 ? options_.columns - text_column() : 20;
  const std::size_t overhang = width_of(row.word) > kWordWidth ? width_of(row.word) - kWordWidth : 0;
  const std::size_t right = (row.right.empty() ? 0 : width_of(row.right) + 2) + overhang;
  const std::vector<std::string> lines = wrap_text(row.text, room - std::min(right, room - 10));
  std::string first = row_head(row) + lines.front();
  const std::size_t taken = overhang + width_of(lines.front()) + width_of(row.right);
  if (!row.right.empty()) first += std::string(room > taken ? room - taken : 1, ' ') + row.right;
  while (!first.empty() && first.back() == ' ') first.pop_back();
  out.push_back(std::move(first));
  for (std::size_t i = 1; i < lines.size(); ++i) out.push_back(std::string(text_column(), ' ') + lines[i]);
}

void Story::add_under(const std::string& text, std::vector<std::string>& out) const {
  const std::size_t room = options_.columns > text_column() + 20 ? options_.columns - text_column() : 20;
  for (const std::string& line : wrap_text(text, room)) out.push_back(std::string(text_column(), ' ') + line);
}

// "retry 1", "remedy 2": in the column of the words, under the step that it is about.
void Story::add_tagged(const std::string& word, const std::string& text, Colour which,
                       std::vector<std::string>& out) const {
  add_row({"", "", word, text, "", which}, out);
}

// A container is "gpu1/llm" in the events; where there is only one host, "llm" says it all.
std::string Story::host_shown(const std::string& host) const {
  const std::size_t slash = host.find('/');
  if (hosts_.size() == 1 && slash != std::string::npos && slash + 1 < host.size()) return host.substr(slash + 1);
  return host.empty() ? "-" : host;
}

std::vector<std::string> Story::tell(const Event& event) {
  std::vector<std::string> out;
  const Value& data = event.data;
  const bool undoing = event.type == EventType::undo_started || event.type == EventType::undo_finished;
  const bool same = event.host == undone_.host && event.step == undone_.step;
  if (!undoing || !same || (event.type == EventType::undo_finished && text_in(data, "state") != "undone")) {
    tell_undone(out);
  }
  const auto row = [&](const std::string& word, const std::string& text, Colour which) {
    add_row({host_shown(event.host), event.step, word, text, "", which}, out);
  };
  switch (event.type) {
    case EventType::run_started:
      started(event, out);
      break;
    case EventType::host_connected:
      if (options_.verbose >= 1) row("connected", text_in(data, "address"), Colour::plain);
      break;
    case EventType::host_unreachable:
      add_row({host_shown(event.host), "", "", "unreachable: " + error_sentence(data, "error"), "", Colour::red}, out);
      error_lines(data.contains("error") ? data["error"] : Value(), {}, out);
      break;
    case EventType::step_started:
      running_[{event.host, event.step}] = {event.time, "", {}};
      if (many()) ++counts_[event.step].running;
      break;
    case EventType::step_planned:
      planned(event, out);
      break;
    case EventType::action_started:
      running_[{event.host, event.step}].text = text_in(data, "title");
      running_[{event.host, event.step}].fraction.reset();
      if (options_.verbose >= 1 && !plan_) row("action", text_in(data, "title"), Colour::dim);
      break;
    case EventType::action_finished:
      break;
    case EventType::step_progress: {
      Running& now = running_[{event.host, event.step}];
      now.text = text_in(data, "text");
      now.fraction = number_in(data, "fraction");
      break;
    }
    case EventType::step_output:
      if (options_.verbose >= 2) {
        for (const std::string& line : split_lines(text_in(data, "text"))) row("output", line, Colour::dim);
      }
      break;
    case EventType::step_finished:
      step_finished(event, out);
      break;
    case EventType::probe_finished:
      probe(event, out);
      break;
    case EventType::evidence_kept:
      if (options_.verbose >= 1) row("kept", text_in(data, "name"), Colour::dim);
      break;
    case EventType::retry:
      add_tagged(fmt::format("retry {}", integer_in(data, "attempt")), text_in(data, "reason"), Colour::yellow, out);
      break;
    case EventType::remedy:
      add_tagged(fmt::format("remedy {}", integer_in(data, "attempt")), text_in(data, "title"), Colour::cyan, out);
      break;
    case EventType::remedy_result:
      break;
    case EventType::rollback_started:
    case EventType::undo_started:
    case EventType::undo_finished:
    case EventType::rollback_finished:
    case EventType::verified_after_rollback:
      rollback(event, out);
      break;
    case EventType::warning:
      row("warning", text_in(data, "text"), Colour::yellow);
      break;
    case EventType::interrupted:
      if (text_in(data, "how") == "twice") {
        out.emplace_back("stopping now; what runs is cut off, the journal is whole");
      } else {
        out.emplace_back("interrupted: running actions finish, nothing new starts; once more stops at once");
        out.push_back("go on later with  millwright resume " + event.run);
      }
      break;
    case EventType::run_finished:
      finished(event, out);
      break;
  }
  return out;
}

void Story::started(const Event& event, std::vector<std::string>& out) {
  const Value& data = event.data;
  run_ = event.run;
  verb_ = text_in(data, "verb");
  plan_ = verb_ == "plan";
  hosts_ = texts_in(data, "hosts");
  steps_.clear();
  std::size_t host = 4;
  std::size_t step = 6;
  std::size_t inside = 0;  // of the container steps' ids: about as long as the containers' names
  for (const std::string& name : hosts_) host = std::max(host, width_of(name));
  if (data.contains("steps") && data["steps"].is_array()) {
    for (const Value& entry : data["steps"]) {
      const std::string id = entry.is_object() ? text_in(entry, "id") : "";
      if (id.empty()) continue;
      steps_.push_back(id);
      step = std::max(step, width_of(id));
      inside = std::max(inside, width_of(text_in(entry, "in")));
    }
  }
  if (inside != 0) host = hosts_.size() == 1 ? std::max(host, inside) : host + 1 + inside;
  host_width_ = std::min(host, kWidestHost);
  step_width_ = std::min(step, kWidestStep);
  std::string head = fmt::format("{} on {} host{}, {} step{}", text_in(data, "playbook"), hosts_.size(),
                                 hosts_.size() == 1 ? "" : "s", steps_.size(), steps_.size() == 1 ? "" : "s");
  if (!verb_.empty() && verb_ != "apply") head = verb_ + " " + head;
  if (!plan_) head += " · run " + event.run;
  for (const std::string& line : wrap_text(head, options_.columns)) out.push_back(line);
  out.emplace_back();
}

void Story::count(const Event& event, const std::string& state, std::vector<std::string>& out) {
  Counts& counts = counts_[event.step];
  if (counts.running > 0) --counts.running;
  if (state == "ok") {
    ++counts.ok;
  } else if (state == "changed") {
    ++counts.changed;
  } else if (state == "skipped") {
    ++counts.skipped;
  } else if (state == "unreachable") {
    ++counts.unreachable;
  } else if (state == "failed" || state == "refused") {
    ++counts.failed;
  } else {
    ++counts.other;
  }
  if (counts.finished() == static_cast<int>(hosts_.size())) out.push_back(counts_line(event.step, counts));
}

std::string Story::counts_line(const std::string& step, const Counts& counts) const {
  std::string line = pad(cut(step, step_width_), step_width_);
  const auto add = [&](int number, const char* word) {
    if (number != 0) line += "  " + colour(fmt::format("{} {}", number, word), colour_of(word));
  };
  add(counts.ok, "ok");
  add(counts.changed, "changed");
  add(counts.skipped, "skipped");
  add(counts.running, "running");
  add(counts.failed, "failed");
  add(counts.unreachable, "unreachable");
  add(counts.other, "cancelled");
  return line;
}

void Story::step_finished(const Event& event, std::vector<std::string>& out) {
  running_.erase({event.host, event.step});
  const Value& data = event.data;
  std::string state = text_in(data, "state");
  const bool trouble = state == "failed" || state == "refused" || state == "unreachable";
  if (plan_ && !trouble) return;
  std::string text = text_in(data, "summary");
  if (data.contains("verdict") && data["verdict"].is_object() && !data["verdict"].empty()) {
    const Value& verdict = data["verdict"];
    const std::string kind = text_in(verdict, "kind");
    if (!kind.empty()) state = kind;
    const std::string name = text_in(verdict, "class");
    const std::string sentence = text_in(verdict, "sentence");
    if (!sentence.empty()) text = name.empty() ? sentence : name + ": " + sentence;
  }
  if (text.empty()) text = error_sentence(data, "error");
  const bool quiet =
      many() && (state == "ok" || state == "changed" || state == "skipped" || state == "pass" || state == "cancelled");
  if (!quiet) {
    const auto elapsed = Milliseconds(integer_in(data, "milliseconds"));
    const std::string right = elapsed >= std::chrono::seconds(1) ? format_duration(elapsed) : "";
    const Row row{host_shown(event.host), event.step, state, text, right, colour_of(state)};
    add_row(row, out);
    if (data.contains("error")) error_lines(data["error"], row, out);
  }
  if (many()) count(event, text_in(data, "state"), out);
}

// What the row does not say yet: the message when the row shows a summary, what to do, the end of the output.
void Story::error_lines(const Value& error, const Row& under, std::vector<std::string>& out) const {
  if (!error.is_object()) return;
  const std::string message = text_in(error, "message");
  if (!message.empty() && !under.text.empty() && under.text.find(message) == std::string::npos) add_under(message, out);
  if (!text_in(error, "where").empty()) add_under(text_in(error, "where"), out);
  const std::vector<std::string> lines = split_lines(text_in(error, "detail"));
  constexpr std::size_t shown = 5;
  const std::size_t from = options_.verbose > 0 || lines.size() <= shown ? 0 : lines.size() - shown;
  for (std::size_t i = from; i < lines.size(); ++i) add_under("| " + lines[i], out);
  if (!text_in(error, "hint").empty()) add_under(text_in(error, "hint"), out);
}

void Story::probe(const Event& event, std::vector<std::string>& out) {
  const Value& data = event.data;
  const std::string verdict = text_in(data, "verdict");
  if ((verdict == "pass" || verdict == "skipped") && options_.verbose == 0) return;
  std::string text = text_in(data, "name");
  if (!text_in(data, "class").empty()) text += ": " + text_in(data, "class");
  if (!text_in(data, "got").empty()) text += " · got " + cut(printable(text_in(data, "got")), 60);
  add_row({host_shown(event.host), event.step, verdict, text, "", colour_of(verdict)}, out);
}

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
             text_in(data, "title") + (error.empty() ? "" : ": " + error), "", colour_of(state)},
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
  add_row({host_shown(undone_.host), undone_.step, "undone", text, "", colour_of("undone")}, out);
  undone_ = {};
}

void Story::finished(const Event& event, std::vector<std::string>& out) {
  running_.clear();
  const Value& data = event.data;
  out.emplace_back();
  const std::int64_t exit_code = integer_in(data, "exit_code");
  if (plan_) {
    plan_sentence(out);
    if (exit_code != 0 && !text_in(data, "sentence").empty()) out.push_back(printable(text_in(data, "sentence")));
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
  if (integer_in(counts, "skipped") != 0) numbers += fmt::format(", {} skipped", integer_in(counts, "skipped"));
  if (integer_in(counts, "unreachable") != 0)
    numbers += fmt::format(", {} unreachable", integer_in(counts, "unreachable"));
  out.push_back(numbers + " in " + format_duration(Milliseconds(integer_in(data, "milliseconds"))));
  std::vector<std::string> next = {"report  millwright show " + event.run};
  if (exit_code == 130) {
    next.push_back("go on   millwright resume " + event.run);
  } else if (integer_in(counts, "changed") != 0 && exit_code != 3 && verb_ != "rollback") {
    next.push_back("undo    millwright rollback " + event.run);
  }
  const std::string one_line = join(next, "     ");
  if (width_of(one_line) <= options_.columns) next = {one_line};
  out.insert(out.end(), next.begin(), next.end());
}

}  // namespace millwright
