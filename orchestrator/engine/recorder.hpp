// The one way out for what happens in a run: redacted, then into the journal, then to the sink.
//
// Safe for concurrent use.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/event.hpp"
#include "orchestrator/base/mutex.hpp"
#include "orchestrator/journal/journal.hpp"

namespace millwright {

class Recorder {
 public:
  Recorder(Journal& journal, EventSink& sink, const Clock& clock, std::string run);

  void emit(EventType type, const std::string& host, const std::string& step, Value data);
  void warn(const std::string& host, const std::string& step, const std::string& text);
  void step(const StepRecord& record);
  // Keeps bytes as evidence and says so; returns the name to show.
  std::string keep(const std::string& host, const std::string& step, const std::string& name, std::string_view bytes);

  const std::string& run() const { return run_; }
  // The first failure to write the journal. A run whose journal is broken starts nothing more: it could not be undone.
  std::optional<Error> broken() const;

 private:
  void check(const Error& error);

  Journal& journal_;
  EventSink& sink_;
  const Clock& clock_;
  const std::string run_;
  mutable Mutex mutex_;
  std::optional<Error> broken_ MW_GUARDED_BY(mutex_);
};

// {kind, message, hint, context[], class, exit_code, detail, where} as reports show it.
Value error_value(const Error& error);

}  // namespace millwright
