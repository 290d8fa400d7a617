// The regular expression behind ~ in a host pattern. Internal to this folder.
#pragma once

#include <memory>
#include <string>

#include "orchestrator/base/error.hpp"

namespace millwright {

// As Python's re.match, which is what Ansible asks: anchored at the start, not at the end. Whatever it is given it ends
// soon, and on a bounded stack: (a+)+$ is an error after so many steps, not a run that hangs.
//
// Immutable after compiling; may be used from any thread.
class HostRegex {
 public:
  // Errors (usage): no regular expression, or longer than anybody writes for host names.
  static Result<HostRegex> compile(const std::string& text);
  // Error (usage): it takes too many steps.
  Result<bool> matches(const std::string& name) const;

 private:
  std::string text_;
  std::shared_ptr<const void> code_;  // PCRE2's
};

}  // namespace millwright
