#include "orchestrator/base/schema_check.hpp"

#include <algorithm>
#include <regex>
#include <set>

#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

// Keywords that describe and check nothing.
const std::set<std::string> kSilent = {"$schema", "$id", "$defs", "title", "description", "$comment", "default"};

class Checker {
 public:
  explicit Checker(const Value& root) : root_(root) {}

  void check(const YamlNode& node, const Value& schema, const std::string& path) {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) report(node, path + ": nothing is allowed here");
      return;
    }
    for (const auto& [keyword, argument] : schema.items()) apply(keyword, argument, node, schema, path);
  }

  std::vector<Error> take() { return std::move(errors_); }

 private:
  void apply(const std::string& keyword, const Value& argument, const YamlNode& node, const Value& schema,
             const std::string& path) {
    if (keyword == "$ref") return check(node, resolve(argument.get<std::string>()), path);
    if (keyword == "type") return type(argument, node, path);
    if (keyword == "required") return required(argument, node, path);
    if (keyword == "properties" || keyword == "additionalProperties") {
      // Both are looked at together, once.
      if (keyword == "properties" || !schema.contains("properties")) entries(schema, node, path);
      return;
    }
    if (keyword == "items") {
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        check(node.items[i], argument, path + "[" + std::to_string(i) + "]");
      }
      return;
    }
    if (keyword == "enum" || keyword == "const") {
      return one_of(keyword == "const" ? Value::array({argument}) : argument, node, path);
    }
    if (keyword == "pattern" || keyword == "minLength" || keyword == "minItems" || keyword == "minimum") {
      return limit(keyword, argument, node, path);
    }
    if (keyword == "anyOf") return any_of(argument, node, path);
    if (kSilent.count(keyword) == 0) report(node, path + ": the schema uses '" + keyword + "', which is not checked");
  }

  static std::string type_of(const YamlNode& node) {
    const Value value = node.to_value();
    if (value.is_object()) return "object";
    if (value.is_array()) return "array";
    if (value.is_boolean()) return "boolean";
    if (value.is_number_integer()) return "integer";
    if (value.is_number()) return "number";
    if (value.is_null()) return "null";
    return "string";
  }

  void type(const Value& wanted, const YamlNode& node, const std::string& path) {
    const std::string got = type_of(node);
    std::vector<std::string> names;
    for (const Value& name : wanted.is_array() ? wanted : Value::array({wanted})) names.push_back(name);
    for (const std::string& name : names) {
      if (name == got || (name == "number" && got == "integer")) return;
    }
    report(node, path + ": expected " + join(names, " or ") + ", found " + got);
  }

  void required(const Value& names, const YamlNode& node, const std::string& path) {
    if (node.kind != YamlKind::mapping) return;
    for (const Value& name : names) {
      if (node.find(name.get<std::string>()) == nullptr) {
        report(node, path + ": '" + name.get<std::string>() + "' is missing");
      }
    }
  }

  void entries(const Value& schema, const YamlNode& node, const std::string& path) {
    const Value properties = schema.value("properties", Value::object());
    for (const auto& [key, value] : node.entries) {
      const std::string inner = path.empty() ? key.text : path + "." + key.text;
      if (properties.contains(key.text)) {
        check(value, properties.at(key.text), inner);
      } else if (schema.contains("additionalProperties")) {
        const Value& rest = schema.at("additionalProperties");
        if (rest.is_object() || rest == Value(true)) {
          check(value, rest, inner);
        } else {
          unknown_key(key, properties, path);
        }
      }
    }
  }

  void unknown_key(const YamlNode& key, const Value& properties, const std::string& path) {
    std::vector<std::string> known;
    for (const auto& [name, ignored] : properties.items()) known.push_back(name);
    Error error = make_error(ErrorKind::invalid, (path.empty() ? "" : path + ": ") + "unknown key '" + key.text + "'");
    if (const auto near = nearest(key.text, known)) {
      error.hint = "did you mean '" + *near + "'?";
    } else {
      error.hint = "known: " + join(known, ", ");
    }
    errors_.push_back(std::move(error).at(key.mark));
  }

  void one_of(const Value& allowed, const YamlNode& node, const std::string& path) {
    const Value value = node.to_value();
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
    std::vector<std::string> names;
    for (const Value& name : allowed) names.push_back(name.is_string() ? name.get<std::string>() : name.dump());
    report(node, path + ": expected one of " + join(names, ", ") + ", found " + value.dump());
  }

  void limit(const std::string& keyword, const Value& argument, const YamlNode& node, const std::string& path) {
    const Value value = node.to_value();
    if (keyword == "pattern" && value.is_string()) {
      const std::string pattern = argument.get<std::string>();
      if (!std::regex_search(value.get<std::string>(), std::regex(pattern))) {
        report(node, path + ": '" + value.get<std::string>() + "' does not match " + pattern);
      }
    } else if (keyword == "minLength" && value.is_string() && value.get<std::string>().size() < argument) {
      report(node, path + ": too short");
    } else if (keyword == "minItems" && value.is_array() && value.size() < argument) {
      report(node, path + ": needs at least " + argument.dump() + " element(s)");
    } else if (keyword == "minimum" && value.is_number() && value < argument) {
      report(node, path + ": must be at least " + argument.dump());
    }
  }

  void any_of(const Value& choices, const YamlNode& node, const std::string& path) {
    std::vector<Error> nearest_miss;
    for (const Value& choice : choices) {
      Checker inner(root_);
      inner.check(node, choice, path);
      std::vector<Error> found = inner.take();
      if (found.empty()) return;
      if (nearest_miss.empty() || found.size() < nearest_miss.size()) nearest_miss = std::move(found);
    }
    for (Error& error : nearest_miss) errors_.push_back(std::move(error));
  }

  const Value& resolve(const std::string& reference) const {
    return root_.at(Value::json_pointer(reference.substr(1)));
  }

  void report(const YamlNode& node, std::string message) {
    if (starts_with(message, ": ")) message = message.substr(2);
    errors_.push_back(make_error(ErrorKind::invalid, std::move(message)).at(node.mark));
  }

  const Value& root_;
  std::vector<Error> errors_;
};

}  // namespace

std::vector<Error> check_schema(const YamlNode& document, const Value& schema) {
  Checker checker(schema);
  checker.check(document, schema, "");
  return checker.take();
}

}  // namespace millwright
