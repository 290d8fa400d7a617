// A pipeline that does not come to its end: the line broke, a step failed, the run was interrupted.
#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/engine/pipeline.hpp"

namespace millwright {

namespace {

constexpr Milliseconds around = std::chrono::seconds(60);
constexpr Milliseconds reconnect_for = std::chrono::seconds(60);  // when the line breaks

}  // namespace

// The batch broke off in this action. What stands behind it on the node may go on by itself, so that is stopped first.
Result<ActionMark> Pipe::after_loss(std::size_t number, const Error& error) {
  const Piece& piece = pieces_[number];
  if (error.kind != ErrorKind::interrupted && way_is_lost(error, *node_.connection)) {
    if (Result<void> up = host_.reconnect(node_, reconnect_for, line_); !up) {
      return fail(
          wrap(up.error(), fmt::format("finding {} again after '{}'", node_.name, piece.request.action->title)));
    }
  }
  if (error.kind != ErrorKind::interrupted) stop();
  ActRequest request = piece.request;
  {
    const Lock guard(mutex_);
    request.deadline = deadlines_[piece.unit];
  }
  return actor_.after_loss(request, piece.script, error, line_);
}

std::vector<std::size_t> Pipe::waiting() const {
  std::vector<std::size_t> out;
  const Lock guard(mutex_);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (states_[u] == State::waiting) out.push_back(u);
  }
  return out;
}

// Last first, so that none slips through while the ones before it are dealt with. What has not begun is claimed and
// never will. Marks of the first actions, in the order of `units`.
std::vector<ActionMark> Pipe::claim(const std::vector<std::size_t>& units, bool& known) {
  std::vector<Command> claims;
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    Command command;
    command.become = become_;
    const Piece& first = pieces_[first_piece(*unit)];
    command.script = first.request.action == nullptr ? "exit 0\n" : settle_mark_script(first.script.remote_dir);
    claims.push_back(std::move(command));
  }
  std::vector<ActionMark> marks(units.size());
  const Result<std::vector<CommandResult>> results = node_.connection->run_batch(claims);
  known = results && results->size() == units.size();
  for (std::size_t i = 0; known && i < units.size(); ++i) marks[i] = parse_mark((*results)[units.size() - 1 - i].out);
  return marks;
}

void Pipe::forget(std::size_t unit, bool undone) {
  for (const Piece& piece : pieces_) {
    if (!undone || piece.unit != unit || piece.request.action == nullptr) continue;
    // One that cannot be written stays pending: what settles those asks the node.
    static_cast<void>(run_.services.journal->set_undo_state(run_.run(), piece.seq, UndoState::undone));
  }
  const Lock guard(mutex_);
  states_[unit] = State::dropped;
  give_turn_back();
}

void Pipe::stop() {
  const std::vector<std::size_t> units = waiting();
  if (units.empty()) return;
  bool known = true;
  bool stopped = false;
  {
    const Lock guard(mutex_);
    stopped = over_ ? !error_ : broken_;
  }
  std::vector<ActionMark> marks(units.size());
  if (!stopped) marks = claim(units, known);
  wait();
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::size_t number = first_piece(units[i]);
    bool ended = false;
    {
      const Lock guard(mutex_);
      ended = arrived_[number].ended;
      if (ended) marks[i] = arrived_[number].mark;
    }
    if (!action_ran(marks[i])) forget(units[i], ended || (!stopped && known));
  }
}

void Pipe::drop_rest() {
  stop();
  for (std::size_t unit : waiting()) {
    const std::size_t first = first_piece(unit);
    for (std::size_t i = 0; i < units_[unit].change.actions.size(); ++i) {
      const Piece& piece = pieces_[first + i];
      const Result<ActionMark> mark =
          actor_.follow(node_, piece.script.remote_dir, become_, run_.services.clock->steady() + around);
      if (!mark) continue;  // pending: rollback and resume ask the node
      const UndoState state = action_ran(*mark) ? UndoState::done : UndoState::undone;
      static_cast<void>(run_.services.journal->set_undo_state(run_.run(), piece.seq, state));
    }
    run_.recorder.warn(node_.name, units_[unit].unit.decl->id,
                       "this step had begun on the node before the one it follows was seen to fail");
    forget(unit, false);
  }
}

std::set<std::size_t> Pipe::steps_left() const {
  std::set<std::size_t> out;
  for (std::size_t unit : waiting()) out.insert(units_[unit].unit.step);
  return out;
}

bool Pipe::has_step(std::size_t step) const {
  return std::any_of(units_.begin(), units_.end(), [&](const PipeUnit& unit) { return unit.unit.step == step; });
}

bool Pipe::idle() const {
  if (!waiting().empty()) return false;
  const Lock guard(mutex_);
  return over_;
}

void Pipe::wait() {
  const Lock guard(mutex_);
  while (!over_) moved_.wait(mutex_);
}

}  // namespace millwright
