#include "orchestrator/playbook/template.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/value_size.hpp"
#include "orchestrator/playbook/expression_eval.hpp"
#include "orchestrator/playbook/expression_lexer.hpp"
#include "orchestrator/playbook/expression_parser.hpp"
#include "orchestrator/playbook/node_text.hpp"
#include "orchestrator/playbook/python_like.hpp"

namespace millwright {
namespace {

Error to_error(const ExpressionProblem& problem, const NodeText& place, std::size_t offset) {
  return make_error(ErrorKind::invalid, problem.message)
      .at(place.mark(offset + problem.offset, problem.length))
      .with_hint(problem.hint);
}

constexpr std::string_view kSecretTag = "!secret";

}  // namespace

bool truthy(const Value& value) { return truthy_value(value); }

Result<Value> Scope::secret(const std::string& reference, const SourceMark& mark) const {
  return fail(make_error(ErrorKind::invalid, fmt::format("the secret '{}' cannot be read here", reference)).at(mark));
}

const Value* ObjectScope::find(std::string_view name) const {
  const auto found = object_.find(name);
  if (found != object_.end()) return &*found;
  return outer_ == nullptr ? nullptr : outer_->find(name);
}

std::vector<std::string> ObjectScope::names() const {
  std::vector<std::string> names = outer_ == nullptr ? std::vector<std::string>() : outer_->names();
  for (const auto& [name, value] : object_.items()) names.push_back(name);
  return names;
}

Result<Value> ObjectScope::secret(const std::string& reference, const SourceMark& mark) const {
  return outer_ == nullptr ? Scope::secret(reference, mark) : outer_->secret(reference, mark);
}

Result<Expression> Expression::parse_at(std::string_view text, std::shared_ptr<const NodeText> place,
                                        std::size_t offset) {
  Expression out;
  out.text_ = std::string(text);
  out.offset_ = offset;
  out.place_ = std::move(place);
  try {
    out.root_ = parse_expression_tree(out.text_);
  } catch (const ExpressionProblem& problem) {
    return fail(to_error(problem, *out.place_, offset));
  }
  for (PathUse& use : find_paths(*out.root_)) {
    PathReference reference{std::move(use.path), out.place_->mark(offset + use.offset, use.length)};
    if (!use.guarded) out.required_.push_back(reference);
    out.references_.push_back(std::move(reference));
  }
  return out;
}

Result<Expression> Expression::parse(std::string_view text, const SourceMark& origin) {
  return parse_at(text, std::make_shared<NodeText>(std::string(text), origin), 0);
}

Result<Expression> Expression::parse(const YamlNode& node) {
  return parse_at(node.text, std::make_shared<NodeText>(node), 0);
}

Result<Value> Expression::evaluate(const Scope& scope) const {
  try {
    return evaluate_tree(*root_, scope);
  } catch (const ExpressionProblem& problem) {
    return fail(to_error(problem, *place_, offset_));
  }
}

enum class PartKind { constant, expression, text, secret, sequence, mapping };

// text: pieces alternate, literal text and expression, beginning with text. One more literal than expressions.
struct Template::Part {
  struct Entry {
    std::string key;
    SourceMark mark;
    Template value;
  };

  PartKind kind = PartKind::constant;
  Value constant;  // scalars only
  std::vector<Expression> expressions;
  std::vector<std::string> literals;
  std::vector<Template> items;
  std::vector<Entry> entries;
  bool is_constant = true;
};

namespace {

using Part = Template::Part;

Error unsupported(const NodeText& text, std::size_t at, std::size_t length, std::string message, std::string hint) {
  return make_error(ErrorKind::invalid, std::move(message)).at(text.mark(at, length)).with_hint(std::move(hint));
}

struct Slice {
  std::size_t from;
  std::size_t to;
};

// Where the expressions of a text are, delimiters left out.
std::vector<Slice> find_slices(const NodeText& place, std::vector<Error>& errors) {
  const std::string& text = place.text();
  std::vector<Slice> slices;
  std::size_t at = 0;
  while (true) {
    const std::size_t open = text.find("{{", at);
    const std::size_t statement = text.find("{%", at);
    if (statement != std::string::npos && statement < open) {
      errors.push_back(unsupported(place, statement, 2, "statements are not supported",
                                   "when: and foreach: decide and repeat; for the characters themselves: {{ '{%' }}"));
      at = statement + 2;
      continue;
    }
    if (open == std::string::npos) break;
    const std::size_t from = open + 2;
    const std::size_t end = end_of_expression(text, from);
    if (end == std::string::npos) {
      errors.push_back(
          unsupported(place, open, 2, "'{{' is never closed", "for the characters themselves: {{ '{{' }}"));
      break;
    }
    const bool trims = text[from] == '-' || text[end - 3] == '-';
    if (trims) {
      errors.push_back(unsupported(place, open, 3, "'{{-' and '-}}' are not supported", "blanks stay as they are"));
    } else {
      slices.push_back({from, end - 2});
    }
    at = end;
  }
  return slices;
}

}  // namespace

namespace {

// The helpers that fill a Part return what is wrong with it.
std::vector<Error> compile_tagged(const YamlNode& node, Part& part) {
  if (node.tag == kSecretTag && node.kind == YamlKind::scalar && !node.text.empty()) {
    part.kind = PartKind::secret;
    part.constant = node.text;
    part.is_constant = false;
    return {};
  }
  std::vector<Error> errors;
  const bool secret = node.tag == kSecretTag;
  errors.push_back(make_error(ErrorKind::invalid, secret ? "!secret needs a reference" : "unknown tag " + node.tag)
                       .at(node.mark)
                       .with_hint(secret ? "env:NAME, file:PATH or command:CMD" : "only !secret is known"));
  return errors;
}

}  // namespace

tl::expected<Template, std::vector<Error>> Template::compile(const YamlNode& node) {
  auto part = std::make_shared<Part>();
  std::vector<Error> errors;
  const auto take_errors = [&](std::vector<Error> more) {
    errors.insert(errors.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  const auto add_child = [&](const YamlNode& child) {
    auto compiled = compile(child);
    if (!compiled) {
      take_errors(std::move(compiled.error()));
      return Template();
    }
    part->is_constant = part->is_constant && compiled->is_constant();
    return std::move(*compiled);
  };
  if (!node.tag.empty()) {
    take_errors(compile_tagged(node, *part));
  } else if (node.kind == YamlKind::sequence) {
    part->kind = PartKind::sequence;
    for (const YamlNode& item : node.items) part->items.push_back(add_child(item));
  } else if (node.kind == YamlKind::mapping) {
    part->kind = PartKind::mapping;
    for (const auto& [key, value] : node.entries) {
      if (key.text.find("{{") != std::string::npos) {
        errors.push_back(make_error(ErrorKind::invalid, "a key cannot hold an expression").at(key.mark));
      }
      part->entries.push_back({key.text, key.mark, add_child(value)});
    }
  } else if (node.kind == YamlKind::scalar && node.text.find('{') != std::string::npos) {
    take_errors(compile_text(node, *part));
  } else {
    part->constant = node.to_value();
  }
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  Template out;
  out.root_ = std::move(part);
  out.mark_ = node.mark;
  return out;
}

std::vector<Error> Template::compile_text(const YamlNode& node, Part& part) {
  const auto place = std::make_shared<NodeText>(node);
  std::vector<Error> errors;
  const std::vector<Slice> slices = find_slices(*place, errors);
  if (slices.empty()) {
    part.constant = node.to_value();
    return errors;
  }
  const std::string& text = place->text();
  std::size_t at = 0;
  for (const Slice& slice : slices) {
    part.literals.push_back(text.substr(at, slice.from - 2 - at));
    auto expression = Expression::parse_at(text.substr(slice.from, slice.to - slice.from), place, slice.from);
    if (expression) {
      part.expressions.push_back(std::move(*expression));
    } else {
      errors.push_back(std::move(expression.error()));
    }
    at = slice.to + 2;
  }
  part.literals.push_back(text.substr(at));
  const bool alone = part.literals.size() == 2 && part.literals[0].empty() && part.literals[1].empty();
  part.kind = alone ? PartKind::expression : PartKind::text;
  part.is_constant = false;
  return errors;
}

namespace {

std::shared_ptr<Part> constant_node(Value value, Template (*wrap)(Value)) {
  auto part = std::make_shared<Part>();
  if (value.is_array()) {
    part->kind = PartKind::sequence;
    for (Value& item : value) part->items.push_back(wrap(std::move(item)));
  } else if (value.is_object()) {
    part->kind = PartKind::mapping;
    for (auto& [key, item] : value.items()) part->entries.push_back({key, {}, wrap(std::move(item))});
  } else {
    part->constant = std::move(value);
  }
  return part;
}

}  // namespace

Template Template::constant(Value value) {
  Template out;
  out.root_ = constant_node(std::move(value), &Template::constant);
  return out;
}

namespace {

// Of one template, what it holds included: each expression alone may give as much as kMaxResultSize.
Failure too_large(const SourceMark& mark) {
  return fail(
      make_error(ErrorKind::invalid, fmt::format("the value is too large: more than {} MiB", kMaxResultSize >> 20))
          .at(mark)
          .with_hint("does one variable hold another several times over?"));
}

}  // namespace

bool Template::is_constant() const { return !root_ || root_->is_constant; }

Result<Value> Template::render(const Scope& scope) const {
  if (!root_) return Value();
  switch (root_->kind) {
    case PartKind::constant:
      return root_->constant;
    case PartKind::expression:
      return root_->expressions[0].evaluate(scope);
    case PartKind::secret:
      return scope.secret(root_->constant.get<std::string>(), mark_);
    case PartKind::text: {
      std::string out = root_->literals[0];
      for (std::size_t i = 0; i < root_->expressions.size(); ++i) {
        Result<Value> value = root_->expressions[i].evaluate(scope);
        if (!value) return value;
        out += python_str(*value) + root_->literals[i + 1];
        if (out.size() > kMaxResultSize) return too_large(mark_);
      }
      return Value(std::move(out));
    }
    case PartKind::sequence: {
      Value out = Value::array();
      std::size_t size = 0;
      for (const Template& item : root_->items) {
        Result<Value> value = item.render(scope);
        if (!value) return value;
        size += value_size(*value);
        if (size > kMaxResultSize) return too_large(mark_);
        out.push_back(std::move(*value));
      }
      return out;
    }
    case PartKind::mapping: {
      Value out = Value::object();
      std::size_t size = 0;
      for (const Part::Entry& entry : root_->entries) {
        Result<Value> value = entry.value.render(scope);
        if (!value) return value;
        size += value_size(*value);
        if (size > kMaxResultSize) return too_large(mark_);
        out[entry.key] = std::move(*value);
      }
      return out;
    }
  }
  return Value();
}

namespace {

void append(std::vector<PathReference>& out, const std::vector<PathReference>& more) {
  out.insert(out.end(), more.begin(), more.end());
}

}  // namespace

std::vector<PathReference> Template::references() const {
  std::vector<PathReference> out;
  if (is_constant()) return out;
  for (const Expression& expression : root_->expressions) append(out, expression.references());
  for (const Template& item : root_->items) append(out, item.references());
  for (const Part::Entry& entry : root_->entries) append(out, entry.value.references());
  return out;
}

std::vector<PathReference> Template::required_references() const {
  std::vector<PathReference> out;
  if (is_constant()) return out;
  for (const Expression& expression : root_->expressions) append(out, expression.required_references());
  for (const Template& item : root_->items) append(out, item.required_references());
  for (const Part::Entry& entry : root_->entries) append(out, entry.value.required_references());
  return out;
}

const Template* Template::entry(std::string_view key) const {
  if (!root_) return nullptr;
  const auto found = std::find_if(root_->entries.begin(), root_->entries.end(),
                                  [&](const Part::Entry& entry) { return entry.key == key; });
  return found == root_->entries.end() ? nullptr : &found->value;
}

std::vector<std::pair<std::string, SourceMark>> Template::keys() const {
  std::vector<std::pair<std::string, SourceMark>> out;
  if (!root_) return out;
  for (const Part::Entry& entry : root_->entries) out.emplace_back(entry.key, entry.mark);
  return out;
}

Value Template::constant_part() const {
  if (!root_) return nullptr;
  switch (root_->kind) {
    case PartKind::constant:
      return root_->constant;
    case PartKind::sequence: {
      Value out = Value::array();
      for (const Template& item : root_->items) out.push_back(item.constant_part());
      return out;
    }
    case PartKind::mapping: {
      Value out = Value::object();
      for (const Part::Entry& entry : root_->entries) out[entry.key] = entry.value.constant_part();
      return out;
    }
    default:
      return nullptr;
  }
}

}  // namespace millwright
