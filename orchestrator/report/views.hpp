// Views of a run, as event sinks: plain lines, a terminal that redraws what runs, and NDJSON.
//
// Safe for concurrent use. They write through the function that they are given and redact everything before it.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "orchestrator/base/event.hpp"
#include "orchestrator/base/mutex.hpp"
#include "orchestrator/base/redact.hpp"
#include "orchestrator/report/story.hpp"

namespace millwright {

using Write = std::function<void(std::string_view)>;

// A line a fact, as it happens. For pipes, files, CI, and for showing a run of the past.
class PlainView final : public EventSink {
 public:
  PlainView(Write write, ReportOptions options, const Redactor& secrets = redactor());
  void on_event(const Event& event) override;

 private:
  Write write_;
  const Redactor& secrets_;
  Mutex mutex_;
  Story story_ MW_GUARDED_BY(mutex_);
};

// The same lines, and below them what runs now, redrawn in place: never more than `rows` lines, none wider than the
// terminal. Whoever owns it calls `tick` about once a second, so that elapsed times move.
class TerminalView final : public EventSink {
 public:
  TerminalView(Write write, ReportOptions options, std::size_t rows, const Clock& clock,
               const Redactor& secrets = redactor());
  ~TerminalView() override;
  void on_event(const Event& event) override;
  void tick();

 private:
  void redraw(const std::vector<std::string>& finished) MW_REQUIRES(mutex_);

  Write write_;
  const std::size_t rows_;
  const Clock& clock_;
  const Redactor& secrets_;
  Mutex mutex_;
  Story story_ MW_GUARDED_BY(mutex_);
  std::vector<std::string> drawn_ MW_GUARDED_BY(mutex_);
  SteadyPoint last_ MW_GUARDED_BY(mutex_);
};

// One JSON object a line: {"schema_version": 1, "seq", "time", "run", "type", "host", "step", "data"}. The names are
// those of event.hpp; nothing is left out.
class NdjsonView final : public EventSink {
 public:
  explicit NdjsonView(Write write, const Redactor& secrets = redactor());
  void on_event(const Event& event) override;

 private:
  Write write_;
  const Redactor& secrets_;
  Mutex mutex_;
};

// One event as NdjsonView prints it, without the newline and not redacted.
Value event_json(const Event& event);

}  // namespace millwright
