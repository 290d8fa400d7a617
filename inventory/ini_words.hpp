// Splits a host line of an INI inventory as Python's shlex does with comments on (what Ansible uses).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/error.hpp"

namespace millwright {

struct IniWord {
  std::string text;        // quotes and escapes resolved
  std::size_t at = 0;      // where it begins in the line
  std::size_t length = 0;  // bytes as written
};

// Whether an unquoted # begins a comment, as it does in an inventory.
enum class Comments { yes, no };

// Errors (invalid, without a place): a quote that is not closed, a backslash at the end.
Result<std::vector<IniWord>> split_ini_words(std::string_view line, Comments comments = Comments::yes);

}  // namespace millwright
