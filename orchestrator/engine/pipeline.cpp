#include "orchestrator/engine/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/engine/action_parts.hpp"
#include "orchestrator/engine/node_pointer.hpp"
#include "orchestrator/engine/output_lines.hpp"
#include "orchestrator/engine/pipeline_prepare.hpp"

namespace millwright {

namespace {

constexpr Milliseconds around = std::chrono::seconds(60);  // for a guard and marks, beside the action itself
constexpr std::size_t most_held = 1u << 20;

// What stands behind these words in their line; empty: they are not there.
std::string text_after(const std::string& text, std::string_view words) {
  const std::size_t at = text.find(words);
  return at == std::string::npos ? "" : text.substr(at + words.size(), text.find('\n', at) - at - words.size());
}

Milliseconds time_of(const std::vector<Question>& questions) {
  Milliseconds sum = around;
  for (const Question& question : questions) sum += question.deadline;
  return sum;
}

}  // namespace

bool fits_pipeline(const Change& change, const StepDecl& decl) {
  if (decl.timeout && change.actions.size() > 1) return false;  // one time for all of them
  return std::all_of(change.actions.begin(), change.actions.end(), [](const Action& action) {
    const Marks& marks = action.marks;
    const auto small = [](const FilePlacement& file) { return file.content && fits_inside(*file.content); };
    return !marks.destructive && !marks.may_drop_connection &&
           std::all_of(action.files.begin(), action.files.end(), small);
  });
}

Pipe::Pipe(RunContext& run, HostSession& host, NodeSession& node, Become become, std::vector<PipeUnit> units)
    : run_(run), host_(host), node_(node), become_(become), actor_(run, host), units_(std::move(units)) {
  const Lock guard(mutex_);
  states_.resize(units_.size(), State::waiting);
  states_.front() = State::taken;
  after_.resize(units_.size());
  for (const PipeUnit& unit : units_) deadlines_.push_back(unit.deadline);
}

Pipe::~Pipe() {
  if (thread_.joinable()) thread_.join();
}

Result<void> Pipe::make_pieces() {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const PipeUnit& unit = units_[u];
    Value titles = Value::array();
    for (const Action& action : unit.change.actions) titles.push_back(action.title);
    if (unit.change.empty()) pieces_.push_back({u, 0, {}, {}, 0});
    for (std::size_t i = 0; i < unit.change.actions.size(); ++i) {
      Piece piece;
      piece.unit = u;
      piece.index = i;
      ActRequest& request = piece.request;
      request.node = &node_;
      request.unit = &unit.unit;
      request.action = &unit.change.actions[i];
      request.index = i;
      request.become = become_;
      request.deadline = unit.deadline;
      request.planned = titles;
      if (i == 0 && !request.action->marks.guard_self) {
        request.guard = unit.questions;
        request.planned_on = unit.answers;
      }
      Result<ActionScript> script = actor_.script_of(request);
      if (!script) return fail(script.error());
      piece.script = std::move(*script);
      for (PlacedFile& placed : piece.script.files) placed.delivery = Delivery::put_down;
      pieces_.push_back(std::move(piece));
    }
  }
  const Lock guard(mutex_);
  arrived_.resize(pieces_.size());
  return {};
}

// All or nothing, before anything is sent: an action whose undo is not on record must not begin.
Result<void> Pipe::record() {
  std::vector<UndoRecord> undos;
  for (const Piece& piece : pieces_) {
    if (piece.request.action != nullptr) undos.push_back(actor_.undo_of(piece.request, piece.script));
  }
  const Result<std::vector<std::uint64_t>> seqs = run_.services.journal->add_undos(run_.run(), undos);
  if (!seqs) return fail(seqs.error());
  std::size_t next = 0;
  for (Piece& piece : pieces_) {
    if (piece.request.action == nullptr) continue;
    piece.seq = (*seqs)[next++];
    actor_.number(piece.script, piece.request, piece.seq);
  }
  gate_ = fmt::format("{}/runs/{}/pipe-{}", pieces_.front().script.state_dir, run_.run(), seqs->front());
  return {};
}

std::vector<const ActionScript*> Pipe::scripts() const {
  std::vector<const ActionScript*> out;
  for (const Piece& piece : pieces_) {
    if (piece.request.action != nullptr) out.push_back(&piece.script);
  }
  return out;
}

void Pipe::add_prepare(AskBatch& batch) {
  Command prepare;
  prepare.become = become_;
  prepare.script = prepare_script(gate_, scripts());
  prepare.deadline = 2 * around;
  prepare.done = [this](const CommandResult& result) {
    if (result.exit_code == 0) return;
    const Lock guard(mutex_);
    unprepared_ = result;
  };
  batch.add(std::move(prepare));
}

void Pipe::note_end(std::size_t number, const std::function<void(Arrived&)>& fill, bool passed) {
  const Lock guard(mutex_);
  Arrived& arrived = arrived_[number];
  fill(arrived);
  arrived.ended = true;
  broken_ = broken_ || !passed;
  moved_.notify_all();
}

void Pipe::add_action(AskBatch& batch, std::size_t number) {
  Piece& piece = pieces_[number];
  const PipeUnit& unit = units_[piece.unit];
  const Gate gate{gate_, number};
  piece.script.gate = gate;
  Command act = actor_.command_of(piece.request, piece.script);
  act.live = [this, number](OutputStream stream, std::string_view text) {
    const Lock guard(mutex_);
    Arrived& arrived = arrived_[number];
    if (arrived.held > most_held) return;  // its step has not come to it yet; all of it is in the result
    arrived.held += text.size();
    arrived.heard.emplace_back(stream, text);
    moved_.notify_all();
  };
  act.done = [this, number](const CommandResult& result) {
    const Lock guard(mutex_);
    arrived_[number].result = result;
  };
  batch.add(std::move(act));
  std::size_t expectations = 0;
  const bool last = piece.index + 1 == unit.change.actions.size();
  for (const Question& question : last ? unit.questions : std::vector<Question>()) {
    Command ask;
    ask.become = become_;
    ask.deadline = question.deadline;
    const auto expected = std::find_if(unit.expected.begin(), unit.expected.end(),
                                       [&](const Expectation& one) { return one.key == question.key; });
    expectations += expected == unit.expected.end() ? 0 : 1;
    ask.script =
        after_script(question.script, piece.script.remote_dir, expected == unit.expected.end() ? nullptr : &*expected);
    ask.done = [this, u = piece.unit, key = question.key](const CommandResult& result) {
      const Lock guard(mutex_);
      after_[u].set(key, Answer{result.exit_code, result.out, result.err});
    };
    batch.add(std::move(ask));
  }
  Command judge;
  judge.become = become_;
  judge.script = judge_script(gate, piece.script.remote_dir, expectations);
  judge.done = [this, number](const CommandResult& result) {
    const ActionMark mark = parse_mark(result.out);
    note_end(
        number, [&](Arrived& arrived) { arrived.mark = mark; }, judged_passed(result.out));
  };
  batch.add(std::move(judge));
}

void Pipe::add_check(AskBatch& batch, std::size_t number) {
  const PipeUnit& unit = units_[pieces_[number].unit];
  Command check;
  check.become = become_;
  check.deadline = time_of(unit.questions);
  check.script = check_script({gate_, number}, unit.questions, unit.answers);
  check.done = [this, number](const CommandResult& result) {
    note_end(
        number, [&](Arrived& arrived) { arrived.result = result; }, result.exit_code == 0);
  };
  batch.add(std::move(check));
}

Result<void> Pipe::send(const std::vector<Wanted>& others) {
  if (Result<void> made = make_pieces(); !made) return made;
  if (Result<void> pointed = point_at(host_, node_, become_, run_.run()); !pointed) return pointed;
  if (Result<void> recorded = record(); !recorded) return recorded;
  batch_.emplace(node_);
  add_prepare(*batch_);
  std::vector<Wanted> own;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    pieces_[i].request.action == nullptr ? add_check(*batch_, i) : add_action(*batch_, i);
  }
  for (const PipeUnit& unit : units_) own.push_back({unit.unit.key(), unit.questions, become_});
  for (const Wanted& wanted : others) batch_->add(wanted);
  Command end;
  end.become = become_;
  end.script = end_script(gate_, pieces_.size());
  batch_->add_unless_through(own, std::move(end), unless_through(gate_, pieces_.size()));
  Command away;
  away.become = become_;
  away.script = finish_script(gate_, scripts());
  away.deadline = 2 * around;
  batch_->add(std::move(away));
  line_ = host_.line();
  changing_ = std::make_unique<Changing>(host_.cache());
  {
    const Lock guard(mutex_);
    turn_ = true;
  }
  host_.turns().enter();
  thread_ = std::thread([this] { deliver(); });
  return {};
}

void Pipe::deliver() {
  const Result<void> sent = batch_->send(changing_->ticket());
  changing_.reset();
  const Lock guard(mutex_);
  over_ = true;
  if (!sent) error_ = sent.error();
  give_turn_back();
  moved_.notify_all();
}

void Pipe::give_turn_back() {
  const bool left = std::find(states_.begin(), states_.end(), State::waiting) != states_.end();
  if (!turn_ || !over_ || left) return;
  turn_ = false;
  host_.turns().leave();
}

std::size_t Pipe::unit_of(const std::string& key) const {
  const auto same = [&](const PipeUnit& unit) { return unit.unit.key() == key; };
  return static_cast<std::size_t>(std::find_if(units_.begin(), units_.end(), same) - units_.begin());
}

std::size_t Pipe::first_piece(std::size_t unit) const {
  const auto of_unit = [&](const Piece& piece) { return piece.unit == unit; };
  return static_cast<std::size_t>(std::find_if(pieces_.begin(), pieces_.end(), of_unit) - pieces_.begin());
}

const PipeUnit* Pipe::take(const std::string& key, SteadyPoint deadline) {
  const std::size_t unit = unit_of(key);
  const Lock guard(mutex_);
  if (unit == units_.size() || states_[unit] != State::waiting) return nullptr;
  states_[unit] = State::taken;
  deadlines_[unit] = deadline;
  give_turn_back();
  return &units_[unit];
}

Result<ActEnd> Pipe::end_of(const std::string& key, std::size_t action, Milliseconds grace,
                            const std::function<void()>& begun) {
  const std::size_t number = first_piece(unit_of(key)) + action;
  const Piece& piece = pieces_[number];
  OutputLines lines(run_.recorder, node_.name, piece.request.unit->decl->id);
  Clock& clock = *run_.services.clock;
  const SteadyPoint begin = clock.steady();
  bool told = false;
  const auto tell = [&] {
    if (!std::exchange(told, true)) begun();
  };
  bool ended = false;
  for (bool over = false; !ended && !over;) {
    if (clock.steady() - begin >= grace) tell();
    std::vector<std::pair<OutputStream, std::string>> heard;
    {
      const Lock guard(mutex_);
      if (arrived_[number].heard.empty() && !arrived_[number].ended && !over_) {
        moved_.wait_for(mutex_, told ? around : grace);
      }
      heard.swap(arrived_[number].heard);
      arrived_[number].held = 0;
      ended = arrived_[number].ended;
      over = over_;
    }
    if (!heard.empty()) tell();
    for (const auto& [stream, text] : heard) lines.add(stream, text);
  }
  lines.finish();
  ActEnd end;
  using Kind = ActionMark::Kind;
  Result<ActionMark> mark = mark_of(number, end);
  if (!mark) {
    tell();
    return fail(mark.error());
  }
  if (mark->kind == Kind::locked) {
    end.kind = ActEnd::Kind::locked;
    const Result<void> set = run_.services.journal->set_undo_state(run_.run(), piece.seq, UndoState::undone);
    return set ? Result<ActEnd>(std::move(end)) : fail(set.error());
  }
  node_.note_lock(become_);
  if (mark->kind != Kind::stale && mark->kind != Kind::undone) tell();
  Result<ActEnd> concluded = actor_.conclude(piece.request, *mark, piece.seq, std::move(end));
  if (told) actor_.say_finished(piece.request, concluded);
  return concluded;
}

Result<ActionMark> Pipe::mark_of(std::size_t number, ActEnd& end) {
  const Piece& piece = pieces_[number];
  ActionMark mark;
  std::optional<Error> error;
  SteadyPoint deadline;
  {
    const Lock guard(mutex_);
    const Arrived& arrived = arrived_[number];
    end.answer = {arrived.result.exit_code, arrived.result.out, arrived.result.err};
    end.elapsed = arrived.result.elapsed;
    mark = arrived.mark;
    deadline = deadlines_[piece.unit];
    if (arrived.ended && unprepared_ && mark.kind == ActionMark::Kind::absent) {
      end.answer = {unprepared_->exit_code, unprepared_->out, unprepared_->err};
      if (unprepared_->exit_code == locked_status) {
        mark.kind = ActionMark::Kind::locked;
        mark.text = text_after(unprepared_->out, "locked ");
      }
    }
    if (!arrived.ended) error = error_ ? *error_ : make_error(ErrorKind::connect, node_.name + " answered in part");
    const bool last = piece.index + 1 == units_[piece.unit].change.actions.size();
    const bool asked = mark.kind == ActionMark::Kind::done || mark.kind == ActionMark::Kind::stale;
    if (arrived.ended && last && asked) end.answers = after_[piece.unit];
  }
  if (error) {
    end.answer.err += error->message + "\n";
    return after_loss(number, *error);
  }
  if (mark.running) {
    end.answers.reset();
    return actor_.follow(node_, piece.script.remote_dir, become_, deadline);
  }
  // Its turn never came: the same as if the line had broken before it arrived.
  if (mark.kind == ActionMark::Kind::absent && end.answer.exit_code == gate_closed) {
    mark.kind = ActionMark::Kind::undone;
  }
  return mark;
}

bool Pipe::same_answers(const std::string& key) {
  const std::size_t number = first_piece(unit_of(key));
  const Lock guard(mutex_);
  while (!arrived_[number].ended && !over_) moved_.wait(mutex_);
  return arrived_[number].ended && arrived_[number].result.exit_code == 0;
}

}  // namespace millwright
