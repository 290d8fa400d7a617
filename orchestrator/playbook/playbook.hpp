// A playbook as a typed document. Parsing finds every mistake that can be found without a node, all at once.
//
// Immutable after parsing; may be read from any thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"
#include "orchestrator/playbook/template.hpp"
#include "steps/contract/step.hpp"

namespace millwright {

struct InputDecl {
  InputSpec spec;  // type, default, one_of, doc as for step kinds
  SourceMark mark;
};

struct NeedDecl {
  std::string step;
  bool on_all = false;  // wait for this step on every host of the play
  SourceMark mark;
};

struct RetryDecl {
  int times = 0;  // additional attempts
  Milliseconds delay = std::chrono::seconds(5);
  double backoff = 1.0;  // the delay is multiplied by this after each attempt
};

enum class HandlerKind { remedy, rollback };
struct HandlerDecl {
  HandlerKind kind = HandlerKind::rollback;
  int attempts = 3;                             // remedy: relaunches at most
  Milliseconds within = std::chrono::hours(1);  // remedy: and no longer than this
  SourceMark mark;
};

// Steps with one lock are not run at once: at most `count` of them on a node, or on all hosts of the play together.
struct LockDecl {
  std::string name;  // empty: none
  int count = 1;
  bool on_all = false;
};

struct StepDecl {
  std::string id;    // unique; given, or made from `uses` ("file", "file-2")
  std::string name;  // for people; empty: id
  std::string uses;
  Template with;                // a mapping
  std::vector<NeedDecl> needs;  // resolved: without `needs:` it is the step before; the step of `in` is among them
  std::string in;               // id of the step whose node it runs in; empty: the host
  std::optional<Expression> when;
  std::optional<Template> foreach;  // a list; `item` and `index` in scope, also of `when`
  std::string register_as;          // also reachable under this name; always under steps.<id>
  std::vector<std::string> tags;
  RetryDecl retry;
  std::optional<Milliseconds> timeout;
  LockDecl lock;
  bool ignore_failure = false;
  std::optional<bool> become;  // overrides the host's
  std::vector<HandlerDecl> on_failure;
  SourceMark mark;
};

struct Amount {  // "25%" or 3
  double value = 0;
  bool percent = false;
  int of(int total) const;  // percentages round up, at least 1 unless 0
};

enum class HostOrder { inventory, reverse_inventory, sorted, reverse_sorted, shuffle };

struct StrategyDecl {
  int canary = 0;                      // this many hosts first, alone
  std::vector<Amount> batch;           // then so many at a time, the last again and again; empty: all
  std::optional<Amount> max_failures;  // more failed hosts than this: no further batch; absent: no limit
  HostOrder order = HostOrder::inventory;
};

struct Playbook {
  std::string path;
  std::string name;
  std::string hosts;  // a host pattern
  std::map<std::string, InputDecl> inputs;
  std::map<std::string, Template> vars;
  StrategyDecl strategy;
  std::vector<StepDecl> steps;  // includes spliced in
  // Texts of the other files that were read for it (includes, templates), by path: with them it can be read again as
  // it is, whatever becomes of the files.
  std::map<std::string, std::string> files;

  const StepDecl* find(const std::string& id) const;
};

// What is known beside the playbook itself.
struct ParseOptions {
  // Names of the variables that the inventory gives to the hosts of the play. Given: `vars.NAME` of anything else but
  // the playbook's own is an error. Absent (no inventory at hand): unknown `vars.NAME` pass, since they may come from
  // there.
  std::optional<std::set<std::string>> inventory_variables;
  // Playbook::files of an earlier reading: taken instead of what is on disk now.
  std::map<std::string, std::string> files;
};

// Reads `path` and what it includes, checks it against the step kinds: unknown keys, wrong types, duplicate ids,
// undefined names in expressions, unknown steps in needs and in, cycles, inputs of step kinds. Every error has a mark
// (but for an unreadable `path`), and they come in the order of the files.
//
// Names in expressions: inputs.X, vars.X, steps.ID.OUTPUT, the names given by `register:`, host (name, address, groups,
// vars), run.id, and under foreach item and index. Beside its outputs a step has `changed` and `state`; one with
// foreach has `items`, the list of its outputs.
tl::expected<Playbook, std::vector<Error>> load_playbook(const std::string& path, const StepRegistry& registry,
                                                         const ParseOptions& options = {});
// The same from text; includes and files are resolved relative to `path`.
tl::expected<Playbook, std::vector<Error>> parse_playbook(std::string_view text, const std::string& path,
                                                          const StepRegistry& registry,
                                                          const ParseOptions& options = {});

// All errors as compilers print them, and what it means: "2 errors; nothing was contacted."
std::string render_all(const std::vector<Error>& errors);

// Inputs as given by -e and defaults: checked types, required ones present, unknown ones refused with a suggestion.
tl::expected<Value, std::vector<Error>> resolve_inputs(const Playbook& playbook, const Value& given);

// JSON Schema (draft 2020-12) of a playbook, for editors; from the step signatures.
Value playbook_schema(const StepRegistry& registry);

}  // namespace millwright
