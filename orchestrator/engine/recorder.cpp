#include "orchestrator/engine/recorder.hpp"

#include <fmt/format.h>

#include "orchestrator/base/redact.hpp"

namespace millwright {

Recorder::Recorder(Journal& journal, EventSink& sink, const Clock& clock, std::string run)
    : journal_(journal), sink_(sink), clock_(clock), run_(std::move(run)) {}

void Recorder::emit(EventType type, const std::string& host, const std::string& step, Value data) {
  Event event;
  event.type = type;
  event.time = clock_.now();
  event.run = run_;
  event.host = host;
  event.step = step;
  event.data = redactor().redact_value(data);
  const Result<std::uint64_t> seq = journal_.append(event);
  if (seq) {
    event.seq = *seq;
  } else {
    check(seq.error());
  }
  sink_.on_event(event);
}

void Recorder::warn(const std::string& host, const std::string& step, const std::string& text) {
  emit(EventType::warning, host, step, {{"text", text}});
}

void Recorder::step(const StepRecord& record) {
  StepRecord clean = record;
  clean.inputs = redactor().redact_value(record.inputs);
  clean.outputs = redactor().redact_value(record.outputs);
  if (Result<void> kept = journal_.put_step(run_, clean); !kept) check(kept.error());
}

std::string Recorder::keep(const std::string& host, const std::string& step, const std::string& name,
                           std::string_view bytes) {
  const Result<EvidenceRecord> kept = journal_.keep(run_, host, step, name, redactor().redact(bytes));
  if (!kept) {
    warn(host, step, "evidence " + name + " could not be kept: " + kept.error().message);
    return name;
  }
  emit(EventType::evidence_kept, host, step, {{"name", kept->name}, {"path", kept->path}, {"bytes", kept->bytes}});
  return kept->name;
}

std::optional<Error> Recorder::broken() const {
  const Lock guard(mutex_);
  return broken_;
}

void Recorder::check(const Error& error) {
  const Lock guard(mutex_);
  if (!broken_) broken_ = error;
}

Value error_value(const Error& error) {
  Value out = {{"kind", to_string(error.kind)}, {"message", error.message}, {"hint", error.hint}};
  if (!error.context.empty()) out["context"] = error.context;
  if (!error.symptom_class.empty()) out["class"] = error.symptom_class;
  if (error.kind == ErrorKind::remote_exit) out["exit_code"] = error.exit_code;
  if (!error.detail.empty()) out["detail"] = error.detail;
  if (error.where) out["where"] = fmt::format("{}:{}:{}", error.where->file, error.where->line, error.where->column);
  return out;
}

}  // namespace millwright
