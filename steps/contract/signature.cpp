#include "steps/contract/signature.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright {

std::string_view to_string(ValueType type) {
  switch (type) {
    case ValueType::string:
      return "string";
    case ValueType::integer:
      return "integer";
    case ValueType::number:
      return "number";
    case ValueType::boolean:
      return "boolean";
    case ValueType::list:
      return "list";
    case ValueType::mapping:
      return "mapping";
    case ValueType::duration:
      return "duration";
    case ValueType::size:
      return "size";
    case ValueType::mode:
      return "mode";
    case ValueType::any:
      return "any";
  }
  return "any";
}

const InputSpec* Signature::find_input(std::string_view name) const {
  for (const InputSpec& input : inputs) {
    if (input.name == name) return &input;
  }
  return nullptr;
}

namespace {

// Secret values never stand in a message, not even a wrong one.
std::string shown(const InputSpec& spec, const Value& given) {
  if (spec.secrecy == Secrecy::secret) return "the value given";
  std::string text = given.dump(-1, ' ', false, Value::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string with_article(std::string_view noun) { return fmt::format("{} {}", noun == "integer" ? "an" : "a", noun); }

std::string_view type_of(const Value& given) {
  if (given.is_array()) return "list";
  if (given.is_object()) return "mapping";
  return given.is_number_integer() ? "integer" : given.type_name();
}

Failure mismatch(const InputSpec& spec, const Value& given, std::string hint = {}) {
  Error error = make_error(ErrorKind::invalid,
                           fmt::format("'{}' takes {}, but {} is {}", spec.name, with_article(to_string(spec.type)),
                                       shown(spec, given), with_article(type_of(given))));
  error.hint = std::move(hint);
  error.detail = spec.name;
  return fail(std::move(error));
}

Result<Value> check_string(const InputSpec& spec, const Value& given) {
  if (given.is_number_integer()) return Value(given.dump());
  // A float has lost what was written: 1.10 has become 1.1.
  if (given.is_number_float()) return mismatch(spec, given, "put it in quotes, so that 1.10 does not become 1.1");
  if (given.is_boolean()) return mismatch(spec, given, "put it in quotes if the word itself is meant");
  if (!given.is_string()) return mismatch(spec, given);
  return given;
}

Result<Value> check_integer(const InputSpec& spec, const Value& given) {
  if (given.is_number_integer()) return given;
  if (given.is_number_float()) {
    const double number = given.get<double>();
    if (number == std::floor(number) && std::fabs(number) < 9e15) return Value(static_cast<std::int64_t>(number));
  }
  if (given.is_string()) {
    const std::string& text = given.get_ref<const std::string&>();
    const std::string_view trimmed = trim(text);
    std::int64_t number = 0;
    const auto [stop, code] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
    if (code == std::errc() && stop == trimmed.data() + trimmed.size()) return Value(number);
  }
  return mismatch(spec, given);
}

Result<Value> check_number(const InputSpec& spec, const Value& given) {
  if (given.is_number()) return given;
  if (given.is_string()) {
    const std::string_view text = trim(given.get_ref<const std::string&>());
    double number = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code == std::errc() && stop == text.data() + text.size() && std::isfinite(number)) return Value(number);
  }
  return mismatch(spec, given);
}

Result<Value> check_boolean(const InputSpec& spec, const Value& given) {
  if (given.is_boolean()) return given;
  if (given.is_string()) {
    std::string word(trim(given.get_ref<const std::string&>()));
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (word == "yes" || word == "on" || word == "true") return Value(true);
    if (word == "no" || word == "off" || word == "false") return Value(false);
  }
  return mismatch(spec, given, "write true or false");
}

Result<Value> check_mode(const InputSpec& spec, const Value& given) {
  if (!given.is_string() && !given.is_number_integer()) return mismatch(spec, given);
  const std::string text = given.is_string() ? std::string(trim(given.get_ref<const std::string&>())) : given.dump();
  const std::string_view digits = starts_with(text, "0o") ? std::string_view(text).substr(2) : std::string_view(text);
  const bool octal = std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '7'; });
  const std::size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
  const std::string_view significant = digits.substr(zeros);
  if (digits.empty() || !octal || significant.size() > 4) {
    const bool symbolic = text.find_first_of("ugoarwx") != std::string::npos;
    return mismatch(spec, given,
                    symbolic ? "symbolic modes depend on what is there; write the octal one, e.g. \"0640\""
                             : "modes are octal: \"0644\" for files, \"0755\" for folders and programs");
  }
  return Value(std::string(4 - significant.size(), '0') + std::string(significant));
}

template <class Parse>
Result<Value> check_measure(const InputSpec& spec, const Value& given, Parse parse) {
  if (!given.is_string() && !given.is_number()) return mismatch(spec, given);
  const auto parsed = parse(given.is_string() ? given.get<std::string>() : given.dump());
  if (!parsed) {
    Error error = parsed.error();
    if (spec.secrecy == Secrecy::secret)
      error.message = fmt::format("it is not {}", with_article(to_string(spec.type)));
    error.message = fmt::format("'{}': {}", spec.name, error.message);
    error.detail = spec.name;
    return fail(std::move(error));
  }
  return given.is_string() ? given : Value(given.dump());
}

Result<Value> check_list(const InputSpec& spec, const Value& given) {
  if (given.is_array()) return given;
  if (given.is_object()) return mismatch(spec, given, "begin each entry with '- '");
  return Value::array({given});
}

Result<Value> check_choice(const InputSpec& spec, Value value) {
  if (spec.one_of.empty() || !value.is_string()) return value;
  const std::string& text = value.get_ref<const std::string&>();
  if (std::find(spec.one_of.begin(), spec.one_of.end(), text) != spec.one_of.end()) return value;
  Error error =
      make_error(ErrorKind::invalid, fmt::format("{} is not one that '{}' knows", shown(spec, value), spec.name));
  const auto near = nearest(text, spec.one_of);
  error.hint = near ? fmt::format("did you mean '{}'? It takes: {}", *near, join(spec.one_of, ", "))
                    : fmt::format("it takes: {}", join(spec.one_of, ", "));
  error.detail = spec.name;
  return fail(std::move(error));
}

// Checks an object against a list of specs; `owner` is what the specs belong to, for messages.
void check_object(const std::vector<InputSpec>& specs, const Value& given, const std::string& owner,
                  const std::string& prefix, Value& out, std::vector<Error>& errors);

Value check_fields(const InputSpec& spec, const Value& given, const std::string& prefix, std::vector<Error>& errors) {
  Value out = Value::object();
  check_object(spec.fields, given, fmt::format("'{}'", prefix + spec.name), prefix + spec.name + ".", out, errors);
  return out;
}

Error unknown_input(const std::vector<InputSpec>& specs, const std::string& key, const std::string& owner) {
  std::vector<std::string> names;
  for (const InputSpec& spec : specs) names.push_back(spec.name);
  Error error = make_error(ErrorKind::invalid, fmt::format("unknown input '{}' of {}", key, owner));
  const std::string takes = names.empty() ? "it takes none" : "it takes: " + join(names, ", ");
  auto near = nearest(key, names);
  for (const InputSpec& spec : specs) {
    const auto& others = spec.known_elsewhere_as;
    if (std::find(others.begin(), others.end(), key) != others.end()) near = spec.name;
  }
  error.hint = near ? fmt::format("did you mean '{}'? {}", *near, "I" + takes.substr(1)) : takes;
  return error;
}

void check_object(const std::vector<InputSpec>& specs, const Value& given, const std::string& owner,
                  const std::string& prefix, Value& out, std::vector<Error>& errors) {
  for (const auto& [key, value] : given.items()) {
    const bool known =
        std::any_of(specs.begin(), specs.end(), [&key = key](const InputSpec& spec) { return spec.name == key; });
    if (known) continue;
    errors.push_back(unknown_input(specs, key, owner));
    errors.back().detail = prefix + key;
  }
  for (const InputSpec& spec : specs) {
    const auto it = given.find(spec.name);
    if (it == given.end() || it->is_null()) {
      if (!spec.default_value.is_null()) {
        out[spec.name] = spec.default_value;
      } else if (spec.need == Need::required) {
        Error error = make_error(ErrorKind::invalid, fmt::format("{} needs '{}'", owner, prefix + spec.name));
        error.hint = spec.doc;
        error.detail = prefix + spec.name;
        errors.push_back(std::move(error));
      }
      continue;
    }
    if (!spec.fields.empty() && it->is_object()) {
      out[spec.name] = check_fields(spec, *it, prefix, errors);
      continue;
    }
    Result<Value> value = check_value(spec, *it);
    if (value) {
      out[spec.name] = std::move(*value);
    } else {
      Error error = value.error();
      error.detail = prefix + spec.name;
      errors.push_back(std::move(error));
    }
  }
}

Result<Value> check_type(const InputSpec& spec, const Value& given) {
  switch (spec.type) {
    case ValueType::string:
      return check_string(spec, given);
    case ValueType::integer:
      return check_integer(spec, given);
    case ValueType::number:
      return check_number(spec, given);
    case ValueType::boolean:
      return check_boolean(spec, given);
    case ValueType::list:
      return check_list(spec, given);
    case ValueType::duration:
      return check_measure(spec, given, parse_duration);
    case ValueType::size:
      return check_measure(spec, given, parse_size);
    case ValueType::mode:
      return check_mode(spec, given);
    case ValueType::mapping:
      if (!given.is_object()) return mismatch(spec, given);
      return given;
    case ValueType::any:
      return given;
  }
  return given;
}

}  // namespace

Result<Value> check_value(const InputSpec& spec, const Value& given) {
  Result<Value> value = check_type(spec, given);
  if (!value) return value;
  if (!spec.fields.empty() && value->is_object()) {
    std::vector<Error> errors;
    Value out = check_fields(spec, *value, "", errors);
    if (!errors.empty()) return fail(errors.front());
    return out;
  }
  return check_choice(spec, std::move(*value));
}

tl::expected<Value, std::vector<Error>> check_inputs(const Signature& signature, const Value& given) {
  Value object = given;
  if (given.is_null()) {
    object = Value::object();
  } else if (!given.is_object() && !signature.positional.empty()) {
    object = Value::object({{signature.positional, given}});
  }
  if (!object.is_object()) {
    Error error = make_error(ErrorKind::invalid, fmt::format("{} takes a mapping of inputs, not {}", signature.kind,
                                                             with_article(type_of(given))));
    error.hint = fmt::format("see `millwright steps {}`", signature.kind);
    return tl::unexpected(std::vector<Error>{std::move(error)});
  }
  Value out = Value::object();
  std::vector<Error> errors;
  check_object(signature.inputs, object, "step kind " + signature.kind, "", out, errors);
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  return out;
}

}  // namespace millwright
