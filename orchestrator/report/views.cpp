#include "orchestrator/report/views.hpp"

namespace millwright {
namespace {

constexpr Milliseconds kShortestRedraw{100};

Event redacted(const Event& event, const Redactor& secrets) {
  Event clean = event;
  clean.data = secrets.redact_value(event.data);
  return clean;
}

}  // namespace

PlainView::PlainView(Write write, ReportOptions options, const Redactor& secrets)
    : write_(std::move(write)), secrets_(secrets), story_(options) {}

void PlainView::on_event(const Event& event) {
  const Lock lock(mutex_);
  for (const std::string& line : story_.tell(redacted(event, secrets_))) write_(line + "\n");
}

TerminalView::TerminalView(Write write, ReportOptions options, std::size_t rows, const Clock& clock,
                           const Redactor& secrets)
    : write_(std::move(write)), rows_(rows < 2 ? 2 : rows), clock_(clock), secrets_(secrets), story_(options) {}

TerminalView::~TerminalView() {
  const Lock lock(mutex_);
  if (!drawn_.empty()) write_("\x1b[" + std::to_string(drawn_.size()) + "A\r\x1b[J");
}

void TerminalView::on_event(const Event& event) {
  const Lock lock(mutex_);
  const std::vector<std::string> lines = story_.tell(redacted(event, secrets_));
  // Progress comes far more often than an eye can read.
  const bool frequent = event.type == EventType::step_progress || event.type == EventType::step_output;
  if (lines.empty() && frequent && clock_.steady() - last_ < kShortestRedraw) return;
  redraw(lines);
}

void TerminalView::tick() {
  const Lock lock(mutex_);
  redraw({});
}

void TerminalView::redraw(const std::vector<std::string>& finished) {
  std::vector<std::string> live = story_.running(clock_.now());
  if (live.size() > rows_) {
    const std::size_t hidden = live.size() - rows_ + 1;
    live.resize(rows_ - 1);
    live.push_back("… and " + std::to_string(hidden) + " more running");
  }
  last_ = clock_.steady();
  if (finished.empty() && live == drawn_) return;
  std::string out;
  if (!drawn_.empty()) out += "\x1b[" + std::to_string(drawn_.size()) + "A\r\x1b[J";
  for (const std::string& line : finished) out += line + "\n";
  for (const std::string& line : live) out += line + "\n";
  drawn_ = std::move(live);
  write_(out);
}

NdjsonView::NdjsonView(Write write, const Redactor& secrets) : write_(std::move(write)), secrets_(secrets) {}

void NdjsonView::on_event(const Event& event) {
  const std::string line = event_json(redacted(event, secrets_)).dump(-1, ' ', false, Value::error_handler_t::replace);
  const Lock lock(mutex_);
  write_(line + "\n");
}

Value event_json(const Event& event) {
  return {{"schema_version", kEventSchemaVersion},
          {"seq", event.seq},
          {"time", iso_utc(event.time)},
          {"run", event.run},
          {"type", to_string(event.type)},
          {"host", event.host},
          {"step", event.step},
          {"data", event.data}};
}

}  // namespace millwright
