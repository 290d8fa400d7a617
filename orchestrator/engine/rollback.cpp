#include "orchestrator/engine/rollback.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "orchestrator/base/text.hpp"
#include "orchestrator/journal/process_identity.hpp"

namespace millwright {

namespace {

constexpr Milliseconds reconnect_for = std::chrono::seconds(60);

bool of_host(const UndoRecord& record, const std::string& host) {
  return record.node.is_object() && record.node.value("host", record.host) == host;
}

bool to_be_undone(const UndoRecord& record) {
  return record.state == UndoState::pending || record.state == UndoState::done || record.state == UndoState::refused ||
         record.state == UndoState::failed;
}

std::string step_of(const std::string& key) { return key.substr(0, key.find('[')); }

// The journal holds undo texts without secrets; such a text must not be run.
bool was_redacted(const std::string& script) { return script.find("[secret]") != std::string::npos; }

// What an action is about, by its title: the path in it, or else all but its first word (the verb).
std::string subject_of(const std::string& title) {
  const std::vector<std::string> words = split(title, ' ');
  for (const std::string& word : words) {
    if (starts_with(word, "/") && word.size() > 1) return word;
  }
  return join({words.begin() + 1, words.end()}, " ");
}

}  // namespace

// "Someone else" may be a later run of one's own: its id and playbook, if this journal knows one that acted on the same
// thing there and was not taken back. Empty: none.
std::string Rollback::changed_later_by(const UndoRecord& record) const {
  constexpr std::size_t most = 200;
  Journal& journal = *run_.services.journal;
  const std::string subject = subject_of(record.title);
  const Result<std::optional<RunRecord>> self = journal.find_run(run_.run());
  const Result<std::vector<RunRecord>> runs = journal.runs(most);
  if (!self || !*self || !runs || subject.empty()) return {};
  for (const RunRecord& later : *runs) {
    if (later.started < (*self)->started) break;
    if (later.id == run_.run() || later.verb != "apply") continue;
    const Result<std::vector<UndoRecord>> undos = journal.undos(later.id);
    if (!undos) continue;
    const bool did = std::any_of(undos->begin(), undos->end(), [&](const UndoRecord& other) {
      return other.host == record.host && other.state != UndoState::undone && subject_of(other.title) == subject;
    });
    if (did) return later.id;
  }
  return {};
}

// Last completed first; what never completed (the run was cut off in it) before all others.
std::vector<UndoRecord> Rollback::records() {
  Result<std::vector<UndoRecord>> all = run_.services.journal->undos(run_.run());
  std::vector<UndoRecord> out;
  if (!all) {
    report_.remaining.push_back("the journal cannot be read: " + all.error().message);
    return out;
  }
  for (UndoRecord& record : *all) {
    if (!of_host(record, host_.name())) continue;
    (to_be_undone(record) ? out : undone_before_).push_back(std::move(record));
  }
  std::sort(out.begin(), out.end(), [](const UndoRecord& a, const UndoRecord& b) {
    const bool a_open = a.completed == 0;
    const bool b_open = b.completed == 0;
    if (a_open != b_open) return a_open;
    return a_open ? a.seq > b.seq : a.completed > b.completed;
  });
  return out;
}

void Rollback::settle(const UndoRecord& record, UndoState state, const std::string& why) {
  const bool irreversible = state == UndoState::failed && record.script.empty();
  Value data = {{"seq", record.seq},
                {"title", record.undo_title.empty() ? record.title : record.undo_title},
                {"state", irreversible ? "irreversible" : std::string(to_string(state))}};
  if (!why.empty()) data["error"] = why;
  run_.recorder.emit(EventType::undo_finished, record.host, step_of(record.step), std::move(data));
  if (Result<void> set = run_.services.journal->set_undo_state(run_.run(), record.seq, state); !set) {
    run_.recorder.warn(record.host, step_of(record.step), "the journal could not be written: " + set.error().message);
  }
  if (state == UndoState::undone) {
    ++report_.undone;
    undone_.push_back(record);
  } else {
    std::string text = fmt::format("{}: {}{}", record.host, record.title, why.empty() ? "" : " (" + why + ")");
    if (state == UndoState::refused) {
      const std::string later = changed_later_by(record);
      if (!later.empty()) text += fmt::format("; run {0} changed it since: millwright rollback {0} first", later);
      text += "; rollback --force-undo takes it back all the same";
    }
    left_.push_back({record, std::move(text), undone_.size(), false});
  }
}

Result<NodeSession*> Rollback::reach(const Value& address) {
  const std::uint64_t line = host_.line();
  if (host_.connected() && !host_.base().connection->alive()) {
    if (Result<void> up = host_.reconnect(host_.base(), reconnect_for, line); !up) return fail(up.error());
  }
  return host_.node_at(address);
}

// A line that breaks is found again: half taken back is the worst there is, and a script that was on its way is let
// finish by the next one.
Result<CommandResult> Rollback::run_undo(NodeSession& node, const Command& command, const UndoRecord& record) {
  constexpr int most = 3;
  for (int attempt = 1;; ++attempt) {
    const std::uint64_t line = host_.line();
    Result<CommandResult> done = node.connection->run(command);
    if (done || attempt == most || run_.stop_now() || !way_is_lost(done.error(), *node.connection)) return done;
    if (Result<void> up = host_.reconnect(node, reconnect_for, line); !up) return done;
    run_.recorder.warn(record.host, step_of(record.step),
                       fmt::format("the connection broke while '{}' was taken back; looking again", record.title));
  }
}

void Rollback::undo(const UndoRecord& record) {
  const std::string step = step_of(record.step);
  run_.recorder.emit(EventType::undo_started, record.host, step,
                     {{"seq", record.seq}, {"title", record.undo_title.empty() ? record.title : record.undo_title}});
  const Become become = record.node.value("become", false) ? Become::root : Become::no;
  host_.leave_containers(step);
  Result<NodeSession*> node = reach(record.node);
  if (!node) return settle(record, UndoState::failed, node.error().message);
  const Changing changing(host_.cache());
  host_.inherit_lock(**node, become);
  // One that still runs (its controller was killed, not it) is let finish first: undo must not race with it.
  Actor actor(run_, host_);
  constexpr Milliseconds patience = std::chrono::minutes(10);
  const Result<ActionMark> mark =
      actor.follow(**node, record.remote_dir, become, run_.services.clock->steady() + patience);
  if (!mark) return settle(record, UndoState::failed, mark.error().message);
  using Kind = ActionMark::Kind;
  const bool ran = action_ran(*mark);
  if (mark->kind == Kind::undone_by_timer) {
    run_.recorder.warn(record.host, step, record.host + " had taken '" + record.title + "' back by itself");
  }
  if (!ran && mark->kind == Kind::absent && record.completed != 0) {
    return settle(record, UndoState::failed, "the node has lost " + record.remote_dir);
  }
  if (!ran) return settle(record, UndoState::undone, "");
  if (record.script.empty()) return settle(record, UndoState::failed, "cannot be taken back");
  Command command;
  command.become = become;
  command.deadline = std::chrono::minutes(10);
  command.script = compose_undo(record.remote_dir, was_redacted(record.script) ? "" : record.script,
                                describe_this_process(), run_.options.force_undo ? Force::yes : Force::no);
  const Result<CommandResult> done = run_undo(**node, command, record);
  if (!done) return settle(record, UndoState::failed, done.error().message);
  const std::string said(trim(done->err.empty() ? done->out : done->err));
  if (done->exit_code == 0) return settle(record, UndoState::undone, "");
  if (done->exit_code == kUndoRefused) return settle(record, UndoState::refused, said.empty() ? "refused" : said);
  settle(record, UndoState::failed,
         fmt::format("undo ended with status {}{}", done->exit_code, said.empty() ? "" : ": " + said));
  left_.back().failed = true;
}

// Such an undo may have needed what was taken back after it: a service does not start before its old configuration is
// there again.
void Rollback::try_again_what_failed() {
  for (const Left& left : std::exchange(left_, {})) {
    if (!left.failed || undone_.size() == left.after || run_.stop_now()) {
      left_.push_back(left);
    } else {
      undo(left.record);
    }
  }
}

// What was done inside a container that this rollback has taken away is gone with it.
void Rollback::forget_what_went_with_its_container() {
  const auto gone = [&](const UndoRecord& record) {
    const std::string provider = record.node.value("provided_by", std::string());
    if (provider.empty()) return false;
    const auto by_provider = [&](const auto& other) { return step_of(other.step) == provider; };
    const bool undone = std::any_of(undone_.begin(), undone_.end(), by_provider);
    // What was done in it stands under its step where a controller knows no more of it (node_pointer.cpp).
    const auto within = [&](const UndoRecord& other) {
      return other.node.value("provided_by", std::string()) == provider;
    };
    const bool kept = std::any_of(left_.begin(), left_.end(),
                                  [&](const Left& left) { return by_provider(left.record) && !within(left.record); });
    if (!undone || kept) return false;
    host_.drop_containers(provider);
    Result<NodeSession*> node = host_.node_at(record.node);
    if (!node) return true;
    Command command;
    command.script = "exit 0";
    const Result<CommandResult> alive = (*node)->connection->run(command);
    return !alive || alive->exit_code != 0;
  };
  for (auto it = left_.begin(); it != left_.end();) {
    if (!gone(it->record)) {
      ++it;
      continue;
    }
    if (Result<void> set = run_.services.journal->set_undo_state(run_.run(), it->record.seq, UndoState::undone); set) {
      it = left_.erase(it);
    } else {
      ++it;
    }
  }
}

// Only where another step was taken back later than the one that left something to do: otherwise nothing it reads has
// changed since. What an earlier rollback left is not known here, so the node looks; what it did is not there any more.
void Rollback::run_what_comes_after() {
  std::map<std::pair<std::string, Become>, std::vector<const UndoRecord*>> places;
  for (const UndoRecord& record : undone_before_) {
    if (record.node.contains("container")) continue;  // it may be gone, and what it runs starts with it
    places[{record.host, record.node.value("become", false) ? Become::root : Become::no}].push_back(&record);
  }
  for (auto record = undone_.begin(); record != undone_.end(); ++record) {
    const std::string provider = record->node.value("provided_by", std::string());
    const auto removed = [&](const UndoRecord& other) { return step_of(other.step) == provider; };
    if (!provider.empty() && std::any_of(undone_.begin(), undone_.end(), removed)) continue;
    const auto of_another_step = [&](const UndoRecord& other) { return step_of(other.step) != step_of(record->step); };
    if (std::none_of(record + 1, undone_.end(), of_another_step)) continue;
    places[{record->host, record->node.value("become", false) ? Become::root : Become::no}].push_back(&*record);
  }
  for (const auto& [place, records] : places) {
    Result<NodeSession*> node = reach(records.front()->node);
    Result<CommandResult> done = fail(ErrorKind::connect, place.first + " cannot be reached");
    if (node) {
      std::vector<std::string> folders;
      for (const UndoRecord* record : records) folders.push_back(record->remote_dir);
      Command command;
      command.become = place.second;
      command.deadline = std::chrono::minutes(10);
      command.script = compose_after(folders);
      const Changing changing(host_.cache());
      done = run_undo(**node, command, *records.front());
    }
    if (done && done->exit_code == 0) continue;
    const std::string said(done ? trim(done->err.empty() ? done->out : done->err) : done.error().message);
    report_.remaining.push_back(place.first + ": what uses the files that were put back did not take them up: " + said);
  }
}

// A step whose actions were all taken back must want to do again what it did: the same titles.
void Rollback::ask_again() {
  std::vector<const UndoRecord*> first;  // of each unit: what it planned when it began
  for (const UndoRecord& record : undone_) {
    if (record.completed == 0 || !record.node.contains("planned") || record.node["planned"].empty()) continue;
    if (record.node.value("refreshes", false)) continue;  // with the files back, there is nothing to notice any more
    const auto same =
        std::find_if(first.begin(), first.end(), [&](const UndoRecord* other) { return other->step == record.step; });
    if (same == first.end()) {
      first.push_back(&record);
    } else if (record.seq < (*same)->seq) {
      *same = &record;
    }
  }
  for (const UndoRecord* record : first) {
    const auto partly = [&](const Left& left) { return left.record.step == record->step; };
    if (std::any_of(left_.begin(), left_.end(), partly)) continue;
    const auto position = run_.order.position(step_of(record->step));
    if (!position) continue;
    const Result<std::optional<std::vector<Unit>>> units = units_of(run_, host_.host(), *position);
    if (!units || !*units) continue;
    for (const Unit& unit : **units) {
      if (unit.key() != record->step) continue;
      const Result<std::optional<Change>> change = runner_.plan_now(unit);
      if (!change || !*change || (*change)->verification == Verification::exit_status) continue;
      if ((*change)->empty()) {
        report_.remaining.push_back(
            fmt::format("{}: step {} is still as the run left it: {}", record->host, unit.key(), (*change)->summary));
        continue;
      }
      Value titles = Value::array();
      for (const Action& action : (*change)->actions) titles.push_back(action.title);
      if (titles != record->node["planned"]) {
        run_.recorder.warn(record->host, unit.decl->id, "taken back, but not quite as before: " + (*change)->summary);
      }
    }
  }
}

// What runs again below this step, in words; empty: nothing does. Steps that read outputs (the address of the server)
// read those of what runs again.
std::string Rollback::put_back_for(std::size_t step) {
  for (std::size_t before : run_.order.ancestors(step)) {
    StepResult result = run_.board.get(host_.name(), before);
    if (!result.outputs.is_object()) continue;
    const Value replaces = result.outputs.value("replaces", Value());
    if (!replaces.is_object() || !replaces.contains("title") || !replaces["title"].is_string()) continue;
    if (const Value outputs = replaces.value("outputs", Value()); outputs.is_object()) result.outputs.update(outputs);
    result.outputs_known = true;
    run_.board.put(host_.name(), before, std::move(result));
    return replaces["title"].get<std::string>();
  }
  return {};
}

// Where a release was put back, it must answer again: the play's own smoke test says so.
void Rollback::test_again() {
  for (std::size_t step : run_.order.order()) {
    const StepDecl& decl = run_.playbook.steps[step];
    if (decl.uses != "smoke" || run_.services.registry->find_active("smoke") == nullptr) continue;
    const std::string previous = put_back_for(step);
    const Result<std::optional<std::vector<Unit>>> units = units_of(run_, host_.host(), step);
    if (previous.empty() || !units || !*units) continue;
    for (const Unit& unit : **units) {
      const Result<std::optional<Prepared>> prepared = prepare(run_, host_.host(), unit, {});
      if (!prepared || !*prepared) {
        run_.recorder.warn(host_.name(), decl.id, "the previous release could not be tested: its inputs are not known");
        continue;
      }
      if (!(*prepared)->wanted) continue;
      const Result<StepOutcome> outcome = runner_.run_active(unit, (*prepared)->inputs);
      const bool judged = outcome && outcome->verdict;
      const std::string state = !outcome ? "fail" : std::string(judged ? to_string(outcome->verdict->kind) : "pass");
      const std::string sentence = !outcome ? outcome.error().message
                                   : judged ? outcome->verdict->sentence
                                            : outcome->summary;
      run_.recorder.emit(EventType::verified_after_rollback, host_.node_name_for(decl).value_or(host_.name()), decl.id,
                         {{"what", previous}, {"state", state}, {"sentence", sentence}});
      if (state == "fail") {
        report_.remaining.push_back(
            fmt::format("{}: release {} is back but does not pass its test: {}", host_.name(), previous, sentence));
      }
    }
  }
}

RollbackReport Rollback::run(const std::string& reason) {
  const std::vector<UndoRecord> todo = records();
  run_.recorder.emit(EventType::rollback_started, host_.name(), "", {{"reason", reason}, {"actions", todo.size()}});
  for (const UndoRecord& record : todo) {
    if (run_.stop_now()) {
      settle(record, UndoState::failed, "interrupted before it was taken back");
      continue;
    }
    undo(record);
  }
  try_again_what_failed();
  forget_what_went_with_its_container();
  for (const Left& left : left_) report_.remaining.push_back(left.text);
  const bool any = !undone_.empty() || (todo.empty() && !undone_before_.empty());
  if (any && host_.reachable() && !run_.stop_now()) {
    run_what_comes_after();
    ask_again();
    test_again();
  }
  Value data = {{"undone", report_.undone}, {"remaining", report_.remaining}};
  run_.recorder.emit(EventType::rollback_finished, host_.name(), "", std::move(data));
  return report_;
}

}  // namespace millwright
