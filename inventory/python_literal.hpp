// Values of Ansible's INI inventories: Python literals where they are such, else plain strings.
#pragma once

#include <optional>
#include <string_view>

#include "orchestrator/base/value.hpp"

namespace millwright {

// What Python's ast.literal_eval gives: numbers, strings, True/False/None, lists, tuples, sets and dictionaries of
// these, also with a trailing comment. Tuples and sets become lists. Nothing when the text is no literal, or is one
// that JSON cannot hold (complex numbers, non-string dictionary keys other than numbers). Source:
// https://docs.python.org/3/library/ast.html#ast.literal_eval
std::optional<Value> python_literal(std::string_view text);

// As Ansible's INI plugin reads a value: the literal, or else the text as it stands.
Value ini_value(std::string_view text);

}  // namespace millwright
