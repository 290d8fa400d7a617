// Texts of the closed sets that both journals store or compare.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/event.hpp"
#include "orchestrator/journal/journal.hpp"

namespace millwright {

// Unknown names (from a newer millwright) are nothing.
std::optional<EventType> event_type(std::string_view name);
std::optional<UndoState> undo_state(std::string_view name);

// "gpu1/llm" -> "gpu1_llm": one path component, never empty, never "." or "..".
std::string path_component(std::string_view name);

// The seq is only known when the record is added, but names the folder on the node: "{seq}" stands for it.
std::string replace_seq(std::string remote_dir, std::uint64_t seq);

// One of the runs whose id begins with `wanted`: an exact match, or the only one; several are an error (invalid).
Result<std::optional<RunRecord>> pick_run(std::vector<RunRecord> found, const std::string& wanted);

// kind busy, with who, since when and why.
Error lock_held(const LockRecord& held);

}  // namespace millwright
