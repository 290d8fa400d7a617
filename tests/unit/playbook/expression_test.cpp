#include <gtest/gtest.h>

#include "orchestrator/playbook/template.hpp"

namespace millwright {
namespace {

Value scope_value() {
  return Value::parse(R"({"inputs": {"model": "m", "count": 3, "none": null, "tags": ["b", "a"]},
                          "steps": {"box": {"ip": "10.0.0.2"}}, "item": {"name": "x"}})");
}

// The value as JSON, or "line:column+length message; hint".
std::string evaluate(std::string_view text) {
  const ObjectScope scope(scope_value());
  const auto show = [](const Error& error) {
    return std::to_string(error.where->line) + ":" + std::to_string(error.where->column) + "+" +
           std::to_string(error.where->length) + " " + error.message + (error.hint.empty() ? "" : "; " + error.hint);
  };
  const auto expression = Expression::parse(text, {"f", 7, 10, 1, std::string(9, ' ') + std::string(text)});
  if (!expression) return show(expression.error());
  const auto value = expression->evaluate(scope);
  return value ? value->dump() : show(value.error());
}

TEST(Expression, PathsAndSuggestions) {
  EXPECT_EQ(evaluate("inputs.model"), "\"m\"");
  EXPECT_EQ(evaluate("inputs['model']"), "\"m\"");
  EXPECT_EQ(evaluate("inputs.tags[0] ~ inputs.tags.1 ~ inputs.tags[-1]"), "\"baa\"");
  EXPECT_EQ(evaluate("inputs.modle"), "7:10+12 'inputs.modle' is not defined here; did you mean 'inputs.model'?");
  EXPECT_EQ(evaluate("1 + input.model"), "7:14+5 'input' is not defined here; did you mean 'inputs'?");
  EXPECT_EQ(evaluate("steps.box.pi"), "7:10+12 'steps.box.pi' is not defined here; did you mean 'steps.box.ip'?");
  EXPECT_EQ(evaluate("inputs.model.x"), "7:10+14 a text has no item 'x'");
  EXPECT_EQ(evaluate("inputs.tags[2]"), "7:10+14 there is no item 2: a list of 2");
  EXPECT_EQ(evaluate("null"), "7:10+4 'null' is not defined here; write none");
}

TEST(Expression, DefaultCatchesUndefinedAlongThePath) {
  EXPECT_EQ(evaluate("inputs.x | default('d')"), "\"d\"");
  EXPECT_EQ(evaluate("a.b.c | default('d')"), "\"d\"");
  EXPECT_EQ(evaluate("inputs.none | default('d')"), "null");
  EXPECT_EQ(evaluate("inputs.none | default('d', true)"), "\"d\"");
  EXPECT_EQ(evaluate("[] | first | default(1)"), "1");
  EXPECT_EQ(evaluate("inputs.x is defined"), "false");
  EXPECT_EQ(evaluate("inputs.x is none"), "7:10+8 'inputs.x' is not defined here");
}

TEST(Expression, ArithmeticThatWouldCrashOrLieIsAnError) {
  EXPECT_EQ(evaluate("9223372036854775807 + 1"), "7:30+1 the result is an integer beyond 64 bits");
  EXPECT_EQ(evaluate("-9223372036854775807 - 1"), "-9223372036854775808");
  EXPECT_EQ(evaluate("-(-9223372036854775807 - 1)"), "7:10+1 the result is an integer beyond 64 bits");
  EXPECT_EQ(evaluate("(-9223372036854775807 - 1) // -1"), "7:37+2 the result is an integer beyond 64 bits");
  EXPECT_EQ(evaluate("(-9223372036854775807 - 1) % -1"), "0");
  EXPECT_EQ(evaluate("2 ** 63"), "7:12+2 the result is an integer beyond 64 bits");
  EXPECT_EQ(evaluate("1 ** 9223372036854775807"), "1");
  EXPECT_EQ(evaluate("9223372036854775808"), "7:10+19 this integer is beyond 64 bits");
  for (const char* text : {"1 / 0", "1 // 0", "1 % 0", "1.0 / 0", "1.0 // 0.0", "0 ** -1", "0.0 ** -1"}) {
    EXPECT_NE(evaluate(text).find("division by zero"), std::string::npos) << text;
  }
}

TEST(Expression, GiantResultsAreErrors) {
  for (const char* text :
       {"'a' * 10**9", "[1] * 10**12", "('a' * 1000000) | replace('a', 'b' * 1000000)", "['a' * 1000] * 1000000",
        "('x' * 10000000) ~ ('x' * 10000000)", "'' * 10**18 ~ 'a' * 10**18", "([0] * 400000) | map('default', 1)"}) {
    EXPECT_NE(evaluate(text).find("the result is too large: more than 16 MiB"), std::string::npos) << text;
  }
}

TEST(Expression, DepthIsLimited) {
  EXPECT_NE(evaluate(std::string(10'000, '(')).find("too deep"), std::string::npos);
  EXPECT_NE(evaluate(std::string(10'000, '[')).find("too deep"), std::string::npos);
  EXPECT_NE(evaluate(std::string(10'000, '-') + "1").find("too deep"), std::string::npos);
  std::string sum = "1";
  for (int i = 0; i < 10'000; ++i) sum += " + 1";
  EXPECT_NE(evaluate(sum).find("too deep"), std::string::npos);
  std::string nots;
  for (int i = 0; i < 10'000; ++i) nots += "not ";
  EXPECT_NE(evaluate(nots + "1").find("too deep"), std::string::npos);
}

TEST(Expression, MistakesSayWhereAndWhatToDo) {
  EXPECT_EQ(evaluate("1 +"), "7:13+1 the expression ends too early");
  EXPECT_EQ(evaluate(""), "7:10+1 an expression is missing here");
  EXPECT_EQ(evaluate("inputs.count = 3"), "7:23+1 '=' does not fit here; compare with '=='");
  EXPECT_EQ(evaluate("a && b"), "7:12+2 '&&' is no operator; write 'and'");
  EXPECT_EQ(evaluate("!a"), "7:10+1 unexpected character '!'; write 'not'");
  EXPECT_EQ(evaluate("'abc"), "7:10+1 this string is never closed");
  EXPECT_EQ(evaluate("inputs.tags | upcase"),
            "7:24+6 unknown filter 'upcase'; filters: count d default first float int "
            "join last length lower map quote replace select sort split to_json "
            "to_yaml unique upper");
  EXPECT_EQ(evaluate("inputs.tags | jion(',')"), "7:24+4 unknown filter 'jion'; did you mean 'join'?");
  EXPECT_EQ(evaluate("inputs.tags | map('uper')"), "7:24+3 unknown filter 'uper'; did you mean 'upper'?");
  EXPECT_EQ(evaluate("1 is nonne"), "7:15+5 unknown test 'nonne'; did you mean 'none'?");
  EXPECT_EQ(evaluate("inputs.tags.append(1)"), "7:28+1 calls are not supported; filters are written: value | name");
  EXPECT_EQ(evaluate("'a' | replace('b')"), "7:16+7 filter 'replace' needs 'new'");
  EXPECT_EQ(evaluate("'a' | join(x=1)"), "7:16+4 filter 'join' has no argument 'x'; it takes: d, attribute");
  EXPECT_EQ(evaluate("1 + 'a'"), "7:12+1 '+' cannot be used on an integer and a text; '~' joins values as text");
  EXPECT_EQ(evaluate("[1, 'a'] | sort"), "7:21+4 '<' cannot be used on a text and an integer");
  EXPECT_EQ(evaluate("007"),
            "7:10+3 an integer cannot start with 0; write 0o17 for an octal number, or put it in quotes");
  EXPECT_EQ(evaluate("1 if false"), "7:12+2 the condition does not hold and there is no 'else'; add: else ...");
}

TEST(Expression, QuoteIsTheShells) {
  EXPECT_EQ(evaluate(R"("it's; rm -rf /" | quote)"), R"("'it'\\''s; rm -rf /'")");
  EXPECT_EQ(evaluate("['a b', 'c'] | map('quote') | join(' ')"), R"("'a b' c")");
}

TEST(Expression, YamlFilterReadsBack) {
  const Value value = Value::parse(
      R"({"a": [1, -2.5, true, null, "yes", "1", "", " x", "a: b", "-", "#", "x # y", "multi\nline", "é", "~", "0644"],
          "e": {}, "l": [], "n": [[1, [2]], {"k": {"z": 1}, "y": [3]}], "key with: colon": "v", "null": "\u0000\u007f"})");
  const ObjectScope scope(Value{{"v", value}});
  const auto text = Expression::parse("v | to_yaml", {"f", 1, 1, 1, ""})->evaluate(scope);
  ASSERT_TRUE(text);
  const auto back = parse_yaml(text->get<std::string>(), "out.yml");
  ASSERT_TRUE(back) << render(back.error()[0]) << *text;
  EXPECT_EQ(back->to_value(), value) << *text;
}

TEST(Expression, ReferencesAreFoundAndGuardedOnesToldApart) {
  const auto expression = Expression::parse(
      "inputs.a ~ steps['box'].ip[0] ~ x[inputs.i].y ~ (vars.q | default('')) ~ (w.z if w.z is defined)",
      {"f", 1, 1, 1, ""});
  ASSERT_TRUE(expression);
  std::string all;
  for (const auto& [path, mark] : expression->references()) {
    for (const std::string& part : path) all += part + ".";
    all += std::to_string(mark.column) + " ";
  }
  EXPECT_EQ(all, "inputs.a.1 steps.box.ip.0.12 x.33 inputs.i.35 vars.q.50 w.z.75 w.z.82 ");
  EXPECT_EQ(expression->required_references().size(), 4u);
}

}  // namespace
}  // namespace millwright
