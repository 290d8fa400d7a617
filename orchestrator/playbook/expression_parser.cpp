#include "orchestrator/playbook/expression_parser.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/playbook/expression_builder.hpp"
#include "orchestrator/playbook/filters.hpp"

namespace millwright {
namespace {

class Parser : private TreeBuilder {
 public:
  explicit Parser(std::string_view text) : TreeBuilder(text) {}

  NodePtr run() {
    if (now().kind == TokenKind::end) problem(now(), "an expression is missing here");
    NodePtr root = expression();
    if (now().kind != TokenKind::end) unexpected();
    return root;
  }

 private:
  NodePtr expression() {
    const Level level(*this);
    NodePtr node = logic_or();
    while (is_word("if")) {
      NodePtr conditional = make(NodeKind::conditional, take());
      add(*conditional, std::move(node));
      add(*conditional, logic_or());
      add(*conditional, skip_word("else") ? expression() : nullptr);
      node = std::move(conditional);
    }
    return node;
  }

  NodePtr logic_or() { return logic(NodeKind::logic_or, "or", &Parser::logic_and); }
  NodePtr logic_and() { return logic(NodeKind::logic_and, "and", &Parser::logic_not); }
  NodePtr logic(NodeKind kind, std::string_view word, NodePtr (Parser::*operand)()) {
    NodePtr left = (this->*operand)();
    while (is_word(word)) {
      NodePtr node = make(kind, take());
      add(*node, std::move(left));
      add(*node, (this->*operand)());
      left = std::move(node);
    }
    return left;
  }

  NodePtr logic_not() {
    if (!is_word("not")) return compare();
    const Level level(*this);
    NodePtr node = make(NodeKind::unary, take());
    node->name = "not";
    add(*node, logic_not());
    return node;
  }

  std::string comparison() {
    for (const std::string_view sign : {"==", "!=", "<", "<=", ">", ">="}) {
      if (is_sign(sign)) return std::string(sign);
    }
    if (is_word("in")) return "in";
    if (is_word("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
      take();
      return "not in";
    }
    return "";
  }

  NodePtr compare() {
    NodePtr first = sum();
    NodePtr node;
    for (std::string op = comparison(); !op.empty(); op = comparison()) {
      const Token& token = take();
      if (!node) {
        node = make(NodeKind::compare, token);
        add(*node, std::move(first));
      }
      node->names.push_back(op);
      add(*node, sum());
    }
    return node ? std::move(node) : std::move(first);
  }

  NodePtr binary(std::initializer_list<std::string_view> signs, NodePtr (Parser::*operand)()) {
    NodePtr left = (this->*operand)();
    while (std::any_of(signs.begin(), signs.end(), [&](std::string_view sign) { return is_sign(sign); })) {
      NodePtr node = make(NodeKind::binary, take());
      node->name = last().text;
      add(*node, std::move(left));
      add(*node, (this->*operand)());
      left = std::move(node);
    }
    return left;
  }
  NodePtr sum() { return binary({"+", "-"}, &Parser::concat); }
  NodePtr product() { return binary({"*", "/", "//", "%"}, &Parser::power); }
  NodePtr power() { return binary({"**"}, &Parser::unary); }

  NodePtr concat() {
    NodePtr first = product();
    if (!is_sign("~")) return first;
    NodePtr node = make(NodeKind::concat, now());
    add(*node, std::move(first));
    while (skip_sign("~")) add(*node, product());
    return node;
  }

  enum class Filters { allowed, not_here };
  NodePtr unary() { return unary_with(Filters::allowed); }
  // Jinja2 applies filters to the signed value: -1|abs is (-1)|abs, but postfixes to the operand of the sign first.
  NodePtr unary_with(Filters filters) {
    const Level level(*this);
    NodePtr node;
    if (is_sign("-") || is_sign("+")) {
      node = make(NodeKind::unary, take());
      node->name = last().text;
      add(*node, unary_with(Filters::not_here));
    } else {
      node = primary();
    }
    node = postfix(std::move(node));
    if (filters == Filters::not_here) return node;
    while (true) {
      if (is_sign("|")) {
        node = filter(std::move(node));
      } else if (is_word("is")) {
        node = test(std::move(node));
      } else if (is_sign("(")) {
        problem(now(), "calls are not supported", "filters are written: value | name");
      } else {
        return node;
      }
    }
  }

  NodePtr primary() {
    const Token& token = now();
    switch (token.kind) {
      case TokenKind::name:
        return named(take());
      case TokenKind::string: {
        NodePtr node = make(NodeKind::literal, token);
        std::string text;
        while (now().kind == TokenKind::string) text += take().text;
        node->value = std::move(text);
        return node;
      }
      case TokenKind::number: {
        NodePtr node = make(NodeKind::literal, token);
        node->value = take().value;
        return node;
      }
      case TokenKind::sign:
        if (is_sign("(")) return parenthesised();
        if (is_sign("[")) return list();
        if (is_sign("{")) return mapping();
        break;
      case TokenKind::end:
        break;
    }
    unexpected();
  }

  NodePtr named(const Token& token) {
    NodePtr node = make(NodeKind::literal, token);
    if (token.text == "true" || token.text == "True") {
      node->value = true;
    } else if (token.text == "false" || token.text == "False") {
      node->value = false;
    } else if (token.text != "none" && token.text != "None") {
      constexpr std::string_view reserved[] = {"and", "or", "not", "in", "is", "if", "else"};
      if (std::find(std::begin(reserved), std::end(reserved), token.text) != std::end(reserved)) {
        problem(token, fmt::format("'{}' does not fit here", token.text));
      }
      node->kind = NodeKind::name;
      node->name = token.text;
    }
    return node;
  }

  NodePtr parenthesised() {
    const Token& open = take();
    if (is_sign(")")) problem(open, "'()' is empty", "a list is written [...]");
    NodePtr node = expression();
    if (is_sign(",")) problem(now(), "tuples are not supported", "a list is written [...]");
    expect(")");
    return node;
  }

  NodePtr list() {
    NodePtr node = make(NodeKind::list, take());
    while (!is_sign("]")) {
      add(*node, expression());
      if (!is_sign("]")) expect(",");
    }
    take();
    return node;
  }

  NodePtr mapping() {
    NodePtr node = make(NodeKind::mapping, take());
    while (!is_sign("}")) {
      add(*node, expression());
      expect(":");
      add(*node, expression());
      if (!is_sign("}")) expect(",");
    }
    take();
    return node;
  }

  NodePtr postfix(NodePtr node) {
    while (true) {
      if (is_sign(".")) {
        node = dotted(std::move(node));
      } else if (is_sign("[")) {
        node = subscript(std::move(node));
      } else if (is_sign("(")) {
        problem(now(), "calls are not supported", "filters are written: value | name");
      } else {
        return node;
      }
    }
  }

  NodePtr dotted(NodePtr from) {
    NodePtr node = make(NodeKind::attribute, take());
    const Token& key = now();
    if (key.kind == TokenKind::name) {
      node->value = key.text;
    } else if (key.kind == TokenKind::number && key.value.is_number_integer()) {
      node->value = key.value;
    } else {
      problem(key.kind == TokenKind::end ? last() : key, "a name must follow the '.'");
    }
    take();
    span(*node, *from);
    add(*node, std::move(from));
    return node;
  }

  // From the start of the inner path to the token just taken.
  void span(ExpressionNode& node, const ExpressionNode& from) const {
    node.offset = from.offset;
    node.length = last().offset + last().length - from.offset;
  }

  NodePtr subscript(NodePtr from) {
    const Token& open = take();
    if (is_sign("]")) problem(open, "'[]' is empty");
    if (is_sign(":")) problem(now(), "slices are not supported");
    NodePtr key = expression();
    if (is_sign(":")) problem(now(), "slices are not supported");
    NodePtr node = make(NodeKind::index, open);
    expect("]");
    span(*node, *from);
    add(*node, std::move(from));
    if (key->kind == NodeKind::literal && (key->value.is_string() || key->value.is_number_integer())) {
      node->kind = NodeKind::attribute;
      node->value = std::move(key->value);
    } else {
      add(*node, std::move(key));
    }
    return node;
  }

  struct Arguments {
    std::vector<NodePtr> values;
    std::vector<std::string> names;
  };
  Arguments arguments() {
    Arguments out;
    take();
    while (!is_sign(")")) {
      const bool keyword = now().kind == TokenKind::name && ahead().kind == TokenKind::sign && ahead().text == "=";
      const Token& start = now();
      std::string name;
      if (keyword) {
        name = take().text;
        take();
        if (std::find(out.names.begin(), out.names.end(), name) != out.names.end()) {
          problem(start, fmt::format("argument '{}' is given twice", name));
        }
      } else if (!out.names.empty() && !out.names.back().empty()) {
        problem(start, "an argument without a name cannot follow one with a name");
      }
      out.names.push_back(name);
      out.values.push_back(expression());
      if (!is_sign(")")) expect(",");
    }
    take();
    return out;
  }

  NodePtr filter(NodePtr input) {
    take();
    const Token& name = now();
    if (name.kind != TokenKind::name) problem(name, "the name of a filter must follow the '|'");
    take();
    NodePtr node = make(NodeKind::filter, name);
    node->name = name.text;
    add(*node, std::move(input));
    Arguments given;
    if (is_sign("(")) given = arguments();
    place_problems(name, [&] { bind(*node, std::move(given)); });
    return node;
  }

  // Puts arguments where the filter's parameters say; map and select keep theirs as given.
  void bind(ExpressionNode& node, Arguments given) {
    const FilterSpec& spec = find_filter(node.name);
    if (spec.variadic) {
      for (NodePtr& value : given.values) add(node, std::move(value));
      node.names = std::move(given.names);
      check_variadic(node);
      return;
    }
    std::vector<NodePtr> slots(spec.parameters.size());
    for (std::size_t i = 0; i < given.values.size(); ++i) {
      const std::size_t slot = given.names[i].empty() ? i : parameter_index(spec, given.names[i]);
      if (slot >= slots.size()) {
        expression_problem(fmt::format("filter '{}' takes {} arguments at most", node.name, slots.size()));
      }
      if (slots[slot]) expression_problem(fmt::format("argument '{}' is given twice", spec.parameters[slot]));
      slots[slot] = std::move(given.values[i]);
    }
    for (std::size_t i = 0; i < spec.required; ++i) {
      if (!slots[i]) expression_problem(fmt::format("filter '{}' needs '{}'", node.name, spec.parameters[i]));
    }
    for (NodePtr& slot : slots) add(node, std::move(slot));
  }

  NodePtr test(NodePtr input) {
    take();
    NodePtr negation;
    if (is_word("not")) {
      negation = make(NodeKind::unary, take());
      negation->name = "not";
    }
    const Token& name = now();
    if (name.kind != TokenKind::name) problem(name, "the name of a test must follow 'is'");
    take();
    NodePtr node = make(NodeKind::test, name);
    node->name = name.text;
    add(*node, std::move(input));
    if (is_sign("(")) {
      Arguments given = arguments();
      for (std::size_t i = 0; i < given.values.size(); ++i) {
        if (!given.names[i].empty()) problem(name, "tests take no named arguments");
        add(*node, std::move(given.values[i]));
      }
    } else if (starts_argument()) {
      add(*node, postfix(primary()));
    }
    place_problems(name, [&] { check_test(node->name, node->children.size() - 1); });
    if (!negation) return node;
    add(*negation, std::move(node));
    return negation;
  }

  bool starts_argument() const {
    if (now().kind == TokenKind::string || now().kind == TokenKind::number) return true;
    if (is_sign("[") || is_sign("{")) return true;
    if (now().kind != TokenKind::name) return false;
    if (is_word("is")) problem(now(), "tests cannot be chained", "join them with 'and'");
    for (const std::string_view word : {"else", "or", "and", "if", "in", "not"}) {
      if (is_word(word)) return false;
    }
    return true;
  }
};

}  // namespace

NodePtr parse_expression_tree(std::string_view text) { return Parser(text).run(); }

}  // namespace millwright
