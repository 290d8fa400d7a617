#include "orchestrator/report/run_facts.hpp"

#include <algorithm>

#include "orchestrator/base/text.hpp"
#include "orchestrator/report/event_data.hpp"

namespace millwright {
namespace {

constexpr std::size_t kMaxOutput = 256u << 10;  // of one command; more is cut in the middle of nowhere and said so

const Value& member(const Value& object, const char* key) {
  static const Value nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

class Gatherer {
 public:
  Gatherer(RunFacts& run, const Redactor& secrets) : run_(run), secrets_(secrets) {}

  void take(const Event& event) {
    if (!begun_) {
      begun_ = true;
      start_ = event.time;
      run_.started = iso_utc(event.time);
      run_.id = event.run;
    }
    at_ = std::chrono::duration_cast<Milliseconds>(event.time - start_).count();
    event_ = &event;
    data_ = secrets_.redact_value(event.data);
    dispatch(event.type);
  }

 private:
  void dispatch(EventType type) {
    switch (type) {
      case EventType::run_started:
        return run_started();
      case EventType::host_unreachable:
        return tell("unreachable", error_sentence(data_, "error"));
      case EventType::step_started:
        open_[key()] = at_;
        return;
      case EventType::step_planned:
        return planned();
      case EventType::action_started:
        return action_started();
      case EventType::action_finished:
        return action_finished();
      case EventType::step_output:
        return output();
      case EventType::step_finished:
        return step_finished();
      case EventType::probe_finished:
        return probe();
      case EventType::retry:
        return tell("retry", text_in(data_, "reason"));
      case EventType::remedy:
        last_remedy_ = text_in(data_, "title");
        return tell("remedy", last_remedy_);
      case EventType::remedy_result:
        if (member(data_, "cured") == Value(true)) tell("cured", "by " + last_remedy_);
        return;
      case EventType::rollback_started:
        return tell("rollback", text_in(data_, "reason"));
      case EventType::undo_finished:
        return undone();
      case EventType::rollback_finished:
        for (const std::string& what : texts_in(data_, "remaining")) run_.remaining.push_back(what);
        return;
      case EventType::verified_after_rollback:
        return tell(text_in(data_, "state"), text_in(data_, "what") + " after the rollback");
      case EventType::warning:
        return tell("warning", text_in(data_, "text"));
      case EventType::interrupted:
        return tell("interrupted", text_in(data_, "how"));
      case EventType::run_finished:
        return run_finished();
      default:
        return;
    }
  }

  std::pair<std::string, std::string> key() const { return {event_->host, event_->step}; }

  void tell(std::string word, std::string text, std::string more = {}, std::int64_t took = 0) {
    run_.story.push_back({at_, event_->host, event_->step, std::move(word), std::move(text), std::move(more), took});
  }

  void run_started() {
    if (run_.exit_code) run_.before.push_back({run_.verb, run_.sentence, *run_.exit_code});
    run_.exit_code.reset();
    run_.sentence.clear();
    run_.steps.clear();
    run_.playbook = text_in(data_, "playbook");
    run_.verb = text_in(data_, "verb");
    run_.hosts = texts_in(data_, "hosts");
    const Value& steps = member(data_, "steps");
    if (!steps.is_array()) return;
    for (const Value& step : steps) {
      run_.steps.push_back(
          {text_in(step, "id"), text_in(step, "name"), text_in(step, "uses"), text_in(step, "in"), needs_of(step)});
    }
  }

  static std::vector<std::string> needs_of(const Value& step) {
    std::vector<std::string> out;
    const Value& needs = member(step, "needs");
    if (!needs.is_array()) return out;
    for (const Value& need : needs) out.push_back(need.is_string() ? need.get<std::string>() : text_in(need, "step"));
    return out;
  }

  void planned() {
    if (const std::string diff = text_in(data_, "diff"); !diff.empty()) {
      run_.diffs.emplace_back(event_->host + " " + event_->step, diff);
    }
    std::vector<CommandFacts>& planned = planned_[key()];
    planned.clear();
    const Value& actions = member(data_, "actions");
    if (!actions.is_array()) return;
    for (const Value& action : actions) {
      CommandFacts command;
      command.title = text_in(action, "title");
      command.undo_title = text_in(action, "undo_title");
      command.script = text_in(action, "script");
      planned.push_back(std::move(command));
    }
  }

  void action_started() {
    CommandFacts command;
    const auto index = static_cast<std::size_t>(std::max<std::int64_t>(0, integer_in(data_, "index")));
    const auto planned = planned_.find(key());
    if (planned != planned_.end() && index < planned->second.size()) command = planned->second[index];
    command.host = event_->host;
    command.step = event_->step;
    command.title = text_in(data_, "title");
    command.undo_title = text_in(data_, "undo_title");
    command.started = true;
    current_[key()] = run_.commands.size();
    run_.commands.push_back(std::move(command));
  }

  void action_finished() {
    const auto current = current_.find(key());
    if (current == current_.end()) return;
    CommandFacts& command = run_.commands[current->second];
    command.exit_code = integer_in(data_, "exit_code");
    command.took_ms = integer_in(data_, "milliseconds");
  }

  void output() {
    std::string text = text_in(data_, "text");
    if (!text.empty() && text.back() != '\n') text += '\n';
    auto current = current_.find(key());
    if (current == current_.end()) {
      CommandFacts command;
      command.host = event_->host;
      command.step = event_->step;
      command.title = "output";
      current = current_.emplace(key(), run_.commands.size()).first;
      run_.commands.push_back(std::move(command));
    }
    std::string& all = run_.commands[current->second].output;
    if (all.size() < kMaxOutput) all += text;
    if (all.size() >= kMaxOutput) {
      all.resize(kMaxOutput);
      all += "\n[more was printed]\n";
    }
  }

  void step_finished() {
    const Value& verdict = member(data_, "verdict");
    const Value& error = member(data_, "error");
    std::string state = text_in(data_, "state");
    std::string text = text_in(data_, "summary");
    const std::string verdict_kind = text_in(verdict, "kind");
    if (verdict.is_object() && !verdict_kind.empty()) {
      const std::string symptom = text_in(verdict, "class");
      text = symptom.empty() ? text_in(verdict, "sentence") : symptom + ": " + text_in(verdict, "sentence");
      close_test(verdict);
      if (verdict_kind != "pass") state = verdict_kind;
    }
    if (member(data_, "ignored") == Value(true)) state = "ignored";
    std::string more;
    if (error.is_object()) {
      if (text.empty()) text = text_in(error, "message");
      for (const char* part : {"message", "hint", "detail"}) {
        if (const std::string line = text_in(error, part); !line.empty() && line != text) more += line + "\n";
      }
    }
    StepSpan span;
    span.host = event_->host;
    span.step = event_->step;
    span.state = state;
    span.summary = text;
    span.took_ms = integer_in(data_, "milliseconds");
    const auto opened = open_.find(key());
    span.to_ms = at_;
    span.from_ms = opened != open_.end() ? opened->second : std::max<std::int64_t>(0, at_ - span.took_ms);
    run_.spans.push_back(span);
    tell(state, text, more, span.took_ms);
    open_.erase(key());
    current_.erase(key());
  }

  void probe() {
    ProbeFacts probe;
    probe.name = text_in(data_, "name");
    probe.verdict = text_in(data_, "verdict");
    probe.symptom_class = text_in(data_, "class");
    probe.summary = text_in(data_, "summary");
    probe.took_ms = static_cast<std::int64_t>(number_in(data_, "seconds").value_or(0) * 1000);
    const std::string got = text_in(data_, "got");
    if (!got.empty()) {
      probe.exchanges.push_back({text_in(data_, "asked"), text_in(data_, "expected"), got, probe.symptom_class,
                                 text_in(data_, "evidence"), probe.verdict == "pass"});
    }
    if (!probe.name.empty()) probes_[key()].push_back(std::move(probe));
  }

  // The step's own report says more than the single events; either is enough.
  void close_test(const Value& verdict) {
    TestFacts test;
    test.host = event_->host;
    test.step = event_->step;
    test.verdict = text_in(verdict, "kind");
    test.symptom_class = text_in(verdict, "class");
    test.sentence = text_in(verdict, "sentence");
    const Value& report = member(member(data_, "outputs"), "report");
    test.probes = reported_probes(report);
    if (test.probes.empty()) test.probes = probes_[key()];
    probes_.erase(key());
    const Value& server = member(report, "server");
    for (const char* part : {"engine", "version", "model"}) {
      const std::string text = text_in(server, part);
      if (!text.empty()) test.server += (test.server.empty() ? "" : " ") + text;
    }
    run_.tests.push_back(std::move(test));
  }

  static std::vector<ProbeFacts> reported_probes(const Value& report) {
    std::vector<ProbeFacts> out;
    const Value& probes = member(report, "probes");
    if (!probes.is_array()) return out;
    for (const Value& given : probes) {
      ProbeFacts probe;
      probe.name = text_in(given, member(given, "title").is_string() ? "title" : "name");
      probe.verdict = text_in(given, "verdict");
      probe.symptom_class = text_in(given, "class");
      probe.summary = text_in(given, "summary");
      probe.took_ms = static_cast<std::int64_t>(number_in(given, "seconds").value_or(0) * 1000);
      probe.notes = texts_in(given, "notes");
      const Value& exchanges = member(given, "exchanges");
      for (const Value& exchange : exchanges.is_array() ? exchanges : Value::array()) {
        probe.exchanges.push_back({text_in(exchange, "asked"), text_in(exchange, "expected"), text_in(exchange, "got"),
                                   text_in(exchange, "class"), text_in(exchange, "evidence"),
                                   member(exchange, "right") != Value(false)});
      }
      out.push_back(std::move(probe));
    }
    return out;
  }

  void undone() {
    UndoFacts undo{event_->host, event_->step, text_in(data_, "title"), text_in(data_, "state"),
                   error_sentence(data_, "error")};
    tell(undo.state, undo.title + (undo.error.empty() ? "" : ": " + undo.error));
    run_.undos.push_back(std::move(undo));
  }

  void run_finished() {
    run_.exit_code = static_cast<int>(integer_in(data_, "exit_code"));
    run_.sentence = text_in(data_, "sentence");
    run_.cured_by = text_in(data_, "cured_by");
    run_.endpoint = text_in(data_, "endpoint");
    run_.took_ms = integer_in(data_, "milliseconds");
    for (const char* state : {"ok", "changed", "failed", "ignored", "skipped", "unreachable"}) {
      run_.counts[state] = integer_in(member(data_, "counts"), state);
    }
  }

  using Key = std::pair<std::string, std::string>;

  RunFacts& run_;
  const Redactor& secrets_;
  bool begun_ = false;
  TimePoint start_;
  std::int64_t at_ = 0;
  const Event* event_ = nullptr;
  Value data_;
  std::string last_remedy_;
  std::map<Key, std::int64_t> open_;
  std::map<Key, std::vector<CommandFacts>> planned_;
  std::map<Key, std::size_t> current_;
  std::map<Key, std::vector<ProbeFacts>> probes_;
};

}  // namespace

std::string RunFacts::name_of(const std::string& step) const {
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const StepFacts& one) { return one.id == step; });
  return found == steps.end() ? "" : found->name;
}

std::string RunFacts::state_of(const std::string& host, const std::string& step) const {
  const auto found = states.find({host, step});
  return found == states.end() ? "" : found->second;
}

namespace {

// What runs in a container of a host counts for the host too.
void index_states(RunFacts& run) {
  for (const StepSpan& span : run.spans) {
    std::size_t end = span.host.size();
    while (end != std::string::npos && end > 0) {
      run.states[{span.host.substr(0, end), span.step}] = span.state;
      end = span.host.rfind('/', end - 1);
    }
  }
}

}  // namespace

RunFacts gather_run(const std::vector<Event>& events, const Redactor& secrets) {
  RunFacts run;
  Gatherer gatherer(run, secrets);
  for (const Event& event : events) gatherer.take(event);
  index_states(run);
  if (run.took_ms == 0 && !run.spans.empty()) {
    for (const StepSpan& span : run.spans) run.took_ms = std::max(run.took_ms, span.to_ms);
  }
  return run;
}

std::pair<std::string, std::string> exit_words(const RunFacts& run) {
  if (!run.exit_code) return {"Not finished", "warning"};
  if (*run.exit_code == 0 && run.verb == "rollback") return {"Taken back", "done"};
  if (*run.exit_code == 0 && !run.cured_by.empty()) return {"Done, after a repair", "done"};
  return exit_words(*run.exit_code);
}

std::pair<std::string, std::string> exit_words(int exit_code) {
  switch (exit_code) {
    case 0:
      return {"Done", "done"};
    case 2:
      return {"Failed, and left as it is", "failed"};
    case 3:
      return {"Failed, and put back as it was", "failed"};
    case 4:
      return {"Some hosts could not be reached", "unreachable"};
    case 5:
      return {"Failed, and could not be put back wholly", "failed"};
    case 6:
      return {"Inconclusive", "inconclusive"};
    case 130:
      return {"Interrupted", "interrupted"};
    default:
      return {"Ended with code " + std::to_string(exit_code), "failed"};
  }
}

}  // namespace millwright
