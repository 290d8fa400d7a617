// A YAML document against a JSON Schema, with the place of every mistake in the document.
//
// The subset that our own data files need: type, required, properties, additionalProperties (false or a schema), items,
// enum, const, pattern, minLength, minItems, minimum, anyOf, $ref to "#/$defs/NAME". Another keyword with meaning is an
// error in the schema, so that nothing is thought to be checked that is not. Pure; safe from any thread.
#pragma once

#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"
#include "orchestrator/base/yaml.hpp"

namespace millwright {

// All mistakes, each kind invalid and with a mark; empty: the document is as the schema wants it.
std::vector<Error> check_schema(const YamlNode& document, const Value& schema);

}  // namespace millwright
