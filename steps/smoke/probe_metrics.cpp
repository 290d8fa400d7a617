// P14: what the server counts about itself: drafts that were accepted, requests that it saw corrupted.
#include <fmt/format.h>

#include <charconv>

#include "orchestrator/base/text.hpp"
#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

// The sum over all label sets of one counter of a Prometheus text; nothing when it is not there.
std::optional<double> counter(const std::string& text, std::string_view name) {
  std::optional<double> sum;
  for (const std::string& line : split_lines(text)) {
    if (line.rfind(name, 0) != 0 || line.size() <= name.size()) continue;
    if (line[name.size()] != '{' && line[name.size()] != ' ') continue;
    const std::string_view value = trim(std::string_view(line).substr(line.rfind(' ') + 1));
    double number = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
    if (parsed.ec == std::errc()) sum = sum.value_or(0) + number;
  }
  return sum;
}

class MetricsProbe final : public Probe {
 public:
  std::string name() const override { return "metrics"; }
  std::string title() const override { return "own counters"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    const GetOutcome outcome = session.get_root("/metrics", Seconds(10));
    if (outcome.trouble || !outcome.response) {
      report.summary = "not offered by this server";
      return report;
    }
    const std::string& text = outcome.response->body;
    report.verdict = ProbeVerdict::pass;
    // Only counted where the engine looks for them (VLLM_COMPUTE_NANS_IN_LOGITS=1).
    if (counter(text, "vllm:corrupted_requests").value_or(0) > 0 ||
        counter(text, "vllm:corrupted_requests_total").value_or(0) > 0) {
      report.summary = "the server counted corrupted requests (NaN in the logits)";
      report.symptom_class = "backend_arch_corruption";
      report.verdict = ProbeVerdict::fail;
      session.keep("metrics.txt", outcome.raw);
      return report;
    }
    const auto drafted = counter(text, "vllm:spec_decode_num_draft_tokens_total");
    const auto accepted = counter(text, "vllm:spec_decode_num_accepted_tokens_total");
    if (!drafted || !accepted || *drafted < kEnoughDrafts) {
      report.summary = "nothing in them speaks against it";
      return report;
    }
    const double rate = *accepted / *drafted;
    report.summary = fmt::format("{:.0f} % of the drafts accepted", rate * 100);
    if (rate < session.rules().thresholds.draft_acceptance) {
      report.symptom_class = "spec_decode_corruption";
      report.verdict = ProbeVerdict::degraded;
      session.keep("metrics.txt", outcome.raw);
    }
    return report;
  }

 private:
  static constexpr double kEnoughDrafts = 200;
};

}  // namespace

std::unique_ptr<Probe> make_metrics_probe() { return std::make_unique<MetricsProbe>(); }

}  // namespace millwright
