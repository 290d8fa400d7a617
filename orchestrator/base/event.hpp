// What happens in a run, as data. The engine emits events; the journal keeps them; reports are views of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

inline constexpr int kEventSchemaVersion = 1;

// Append only: a name, once released, keeps its meaning and its keys. `data` keys are listed beside each.
enum class EventType {
  run_started,       // playbook, hosts[], steps[{id, uses, needs[], in}], verb, inputs
  host_connected,    // address, milliseconds
  host_unreachable,  // error
  step_started,      // uses, attempt
  step_planned,    // state (ok|change|unknown), summary, diff, actions[{title, undo_title, reversible, script, files[],
                   // marks}]
  action_started,  // index, title, undo_title
  action_finished,   // index, title, exit_code, milliseconds
  step_progress,     // text, fraction (0..1 or null)
  step_output,       // stream (out|err), text
  step_finished,     // state (ok|changed|failed|skipped|unreachable|cancelled|refused), summary, milliseconds, outputs,
                     // error{}, verdict{}
  probe_finished,    // name, verdict, class, seconds, tokens, expected, got, evidence
  evidence_kept,     // name, path, bytes
  retry,             // attempt, of, delay_ms, reason
  remedy,            // attempt, of, id, title, class, changes{}
  remedy_result,     // id, cured (bool)
  rollback_started,  // reason
  undo_started,      // seq, title
  undo_finished,     // seq, title, state (undone|refused|failed|irreversible), error
  rollback_finished,        // undone, remaining[]
  verified_after_rollback,  // what, state
  warning,                  // text
  interrupted,              // how (once|twice)
  run_finished,  // exit_code, sentence, counts{ok,changed,failed,skipped,unreachable}, milliseconds, cured_by, endpoint
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
