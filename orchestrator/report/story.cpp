#include "orchestrator/report/story.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/report/event_data.hpp"

namespace millwright {
namespace {

constexpr std::size_t kWordWidth = 9;
constexpr std::size_t kWidestHost = 20;
constexpr std::size_t kWidestStep = 16;

}  // namespace

Colour colour_of_word(std::string_view word) {
  if (word == "ok" || word == "pass" || word == "undone") return Colour::green;
  if (word == "changed" || word == "degraded" || word == "ignored") return Colour::yellow;
  if (word == "failed" || word == "fail" || word == "unreachable" || word == "refused") return Colour::red;
  if (word == "running") return Colour::cyan;
  if (word == "skipped" || word == "cancelled") return Colour::dim;
  return Colour::plain;
}

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

// A container is "gpu1/llm" in the events; where there is only one host, "llm" says it all.
std::string Story::host_shown(const std::string& host) const {
  const std::size_t slash = host.find('/');
  if (hosts_.size() == 1 && slash != std::string::npos && slash + 1 < host.size()) return host.substr(slash + 1);
  return host.empty() ? "-" : host;
}

std::string Story::called(const std::string& step) const {
  const auto found = names_.find(step);
  return found == names_.end() ? "" : found->second + " · ";
}

// With the inventory that the run was given: the journal keeps no secrets, so going back may need it.
std::string Story::command_for(const char* verb, const std::string& run) const {
  std::string out = fmt::format("millwright {} {}", verb, run);
  for (const std::string& source : inventory_) out += " -i " + shell_quote(source);
  return out;
}

std::vector<std::string> Story::tell(const Event& event) {
  std::vector<std::string> out;
  const bool undoing = event.type == EventType::undo_started || event.type == EventType::undo_finished;
  const bool same = event.host == undone_.host && event.step == undone_.step;
  if (!undoing || !same || (event.type == EventType::undo_finished && text_in(event.data, "state") != "undone")) {
    tell_undone(out);
  }
  switch (event.type) {
    case EventType::run_started:
      started(event, out);
      break;
    case EventType::step_planned:
      planned(event, out);
      break;
    case EventType::step_finished:
      step_finished(event, out);
      break;
    case EventType::probe_finished:
      probe(event, out);
      break;
    case EventType::rollback_started:
    case EventType::undo_started:
    case EventType::undo_finished:
    case EventType::rollback_finished:
    case EventType::verified_after_rollback:
      rollback(event, out);
      break;
    case EventType::step_started:
    case EventType::action_started:
    case EventType::step_progress:
      works_on(event, out);
      break;
    case EventType::run_finished:
      finished(event, out);
      break;
    default:
      remark(event, out);
      break;
  }
  return out;
}

// What runs now.
void Story::works_on(const Event& event, std::vector<std::string>& out) {
  const Value& data = event.data;
  Running& now = running_[{event.host, event.step}];
  if (event.type == EventType::step_started) {
    now = {event.time, "", {}};
    if (many()) ++counts_[event.step].running;
  } else if (event.type == EventType::action_started) {
    now.text = text_in(data, "title");
    now.fraction.reset();
    if (options_.verbose >= 1 && !plan_) {
      add_row({host_shown(event.host), event.step, "action", text_in(data, "title"), "", Colour::dim}, out);
    }
  } else {
    now.text = text_in(data, "text");
    now.fraction = number_in(data, "fraction");
  }
}

// What is said beside the steps' ends, some of it only when asked for.
void Story::remark(const Event& event, std::vector<std::string>& out) {
  const Value& data = event.data;
  const auto row = [&](const std::string& word, const std::string& text, Colour which) {
    add_row({host_shown(event.host), event.step, word, text, "", which}, out);
  };
  const auto attempt = [&](const char* word, const char* text, Colour which) {
    row(fmt::format("{} {}", word, integer_in(data, "attempt")), text_in(data, text), which);
  };
  switch (event.type) {
    case EventType::host_connected:
      if (options_.verbose >= 1) row("connected", text_in(data, "address"), Colour::plain);
      break;
    case EventType::host_unreachable:
      add_row({host_shown(event.host), "", "", "unreachable: " + error_sentence(data, "error"), "", Colour::red}, out);
      error_lines(data.contains("error") ? data["error"] : Value(), {}, out);
      break;
    case EventType::step_output:
      if (options_.verbose < 2) break;
      for (const std::string& line : split_lines(text_in(data, "text"))) row("output", line, Colour::dim);
      break;
    case EventType::evidence_kept:
      if (options_.verbose >= 1) row("kept", text_in(data, "name"), Colour::dim);
      break;
    case EventType::retry:
      attempt("retry", "reason", Colour::yellow);
      break;
    case EventType::remedy:
      attempt("remedy", "title", Colour::cyan);
      break;
    case EventType::warning:
      row("warning", text_in(data, "text"), Colour::yellow);
      break;
    case EventType::interrupted:
      interrupted(event, out);
      break;
    default:
      break;
  }
}

void Story::interrupted(const Event& event, std::vector<std::string>& out) const {
  if (text_in(event.data, "how") == "twice") {
    out.emplace_back("stopping now; what runs is cut off, the journal is whole");
  } else {
    out.emplace_back("interrupted: running actions finish, nothing new starts; once more stops at once");
    out.push_back("go on later with  " + command_for("resume", event.run));
  }
}

void Story::started(const Event& event, std::vector<std::string>& out) {
  const Value& data = event.data;
  run_ = event.run;
  verb_ = text_in(data, "verb");
  looking_ = verb_ == "drift" || verb_ == "verify";
  plan_ = verb_ == "plan" || looking_;
  hosts_ = texts_in(data, "hosts");
  inventory_ = texts_in(data, "inventory");
  steps_.clear();
  names_.clear();
  std::size_t host = 4;
  std::size_t step = 6;
  std::size_t inside = 0;  // of the container steps' ids: about as long as the containers' names
  for (const std::string& name : hosts_) host = std::max(host, width_of(name));
  if (data.contains("steps") && data["steps"].is_array()) {
    for (const Value& entry : data["steps"]) {
      const std::string id = entry.is_object() ? text_in(entry, "id") : "";
      if (id.empty()) continue;
      steps_.push_back(id);
      if (const std::string name = text_in(entry, "name"); !name.empty()) names_[id] = name;
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
  } else if (state == "ignored") {
    ++counts.ignored;
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
    if (number != 0) line += "  " + colour(fmt::format("{} {}", number, word), colour_of_word(word));
  };
  add(counts.ok, "ok");
  add(counts.changed, "changed");
  add(counts.skipped, "skipped");
  add(counts.running, "running");
  add(counts.failed, "failed");
  add(counts.ignored, "ignored");
  add(counts.unreachable, "unreachable");
  add(counts.other, "cancelled");
  return line;
}

void Story::step_finished(const Event& event, std::vector<std::string>& out) {
  running_.erase({event.host, event.step});
  const Value& data = event.data;
  std::string state = text_in(data, "state");
  const bool trouble = state == "failed" || state == "refused" || state == "unreachable";
  const bool judged = data.contains("verdict") && data["verdict"].is_object() && !data["verdict"].empty();
  if (plan_ && not_planned(event, out)) return;
  if (plan_ && !trouble && !(looking_ && judged)) return;
  std::string text = text_in(data, "summary");
  if (judged) {
    const Value& verdict = data["verdict"];
    const std::string kind = text_in(verdict, "kind");
    if (!kind.empty()) state = kind;
    const std::string name = text_in(verdict, "class");
    const std::string sentence = text_in(verdict, "sentence");
    if (!sentence.empty()) text = name.empty() ? sentence : name + ": " + sentence;
  }
  if (text.empty()) text = error_sentence(data, "error");
  // It failed, and the playbook says that this is no matter: neither a failure of the run nor a success.
  if (trouble && data.contains("ignored") && data["ignored"] == true) state = "ignored";
  const bool quiet =
      many() && (state == "ok" || state == "changed" || state == "skipped" || state == "pass" || state == "cancelled");
  if (!quiet) {
    const auto elapsed = Milliseconds(integer_in(data, "milliseconds"));
    const std::string right = elapsed >= std::chrono::seconds(1) ? format_duration(elapsed) : "";
    const Row row{host_shown(event.host), event.step, state, called(event.step) + text, right, colour_of_word(state)};
    add_row(row, out);
    if (data.contains("error")) error_lines(data["error"], row, out);
  }
  if (many()) count(event, state == "ignored" ? state : text_in(data, "state"), out);
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
  add_row({host_shown(event.host), event.step, verdict, text, "", colour_of_word(verdict)}, out);
}

}  // namespace millwright
