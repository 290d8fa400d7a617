#include <map>

#include "steps/smoke/probe.hpp"
#include "steps/smoke/utf8.hpp"

namespace millwright {
namespace {

const std::map<std::string, std::unique_ptr<Probe>, std::less<>>& all_probes() {
  static const auto probes = [] {
    std::map<std::string, std::unique_ptr<Probe>, std::less<>> made;
    for (auto* make :
         {make_ready_probe, make_first_token_probe, make_known_answers_probe, make_prose_probe, make_stream_probe,
          make_logprobs_probe, make_thinking_probe, make_raw_twin_probe, make_tools_probe, make_other_scripts_probe,
          make_needle_probe, make_needle_long_probe, make_repeat_probe, make_repeat_lengths_probe, make_parallel_probe,
          make_recheck_probe, make_metrics_probe, make_accuracy_probe}) {
      auto probe = make();
      const std::string name = probe->name();
      made[name] = std::move(probe);
    }
    return made;
  }();
  return probes;
}

constexpr std::size_t kShownText = 400;

}  // namespace

const Probe* find_probe(std::string_view name) {
  const auto found = all_probes().find(name);
  return found == all_probes().end() ? nullptr : found->second.get();
}

std::vector<std::string> probe_names() {
  std::vector<std::string> names;
  for (const auto& [name, probe] : all_probes()) names.push_back(name);
  return names;
}

void conclude(ProbeReport& report, const SmokeRules& rules, const Finding& finding) {
  if (!finding) {
    report.verdict = ProbeVerdict::pass;
    return;
  }
  report.symptom_class = finding.symptom_class;
  if (report.summary.empty()) report.summary = printable(finding.what, kShownText);
  const SymptomClass* known = rules.classes.find(finding.symptom_class);
  const VerdictKind kind = known == nullptr ? VerdictKind::fail : known->verdict;
  report.verdict = kind == VerdictKind::degraded       ? ProbeVerdict::degraded
                   : kind == VerdictKind::inconclusive ? ProbeVerdict::inconclusive
                                                       : ProbeVerdict::fail;
}

Exchange& record(ProbeReport& report, SmokeSession& session, const ChatCall& call, const ChatOutcome& outcome,
                 const Finding& finding) {
  Exchange exchange;
  exchange.asked = call.ask;
  exchange.got = outcome.trouble ? printable(outcome.trouble.what, kShownText) : describe_reply(outcome.reply);
  if (!outcome.trouble && outcome.reply.content.has_text()) {
    exchange.got = cut_text(outcome.reply.content.text, kShownText);
  }
  exchange.symptom_class = finding.symptom_class;
  exchange.right = !finding;
  exchange.seconds = outcome.seconds;
  if (finding) exchange.evidence = session.keep(call.name + ".txt", outcome.raw);
  if (outcome.reply.completion_tokens) {
    report.tokens = report.tokens.value_or(0) + *outcome.reply.completion_tokens;
  }
  for (const std::string& surprise : outcome.reply.surprises) {
    if (report.notes.size() < 20) report.notes.push_back(printable(surprise, 200));
  }
  report.exchanges.push_back(std::move(exchange));
  return report.exchanges.back();
}

}  // namespace millwright
