#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "orchestrator/cli/session.hpp"
#include "orchestrator/report/views.hpp"

namespace millwright {

enum class Diffs { no, yes };

// The view that fits: NDJSON for --json, a live one on a terminal, else plain lines. Owns the thread that lets the
// elapsed times of a live view move.
class RunView {
 public:
  RunView(const Session& session, Diffs diffs);
  ~RunView();
  RunView(const RunView&) = delete;
  RunView& operator=(const RunView&) = delete;
  EventSink& sink() { return *sink_; }

 private:
  std::unique_ptr<EventSink> sink_;
  std::atomic<bool> done_{false};
  std::thread ticker_;
};

}  // namespace millwright
