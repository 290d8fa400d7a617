#include "steps/smoke/chat_stream.hpp"

#include <gtest/gtest.h>

namespace millwright {
namespace {

std::string delta(const std::string& inside, const std::string& finish = "null") {
  return R"(data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":)" + inside + R"(,"finish_reason":)" +
         finish + "}]}\n\n";
}

const std::string kUsage = R"(data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}})"
                           "\n\n";
const std::string kDone = "data: [DONE]\n\n";

ChatReply read(const std::string& bytes, ChatStream::Ending ending = ChatStream::Ending::whole) {
  ChatStream stream;
  stream.feed(bytes);
  return stream.finish(ending);
}

TEST(ChatStream, ReadsTheSameHoweverTheBytesArrive) {
  const std::string bytes = ": ping\n\n" + delta(R"({"role":"assistant","content":null})") +
                            delta(R"({"content":" Pa"})") + delta(R"({"content":"ris"})") + delta("{}", R"("stop")") +
                            kUsage + kDone;
  for (std::size_t size = 1; size <= bytes.size(); size += 7) {
    ChatStream stream;
    for (std::size_t at = 0; at < bytes.size(); at += size) stream.feed(std::string_view(bytes).substr(at, size));
    const ChatReply reply = stream.finish(ChatStream::Ending::whole);
    EXPECT_EQ(reply.problem_class, "");
    EXPECT_EQ(reply.content.text, " Paris");
    EXPECT_EQ(reply.finish_reason, "stop");
    EXPECT_EQ(reply.completion_tokens, 2);
    EXPECT_EQ(reply.stream->comments, 1);
    EXPECT_EQ(reply.stream->chunks, 5);
    EXPECT_TRUE(reply.stream->done);
  }
}

TEST(ChatStream, CarriageReturnsAndOtherFieldsAreFine) {
  const std::string bytes =
      "event: message\r\nid: "
      "1\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: "
      "[DONE]\r\n\r\n";
  const ChatReply reply = read(bytes);
  EXPECT_EQ(reply.problem_class, "");
  EXPECT_EQ(reply.content.text, "hi");
}

TEST(ChatStream, WhatIsWrongIsNamed) {
  const std::string text = delta(R"({"content":"Paris"})");
  const std::string stop = delta("{}", R"("stop")");
  const struct {
    std::string bytes;
    ChatStream::Ending ending;
    const char* expected;
  } cases[] = {
      {"", ChatStream::Ending::whole, "stream_malformed"},
      {"", ChatStream::Ending::cut, "stream_cut"},
      {text, ChatStream::Ending::cut, "stream_cut"},
      {text, ChatStream::Ending::whole, "stream_cut"},
      {text + stop, ChatStream::Ending::whole, "stream_malformed"},
      {text + stop, ChatStream::Ending::cut, "stream_cut"},
      {text + "data: {\"choi\n\n" + stop + kDone, ChatStream::Ending::whole, "stream_malformed"},
      {text + "data: 7\n\n" + stop + kDone, ChatStream::Ending::whole, "stream_malformed"},
      {delta(R"({"content":7})") + stop + kDone, ChatStream::Ending::whole, "stream_malformed"},
      {delta("[]") + kDone, ChatStream::Ending::whole, "stream_malformed"},
      {"data: {\"choices\":[]}\n\n" + kDone, ChatStream::Ending::whole, "stream_malformed"},
      {"data: {\"choices\":{}}\n\n" + kDone, ChatStream::Ending::whole, "stream_malformed"},
      {"data: {\"error\":{\"message\":\"too long\"}}\n\n" + kDone, ChatStream::Ending::whole, "error_in_200"},
      {"{\"error\":{\"message\":\"not a stream\"}}", ChatStream::Ending::whole, "error_in_200"},
      {"<html>", ChatStream::Ending::whole, "stream_malformed"},
      {text + stop + kDone, ChatStream::Ending::whole, ""},
  };
  for (const auto& c : cases) EXPECT_EQ(read(c.bytes, c.ending).problem_class, c.expected) << c.bytes;
}

TEST(ChatStream, ALineWithoutEndIsCut) {
  ChatStream stream;
  const std::string piece(100'000, 'x');
  int fed = 0;
  while (stream.feed(piece) && fed < 100) ++fed;
  EXPECT_LT(fed, 12);
  EXPECT_EQ(stream.finish(ChatStream::Ending::cut).problem_class, "oversized_response");
}

TEST(ChatStream, AnEndlessStreamOfTextIsCut) {
  ChatStream stream;
  const std::string piece = delta("{\"content\":\"" + std::string(10'000, 'a') + "\"}");
  int fed = 0;
  while (stream.feed(piece) && fed < 1000) ++fed;
  EXPECT_LT(fed, 120);
  EXPECT_EQ(stream.finish(ChatStream::Ending::cut).problem_class, "oversized_response");
}

}  // namespace
}  // namespace millwright
