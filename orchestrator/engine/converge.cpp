#include "orchestrator/engine/converge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/text.hpp"

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

Value actions_value(const Change& change) {
  Value out = Value::array();
  for (const Action& action : change.actions) {
    Value files = Value::array();
    for (const FilePlacement& file : action.files) {
      Value entry = {{"path", file.path}, {"mode", file.mode}};
      if (file.content) entry["bytes"] = file.content->size();
      if (!file.local_path.empty()) entry["from"] = file.local_path;
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

void Converger::say_planned(const ConvergeRequest& request, const Change& change) {
  Value data = {{"state", change.empty() ? "ok" : "change"},
                {"summary", change.summary},
                {"diff", change.diff},
                {"actions", actions_value(change)}};
  if (request.unit->index) data["item"] = *request.unit->index;
  run_.recorder.emit(EventType::step_planned, request.node->name, request.unit->decl->id, std::move(data));
}

Result<Converger::Acted> Converger::act_all(const ConvergeRequest& request, const Change& change,
                                            const Answers& answers, Done& done) {
  Value titles = Value::array();
  for (const Action& action : change.actions) titles.push_back(action.title);
  for (std::size_t i = 0; i < change.actions.size(); ++i) {
    if (i > 0 && run_.stop_now()) return fail(ErrorKind::interrupted, "interrupted between two actions");
    const Action& action = change.actions[i];
    ActRequest act;
    act.node = request.node;
    act.unit = request.unit;
    act.action = &action;
    act.index = i;
    act.become = request.become;
    act.deadline = request.deadline;
    act.planned = titles;
    // The first action changes the answers, so the later ones of the same change go unguarded.
    if (i == 0 && !action.marks.guard_self) {
      act.guard = request.questions;
      act.digest = answers.digest();
    }
    if (i + 1 == change.actions.size()) {
      act.after.push_back({request.key, request.questions, request.become});
      if (request.ahead) {
        for (Wanted& wanted : request.ahead(Ahead::all)) act.after.push_back(std::move(wanted));
      }
    }
    Result<ActEnd> end = actor_.act(act);
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

Result<Converged> Converger::run(const ConvergeRequest& request) {
  Done acted;
  for (int plan = 0; plan < plans_at_most; ++plan) {
    // What a stale action found comes back in the same round trip.
    Result<Answers> answers = acted.answers ? Result<Answers>(*acted.answers)
                                            : ask(request, plan == 0 ? request.first : ConvergeRequest::First::ask);
    if (!answers) return fail(answers.error());
    Result<Change> change = request.plan(*answers);
    if (!change) return fail(change.error());
    const bool planning = run_.options.mode == Mode::plan;
    if (planning || !change->empty()) say_planned(request, *change);
    if (change->empty() || planning) {
      Converged done;
      done.changed = !change->empty();
      done.outputs_known = change->empty();
      done.summary = change->summary;
      done.outputs = change->outputs;
      if (change->empty() && request.outputs) {
        Result<Value> outputs = request.outputs(*answers, {});
        if (!outputs) return fail(wrap(outputs.error(), "reading outputs"));
        done.outputs = std::move(*outputs);
      }
      done.change = std::move(*change);
      return done;
    }
    const Alone alone(run_, host_.turns(), change->actions);
    if (!alone.granted()) return fail(ErrorKind::interrupted, "interrupted while waiting for the other steps to end");
    acted = Done();
    const Result<Acted> end = act_all(request, *change, *answers, acted);
    if (!end) return fail(end.error());
    if (*end == Acted::all) return verify(request, *change, acted);
  }
  return fail(make_error(ErrorKind::stale, fmt::format("{}: the answers changed under {} plans in a row",
                                                       request.node->name, plans_at_most))
                  .with_hint("somebody else is changing this node; nothing was done by this step"));
}

}  // namespace millwright
