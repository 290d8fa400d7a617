#include "orchestrator/engine/host_worker.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/engine/earlier_life.hpp"
#include "orchestrator/engine/selection.hpp"

namespace millwright {

HostWorker::HostWorker(RunContext& run, const PlayHost& host, ForkLimit& forks)
    : run_(run), forks_(forks), session_(run, host), runner_(run, session_), remedies_(run, session_, runner_) {}

void HostWorker::finish_others(Progress progress, const std::string& why) {
  for (std::size_t step : run_.order.order()) {
    const Progress now = run_.board.get(session_.name(), step).progress;
    const auto failed = [&](const auto& failure) { return failure.first == step; };
    if (now != Progress::waiting || std::any_of(failures_.begin(), failures_.end(), failed)) continue;
    run_.board.put(session_.name(), step, runner_.leave_out(step, progress, why));
  }
  over_ = true;
}

namespace {

// Unless it is said otherwise, a lock is of the node, as what it stands for (apt, a port, a cache folder) is.
std::string lock_of(const HostSession& session, const StepDecl& decl) {
  return semaphore_name(decl.lock, session.node_name_for(decl).value_or(session.name()));
}

Value failure_evidence(const StepResult& failure) {
  Value out = {{"summary", failure.summary}, {"inputs", failure.inputs}, {"outputs", failure.outputs}};
  if (failure.error) out["error"] = error_value(*failure.error);
  if (failure.verdict) {
    out["verdict"] = {{"kind", to_string(failure.verdict->kind)},
                      {"class", failure.verdict->symptom_class},
                      {"sentence", failure.verdict->sentence}};
  }
  return out;
}

}  // namespace

// A step without handlers of its own falls under those of the nearest step that waits for it: "smoke: roll back" is
// meant for everything that leads to the smoke test.
std::size_t HostWorker::handled_by(std::size_t step) const {
  if (!run_.playbook.steps[step].on_failure.empty()) return step;
  for (std::size_t later : run_.order.dependents(step)) {
    if (!run_.playbook.steps[later].on_failure.empty()) return later;
  }
  return step;
}

bool HostWorker::has_handler(std::size_t step, const StepResult& result) const {
  const bool locked = result.error && result.error->kind == ErrorKind::busy;
  return result.progress == Progress::failed && !run_.playbook.steps[step].ignore_failure && !locked &&
         run_.options.mode == Mode::apply && !run_.playbook.steps[handled_by(step)].on_failure.empty();
}

// Nothing else runs on the host meanwhile: a remedy is one change at a time, and a rollback must not race with actions.
StepResult HostWorker::handle(std::size_t step, StepResult failure) {
  const std::size_t declared_by = handled_by(step);
  const std::vector<HandlerDecl>& handlers = run_.playbook.steps[declared_by].on_failure;
  run_.recorder.keep(session_.host().target.name, run_.playbook.steps[step].id, "failure.json",
                     failure_evidence(failure).dump(2, ' ', false, Value::error_handler_t::replace));
  for (const HandlerDecl& handler : handlers) {
    if (failure.progress != Progress::failed || run_.stop_now()) break;
    if (handler.kind == HandlerKind::remedy) {
      failure = remedies_.cure(step, std::move(failure), handler, declared_by);
      continue;
    }
    if (run_.options.no_rollback || run_.interrupt.load() >= 1) continue;
    run_.board.put(session_.name(), step, failure);
    const RollbackReport report = Rollback(run_, session_, runner_).run(failure.summary);
    rolled_back_ = true;
    end_.remaining = report.remaining;
    finish_others(Progress::cancelled, "the host was rolled back");
  }
  return failure;
}

// Not started: another host took the last place of its lock meanwhile.
void HostWorker::start(std::size_t step) {
  const StepDecl& decl = run_.playbook.steps[step];
  const std::string lock = lock_of(session_, decl);
  if (!lock.empty() && !run_.locks.take(lock, decl.lock.count)) return;
  StepResult running;
  running.progress = Progress::running;
  run_.board.put(session_.name(), step, running);
  Running& here = running_[step];
  here.lock = lock;
  session_.turns().enter();
  here.thread = std::thread([this, step] {
    StepResult result = runner_.run(step, StepRunner::Along::followers);
    session_.turns().leave();
    {
      const Lock guard(mutex_);
      ended_.emplace_back(step, std::move(result));
    }
    run_.board.touch(session_.name());
  });
}

void HostWorker::take_ended() {
  std::vector<std::pair<std::size_t, StepResult>> ended;
  {
    const Lock guard(mutex_);
    ended.swap(ended_);
  }
  for (auto& [step, result] : ended) {
    running_.at(step).thread.join();
    const std::string lock = running_.at(step).lock;
    running_.erase(step);
    session_.say_what_nodes_did();
    if (!lock.empty()) {
      run_.locks.give_back(lock);
      run_.board.touch(session_.name());
    }
    if (has_handler(step, result)) {
      failures_.emplace_back(step, std::move(result));
    } else {
      finish(step, std::move(result));
    }
  }
}

// What is on its way to the node and has not begun there is stopped; what has begun is finished by its step.
void HostWorker::drain() {
  runner_.pipes().stop();
  while (true) {
    const std::uint64_t seen = run_.board.changes();
    take_ended();
    start_sent();
    if (running_.empty()) break;
    wait_for_change(seen);
  }
  runner_.pipes().wait();
}

void HostWorker::start_sent() {
  while (true) {
    const std::set<std::size_t> sent = runner_.pipes().steps_left();
    if (sent.empty()) return;
    std::set<std::size_t> others;
    for (std::size_t step : run_.order.order()) {
      if (sent.count(step) == 0) others.insert(others.end(), step);
    }
    const Board::Next next = run_.board.next(session_.name(), others);
    if (next.kind != Board::Next::Kind::run) return;
    start(next.step);
  }
}

void HostWorker::handle_failures() {
  while (!failures_.empty()) {
    drain();
    auto [step, failure] = std::move(failures_.front());
    failures_.erase(failures_.begin());
    // A remedy for another step may have run this one again.
    if (run_.board.get(session_.name(), step).progress != Progress::running) continue;
    if (!over_) failure = handle(step, std::move(failure));
    finish(step, std::move(failure));
  }
}

void HostWorker::finish(std::size_t step, StepResult result) {
  const Progress progress = result.progress;
  if (progress == Progress::failed) {
    const ErrorKind kind = result.error ? result.error->kind : ErrorKind::internal;
    end_.locked = end_.locked || kind == ErrorKind::busy;
    end_.stale = end_.stale || kind == ErrorKind::stale;
    if (run_.playbook.steps[step].ignore_failure) {
      result.ignored = true;
      result.outputs_known = true;
    }
  }
  if (result.error && !result.ignored && !end_.first_error) end_.first_error = result.error;
  if (result.verdict && result.verdict->kind == VerdictKind::inconclusive) end_.inconclusive = true;
  if (progress == Progress::unreachable && !lost_) {
    lost_ = true;
    run_.recorder.emit(EventType::host_unreachable, session_.name(), "", {{"error", error_value(*result.error)}});
  }
  run_.board.put(session_.name(), step, std::move(result));
}

// Steps for whose `lock` there is no place.
std::set<std::size_t> HostWorker::held_back() const {
  std::set<std::size_t> out;
  for (std::size_t step : run_.order.with_locks()) {
    const StepDecl& decl = run_.playbook.steps[step];
    if (!run_.locks.free(lock_of(session_, decl), decl.lock.count)) out.insert(step);
  }
  return out;
}

// Only a host that waits for others gives its place away.
void HostWorker::wait_for_change(std::uint64_t seen) {
  constexpr Milliseconds look_at_interrupt = std::chrono::milliseconds(200);
  const bool idle = running_.empty();
  if (idle) forks_.leave();
  run_.board.wait(session_.name(), seen, look_at_interrupt);
  if (idle) forks_.enter();
}

// Steps that were not chosen. Those whose outputs are read by chosen ones are asked, never acted on.
void HostWorker::leave_out() {
  for (std::size_t step : run_.order.order()) {
    if (run_.left_out.count(step) == 0) continue;
    StepResult result = runner_.leave_out(step, Progress::skipped, "not chosen");
    result.outputs_known = false;
    if (session_.connected() && !run_.playbook.steps[step].foreach && is_read(run_.playbook, step, run_.left_out)) {
      const Result<std::optional<Change>> now = runner_.plan_now(Unit{step, &run_.playbook.steps[step], {}, {}});
      if (now && *now && (*now)->empty()) {
        result.outputs = (*now)->outputs;
        result.outputs_known = true;
      }
    }
    run_.board.put(session_.name(), step, std::move(result));
  }
}

void HostWorker::steps() {
  // Planning changes nothing, and everything it asks is asked in one go: one after the other reads better.
  const std::size_t most = run_.changes_nothing() ? 1 : static_cast<std::size_t>(run_.options.steps_at_once);
  while (!over_ && !lost_ && !run_.stop_starting()) {
    const std::uint64_t seen = run_.board.changes();
    take_ended();
    handle_failures();
    if (over_ || lost_ || run_.stop_starting()) break;
    start_sent();
    const Board::Next next = run_.board.next(session_.name(), held_back());
    if (next.kind == Board::Next::Kind::cancel) {
      run_.board.put(session_.name(), next.step,
                     runner_.leave_out(next.step, Progress::cancelled, "a step it needs did not succeed"));
    } else if (next.kind == Board::Next::Kind::run && running_.size() < most && session_.turns().open()) {
      start(next.step);
    } else if (next.kind == Board::Next::Kind::finished && running_.empty()) {
      runner_.pipes().wait();
      return;
    } else {
      wait_for_change(seen);
    }
  }
  drain();
  handle_failures();
  if (over_) return;
  finish_others(lost_ ? Progress::unreachable : Progress::cancelled,
                lost_ ? "the host cannot be reached" : "the run was interrupted");
}

HostEnd HostWorker::summarize() {
  HostSummary& summary = end_.summary;
  summary.host = session_.name();
  bool unreachable = false;
  bool cancelled = false;
  bool failed = false;
  for (std::size_t step = 0; step < run_.playbook.steps.size(); ++step) {
    const StepResult result = run_.board.get(session_.name(), step);
    summary.ok += result.progress == Progress::ok ? 1 : 0;
    summary.changed += result.progress == Progress::changed ? 1 : 0;
    summary.failed += result.progress == Progress::failed && !result.ignored ? 1 : 0;
    summary.ignored += result.progress == Progress::failed && result.ignored ? 1 : 0;
    summary.skipped += result.progress == Progress::skipped ? 1 : 0;
    summary.unknown += result.progress == Progress::unknown ? 1 : 0;
    unreachable = unreachable || result.progress == Progress::unreachable;
    cancelled = cancelled || result.progress == Progress::cancelled;
    failed = failed || (result.progress == Progress::failed && !result.ignored);
  }
  summary.state = rolled_back_          ? (end_.remaining.empty() ? "rolled_back" : "rollback_incomplete")
                  : failed              ? "failed"
                  : unreachable         ? "unreachable"
                  : cancelled           ? "cancelled"
                  : summary.changed > 0 ? "changed"
                                        : "ok";
  end_.cured_by = remedies_.cured_by();
  return end_;
}

// A mistake that shows before the first step must not show after an hour of the steps before it. What failed and was
// ignored goes on as ever, and so does a run that had begun.
bool HostWorker::refused() {
  if (run_.options.mode != Mode::apply || !run_.earlier.empty()) return false;
  for (std::size_t step : run_.order.order()) {
    if (run_.left_out.count(step) > 0 || run_.playbook.steps[step].ignore_failure) continue;
    std::optional<StepResult> result = runner_.refuse(step);
    if (!result) continue;
    leave_out();
    finish(step, std::move(*result));
    finish_others(Progress::cancelled,
                  fmt::format("step {} is wrong already: nothing was begun", run_.playbook.steps[step].id));
    return true;
  }
  return false;
}

HostEnd HostWorker::work() {
  if (refused()) return summarize();
  forks_.enter();
  if (!run_.stop_starting()) {
    if (Result<void> up = session_.connect(); !up) {
      end_.first_error = up.error();
      const bool interrupted = up.error().kind == ErrorKind::interrupted;
      finish_others(interrupted ? Progress::cancelled : Progress::unreachable,
                    interrupted ? "the run was interrupted" : "the host cannot be reached");
    }
  }
  leave_out();
  settle_earlier_life(run_, session_);
  steps();
  session_.say_what_nodes_did();
  session_.release_locks();
  forks_.leave();
  return summarize();
}

}  // namespace millwright
