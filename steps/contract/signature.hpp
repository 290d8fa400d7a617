// What a step kind takes, gives and is for. `millwright steps`, lint, the JSON Schema and the step reference in docs/
// are all made from signatures, so a signature is the documentation.
//
// Plain values, built once at start-up and read-only afterwards.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

enum class ValueType { string, integer, number, boolean, list, mapping, duration, size, mode, any };
std::string_view to_string(ValueType type);

enum class Need { required, optional };
enum class Secrecy { open, secret };  // a secret input is redacted wherever it would be shown

// Members have initializers so that designated ones ({.name = "state", .doc = "..."}) compile without warnings.
struct InputSpec {
  std::string name{};
  ValueType type = ValueType::string;
  Need need = Need::optional;
  Value default_value{};              // null: no default
  std::vector<std::string> one_of{};  // strings only; empty: anything
  std::string doc{};                  // one or two sentences
  Secrecy secrecy = Secrecy::open;
  std::vector<InputSpec> fields{};  // for mappings: the known keys; empty: any
  // The value is the path of a file on the controller. The playbook layer makes a relative one absolute, from the
  // folder of the playbook that the step stands in, before the step kind sees it.
  bool controller_file = false;
  // For a controller_file: the input that receives its text as a template. The playbook layer reads the file when it
  // loads the playbook (so the path must be constant there), compiles its text like a block scalar whose marks are
  // the file's own, and puts it under this name into the step's `with`. So names in it are checked by lint and
  // rendered in the step's scope, and the step kind only ever sees text. Empty: the file is not rendered.
  // For any other input: the one that receives, as a list of texts, how this one is written in the playbook, before
  // anything is evaluated: for messages.
  std::string rendered_into{};
  // Names that people bring from other tools ("dest" for "path"): not accepted, but suggested.
  std::vector<std::string> known_elsewhere_as{};
};

struct OutputSpec {
  std::string name{};
  ValueType type = ValueType::string;
  std::string doc{};
};

struct Signature {
  std::string kind;     // "file", "gpu.bind"
  std::string summary;  // one line
  std::string doc;      // paragraphs; what it asks, what it changes, what its undo restores
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::string positional;      // the input that a bare scalar under `with:` stands for; empty: none
  bool provides_node = false;  // its output "node" can be named by `in:` of other steps
  std::string example;         // YAML of one or more steps
  Milliseconds deadline = std::chrono::minutes(10);  // default for one action, or for the whole active step
  bool only_looks = false;                           // an active step that changes nothing: `verify` runs it
  bool once = false;  // an active step that `resume` does not run again when it had finished (a reboot)

  const InputSpec* find_input(std::string_view name) const;
};

// Checks `given` (an object) against the signature: unknown inputs (with a suggestion), missing required ones, wrong
// types, values outside one_of, `fields` of mappings. Fills defaults. Booleans accept true/false and the strings
// yes/no/on/off/true/false that people bring from Ansible; integers accept integral strings; modes accept "0644",
// "644", 0644 read as a string, and symbolic "u=rw,go=r" is refused with a hint. Every problem is reported, each with
// the name of the input in Error::detail so that the caller can attach the place.
tl::expected<Value, std::vector<Error>> check_inputs(const Signature& signature, const Value& given);

// Type check of one value against one spec, with the same coercions; the error has no place.
Result<Value> check_value(const InputSpec& spec, const Value& given);

}  // namespace millwright
