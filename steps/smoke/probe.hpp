// One probe of the smoke test: asks something and judges what comes. A probe is one file; probes.cpp lists them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "steps/smoke/session.hpp"

namespace millwright {

// Stateless; what one probe learns for later ones is in the session.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual std::string name() const = 0;   // as in probes.yml
  virtual std::string title() const = 0;  // for people
  // Must return within the session's deadlines. A failed exchange is kept as evidence before it returns.
  virtual ProbeReport run(SmokeSession& session) const = 0;
  // Runs also after a probe that failed, to say more about why.
  virtual bool explains() const { return false; }
};

// All of them by name; nullptr for a name that does not exist.
const Probe* find_probe(std::string_view name);
std::vector<std::string> probe_names();

std::unique_ptr<Probe> make_ready_probe();
std::unique_ptr<Probe> make_first_token_probe();
std::unique_ptr<Probe> make_known_answers_probe();
std::unique_ptr<Probe> make_prose_probe();
std::unique_ptr<Probe> make_stream_probe();
std::unique_ptr<Probe> make_logprobs_probe();
std::unique_ptr<Probe> make_thinking_probe();
std::unique_ptr<Probe> make_raw_twin_probe();
std::unique_ptr<Probe> make_tools_probe();
std::unique_ptr<Probe> make_other_scripts_probe();
std::unique_ptr<Probe> make_needle_probe();
std::unique_ptr<Probe> make_needle_long_probe();
std::unique_ptr<Probe> make_repeat_probe();
std::unique_ptr<Probe> make_repeat_lengths_probe();
std::unique_ptr<Probe> make_parallel_probe();
std::unique_ptr<Probe> make_recheck_probe();
std::unique_ptr<Probe> make_metrics_probe();
std::unique_ptr<Probe> make_accuracy_probe();

// Sets verdict and class of a probe from a finding, by the class's row in classes.yml, and its summary.
void conclude(ProbeReport& report, const SmokeRules& rules, const Finding& finding);
// A new exchange of the report, from a call and what came; keeps the raw bytes when `finding` holds.
Exchange& record(ProbeReport& report, SmokeSession& session, const ChatCall& call, const ChatOutcome& outcome,
                 const Finding& finding);

}  // namespace millwright
