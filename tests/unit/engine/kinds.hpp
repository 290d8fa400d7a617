// Step kinds for engine tests. Each is the smallest that has what it is named for.
//   note     {path, text, expects}: a file with that text; asks, undoes exactly, refuses when somebody changed it;
//   knows
//            ahead what will be answered, unless told not to
//   say      {to, text, undo}: appends a line, always (nothing to ask)
//   box      {path}: a container of the lab; gives its node
//   break    {status}: an action that fails after having changed a file
//   stubborn {path}: acts well and is never as wanted
//   release  {path, version, fails_with}: active; writes the version (not: nonsense), remembers the previous one
//   smoke    {path, level}: active; passes when the file says "good...", else fails with what it says as the class
//   sleepy   {seconds}: active; waits in the node
#pragma once

#include "steps/contract/step.hpp"

namespace millwright::testing {

void register_test_kinds(StepRegistry& registry);

}  // namespace millwright::testing
