// A playbook while it is being read. Internal to playbook/.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "orchestrator/playbook/playbook.hpp"
#include "orchestrator/playbook/reader.hpp"

namespace millwright {

// A step with what only checking needs.
struct StepDraft {
  StepDecl decl;
  const AnyStepKind* kind = nullptr;  // null: unknown, already reported
  bool needs_given = false;
  SourceMark id_mark;
  SourceMark uses_mark;
  SourceMark in_mark;
  SourceMark register_mark;
  SourceMark lock_mark;
};

struct Draft {
  Draft(const StepRegistry& step_kinds, const ParseOptions& parse_options)
      : registry(step_kinds), options(parse_options) {}

  const StepRegistry& registry;
  const ParseOptions& options;
  Reader reader;
  Playbook playbook;  // steps are moved in at the end
  std::vector<StepDraft> steps;
  std::unordered_map<std::string, std::size_t> positions;   // by id
  std::unordered_map<std::string, std::size_t> registered;  // by register name
  std::vector<std::string> files;                           // in the order they were read: the order of errors
  std::unordered_map<std::string, Signature> relaxed;       // kinds with what is an expression made optional
};

// playbook.cpp: the text of a file beside the playbook, kept in Playbook::files. io: it cannot be read, is no regular
// file, or is too large.
Result<std::string> read_beside(Draft& draft, const std::string& path);
// inputs.cpp
void read_inputs(Draft& draft, const YamlNode& node);
// steps.cpp: one step; appends to draft.steps.
void read_step(Draft& draft, const YamlNode& node, const std::string& file);
// include.cpp: the list under `steps:`, includes spliced in.
void read_steps(Draft& draft, const YamlNode& list, const std::string& file);
// kinds.cpp: the node of `with:` (may be null) against the step kind; fills decl.with.
void read_with(Draft& draft, StepDraft& step, const YamlNode* node, const std::string& file);
// links.cpp: ids, needs, in, cycles. The order of the graph when there is one.
std::vector<std::size_t> link_steps(Draft& draft);
// names.cpp: everything that expressions read. `order` empty: the graph is broken, what is before what is not checked.
void check_names(Draft& draft, const std::vector<std::size_t>& order, const ParseOptions& options);

}  // namespace millwright
