#include "orchestrator/playbook/expression_eval.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "orchestrator/base/text.hpp"
#include "orchestrator/playbook/filters.hpp"
#include "orchestrator/playbook/python_like.hpp"

namespace millwright {
namespace {

// A value, borrowed from the scope where possible (outputs of steps can be large), or undefined: then why.
class Operand {
 public:
  static Operand own(Value value) {
    Operand out;
    out.owned_ = std::move(value);
    return out;
  }
  static Operand borrow(const Value& value) {
    Operand out;
    out.borrowed_ = &value;
    return out;
  }
  static Operand undefined(ExpressionProblem why) {
    Operand out;
    out.why_ = std::move(why);
    return out;
  }

  bool is_undefined() const { return why_.has_value(); }
  const Value& value() const {
    if (why_) throw *why_;
    return borrowed_ != nullptr ? *borrowed_ : owned_;
  }
  bool is_borrowed() const { return borrowed_ != nullptr; }
  Value take(Budget& budget) {
    if (why_) throw *why_;
    if (borrowed_ == nullptr) return std::move(owned_);
    budget.charge(*borrowed_);
    return *borrowed_;
  }

 private:
  Value owned_;
  const Value* borrowed_ = nullptr;
  std::optional<ExpressionProblem> why_;
};

std::string path_text(const ExpressionNode& node) {
  if (node.kind == NodeKind::name) return node.name;
  if (node.kind != NodeKind::attribute) return "...";
  const std::string key = node.value.is_string() ? node.value.get<std::string>() : node.value.dump();
  return path_text(*node.children[0]) + "." + key;
}

ExpressionProblem undefined_problem(const ExpressionNode& node, std::string message, std::string hint = "") {
  return {std::move(message), std::move(hint), node.offset, node.length, true};
}

ExpressionProblem missing(const ExpressionNode& node, const std::string& prefix, const std::string& key,
                          const std::vector<std::string>& candidates) {
  const auto near = nearest(key, candidates);
  std::string hint = near ? fmt::format("did you mean '{}{}'?", prefix, *near) : "";
  if (prefix.empty() && key == "null") hint = "write none";
  return undefined_problem(node, fmt::format("'{}{}' is not defined here", prefix, key), std::move(hint));
}

class Evaluator {
 public:
  explicit Evaluator(const Scope& scope) : scope_(scope) {}

  Value run(const ExpressionNode& root) { return evaluate(root).take(budget_); }

 private:
  Operand evaluate(const ExpressionNode& node) {
    try {
      return dispatch(node);
    } catch (ExpressionProblem& found) {
      if (!found.placed) {
        found.offset = node.offset;
        found.length = node.length;
        found.placed = true;
      }
      throw;
    }
  }

  Operand dispatch(const ExpressionNode& node) {
    switch (node.kind) {
      case NodeKind::literal:
        return Operand::borrow(node.value);
      case NodeKind::name:
        return name(node);
      case NodeKind::attribute: {
        Operand from = evaluate(*node.children[0]);
        return item(node, std::move(from), node.value);
      }
      case NodeKind::index: {
        Operand from = evaluate(*node.children[0]);
        Operand key = evaluate(*node.children[1]);
        return item(node, std::move(from), key.value());
      }
      case NodeKind::list:
        return list(node);
      case NodeKind::mapping:
        return mapping(node);
      case NodeKind::unary:
        return unary(node);
      case NodeKind::binary: {
        Operand left = evaluate(*node.children[0]);
        Operand right = evaluate(*node.children[1]);
        return Operand::own(python_binary(node.name, left.value(), right.value(), budget_));
      }
      case NodeKind::concat:
        return concat(node);
      case NodeKind::compare:
        return compare(node);
      case NodeKind::logic_and:
      case NodeKind::logic_or: {
        Operand left = evaluate(*node.children[0]);
        const bool decided = truthy_value(left.value()) == (node.kind == NodeKind::logic_or);
        return decided ? std::move(left) : evaluate(*node.children[1]);
      }
      case NodeKind::conditional:
        return conditional(node);
      case NodeKind::filter:
        return filter(node);
      case NodeKind::test:
        return test(node);
    }
    expression_problem("this operation is not known");
  }

  Operand name(const ExpressionNode& node) {
    if (const Value* found = scope_.find(node.name)) return Operand::borrow(*found);
    return Operand::undefined(missing(node, "", node.name, scope_.names()));
  }

  // An item of an undefined value is undefined for the same reason, so that `a.b.c | default(x)` works.
  Operand item(const ExpressionNode& node, Operand from, const Value& key) {
    if (from.is_undefined()) return from;
    const Value& container = from.value();
    if (container.is_object() && key.is_string()) return entry(node, from, key.get_ref<const std::string&>());
    if (key.is_number_integer() || key.is_boolean()) {
      if (container.is_array() || container.is_string()) return position(node, from, *as_integer(key));
    }
    return Operand::undefined(
        undefined_problem(node, fmt::format("{} has no item {}", type_name(container),
                                            key.is_string() ? "'" + key.get<std::string>() + "'" : python_str(key))));
  }

  Operand entry(const ExpressionNode& node, const Operand& from, const std::string& key) {
    const Value& container = from.value();
    const auto found = container.find(key);
    if (found != container.end()) return from.is_borrowed() ? Operand::borrow(*found) : Operand::own(*found);
    std::vector<std::string> keys;
    for (const auto& [name, value] : container.items()) keys.push_back(name);
    return Operand::undefined(missing(node, path_text(*node.children[0]) + ".", key, keys));
  }

  static Operand position(const ExpressionNode& node, const Operand& from, std::int64_t index) {
    const Value& container = from.value();
    const std::vector<std::string> characters =
        container.is_string() ? utf8_characters(container.get_ref<const std::string&>()) : std::vector<std::string>();
    const auto size = static_cast<std::int64_t>(container.is_string() ? characters.size() : container.size());
    const std::int64_t at = index < 0 ? index + size : index;
    if (at < 0 || at >= size) {
      return Operand::undefined(
          undefined_problem(node, fmt::format("there is no item {}: {} of {}", index, type_name(container), size)));
    }
    const auto i = static_cast<std::size_t>(at);
    if (container.is_string()) return Operand::own(characters[i]);
    return from.is_borrowed() ? Operand::borrow(container[i]) : Operand::own(container[i]);
  }

  Operand list(const ExpressionNode& node) {
    Value out = Value::array();
    for (const NodePtr& child : node.children) out.push_back(evaluate(*child).take(budget_));
    budget_.charge(node.children.size() + 1);
    return Operand::own(std::move(out));
  }

  Operand mapping(const ExpressionNode& node) {
    Value out = Value::object();
    for (std::size_t i = 0; i < node.children.size(); i += 2) {
      Operand key = evaluate(*node.children[i]);
      if (!key.value().is_string()) {
        expression_problem(fmt::format("a key must be a text, not {}", type_name(key.value())));
      }
      out[key.value().get<std::string>()] = evaluate(*node.children[i + 1]).take(budget_);
    }
    budget_.charge(node.children.size() + 1);
    return Operand::own(std::move(out));
  }

  Operand unary(const ExpressionNode& node) {
    Operand operand = evaluate(*node.children[0]);
    if (node.name == "not") return Operand::own(!truthy_value(operand.value()));
    return Operand::own(node.name == "-" ? python_negate(operand.value()) : python_plus(operand.value()));
  }

  Operand concat(const ExpressionNode& node) {
    std::string out;
    for (const NodePtr& child : node.children) {
      const std::string text = python_str(evaluate(*child).value());
      budget_.charge(text.size());
      out += text;
    }
    return Operand::own(std::move(out));
  }

  static bool holds(const std::string& op, const Value& a, const Value& b) {
    if (op == "==") return python_equal(a, b);
    if (op == "!=") return !python_equal(a, b);
    if (op == "<") return python_less(a, b);
    if (op == ">") return python_less(b, a);
    if (op == "in") return python_contains(b, a);
    if (op == "not in") return !python_contains(b, a);
    if (op == "<=") return python_less(a, b) || python_equal(a, b);
    return python_less(b, a) || python_equal(a, b);
  }

  Operand compare(const ExpressionNode& node) {
    Operand left = evaluate(*node.children[0]);
    for (std::size_t i = 0; i < node.names.size(); ++i) {
      Operand right = evaluate(*node.children[i + 1]);
      if (!holds(node.names[i], left.value(), right.value())) return Operand::own(false);
      left = std::move(right);
    }
    return Operand::own(true);
  }

  Operand conditional(const ExpressionNode& node) {
    if (truthy_value(evaluate(*node.children[1]).value())) return evaluate(*node.children[0]);
    if (node.children[2]) return evaluate(*node.children[2]);
    return Operand::undefined(
        undefined_problem(node, "the condition does not hold and there is no 'else'", "add: else ..."));
  }

  Operand filter(const ExpressionNode& node) {
    Operand input = evaluate(*node.children[0]);
    if (node.name == "default" || node.name == "d") return default_filter(node, std::move(input));
    const Value& value = input.value();
    if ((node.name == "first" || node.name == "last") && (value.is_structured() || value.is_string()) &&
        !truthy_value(value)) {
      return Operand::undefined(
          undefined_problem(node, fmt::format("there is no {} item: the sequence is empty", node.name)));
    }
    std::vector<Value> values;
    FilterArguments arguments;
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      values.push_back(node.children[i] ? evaluate(*node.children[i]).take(budget_) : Value());
    }
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      arguments.push_back(node.children[i] ? &values[i - 1] : nullptr);
    }
    if (node.name == "map") return Operand::own(apply_map(value, values, node.names, budget_));
    if (node.name == "select") return Operand::own(apply_select(value, values, budget_));
    return Operand::own(apply_filter(node.name, value, arguments, budget_));
  }

  Operand default_filter(const ExpressionNode& node, Operand input) {
    Operand otherwise = node.children[1] ? evaluate(*node.children[1]) : Operand::own("");
    const ExpressionNode* boolean = node.children[2].get();
    const bool also_false = boolean != nullptr && truthy_value(evaluate(*boolean).value());
    if (!input.is_undefined() && !(also_false && !truthy_value(input.value()))) return input;
    return otherwise;
  }

  Operand test(const ExpressionNode& node) {
    Operand input = evaluate(*node.children[0]);
    if (node.name == "defined") return Operand::own(!input.is_undefined());
    if (node.name == "undefined") return Operand::own(input.is_undefined());
    std::vector<Value> arguments;
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      arguments.push_back(evaluate(*node.children[i]).take(budget_));
    }
    return Operand::own(apply_test(node.name, input.value(), arguments));
  }

  const Scope& scope_;
  Budget budget_;
};

}  // namespace

Value evaluate_tree(const ExpressionNode& root, const Scope& scope) { return Evaluator(scope).run(root); }

}  // namespace millwright
