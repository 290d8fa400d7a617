// Expressions and templates: a strict subset of Jinja2 without statements or code execution.
//
// Immutable after parsing; may be read from any thread.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"
#include "orchestrator/base/yaml.hpp"

namespace millwright {

// Where names come from. Unknown names are errors (kind invalid) with a suggestion, never empty.
class Scope {
 public:
  virtual ~Scope() = default;
  virtual const Value* find(std::string_view name) const = 0;  // a root name: inputs, vars, steps, item, host...
  virtual std::vector<std::string> names() const = 0;          // for suggestions
};

// A scope over one object, optionally on top of another scope.
class ObjectScope final : public Scope {
 public:
  explicit ObjectScope(Value object, const Scope* outer = nullptr) : object_(std::move(object)), outer_(outer) {}
  const Value* find(std::string_view name) const override;
  std::vector<std::string> names() const override;

 private:
  Value object_;
  const Scope* outer_;
};

struct ExpressionNode;

// One expression, what stands between {{ and }}; also the whole text of `when:`.
class Expression {
 public:
  // `origin` is the mark of the text's first character; errors point into the text.
  static Result<Expression> parse(std::string_view text, const SourceMark& origin);
  Result<Value> evaluate(const Scope& scope) const;
  // Constant paths that it reads, e.g. {"inputs","model"}, {"steps","box","ip"}; a computed index ends the path.
  const std::vector<std::pair<std::vector<std::string>, SourceMark>>& references() const { return references_; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::shared_ptr<const ExpressionNode> root_;
  std::vector<std::pair<std::vector<std::string>, SourceMark>> references_;
};

// Jinja2's truth: empty strings, lists, mappings, 0, null and false are false.
bool truthy(const Value& value);

// A YAML value whose strings may hold {{ expressions }}. A string that is exactly one expression keeps the value's
// type; otherwise the parts are joined as text. Plain strings cost nothing at render time.
class Template {
 public:
  Template() = default;  // renders to null
  static tl::expected<Template, std::vector<Error>> compile(const YamlNode& node);
  static Template constant(Value value);
  Result<Value> render(const Scope& scope) const;
  bool is_constant() const;
  std::vector<std::pair<std::vector<std::string>, SourceMark>> references() const;
  const SourceMark& mark() const { return mark_; }
  // For mappings: the template of one entry and the mark of its key; nullptr when absent or no mapping.
  const Template* entry(std::string_view key) const;
  std::vector<std::pair<std::string, SourceMark>> keys() const;
  // The constant parts, expressions replaced by null: for checks before anything is known.
  Value constant_part() const;

 private:
  struct Part;
  std::shared_ptr<const Part> root_;
  SourceMark mark_;
};

}  // namespace millwright
