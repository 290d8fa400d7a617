// What several filters are made of. Internal to playbook/. Everything here throws ExpressionProblem.
#pragma once

#include <string>
#include <string_view>

#include "orchestrator/playbook/filters.hpp"

namespace millwright {

// An optional argument as a truth value; absent is false.
bool filter_flag(const Value* argument);

// By "a.b.0": keys of mappings, positions in lists. Null pointer: not there.
const Value* attribute_of(const Value& item, std::string_view path);

// The argument `attribute` as a path.
std::string attribute_path(const Value& attribute);

// The item itself when no attribute is asked for.
Value attribute_or_problem(const Value& item, const Value* attribute);

// ASCII only.
std::string lower_text(const Value& input);
std::string upper_text(const Value& input);

// The filters by theme; arguments are in the order of their FilterSpec.
Value filter_join(const Value& input, const FilterArguments& arguments, Budget& budget);
Value filter_replace(const Value& input, const FilterArguments& arguments, Budget& budget);
Value filter_split(const Value& input, const FilterArguments& arguments, Budget& budget);
Value filter_sort(const Value& input, const FilterArguments& arguments, Budget& budget);
Value filter_unique(const Value& input, const FilterArguments& arguments, Budget& budget);
Value filter_int(const Value& input, const FilterArguments& arguments, Budget& budget);
Value filter_float(const Value& input, const FilterArguments& arguments, Budget& budget);

}  // namespace millwright
