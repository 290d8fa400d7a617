// Follows a start: the unit's journal from a cursor, the unit's state, the port; until ready, ended or stuck. Ready is
// the engine's own ready line, an answer of /v1/models, and a first token.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "steps/contract/step.hpp"
#include "steps/server/server_spec.hpp"
#include "steps/server/start_log.hpp"

namespace millwright {

// The journal's position now; empty when the journal is empty.
Result<std::string> journal_cursor(StepNode& node);

struct Readiness {
  double seconds = 0;
  std::string served_name;  // first id of /v1/models
  std::map<std::string, std::string> facts;
  std::vector<LogFinding> findings;  // none of them grave
};

// Asks /v1/models once. No answer, a status other than 200 or a body without models: an error.
Result<std::string> ask_models(StepContext& context, NodeTunnel& tunnel, const ServerSpec& spec);

class StartWatch {
 public:
  // `device`: what the server is meant to run on, "cpu" or "cuda"; empty: not known.
  StartWatch(StepContext& context, const ServerSpec& spec, const EngineProfile& profile, std::string cursor,
             std::string device = "");
  // Errors: failed_test with a symptom class when the server ended or got stuck (its log kept as evidence),
  // interrupted, or a failure of the way to the node.
  Result<Readiness> run();
  // What the journal has said of this start so far.
  const std::string& log_text() const { return log_.text(); }
  // What the kernel did for lack of memory, after a start that ended.
  const MemoryKill& memory_kill_seen() const { return kill_; }
  std::vector<LogFinding> findings() const { return log_.findings(); }

 private:
  Result<UnitState> poll();
  Result<bool> answers();
  // Whether it generates anything; the log and the unit are followed meanwhile, as kernels may be compiled now.
  Result<bool> generates();
  Result<HttpResponse> ask_token(const std::string& path, const Value& body);
  void report_progress();
  void report_findings();
  std::optional<Diagnosis> stuck();
  Error ended();
  Error failed(Diagnosis diagnosis);

  StepContext& context_;
  const ServerSpec& spec_;
  StartLog log_;
  const std::string start_cursor_;
  std::string cursor_;
  std::string load_;  // resident size of the processes, in MiB: grows while they load
  std::optional<UnitState> last_;
  MemoryKill kill_;
  std::optional<SteadyPoint> answered_;  // when /v1/models did first
  std::string unanswered_;               // why the last look at the unit came to nothing
  std::optional<Error> lost_;            // the way to the node, while a first token was waited for
  std::string shown_;
  std::set<std::string> told_;  // findings, by their rows
  SteadyPoint started_;
  SteadyPoint moved_;  // last sign of progress
  std::unique_ptr<NodeTunnel> tunnel_;
  std::string served_name_;
};

}  // namespace millwright
