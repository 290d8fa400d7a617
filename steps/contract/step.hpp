// The step contract: ask, plan, act, ask again. See docs/design.md, section 3.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"
#include "steps/contract/change.hpp"
#include "steps/contract/http.hpp"
#include "steps/contract/inputs.hpp"
#include "steps/contract/node.hpp"
#include "steps/contract/signature.hpp"

namespace millwright {

// What both sorts of step kind have. Step kinds are stateless: one instance serves all hosts and threads at once.
class AnyStepKind {
 public:
  virtual ~AnyStepKind() = default;
  virtual const Signature& signature() const = 0;
  // Checks that need more than types (exclusive inputs, a path that must be absolute, a local source that must exist),
  // before anything is contacted. Inputs that are expressions over step outputs are absent here. Error::detail names
  // the input each error is about.
  virtual std::vector<Error> check(const Inputs& inputs) const;
};

// A converging step: pure functions of inputs and answers. Must not touch clock, network or disk in ask and plan,
// except to read controller files that the inputs name (file: content from `source`).
class StepKind : public AnyStepKind {
 public:
  virtual std::vector<Question> ask(const Inputs& inputs) const = 0;
  // An error here means the answers say that it cannot be done (kind refused, with what holds it) or make no sense.
  virtual Result<Change> plan(const Inputs& inputs, const Answers& answers) const = 0;
  // What will be answered when the actions of `change` have ended well. Nothing (the default): that is not known ahead,
  // so whatever follows waits until the answers have been looked at. Questions that are not named may say anything.
  virtual std::vector<Expectation> expect(const Inputs& inputs, const Answers& answers, const Change& change) const;
  // Outputs after acting; `answers` are those of asking again. By default the outputs of the empty change.
  virtual Result<Value> outputs(const Inputs& inputs, const Answers& answers,
                                const std::vector<ActionResult>& results) const;
};

// A judgement on something that runs.
enum class VerdictKind { pass, degraded, fail, inconclusive };
std::string_view to_string(VerdictKind kind);

struct Verdict {
  VerdictKind kind = VerdictKind::inconclusive;
  std::string symptom_class;  // for fail and degraded: a name of playbooks/knowledge/classes.yml
  std::string sentence;       // what a person understands
};

enum class StepState { ok, changed };

struct StepOutcome {
  StepState state = StepState::ok;
  std::string summary;
  Value outputs = Value::object();
  std::optional<Verdict> verdict;
};

// What an active step has to work with. One per (step, host); used from one thread.
class StepContext {
 public:
  virtual ~StepContext() = default;
  virtual const Inputs& inputs() const = 0;
  virtual StepNode& node() = 0;
  virtual HttpClient& http() = 0;
  virtual Clock& clock() = 0;
  virtual SteadyPoint deadline() const = 0;
  virtual bool cancelled() const = 0;  // Ctrl-C twice, or the deadline; stop soon, return interrupted
  virtual std::string run_id() const = 0;
  virtual std::string step_id() const = 0;
  virtual void progress(std::string text, std::optional<double> fraction = {}) = 0;
  virtual void output(Stream stream, std::string_view text) = 0;
  // One probe of a test: becomes an event probe_finished with these keys (see event.hpp).
  virtual void probe_finished(const Value& /*data*/) {}
  // Keeps bytes (raw answers, logs) for the run; returns the name to show. Never lost by a rollback.
  virtual std::string keep(const std::string& name, std::string_view bytes) = 0;
  // An output known before the end: kept when the step fails, for remedies and rollback. `replaces` is read by
  // rollback: {title, outputs} of what ran before and is put back, null when nothing did. Contexts in tests may ignore
  // it.
  virtual void remember(const std::string& output, const Value& value);
  // Asks, plans and, if the node is not so yet, acts, each action recorded with its undo first, then asks again:
  // the converging contract for active steps that are made of such changes. Returns what was done.
  virtual Result<Change> converge(const std::vector<Question>& questions,
                                  const std::function<Result<Change>(const Answers&)>& plan) = 0;
  // One action by the same rules (undo recorded on the node and in the journal, then save, files, script).
  // A non-zero status is an error of kind remote_exit.
  virtual Result<Answer> act(const Action& action) = 0;
};

// A step that waits on a living thing. Keep them few.
class ActiveStep : public AnyStepKind {
 public:
  virtual Result<StepOutcome> run(StepContext& context) const = 0;
  // For `plan`: what would happen, as far as answers tell; default "known when it runs".
  virtual std::vector<Question> preview_questions(const Inputs& inputs) const;
  virtual Result<std::string> preview(const Inputs& inputs, const Answers& answers) const;
};

// One change of a step's inputs that may cure a symptom.
struct Remedy {
  std::string id;               // row of playbooks/knowledge/remedies.yml
  std::string title;            // "llama.cpp 0.1.10 -> 2026.10.11549 (knows gemma3)"
  std::string step_kind;        // whose inputs change: "server"
  Value set = Value::object();  // the inputs to replace
  bool degrades = false;        // turns a feature off: success is reported as degraded
};

struct RemedyQuery {
  std::string symptom_class;
  Value step_inputs;               // of the step to be remedied, as now
  Value step_outputs;              // of its last success or failure (engine, version, previous release...)
  std::vector<std::string> tried;  // ids of this run, with the inputs already tried
};

// Decides by class what to try next; nothing left is an empty optional. Pure data, thread-safe.
class RemedyAdvisor {
 public:
  virtual ~RemedyAdvisor() = default;
  virtual std::optional<Remedy> next(const RemedyQuery& query) const = 0;
};

// All step kinds by name. Filled at start-up, read-only afterwards.
class StepRegistry {
 public:
  void add(std::unique_ptr<StepKind> kind);
  void add(std::unique_ptr<ActiveStep> kind);
  const AnyStepKind* find(std::string_view name) const;
  const StepKind* find_converging(std::string_view name) const;
  const ActiveStep* find_active(std::string_view name) const;
  std::vector<std::string> names() const;  // sorted

 private:
  std::map<std::string, std::unique_ptr<StepKind>, std::less<>> converging_;
  std::map<std::string, std::unique_ptr<ActiveStep>, std::less<>> active_;
};

}  // namespace millwright
