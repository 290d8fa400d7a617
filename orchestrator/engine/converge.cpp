#include "orchestrator/engine/converge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/saved_plan.hpp"

namespace millwright {

namespace {

constexpr int plans_at_most = 4;  // a node whose answers change under this many plans is being changed by someone else

std::string last_lines(const std::string& text) {
  constexpr std::size_t most = 2048;
  return text.size() <= most ? text : text.substr(text.size() - most);
}

Value marks_value(const Marks& marks) {
  Value out = Value::array();
  if (marks.destructive) out.push_back("destructive");
  if (marks.may_drop_connection) out.push_back("may_drop_connection");
  if (marks.needs_reboot) out.push_back("needs_reboot");
  return out;
}

// What a saved plan holds to: the bytes that are placed, or when the file here was last written.
void add_identity(const FilePlacement& file, Value& entry) {
  if (file.content) entry["sha256"] = sha256_hex(redactor().redact(*file.content));
  std::error_code failed;
  const auto written = std::filesystem::last_write_time(file.local_path, failed);
  if (!file.local_path.empty() && !failed) {
    entry["bytes"] = std::filesystem::file_size(file.local_path, failed);
    entry["written"] = written.time_since_epoch().count();
  }
}

enum class Identity { no, yes };

Value actions_value(const Change& change, Identity identity) {
  Value out = Value::array();
  for (const Action& action : change.actions) {
    Value files = Value::array();
    for (const FilePlacement& file : action.files) {
      Value entry = {{"path", file.path}, {"mode", file.mode}};
      if (file.content) entry["bytes"] = file.content->size();
      if (!file.local_path.empty()) entry["from"] = file.local_path;
      if (identity == Identity::yes) add_identity(file, entry);
      files.push_back(std::move(entry));
    }
    out.push_back({{"title", action.title},
                   {"undo_title", action.undo_title},
                   {"reversible", !action.undo.empty()},
                   {"script", action.script},
                   {"undo", action.undo},
                   {"files", std::move(files)},
                   {"marks", marks_value(action.marks)}});
  }
  return out;
}

}  // namespace

Error action_error(const Action& action, const Answer& answer) {
  Error error =
      make_error(ErrorKind::remote_exit, fmt::format("'{}' failed with status {}", action.title, answer.exit_code));
  error.exit_code = answer.exit_code;
  error.detail = last_lines(trim(answer.err).empty() ? answer.out : answer.err);
  return error;
}

Alone::Alone(const RunContext& run, Turns& turns, const std::vector<Action>& actions)
    : turns_(turns), needed_(std::any_of(actions.begin(), actions.end(), [](const Action& action) {
        return action.marks.destructive || action.marks.may_drop_connection;
      })) {
  if (needed_) taken_ = turns_.take_all([&] { return run.stop_starting(); });
}

Alone::~Alone() {
  if (taken_) turns_.give_back();
}

Result<Answers> Converger::ask(const ConvergeRequest& request, ConvergeRequest::First from) {
  NodeSession& node = *request.node;
  if (request.questions.empty() && node.facts(request.become)) return Answers();
  AskTurn turn(node.cache, node.name);
  if (from == ConvergeRequest::First::kept) {
    if (std::optional<Answers> kept = turn.wait_for(request.key)) return std::move(*kept);
  }
  std::optional<Answers> answers;
  const auto send = [&](bool ahead) -> Result<void> {
    AskBatch batch(node);
    batch.add_facts(request.become);
    batch.add(Wanted{request.key, request.questions, request.become});
    if (ahead && request.ahead) {
      for (const Wanted& wanted : request.ahead(Ahead::missing)) batch.add(wanted);
    }
    turn.sending(batch.keys());
    Result<void> sent = batch.send();
    if (sent) answers = batch.answers(request.key);
    return sent;
  };
  const std::uint64_t line = host_.line();
  Result<void> sent = send(true);
  // A slow question of a later step must not fail this one: it is asked alone then.
  if (!sent && sent.error().kind == ErrorKind::timeout && node.connection->alive()) sent = send(false);
  if (!sent && way_is_lost(sent.error(), *node.connection)) {
    constexpr Milliseconds patience = std::chrono::seconds(30);
    if (Result<void> up = host_.reconnect(node, patience, line); !up) return fail(sent.error());
    sent = send(true);
  }
  if (!sent) return fail(wrap(sent.error(), "asking " + node.name));
  return std::move(*answers);
}

void Converger::say_planned(const ConvergeRequest& request, const Change& change, const Answers& answers) {
  const Identity identity = run_.changes_nothing() ? Identity::yes : Identity::no;
  const bool not_asked = change.empty() && change.verification == Verification::exit_status;
  Value data = {{"state", not_asked        ? "unknown"
                          : change.empty() ? "ok"
                                           : "change"},
                {"summary", change.summary},
                {"diff", change.diff},
                {"actions", actions_value(change, identity)}};
  if (run_.changes_nothing()) {
    data["answers"] = Value::object();
    for (const auto& [question, answer] : answers.all()) {
      data["answers"][question] = sha256_hex(std::to_string(answer.exit_code) + "\n" + answer.out);
    }
  }
  if (request.unit->index) data["item"] = *request.unit->index;
  run_.recorder.emit(EventType::step_planned, request.node->name, request.unit->decl->id, std::move(data));
}

Result<ActEnd> Converger::act(const ConvergeRequest& request, Round& round, std::size_t index, const Value& titles) {
  const Change& change = round.change;
  ActRequest act;
  act.node = request.node;
  act.unit = request.unit;
  act.action = &change.actions[index];
  act.index = index;
  act.become = request.become;
  act.deadline = request.deadline;
  act.planned = titles;
  if (round.pipe) {
    Result<ActEnd> end = piped(request, round, act);
    if (!end || end->kind != ActEnd::Kind::locked) return end;
    // Somebody else has the node: that is waited for here, and with nothing behind it.
    round.pipe->drop_rest();
    round.pipe = nullptr;
  }
  // The first action changes the answers, so the later ones of the same change go unguarded.
  if (index == 0 && !act.action->marks.guard_self) {
    act.guard = request.questions;
    act.planned_on = round.answers;
  }
  if (index + 1 == change.actions.size()) {
    act.after.push_back({request.key, request.questions, request.become});
    if (request.ahead) {
      for (Wanted& wanted : request.ahead(Ahead::all)) act.after.push_back(std::move(wanted));
    }
  }
  return actor_.act(act);
}

Result<ActEnd> Converger::piped(const ConvergeRequest& request, Round& round, const ActRequest& act) {
  // One that was sent before may turn out to be stale at once, which is of no interest to anybody.
  constexpr Milliseconds soon = std::chrono::milliseconds(250);
  const bool quiet = round.sent_before;
  return round.pipe->end_of(request.key, act.index, quiet ? soon : Milliseconds(0), [&] {
    if (std::exchange(round.sent_before, false)) say_planned(request, round.change, round.answers);
    actor_.say_started(act);
  });
}

Result<void> Converger::approve(const ConvergeRequest& request, const Change& change) const {
  if (!run_.options.approved) return {};
  return approve_actions(*run_.options.approved, host_.name(), request.node->name, request.unit->decl->id,
                         request.unit->index, redactor().redact_value(actions_value(change, Identity::yes)));
}

Result<Converger::Acted> Converger::act_all(const ConvergeRequest& request, Round& round, Done& done) {
  Value titles = Value::array();
  for (const Action& action : round.change.actions) titles.push_back(action.title);
  for (std::size_t i = 0; i < round.change.actions.size(); ++i) {
    if (i > 0 && run_.stop_now()) return fail(ErrorKind::interrupted, "interrupted between two actions");
    const Action& action = round.change.actions[i];
    Result<ActEnd> end = act(request, round, i, titles);
    if (!end) return fail(end.error());
    done.answers = std::move(end->answers);
    if (end->kind == ActEnd::Kind::stale) return Acted::stale;
    if (end->kind == ActEnd::Kind::failed) {
      run_.recorder.keep(request.node->name, request.unit->decl->id, fmt::format("action-{}.log", i + 1),
                         fmt::format("# {}\n# exit status {}\n# standard output\n{}\n# standard error\n{}\n",
                                     action.title, end->answer.exit_code, end->answer.out, end->answer.err));
      return fail(action_error(action, end->answer));
    }
    done.results.push_back({action.title, std::move(end->answer), end->elapsed});
  }
  return Acted::all;
}

// Together with what may follow it, unless it is a single action that nothing follows.
Result<void> Converger::send_pipe(const ConvergeRequest& request, Round& round) {
  const bool allowed = pipes_ != nullptr && request.followers && run_.options.pipelining == Pipelining::on &&
                       !run_.options.approved &&  // what follows is compared with the saved plan at its own turn
                       !run_.stop_starting() && host_.turns().open();
  if (!allowed || !fits_pipeline(round.change, *request.unit->decl)) return {};
  PipeUnit first;
  first.unit = *request.unit;
  first.questions = request.questions;
  first.answers = round.answers;
  first.change = round.change;
  first.deadline = request.deadline;
  if (request.expect) first.expected = request.expect(round.answers, round.change);
  std::vector<PipeUnit> units;
  const bool lead = first.lets_follow();
  units.push_back(std::move(first));
  if (lead) {
    std::vector<PipeUnit> more = request.followers();
    std::move(more.begin(), more.end(), std::back_inserter(units));
  }
  if (units.size() == 1 && round.change.actions.size() == 1) return {};
  std::vector<Wanted> others;
  for (Wanted& wanted : request.ahead ? request.ahead(Ahead::all) : std::vector<Wanted>()) {
    const auto along = [&](const PipeUnit& unit) { return unit.unit.key() == wanted.key; };
    if (std::none_of(units.begin(), units.end(), along)) others.push_back(std::move(wanted));
  }
  Result<std::shared_ptr<Pipe>> sent = pipes_->send(*request.node, request.become, std::move(units), others);
  if (!sent) return fail(sent.error());
  round.pipe = std::move(*sent);
  return {};
}

Result<Converged> Converger::verify(const ConvergeRequest& request, const Change& change, const Done& acted) {
  const std::vector<ActionResult>& results = acted.results;
  Result<Answers> answers = acted.answers ? Result<Answers>(*acted.answers) : ask(request, ConvergeRequest::First::ask);
  if (!answers) return fail(answers.error());
  Converged done;
  done.changed = true;
  done.change = change;
  done.summary = change.summary;
  if (change.verification == Verification::ask_again) {
    Result<Change> again = request.plan(*answers);
    if (!again) return fail(wrap(again.error(), "asking again after acting"));
    if (!again->empty()) {
      Error error = make_error(ErrorKind::remote_exit,
                               fmt::format("still not as wanted after acting: {}",
                                           again->summary.empty() ? again->actions.front().title : again->summary));
      error.detail = again->diff;
      if (!results.empty() && !trim(results.back().answer.err).empty()) {
        error.detail += "\n" + last_lines(results.back().answer.err);
      }
      error.hint = "every action ended well, so something on the node puts it back, or the wanted state cannot be kept";
      return fail(std::move(error));
    }
    done.outputs = std::move(again->outputs);
  } else {
    done.outputs = change.outputs;
  }
  if (request.outputs) {
    Result<Value> outputs = request.outputs(*answers, results);
    if (!outputs) return fail(wrap(outputs.error(), "reading outputs"));
    done.outputs = std::move(*outputs);
  }
  return done;
}

Result<Converger::Round> Converger::begin(const ConvergeRequest& request, int plans,
                                          const std::optional<Answers>& found) {
  Round round;
  if (pipes_ != nullptr) round.pipe = pipes_->take(request.key, request.deadline);
  if (round.pipe) {
    const PipeUnit& unit = round.pipe->unit(request.key);
    round.answers = unit.answers;
    round.change = unit.change;
    round.sent_before = true;
    return round;
  }
  // What a stale action found comes back in the same round trip.
  Result<Answers> answers =
      found ? Result<Answers>(*found) : ask(request, plans == 0 ? request.first : ConvergeRequest::First::ask);
  if (!answers) return fail(answers.error());
  Result<Change> change = request.plan(*answers);
  if (!change) return fail(change.error());
  round.answers = std::move(*answers);
  round.change = std::move(*change);
  return round;
}

Result<Converged> Converger::nothing_to_do(const ConvergeRequest& request, Round& round) {
  Converged done;
  done.changed = !round.change.empty();
  done.outputs_known = round.change.empty();
  done.summary = round.change.summary;
  done.outputs = round.change.outputs;
  if (round.change.empty() && request.outputs) {
    Result<Value> outputs = request.outputs(round.answers, {});
    if (!outputs) return fail(wrap(outputs.error(), "reading outputs"));
    done.outputs = std::move(*outputs);
  }
  done.change = std::move(round.change);
  return done;
}

Result<Converged> Converger::run(const ConvergeRequest& request) {
  Done acted;
  const bool planning = run_.options.mode == Mode::plan;
  for (int plans = 0; plans < plans_at_most;) {
    Result<Round> round = begin(request, plans, acted.answers);
    if (!round) return fail(round.error());
    const Change change = round->change;
    // That it was planned before the ones before it had acted is no sign of somebody else.
    if (!round->sent_before) ++plans;
    if (!planning && !change.empty()) {
      if (Result<void> approved = approve(request, change); !approved) return fail(approved.error());
    }
    if (planning || (!change.empty() && !round->sent_before)) say_planned(request, change, round->answers);
    acted = Done();
    if (change.empty() && round->pipe && !round->pipe->same_answers(request.key)) {
      round->pipe->drop_rest();
      continue;
    }
    if (change.empty() || planning) return nothing_to_do(request, *round);
    const Alone alone(run_, host_.turns(), change.actions);
    if (!alone.granted()) return fail(ErrorKind::interrupted, "interrupted while waiting for the other steps to end");
    if (!round->pipe) {
      if (Result<void> sent = send_pipe(request, *round); !sent) return fail(sent.error());
    }
    const Result<Acted> end = act_all(request, *round, acted);
    if (!end) return fail(end.error());
    if (*end == Acted::all) return verify(request, change, acted);
    if (round->pipe) round->pipe->drop_rest();
  }
  return fail(make_error(ErrorKind::stale, fmt::format("{}: the answers changed under {} plans in a row",
                                                       request.node->name, plans_at_most))
                  .with_hint("somebody else is changing this node; nothing was done by this step"));
}

}  // namespace millwright
