#include "steps/contract/signature.hpp"

#include <gtest/gtest.h>

#include "steps/contract/inputs.hpp"

namespace millwright {
namespace {

using namespace std::chrono_literals;

Signature example() {
  Signature s;
  s.kind = "demo";
  s.positional = "name";
  s.inputs = {
      {.name = "name", .need = Need::required, .doc = "What it is called."},
      {.name = "state", .default_value = "present", .one_of = {"present", "absent"}},
      {.name = "count", .type = ValueType::integer},
      {.name = "ratio", .type = ValueType::number},
      {.name = "force", .type = ValueType::boolean, .default_value = false},
      {.name = "mode", .type = ValueType::mode},
      {.name = "timeout", .type = ValueType::duration, .default_value = "5m"},
      {.name = "limit", .type = ValueType::size},
      {.name = "items", .type = ValueType::list},
      {.name = "token", .one_of = {"right"}, .secrecy = Secrecy::secret},
      {.name = "limits",
       .type = ValueType::mapping,
       .fields = {{.name = "cpu", .type = ValueType::integer, .need = Need::required},
                  {.name = "memory", .type = ValueType::size, .default_value = "1GiB"}}},
  };
  return s;
}

TEST(CheckInputs, FillsDefaultsAndCoerces) {
  const auto checked = check_inputs(example(), {{"name", 5},
                                                {"count", " 7 "},
                                                {"ratio", "0.5"},
                                                {"force", "Yes"},
                                                {"mode", 644},
                                                {"limit", "2K"},
                                                {"items", "one"},
                                                {"limits", {{"cpu", 2}}}});
  ASSERT_TRUE(checked) << checked.error()[0].message;
  const Inputs inputs(*checked);
  EXPECT_EQ(inputs.string("name"), "5");
  EXPECT_EQ(inputs.string("state"), "present");
  EXPECT_EQ(inputs.integer("count"), 7);
  EXPECT_DOUBLE_EQ(inputs.number("ratio"), 0.5);
  EXPECT_TRUE(inputs.boolean("force"));
  EXPECT_EQ(inputs.string("mode"), "0644");
  EXPECT_EQ(inputs.duration("timeout"), 5min);
  EXPECT_EQ(inputs.size("limit"), 2048u);
  EXPECT_EQ(inputs.strings("items"), std::vector<std::string>{"one"});
  EXPECT_EQ(inputs.value("limits")["memory"], "1GiB");
  EXPECT_FALSE(inputs.has("token"));
  EXPECT_TRUE(inputs.strings("token").empty());
  EXPECT_EQ(inputs.string_or("token", "none"), "none");
}

TEST(CheckInputs, IsIdempotent) {
  const auto once = check_inputs(example(), {{"name", "x"}, {"mode", "u"}, {"limits", {{"cpu", "1"}}}});
  ASSERT_FALSE(once);
  const auto first = check_inputs(example(), {{"name", "x"}, {"mode", "0755"}, {"limits", {{"cpu", "1"}}}});
  ASSERT_TRUE(first);
  EXPECT_EQ(*check_inputs(example(), *first), *first);
}

TEST(CheckInputs, PositionalAndNull) {
  EXPECT_EQ((*check_inputs(example(), "nginx"))["name"], "nginx");
  EXPECT_EQ((*check_inputs(example(), {{"name", "x"}, {"count", nullptr}})).count("count"), 0u);
  Signature without = example();
  without.positional.clear();
  const auto refused = check_inputs(without, "nginx");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error()[0].message, "demo takes a mapping of inputs, not a string");
}

TEST(CheckInputs, ReportsEveryProblemAtOnce) {
  const auto checked =
      check_inputs(example(), {{"stat", "absent"}, {"state", "presnt"}, {"count", "many"}, {"limits", {{"cpus", 1}}}});
  ASSERT_FALSE(checked);
  std::map<std::string, Error> by_input;
  for (const Error& error : checked.error()) by_input[error.detail] = error;
  EXPECT_EQ(by_input.size(), 6u);
  EXPECT_EQ(by_input["stat"].message, "unknown input 'stat' of step kind demo");
  EXPECT_NE(by_input["stat"].hint.find("did you mean 'state'?"), std::string::npos);
  EXPECT_EQ(by_input["name"].message, "step kind demo needs 'name'");
  EXPECT_NE(by_input["state"].hint.find("did you mean 'present'?"), std::string::npos);
  EXPECT_EQ(by_input["count"].message, "'count' takes an integer, but \"many\" is a string");
  EXPECT_EQ(by_input["limits.cpu"].message, "'limits' needs 'limits.cpu'");
  EXPECT_NE(by_input["limits.cpus"].hint.find("did you mean 'cpu'?"), std::string::npos);
  for (const auto& [name, error] : by_input) EXPECT_EQ(error.kind, ErrorKind::invalid) << name;
}

TEST(CheckValue, Modes) {
  const InputSpec mode{.name = "mode", .type = ValueType::mode};
  EXPECT_EQ(*check_value(mode, "0644"), "0644");
  EXPECT_EQ(*check_value(mode, "644"), "0644");
  EXPECT_EQ(*check_value(mode, "0o750"), "0750");
  EXPECT_EQ(*check_value(mode, "02755"), "2755");
  EXPECT_EQ(*check_value(mode, 0), "0000");
  EXPECT_FALSE(check_value(mode, "0888"));
  EXPECT_FALSE(check_value(mode, ""));
  EXPECT_FALSE(check_value(mode, "17777"));
  EXPECT_FALSE(check_value(mode, true));
  const auto symbolic = check_value(mode, "u=rw,go=r");
  ASSERT_FALSE(symbolic);
  EXPECT_NE(symbolic.error().hint.find("octal"), std::string::npos);
}

TEST(CheckValue, WhatYamlWouldSilentlyChangeIsRefused) {
  const InputSpec text{.name = "version"};
  EXPECT_NE(check_value(text, 1.1).error().hint.find("quotes"), std::string::npos);
  EXPECT_NE(check_value(text, true).error().hint.find("quotes"), std::string::npos);
}

TEST(CheckValue, SecretsStayOutOfMessages) {
  const InputSpec token{.name = "token", .one_of = {"right"}, .secrecy = Secrecy::secret};
  EXPECT_EQ(check_value(token, "hunter2").error().message.find("hunter2"), std::string::npos);
  const InputSpec delay{.name = "delay", .type = ValueType::duration, .secrecy = Secrecy::secret};
  EXPECT_EQ(check_value(delay, "hunter2").error().message.find("hunter2"), std::string::npos);
  const InputSpec number{.name = "n", .type = ValueType::integer, .secrecy = Secrecy::secret};
  EXPECT_EQ(check_value(number, "hunter2").error().message.find("hunter2"), std::string::npos);
}

TEST(Inputs, WrongUseIsABugThatShows) {
  const Inputs inputs(Value{{"name", "x"}, {"list", Value::array({1, "b"})}});
  EXPECT_THROW(inputs.integer("name"), std::logic_error);
  EXPECT_THROW(inputs.string("absent"), std::logic_error);
  EXPECT_THROW(inputs.boolean("name"), std::logic_error);
  EXPECT_THROW(inputs.duration("name"), std::logic_error);
  EXPECT_EQ(inputs.strings("list"), (std::vector<std::string>{"1", "b"}));
}

}  // namespace
}  // namespace millwright
