#include "steps/smoke/chat_reply.hpp"

#include <gtest/gtest.h>

#include "rules_fixture.hpp"
#include "steps/smoke/judge.hpp"

namespace millwright {
namespace {

std::string reply_with(const std::string& message, const std::string& rest = R"("finish_reason":"stop")") {
  return R"({"choices":[{"index":0,"message":)" + message + "," + rest +
         R"(}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}})";
}

std::string class_of(const std::string& body) {
  return judge_reply(*shipped_rules(), read_chat_reply(body), TextKind::answer).symptom_class;
}

TEST(ChatReply, ReadsAPlainAnswer) {
  const ChatReply reply = read_chat_reply(reply_with(R"({"role":"assistant","content":" Paris\n\n"})"));
  EXPECT_EQ(reply.problem_class, "");
  EXPECT_EQ(reply.content.text, " Paris\n\n");
  EXPECT_EQ(reply.finish_reason, "stop");
  EXPECT_EQ(reply.completion_tokens, 2);
  EXPECT_TRUE(reply.surprises.empty());
}

TEST(ChatReply, ReadsReasoningUnderBothNames) {
  for (const std::string name : {"reasoning_content", "reasoning"}) {
    const ChatReply reply = read_chat_reply(reply_with(R"({"content":"Paris",")" + name + R"(":"France, so Paris"})"));
    EXPECT_EQ(reply.reasoning.text, "France, so Paris");
    EXPECT_EQ(reply.reasoning_name, name);
  }
  const ChatReply both = read_chat_reply(reply_with(R"({"content":"x","reasoning_content":null,"reasoning":"why"})"));
  EXPECT_EQ(both.reasoning.text, "why");
}

TEST(ChatReply, ErrorsOfEveryShapeAreFound) {
  const struct {
    const char* body;
    const char* message;
  } cases[] = {
      {R"({"error":{"message":"boom","type":"ServerError","code":500}})", "boom"},
      {R"({"object":"error","message":"no such model","type":"NotFoundError","param":null,"code":404})",
       "no such model"},
      {R"({"error":"plain words"})", "plain words"},
      {R"({"detail":"Not Found"})", "Not Found"},
      {R"({"error":{}})", "an error object without a message"},
      {R"({"error":[1,2]})", "an error object without a message"},
  };
  for (const auto& c : cases) {
    const ChatReply reply = read_chat_reply(c.body);
    EXPECT_EQ(reply.problem_class, "error_in_200") << c.body;
    EXPECT_EQ(reply.error_message, c.message) << c.body;
  }
}

TEST(ChatReply, WhatIsNoReplyIsNamed) {
  const struct {
    std::string body;
    const char* problem;
  } cases[] = {
      {"", "the body is empty"},
      {"  \n", "the body is blank"},
      {"<html>nginx</html>", "the body is HTML or XML, not JSON"},
      {"upstream timed out", "the body is no JSON"},
      {R"({"choices":[{"mess)", "the body is JSON that is cut short or damaged"},
      {"[1,2]", "the reply is a list, not an object"},
      {"null", "the reply is null, not an object"},
      {"{}", "the reply has no choices"},
      {R"({"choices":null})", "choices is null, not a list"},
      {R"({"choices":[]})", "choices is an empty list"},
      {R"({"choices":[7]})", "choices[0] is a number, not an object"},
      {R"({"choices":[{}]})", "choices[0] has no message"},
      {R"({"choices":[{"message":"hi"}]})", "choices[0].message is a string, not an object"},
      {R"({"choices":[{"message":{"content":42}}]})", "choices[0].message.content is a number, not a string"},
      {std::string(5000, '['), "the body is JSON nested deeper than 100 levels"},
  };
  for (const auto& c : cases) {
    const ChatReply reply = read_chat_reply(c.body);
    EXPECT_EQ(reply.problem_class, "malformed_response") << c.body.substr(0, 40);
    EXPECT_EQ(reply.problem, c.problem);
  }
}

TEST(ChatReply, SurvivesNanAndBrokenUtf8) {
  const ChatReply nan = read_chat_reply(reply_with(
      R"({"content":"NaN is not a number"})",
      R"("finish_reason":"stop","logprobs":{"content":[{"token":"N","logprob":NaN},{"token":"a","logprob":-1.5}]})"));
  EXPECT_EQ(nan.content.text, "NaN is not a number");
  ASSERT_EQ(nan.logprobs.size(), 2u);
  EXPECT_FALSE(nan.logprobs[0].logprob.has_value());
  EXPECT_EQ(nan.logprobs[1].logprob, -1.5);
  EXPECT_EQ(nan.surprises, std::vector<std::string>{"the body holds NaN or Infinity, which are no JSON"});

  const ChatReply broken = read_chat_reply(reply_with("{\"content\":\"caf\xC3 \xFF\"}"));
  EXPECT_EQ(broken.content.text, "caf\xEF\xBF\xBD \xEF\xBF\xBD");
  EXPECT_EQ(broken.surprises, std::vector<std::string>{"2 bytes of the body are no valid UTF-8"});
  EXPECT_EQ(class_of(reply_with("{\"content\":\"caf\xC3 \xFF\"}")), "detokenizer_corruption");
}

TEST(DecideEmpty, NamesWhichNullItIs) {
  const std::string two_tokens = R"("finish_reason":"stop")";
  const struct {
    const char* message;
    const char* rest;
    const char* expected;
  } cases[] = {
      // The founding case: HTTP 200, content null, reasoning_content null, 2 tokens, stop.
      {R"({"role":"assistant","content":null,"reasoning_content":null,"tool_calls":null})",
       R"("finish_reason":"stop","matched_stop":248046)", "immediate_eos_null"},
      {R"({"role":"assistant"})", R"("finish_reason":"stop")", "immediate_eos_null"},
      {R"({"content":""})", R"("finish_reason":"stop")", "immediate_eos"},
      {R"({"content":"\n\n"})", R"("finish_reason":"stop")", "newline_only"},
      {R"({"content":null,"reasoning_content":"Paris"})", R"("finish_reason":"stop")", "answer_in_reasoning"},
      {R"({"content":"","reasoning":"Paris"})", R"("finish_reason":"stop")", "answer_in_reasoning"},
      {R"({"content":null,"reasoning":"Let me think"})", R"("finish_reason":"length")", "length_truncated_reasoning"},
      {R"({"content":null})", R"("finish_reason":"length")", "null_content"},
      {R"({"content":""})", R"("finish_reason":"length")", "null_content"},
      {R"({"content":null,"tool_calls":[{"id":"1"}]})", R"("finish_reason":"tool_calls")", ""},
      {R"({"content":"\n\n","tool_calls":[{"id":"1"}]})", R"("finish_reason":"tool_calls")", ""},
      {R"({"content":null,"tool_calls":[]})", R"("finish_reason":"tool_calls")", "tool_call_unparsed"},
      {R"({"content":null,"reasoning_content":"<tool_call>x</tool_call>"})", R"("finish_reason":"stop")",
       "tool_call_in_reasoning"},
      {R"({"content":"Paris"})", R"("finish_reason":"stop")", ""},
  };
  for (const auto& c : cases) EXPECT_EQ(class_of(reply_with(c.message, c.rest)), c.expected) << c.message;
}

TEST(DecideEmpty, ManyTokensWithoutTextAreNotAnImmediateEnd) {
  EXPECT_EQ(
      class_of(R"({"choices":[{"message":{"content":null},"finish_reason":"stop"}],"usage":{"completion_tokens":40}})"),
      "null_content");
  EXPECT_EQ(class_of(R"({"choices":[{"message":{"content":null},"finish_reason":"stop"}]})"), "null_content");
}

TEST(DescribeReply, SaysWhatAPersonWouldLookFor) {
  EXPECT_EQ(describe_reply(read_chat_reply(reply_with(R"({"content":null,"reasoning_content":null})"))),
            "content null, reasoning null, stop after 2 tokens");
  EXPECT_EQ(describe_reply(read_chat_reply(reply_with("{\"content\":\"a\\u001b[31m\\n\"}"))),
            "\"a\\x1b[31m\\n\", stop after 2 tokens");
}

}  // namespace
}  // namespace millwright
