// What happens in a run, as data. The engine emits events; the journal keeps them; reports are views of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

inline constexpr int kEventSchemaVersion = 1;

// Append only: a name, once released, keeps its meaning and its keys. docs/events.md says what each means and what its
// `data` holds; report/event_schema.cpp says the same to programs.
enum class EventType {
  run_started,
  host_connected,
  host_unreachable,
  step_started,
  step_planned,
  action_started,
  action_finished,
  step_progress,
  step_output,
  step_finished,
  probe_finished,
  evidence_kept,
  retry,
  remedy,
  remedy_result,
  rollback_started,
  undo_started,
  undo_finished,
  rollback_finished,
  verified_after_rollback,
  warning,
  interrupted,
  run_finished,
};
std::string_view to_string(EventType type);

struct Event {
  EventType type = EventType::warning;
  std::uint64_t seq = 0;  // per run, from 1; set by the journal
  TimePoint time;
  std::string run;
  std::string host;              // node name; empty for run-wide events
  std::string step;              // step id; empty where none
  Value data = Value::object();  // already redacted
};

// Called from worker threads; implementations must be safe for that and must not block on the network.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(const Event& event) = 0;
};

}  // namespace millwright
