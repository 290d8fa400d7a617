#include "orchestrator/engine/earlier_life.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/engine/act.hpp"

namespace millwright {

namespace {

class EarlierLife {
 public:
  EarlierLife(RunContext& run, HostSession& session, std::map<std::string, StepRecord>& steps)
      : run_(run), session_(session), steps_(steps) {}

  void settle() {
    const Result<std::vector<UndoRecord>> records = run_.services.journal->undos(run_.run());
    if (!records) return;
    stop(*records);
    for (const UndoRecord& record : *records) settle(record);
  }

 private:
  bool of_this_host(const UndoRecord& record) const {
    return record.node.value("host", std::string()) == session_.name();
  }
  static Become become_of(const UndoRecord& record) {
    return record.node.value("become", false) ? Become::root : Become::no;
  }

  // The node may still be on its way through a pipeline. Last first, so that nothing more begins while the one that
  // runs is waited for. What comes of it is read when each is settled.
  void stop(const std::vector<UndoRecord>& records) {
    std::map<std::pair<NodeSession*, Become>, std::vector<Command>> claims;
    for (auto record = records.rbegin(); record != records.rend(); ++record) {
      if (record->state != UndoState::pending || !of_this_host(*record)) continue;
      Result<NodeSession*> node = session_.node_at(record->node);
      if (!node) continue;
      Command claim;
      claim.become = become_of(*record);
      claim.script = settle_mark_script(record->remote_dir);
      claims[{*node, claim.become}].push_back(std::move(claim));
    }
    for (const auto& [place, commands] : claims) static_cast<void>(place.first->connection->run_batch(commands));
  }

  bool finished(const UndoRecord& record) const {
    const auto step = steps_.find(record.step.substr(0, record.step.find('[')));
    return step != steps_.end() && step->second.state != "running";
  }

  void settle(const UndoRecord& record) {
    if (!of_this_host(record)) return;
    Result<NodeSession*> node = session_.node_at(record.node);
    if (!node) return;
    session_.inherit_lock(**node, become_of(record));
    // One whose end is on record may be of a step that is not: it was killed in between.
    const bool pending = record.state == UndoState::pending;
    if (!pending && (record.state != UndoState::done || finished(record))) return;
    constexpr Milliseconds patience = std::chrono::minutes(10);
    const SteadyPoint end = run_.services.clock->steady() + patience;
    const Result<ActionMark> mark = Actor(run_, session_).follow(**node, record.remote_dir, become_of(record), end);
    if (!mark) {
      run_.recorder.warn(record.host, record.step,
                         "how '" + record.title + "' ended is not known: " + mark.error().message);
      return;
    }
    using Kind = ActionMark::Kind;
    const bool ran = action_ran(*mark);
    if (pending && (mark->kind == Kind::undone_by_timer || mark->kind == Kind::timer_failed)) {
      run_.recorder.warn(record.host, record.step,
                         fmt::format("{} {} '{}' back by itself, since nobody had come back", record.host,
                                     ran ? "could not take" : "took", record.title));
    }
    // Marked as run, so that a rollback takes it back, whether it got to its end or not.
    const UndoState state = ran ? UndoState::done : UndoState::undone;
    if (pending && !run_.services.journal->set_undo_state(run_.run(), record.seq, state)) return;
    if (ran) note(record, mark->kind == Kind::done);
  }

  // The last action of a unit says whether that has finished; the step itself may not even have been begun here.
  void note(const UndoRecord& record, bool well) {
    if (finished(record) && settled_.count(record.step) == 0) return;
    const Value planned = record.node.value("planned", Value::array());
    const bool last = planned.empty() || planned.back() == record.title;
    const auto step = steps_.find(record.step);
    if (planned.empty()) {  // of an active step: only one that is known to have begun
      if (well && step != steps_.end() && step->second.state == "running") step->second.state = "changed";
      return;
    }
    if (well && last) {
      StepRecord& unit = step == steps_.end() ? steps_[record.step] : step->second;
      unit.host = session_.name();
      unit.step = record.step;
      unit.state = "changed";
      settled_.insert(record.step);
    } else if (settled_.erase(record.step) != 0) {  // begun once more since
      steps_[record.step].state = "running";
    }
  }

  RunContext& run_;
  HostSession& session_;
  std::map<std::string, StepRecord>& steps_;
  std::set<std::string> settled_;
};

}  // namespace

void settle_earlier_life(RunContext& run, HostSession& session) {
  const auto earlier = run.earlier.find(session.name());
  if (earlier == run.earlier.end() || !session.connected()) return;
  EarlierLife(run, session, earlier->second).settle();
}

}  // namespace millwright
