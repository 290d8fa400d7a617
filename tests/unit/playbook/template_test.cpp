#include <gtest/gtest.h>

#include "orchestrator/playbook/template.hpp"

namespace millwright {
namespace {

class SecretScope final : public Scope {
 public:
  const Value* find(std::string_view) const override { return nullptr; }
  std::vector<std::string> names() const override { return {}; }
  Result<Value> secret(const std::string& reference, const SourceMark&) const override {
    return Value("value of " + reference);
  }
};

tl::expected<Template, std::vector<Error>> compile(std::string_view yaml) {
  const auto node = parse_yaml(yaml, "f.yml");
  EXPECT_TRUE(node) << render(node.error()[0]);
  return Template::compile(*node);
}

std::string rendered(std::string_view yaml, const Value& values) {
  const auto compiled = compile(yaml);
  const auto show = [](const Error& error) {
    return std::to_string(error.where->line) + ":" + std::to_string(error.where->column) + "+" +
           std::to_string(error.where->length) + " " + error.message;
  };
  if (!compiled) return show(compiled.error()[0]);
  const ObjectScope scope(values);
  const auto value = compiled->render(scope);
  return value ? value->dump() : show(value.error());
}

TEST(Template, OneExpressionKeepsItsType) {
  const Value values = Value::parse(R"({"n": 3, "l": [1, "a"], "t": true, "z": null, "f": 1.0})");
  EXPECT_EQ(rendered("\"{{ n }}\"", values), "3");
  EXPECT_EQ(rendered("\"{{ l }}\"", values), R"([1,"a"])");
  EXPECT_EQ(rendered("'{{ n }} {{ l }} {{ t }} {{ z }} {{ f }}'", values), R"("3 [1, 'a'] True None 1.0")");
  EXPECT_EQ(rendered("a: 'x{{ n }}'\nb: [1, '{{ t }}']\nc: 5", values), R"({"a":"x3","b":[1,true],"c":5})");
}

TEST(Template, PlainTextStaysAsItIs) {
  EXPECT_EQ(rendered("'${#var} {x} }} {a: b}'", {}), R"("${#var} {x} }} {a: b}")");
  EXPECT_EQ(rendered("'{{ ''{{'' }}.State'", {}), R"("{{.State")");
  EXPECT_EQ(rendered("\"{{ {'a': {'b': '}}'}}.a.b }}\"", {}), R"("}}")");
}

TEST(Template, PlacesAreExactThroughQuotesEscapesAndBlocks) {
  EXPECT_EQ(rendered("a: \"xy {{ nope }}\"", {}), "1:11+4 'nope' is not defined here");
  EXPECT_EQ(rendered("a: xy {{ nope }}", {}), "1:10+4 'nope' is not defined here");
  EXPECT_EQ(rendered("a: \"\\\"\\u00e4\\t{{ nope }}\"", {}), "1:18+4 'nope' is not defined here");
  EXPECT_EQ(rendered("a: '''{{ nope }}'", {}), "1:10+4 'nope' is not defined here");
  EXPECT_EQ(rendered("a: |\n  one\n    two {{ nope }}\n", {}), "3:12+4 'nope' is not defined here");
  EXPECT_EQ(rendered("a: &x \"{{ nope }}\"", {}), "1:11+4 'nope' is not defined here");
  EXPECT_EQ(rendered("a: \"{{ 1 + }}\"", {}), "1:12+1 the expression ends too early");
}

TEST(Template, WhatIsNotSupportedIsSaid) {
  EXPECT_EQ(rendered("'{% if x %}'", {}), "1:2+2 statements are not supported");
  EXPECT_EQ(rendered("'a {{ x'", {}), "1:4+2 '{{' is never closed");
  EXPECT_EQ(rendered("'{{- x }}'", {}), "1:2+3 '{{-' and '-}}' are not supported");
  EXPECT_EQ(rendered("{'{{ x }}': 1}", {}), "1:2+9 a key cannot hold an expression");
  EXPECT_EQ(rendered("!vault x", {}), "1:1+8 unknown tag !vault");
}

TEST(Template, AllMistakesAtOnce) {
  const auto compiled = compile("a: '{{ 1 + }}'\nb: ['{{ 2 + }}', {c: '{{ | }} {{ ( }}'}]");
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().size(), 4u);
}

TEST(Template, SecretsComeFromTheScope) {
  const auto compiled = compile("token: !secret env:HF_TOKEN\nb: 1");
  ASSERT_TRUE(compiled);
  EXPECT_FALSE(compiled->is_constant());
  EXPECT_EQ(compiled->constant_part().dump(), R"({"b":1,"token":null})");
  EXPECT_EQ(compiled->render(SecretScope())->dump(), R"({"b":1,"token":"value of env:HF_TOKEN"})");
  const SecretScope outer;
  EXPECT_TRUE(compiled->render(ObjectScope(Value::object(), &outer)));
  EXPECT_FALSE(compiled->render(ObjectScope(Value::object())));
}

TEST(Template, GrowsOnlySoFar) {
  const Value values = {{"s", std::string(9u << 20, 'x')}};
  EXPECT_EQ(rendered("a: '{{ s }}{{ s }}'", values), "1:4+16 the value is too large: more than 16 MiB");
  EXPECT_EQ(rendered("['{{ s }}', '{{ s }}']", values), "1:1+1 the value is too large: more than 16 MiB");
  EXPECT_EQ(rendered("{a: '{{ s }}', b: ['{{ s }}']}", values), "1:1+1 the value is too large: more than 16 MiB");
  EXPECT_EQ(rendered("['{{ s }}', 1]", values).size(), (9u << 20) + 6);
}

TEST(Template, EntriesKeysAndConstantParts) {
  const auto compiled = compile("a: 1\nb: '{{ inputs.x }}'\nc: {d: '{{ y }}', e: 2}");
  ASSERT_TRUE(compiled);
  EXPECT_FALSE(compiled->is_constant());
  EXPECT_TRUE(compiled->entry("a")->is_constant());
  EXPECT_EQ(compiled->entry("z"), nullptr);
  EXPECT_EQ(compiled->keys()[1].second.line, 2);
  EXPECT_EQ(compiled->constant_part().dump(), R"({"a":1,"b":null,"c":{"d":null,"e":2}})");
  EXPECT_EQ(compiled->references().size(), 2u);
  EXPECT_EQ(Template().render(ObjectScope(Value::object()))->dump(), "null");
  EXPECT_EQ(Template::constant(Value::parse(R"({"a":[1,{"b":2}]})")).render(ObjectScope(Value::object()))->dump(),
            R"({"a":[1,{"b":2}]})");
}

}  // namespace
}  // namespace millwright
