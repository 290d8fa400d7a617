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
  // The value behind a `!secret` reference ("env:HF_TOKEN"). By default an error: whoever renders templates that may
  // hold secrets overrides this and registers what it returns with the redactor.
  virtual Result<Value> secret(const std::string& reference, const SourceMark& mark) const;
};

// A scope over one object, optionally on top of another scope.
class ObjectScope final : public Scope {
 public:
  explicit ObjectScope(Value object, const Scope* outer = nullptr) : object_(std::move(object)), outer_(outer) {}
  const Value* find(std::string_view name) const override;
  std::vector<std::string> names() const override;
  Result<Value> secret(const std::string& reference, const SourceMark& mark) const override;  // asks `outer`

 private:
  Value object_;
  const Scope* outer_;
};

struct ExpressionNode;
class NodeText;

// A constant path that an expression reads, and where.
using PathReference = std::pair<std::vector<std::string>, SourceMark>;

// One expression, what stands between {{ and }}; also the whole text of `when:`.
class Expression {
 public:
  // `origin` is the mark of the text's first character; errors point into the text.
  static Result<Expression> parse(std::string_view text, const SourceMark& origin);
  // The text of a scalar; places are exact through quotes, escapes and block indentation.
  static Result<Expression> parse(const YamlNode& node);
  Result<Value> evaluate(const Scope& scope) const;
  // Constant paths that it reads, e.g. {"inputs","model"}, {"steps","box","ip"}; a computed index ends the path.
  const std::vector<PathReference>& references() const { return references_; }
  // Those of them that must be defined: all but those under `default`, `is defined` and `is undefined`.
  const std::vector<PathReference>& required_references() const { return required_; }
  const std::string& text() const { return text_; }

 private:
  friend class Template;
  // `text` stands at `offset` of `place`.
  static Result<Expression> parse_at(std::string_view text, std::shared_ptr<const NodeText> place, std::size_t offset);

  std::string text_;
  std::shared_ptr<const ExpressionNode> root_;
  std::shared_ptr<const NodeText> place_;
  std::size_t offset_ = 0;
  std::vector<PathReference> references_;
  std::vector<PathReference> required_;
};

// Jinja2's truth: empty strings, lists, mappings, 0, null and false are false.
bool truthy(const Value& value);

// A YAML value whose strings may hold {{ expressions }}. A string that is exactly one expression keeps the value's
// type; otherwise the parts are joined as text, values written as Python's str does (True, None, [1, 2]), as Jinja2
// users expect. Plain strings cost nothing at render time. '{{' itself is written {{ '{{' }}; statements ({% %}) are
// errors; '{#' is plain text (shell has ${#var}). `!secret` scalars render through Scope::secret.
class Template {
 public:
  Template() = default;  // renders to null
  static tl::expected<Template, std::vector<Error>> compile(const YamlNode& node);
  static Template constant(Value value);
  Result<Value> render(const Scope& scope) const;
  bool is_constant() const;  // no expressions and no secrets in it
  std::vector<PathReference> references() const;
  std::vector<PathReference> required_references() const;
  const SourceMark& mark() const { return mark_; }
  // For mappings: the template of one entry and the mark of its key; nullptr when absent or no mapping.
  const Template* entry(std::string_view key) const;
  std::vector<std::pair<std::string, SourceMark>> keys() const;
  // The constant parts, expressions and secrets replaced by null: for checks before anything is known.
  Value constant_part() const;

  struct Part;  // internal

 private:
  static std::vector<Error> compile_text(const YamlNode& node, Part& part);

  std::shared_ptr<const Part> root_;
  SourceMark mark_;
};

}  // namespace millwright
