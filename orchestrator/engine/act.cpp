#include "orchestrator/engine/act.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/shell.hpp"
#include "orchestrator/engine/node_lock.hpp"
#include "orchestrator/engine/node_pointer.hpp"
#include "orchestrator/engine/output_lines.hpp"
#include "orchestrator/journal/process_identity.hpp"

namespace millwright {

namespace {

constexpr Milliseconds around = std::chrono::seconds(60);            // for guard, undo and marks, beside the action
constexpr Milliseconds reconnect_for = std::chrono::seconds(60);     // when the line breaks without being announced
constexpr Milliseconds dead_man_grace = std::chrono::seconds(10);    // beyond the action's own deadline
constexpr Milliseconds look_again = std::chrono::milliseconds(300);  // while an action that lost its line still runs

Milliseconds left_until(SteadyPoint end, const Clock& clock) {
  return std::max(std::chrono::duration_cast<Milliseconds>(end - clock.steady()), Milliseconds(1));
}

std::string file_name(const std::string& step) {
  std::string out;
  for (char c : step) out += c == '/' || c == ' ' ? '_' : c;
  return out;
}

std::string tail(const std::string& text) {
  constexpr std::size_t most = 2048;
  return text.size() <= most ? text : text.substr(text.size() - most);
}

}  // namespace

UndoRecord Actor::undo_of(const ActRequest& request, const ActionScript& script) const {
  UndoRecord undo;
  undo.host = request.node->name;
  undo.node = request.node->address;
  undo.node["become"] = request.become == Become::root;
  undo.node["planned"] = redactor().redact_value(request.planned);
  if (request.action->marks.refreshes) undo.node["refreshes"] = true;
  undo.step = request.unit->key();
  undo.title = redactor().redact(request.action->title);
  undo.undo_title = redactor().redact(request.action->undo_title);
  undo.script = redactor().redact(request.action->undo);
  undo.remote_dir = fmt::format("{}/runs/{}/{{seq}}-{}", script.state_dir, run_.run(), file_name(request.unit->key()));
  return undo;
}

void Actor::number(ActionScript& script, const ActRequest& request, std::uint64_t seq) const {
  script.remote_dir =
      fmt::format("{}/runs/{}/{}-{}", script.state_dir, run_.run(), seq, file_name(request.unit->key()));
  script.meta = Value{{"run", run_.run()},
                      {"seq", seq},
                      {"step", request.unit->key()},
                      {"title", request.action->title},
                      {"undo_title", request.action->undo_title},
                      {"node", request.node->address},
                      {"reversible", !request.action->undo.empty()}}
                    .dump(-1, ' ', false, Value::error_handler_t::replace);
}

Command Actor::command_of(const ActRequest& request, const ActionScript& script) const {
  Command act;
  act.script = compose_action(script);
  act.become = request.become;
  Milliseconds beside = around;
  for (const Question& question : request.guard) beside += question.deadline;
  const Milliseconds left = left_until(request.deadline, *run_.services.clock);
  // Where the step has a time of its own, that is meant: a command that never ends is not given minutes more.
  if (left < request.action->deadline) beside = std::min(beside, left + std::chrono::seconds(5));
  act.deadline = std::min(request.action->deadline, left) + beside;
  return act;
}

namespace {

Value about(const ActRequest& request) {
  return {{"index", request.index}, {"title", request.action->title}, {"undo_title", request.action->undo_title}};
}

}  // namespace

void Actor::say_started(const ActRequest& request) const {
  run_.recorder.emit(EventType::action_started, request.node->name, request.unit->decl->id, about(request));
}

void Actor::say_finished(const ActRequest& request, const Result<ActEnd>& end) const {
  Value finished = about(request);
  finished["exit_code"] = end ? end->answer.exit_code : -1;
  finished["milliseconds"] = end ? end->elapsed.count() : 0;
  if (end && end->kind == ActEnd::Kind::stale) finished["stale"] = true;
  run_.recorder.emit(EventType::action_finished, request.node->name, request.unit->decl->id, std::move(finished));
}

Result<ActionScript> Actor::script_of(const ActRequest& request) {
  NodeSession& node = *request.node;
  if (!node.facts(request.become)) {
    AskBatch batch(node);
    batch.add_facts(request.become);
    if (Result<void> sent = batch.send(); !sent) return fail(sent.error());
  }
  ActionScript script;
  script.state_dir = host_.state_dir(node, request.become);
  script.run = run_.run();
  script.holder = node_lock_text(run_);
  script.action = request.action;
  script.guard = request.guard;
  script.planned_on = request.planned_on;
  script.by = describe_this_process();
  script.audit = {{"run", run_.run()},
                  {"step", request.unit->key()},
                  {"action", redactor().redact(request.action->title)},
                  {"undo", redactor().redact(request.action->undo_title)}};
  for (const FilePlacement& file : request.action->files) {
    const bool inside = file.content && fits_inside(*file.content);
    script.files.push_back({&file, inside ? Delivery::inside : Delivery::uploaded});
  }
  if (request.action->marks.may_drop_connection && !request.action->undo.empty()) {
    const std::optional<NodeFacts> facts = node.facts(request.become);
    if (facts && facts->systemd && facts->user_id == "0") {
      script.dead_man =
          std::min(request.action->deadline, left_until(request.deadline, *run_.services.clock)) + dead_man_grace;
    } else {
      run_.recorder.warn(
          node.name, request.unit->decl->id,
          fmt::format("{} on {}: if '{}' cuts the line for good, the node cannot go back by itself",
                      facts && facts->systemd ? "not root" : "no systemd", node.name, request.action->title));
    }
  }
  return script;
}

Result<void> Actor::upload(const ActRequest& request, const ActionScript& script) {
  bool made = false;
  for (std::size_t i = 0; i < script.files.size(); ++i) {
    if (script.files[i].delivery == Delivery::inside) continue;
    const FilePlacement& file = *script.files[i].file;
    Connection& connection = *request.node->connection;
    if (!made) {
      Command command;
      command.become = request.become;
      command.script = "umask 077; mkdir -p " + shell_quote(script.remote_dir + "/files");
      const Result<CommandResult> done = connection.run(command);
      if (!done) return fail(done.error());
      if (done->exit_code != 0) {
        return fail(ErrorKind::transfer,
                    fmt::format("{} cannot take {}: {}", request.node->name, file.path, done->err));
      }
      made = true;
    }
    Upload upload;
    upload.path = fmt::format("{}/files/{}", script.remote_dir, i);
    if (file.content) upload.content = *file.content;
    upload.local_path = file.local_path;
    upload.become = request.become;
    upload.deadline = std::min(upload.deadline, left_until(request.deadline, *run_.services.clock));
    upload.progress = [&](std::uint64_t done, std::uint64_t total) {
      const double fraction = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
      run_.recorder.emit(EventType::step_progress, request.node->name, request.unit->decl->id,
                         {{"text", "copying " + file.path}, {"fraction", fraction}});
    };
    if (Result<void> sent = connection.upload(upload); !sent) return fail(wrap(sent.error(), "copying " + file.path));
  }
  return {};
}

Result<ActionMark> Actor::follow(NodeSession& node, const std::string& remote_dir, Become become, SteadyPoint end) {
  Clock& clock = *run_.services.clock;
  constexpr int unsure_looks = 10;
  int unsure = 0;
  while (true) {
    Command command;
    command.script = settle_mark_script(remote_dir);
    command.become = become;
    command.deadline = std::chrono::seconds(30);
    const std::uint64_t line = host_.line();
    const Result<CommandResult> read = node.connection->run(command);
    if (!read && read.error().kind == ErrorKind::interrupted) return fail(read.error());
    if (read) {
      const ActionMark mark = parse_mark(read->out);
      if (!mark.running && !mark.going_down && (!mark.unsure || ++unsure > unsure_looks)) return mark;
    } else if (Result<void> up = host_.reconnect(node, left_until(end, clock), line); !up) {
      return fail(up.error());
    }
    if (clock.steady() >= end) return fail(ErrorKind::timeout, "the action on " + node.name + " still runs");
    clock.sleep(look_again, [&] { return run_.stop_now(); });
    if (run_.stop_now()) return fail(ErrorKind::interrupted, "interrupted while waiting for an action");
  }
}

Result<ActionMark> Actor::after_loss(const ActRequest& request, const ActionScript& script, const Error& error,
                                     std::uint64_t line) {
  if (error.kind == ErrorKind::interrupted) return fail(error);
  const bool announced = request.action->marks.may_drop_connection;
  if (!announced && !way_is_lost(error, *request.node->connection)) {
    if (error.kind != ErrorKind::timeout) return fail(error);
    // Its time was up and it was killed; how far it got, the node knows.
    return follow(*request.node, script.remote_dir, request.become, run_.services.clock->steady() + around);
  }
  return find_again(request, script, line);
}

// The line broke, or was announced to break: a new login, then the mark. While a dead-man timer runs, it is worth
// waiting for: first for the action's own undo, then for that of what the run did before.
Result<ActionMark> Actor::find_again(const ActRequest& request, const ActionScript& script, std::uint64_t line) {
  Clock& clock = *run_.services.clock;
  const bool announced = request.action->marks.may_drop_connection;
  const Milliseconds patience = announced ? request.action->deadline + around : reconnect_for;
  SteadyPoint end = std::min(clock.steady() + patience, request.deadline);
  if (script.dead_man.count() > 0) end = clock.steady() + 2 * script.dead_man + around;
  if (Result<void> up = host_.reconnect(*request.node, left_until(end, clock), line); !up) {
    return fail(
        wrap(up.error(), fmt::format("finding {} again after '{}'", request.node->name, request.action->title)));
  }
  return follow(*request.node, script.remote_dir, request.become, end);
}

Result<ActionMark> Actor::send(const ActRequest& request, const ActionScript& script, ActEnd& end) {
  Clock& clock = *run_.services.clock;
  OutputLines lines(run_.recorder, request.node->name, request.unit->decl->id);
  Command act = command_of(request, script);
  act.live = [&](OutputStream stream, std::string_view piece) { lines.add(stream, piece); };
  Command mark;
  mark.script = read_mark_script(script.remote_dir);
  mark.become = request.become;
  AskBatch batch(*request.node);
  const std::size_t action_number = batch.add(std::move(act));
  const std::size_t mark_number = batch.add(std::move(mark));
  if (!request.action->marks.may_drop_connection) {
    for (const Wanted& wanted : request.after) batch.add(wanted);
  }
  const Changing changing(host_.cache());
  const std::uint64_t line = host_.line();
  const SteadyPoint begin = clock.steady();
  Result<void> sent = batch.send(changing.ticket());
  lines.finish();
  end.elapsed = std::chrono::duration_cast<Milliseconds>(clock.steady() - begin);
  if (!sent) {
    end.answer.err = sent.error().message + "\n";
    Result<ActionMark> found = after_loss(request, script, sent.error(), line);
    end.elapsed = std::chrono::duration_cast<Milliseconds>(clock.steady() - begin);
    return found;
  }
  const CommandResult& result = batch.result(action_number);
  end.answer = {result.exit_code, result.out, result.err};
  // That this line still holds says nothing of the next login. What was not even begun has no timer either.
  ActionMark found = parse_mark(batch.result(mark_number).out);
  if (script.dead_man.count() > 0 && action_ran(found)) return find_again(request, script, line);
  // A script that cut only its own line, or that was killed by a deadline of its own, may still be at work.
  if (found.running) {
    host_.cache().changed();  // what was asked behind it was asked too early
    return follow(*request.node, script.remote_dir, request.become, request.deadline);
  }
  if (!request.after.empty() && !request.action->marks.may_drop_connection) {
    end.answers = batch.answers(request.after.front().key);
  }
  return found;
}

bool Actor::wait_for_lock(const ActRequest& request, const std::string& held, SteadyPoint give_up) {
  Clock& clock = *run_.services.clock;
  NodeSession& node = *request.node;
  if (holder_is_dead(held)) {
    const auto broken = break_node_lock(node, host_.state_dir(node, request.become), request.become, held);
    if (!broken) return false;
    run_.recorder.warn(node.name, "",
                       "took over the lock of a run that died: " + node_lock_error(node.name, held).message);
    return true;
  }
  if (clock.steady() >= give_up) return false;
  clock.sleep(std::chrono::seconds(1), [&] { return run_.stop_starting(); });
  return !run_.stop_starting();
}

Result<ActEnd> Actor::conclude(const ActRequest& request, const ActionMark& mark, std::uint64_t seq, ActEnd end) {
  using Kind = ActionMark::Kind;
  const std::string& node = request.node->name;
  const bool rebooted = mark.kind == Kind::started && mark.boot != mark.boot_at_start;
  const bool expected = rebooted && request.action->marks.may_drop_connection;
  const bool ran = action_ran(mark);
  Journal& journal = *run_.services.journal;
  if (Result<void> set = journal.set_undo_state(run_.run(), seq, ran ? UndoState::done : UndoState::undone); !set) {
    return fail(set.error());
  }
  switch (mark.kind) {
    case Kind::done:
      end.answer.exit_code = 0;
      return end;
    case Kind::failed:
      end.kind = ActEnd::Kind::failed;
      end.answer.exit_code = mark.status;
      return end;
    case Kind::started:
      end.kind = expected ? ActEnd::Kind::done : ActEnd::Kind::failed;
      end.answer.exit_code = expected ? 0 : 137;
      if (!expected) end.answer.err += rebooted ? "the node rebooted meanwhile\n" : "it was killed before it ended\n";
      return end;
    case Kind::undone:  // the line broke before it arrived, and now it never will: plan again
    case Kind::stale:
      end.kind = ActEnd::Kind::stale;
      return end;
    case Kind::undone_by_timer:
      return fail(ErrorKind::refused, fmt::format("{} took '{}' back by itself: the line was cut for too long", node,
                                                  request.action->title));
    case Kind::timer_failed:
      return fail(ErrorKind::refused,
                  fmt::format("the line to {} was cut for too long, and it could not take '{}' back "
                              "by itself",
                              node, request.action->title));
    case Kind::unprepared:
      return fail(ErrorKind::refused, fmt::format("'{}' was not started on {}: {}: {}", request.action->title, node,
                                                  mark.text, tail(end.answer.err)));
    default: {
      Error error = make_error(ErrorKind::refused, fmt::format("'{}' was not started on {}: {}", request.action->title,
                                                               node, tail(end.answer.err)));
      error.hint =
          "is there space left, and may this user write to " + host_.state_dir(*request.node, request.become) + "?";
      return fail(std::move(error));
    }
  }
}

Result<ActEnd> Actor::act(const ActRequest& request) {
  Clock& clock = *run_.services.clock;
  Result<ActionScript> script = script_of(request);
  if (!script) return fail(script.error());
  if (Result<void> pointed = point_at(host_, *request.node, request.become, run_.run()); !pointed) {
    return fail(pointed.error());
  }
  const SteadyPoint give_up = clock.steady() + run_.options.lock_wait;
  while (true) {
    const Result<std::uint64_t> seq = run_.services.journal->add_undo(run_.run(), undo_of(request, *script));
    if (!seq) return fail(seq.error());
    number(*script, request, *seq);
    say_started(request);
    if (Result<void> sent = upload(request, *script); !sent) {
      static_cast<void>(run_.services.journal->set_undo_state(run_.run(), *seq, UndoState::undone));
      return fail(sent.error());
    }
    ActEnd end;
    const Result<ActionMark> mark = send(request, *script, end);
    if (mark && mark->kind == ActionMark::Kind::locked) {
      if (Result<void> set = run_.services.journal->set_undo_state(run_.run(), *seq, UndoState::undone); !set) {
        return fail(set.error());
      }
      if (wait_for_lock(request, mark->text, give_up)) continue;
      return fail(node_lock_error(request.node->name, mark->text));
    }
    if (!mark) return fail(mark.error());
    request.node->note_lock(request.become);
    Result<ActEnd> concluded = conclude(request, *mark, *seq, std::move(end));
    say_finished(request, concluded);
    return concluded;
  }
}

}  // namespace millwright
