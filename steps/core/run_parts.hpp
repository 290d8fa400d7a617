// What `command` and `script` share: where and with which environment something runs, and the guards that say whether
// it has to.
//
// Pure functions; may be used from any thread.
#pragma once

#include <string>
#include <vector>

#include "steps/contract/step.hpp"

namespace millwright::core {

// chdir, env, creates, removes, unless, undo, may_drop_connection, return_within: appended to a signature's inputs.
void add_run_inputs(std::vector<InputSpec>& inputs);
std::vector<OutputSpec> run_outputs();  // stdout, stderr, rc

// Names of environment variables, absolute paths, an undo where one is needed.
void check_run_inputs(const Inputs& inputs, std::vector<Error>& errors);

// "cd ..." and "export ..." lines; empty without chdir and env.
std::string run_prelude(const Inputs& inputs);

bool has_guard(const Inputs& inputs);
// One question with the key "guard"; none without guards.
std::vector<Question> guard_questions(const Inputs& inputs);
std::vector<Expectation> guard_expectations(const Inputs& inputs);  // once it has run
// Why nothing has to run ("/opt/x exists"); empty: it has to. Without a guard always empty.
Result<std::string> guard_satisfied(const Inputs& inputs, const Answers& answers);

// The change around one script: guards, undo and verification filled in.
Result<Change> plan_run(const Inputs& inputs, const Answers& answers, std::string title, std::string script);
Value run_output_values(const std::vector<ActionResult>& results);

// An error about one input, as AnyStepKind::check returns them.
Error input_error(std::string input, std::string message, std::string hint = {});

}  // namespace millwright::core
