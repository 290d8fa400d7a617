#include "orchestrator/journal/rows.hpp"

#include <fmt/format.h>

#include "orchestrator/base/text.hpp"

namespace millwright {

std::string_view to_string(UndoState state) {
  switch (state) {
    case UndoState::pending:
      return "pending";
    case UndoState::done:
      return "done";
    case UndoState::undone:
      return "undone";
    case UndoState::refused:
      return "refused";
    case UndoState::failed:
      return "failed";
  }
  return "pending";
}

std::optional<EventType> event_type(std::string_view name) {
  for (int i = static_cast<int>(EventType::run_started); i <= static_cast<int>(EventType::run_finished); ++i) {
    if (to_string(static_cast<EventType>(i)) == name) return static_cast<EventType>(i);
  }
  return {};
}

std::optional<UndoState> undo_state(std::string_view name) {
  for (UndoState state :
       {UndoState::pending, UndoState::done, UndoState::undone, UndoState::refused, UndoState::failed}) {
    if (to_string(state) == name) return state;
  }
  return {};
}

std::string path_component(std::string_view name) {
  std::string out;
  for (char c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    out += plain ? c : '_';
  }
  if (out.empty() || out == "." || out == "..") out = "_" + out;
  constexpr std::size_t longest = 120;
  return out.substr(0, longest);
}

std::string replace_seq(std::string remote_dir, std::uint64_t seq) {
  return replace_all(std::move(remote_dir), "{seq}", std::to_string(seq));
}

Result<std::optional<RunRecord>> pick_run(std::vector<RunRecord> found, const std::string& wanted) {
  if (found.empty()) return std::optional<RunRecord>();
  if (found.size() == 1) return std::optional<RunRecord>(std::move(found.front()));
  std::vector<std::string> ids;
  for (RunRecord& run : found) {
    if (run.id == wanted) return std::optional<RunRecord>(std::move(run));
    ids.push_back(run.id);
  }
  return fail(ErrorKind::invalid, fmt::format("'{}' stands for {} runs: {}", wanted, ids.size(), join(ids, ", ")));
}

Error lock_held(const LockRecord& held) {
  Error error = make_error(ErrorKind::busy, fmt::format("{} is locked by {} since {}{}", held.name, held.holder,
                                                        iso_utc(held.since), held.why.empty() ? "" : ": " + held.why));
  error.hint = "wait for it with --lock-wait, or free it with: millwright unlock " + held.name;
  return error;
}

}  // namespace millwright
