#include "orchestrator/base/event.hpp"

namespace millwright {

std::string_view to_string(EventType type) {
  switch (type) {
    case EventType::run_started:
      return "run_started";
    case EventType::host_connected:
      return "host_connected";
    case EventType::host_unreachable:
      return "host_unreachable";
    case EventType::step_started:
      return "step_started";
    case EventType::step_planned:
      return "step_planned";
    case EventType::action_started:
      return "action_started";
    case EventType::action_finished:
      return "action_finished";
    case EventType::step_progress:
      return "step_progress";
    case EventType::step_output:
      return "step_output";
    case EventType::step_finished:
      return "step_finished";
    case EventType::probe_finished:
      return "probe_finished";
    case EventType::evidence_kept:
      return "evidence_kept";
    case EventType::retry:
      return "retry";
    case EventType::remedy:
      return "remedy";
    case EventType::remedy_result:
      return "remedy_result";
    case EventType::rollback_started:
      return "rollback_started";
    case EventType::undo_started:
      return "undo_started";
    case EventType::undo_finished:
      return "undo_finished";
    case EventType::rollback_finished:
      return "rollback_finished";
    case EventType::verified_after_rollback:
      return "verified_after_rollback";
    case EventType::warning:
      return "warning";
    case EventType::interrupted:
      return "interrupted";
    case EventType::run_finished:
      return "run_finished";
  }
  return "warning";
}

}  // namespace millwright
