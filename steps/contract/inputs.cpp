#include "steps/contract/inputs.hpp"

#include <stdexcept>

#include "orchestrator/base/units.hpp"

namespace millwright {

namespace {

const Value kNull;

[[noreturn]] void wrong(std::string_view name, std::string_view wanted, const Value& value) {
  throw std::logic_error("input '" + std::string(name) + "' is read as " + std::string(wanted) + " but is " +
                         std::string(value.type_name()));
}

std::string scalar_text(std::string_view name, const Value& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  wrong(name, "a string", value);
}

}  // namespace

const Value& Inputs::value(std::string_view name) const {
  if (!values_.is_object()) return kNull;
  const auto it = values_.find(std::string(name));
  return it == values_.end() ? kNull : *it;
}

bool Inputs::has(std::string_view name) const { return !value(name).is_null(); }

std::string Inputs::string(std::string_view name) const { return scalar_text(name, value(name)); }

std::string Inputs::string_or(std::string_view name, std::string_view otherwise) const {
  return has(name) ? string(name) : std::string(otherwise);
}

std::int64_t Inputs::integer(std::string_view name) const {
  const Value& found = value(name);
  if (!found.is_number_integer()) wrong(name, "an integer", found);
  return found.get<std::int64_t>();
}

double Inputs::number(std::string_view name) const {
  const Value& found = value(name);
  if (!found.is_number()) wrong(name, "a number", found);
  return found.get<double>();
}

bool Inputs::boolean(std::string_view name) const {
  const Value& found = value(name);
  if (!found.is_boolean()) wrong(name, "a boolean", found);
  return found.get<bool>();
}

Milliseconds Inputs::duration(std::string_view name) const {
  const Result<Milliseconds> parsed = parse_duration(scalar_text(name, value(name)));
  if (!parsed) throw std::logic_error("input '" + std::string(name) + "': " + parsed.error().message);
  return *parsed;
}

std::uint64_t Inputs::size(std::string_view name) const {
  const Result<std::uint64_t> parsed = parse_size(scalar_text(name, value(name)));
  if (!parsed) throw std::logic_error("input '" + std::string(name) + "': " + parsed.error().message);
  return *parsed;
}

std::vector<std::string> Inputs::strings(std::string_view name) const {
  const Value& found = value(name);
  std::vector<std::string> out;
  if (found.is_null()) return out;
  if (!found.is_array()) return {scalar_text(name, found)};
  for (const Value& item : found) out.push_back(scalar_text(name, item));
  return out;
}

}  // namespace millwright
