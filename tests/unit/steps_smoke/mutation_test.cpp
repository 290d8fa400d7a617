// Real replies with each field turned into each wrong thing: nothing may throw, and every damage that matters is named.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "rules_fixture.hpp"
#include "steps/smoke/chat_stream.hpp"
#include "steps/smoke/judge.hpp"
#include "steps/smoke/known_answers.hpp"

namespace millwright {
namespace {

struct Recorded {
  std::vector<std::string> plain, streams;
};

const Recorded& recorded_bodies() {
  static const Recorded recorded = [] {
    Recorded out;
    for (const auto& entry : std::filesystem::directory_iterator(std::string(TEST_DATA) + "/smoke")) {
      if (entry.path().extension() != ".ndjson") continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        const Value row = Value::parse(line);
        if (row.at("method") != "POST") continue;
        (row.value("stream", false) ? out.streams : out.plain).push_back(row.at("body"));
      }
    }
    return out;
  }();
  return recorded;
}

const std::vector<Value>& wrong_things() {
  static const std::vector<Value> things = {nullptr,
                                            "",
                                            " \n",
                                            "text",
                                            0,
                                            -1,
                                            1e300,
                                            true,
                                            Value::array(),
                                            Value::object(),
                                            Value::array({1, nullptr}),
                                            Value{{"a", {{"b", nullptr}}}},
                                            "\xEF\xBF\xBD",
                                            std::string(3, '\0'),
                                            18446744073709551615ull};
  return things;
}

// What any caller does with a reply; returns the class.
std::string judged(const ChatReply& reply) {
  EXPECT_FALSE(describe_reply(reply).empty());
  const Finding finding = judge_reply(*shipped_rules(), reply, TextKind::answer);
  if (finding) {
    EXPECT_NE(shipped_rules()->classes.find(finding.symptom_class), nullptr) << finding.symptom_class;
  }
  return finding.symptom_class;
}

void every_pointer(const Value& value, const Value::json_pointer& at, std::vector<Value::json_pointer>& out) {
  out.push_back(at);
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) every_pointer(item, at / key, out);
  }
  if (value.is_array() && !value.empty()) every_pointer(value.front(), at / 0, out);
}

TEST(Mutations, EveryFieldOfARealReplyMayBeAnything) {
  ASSERT_GT(recorded_bodies().plain.size(), 20u);
  int tried = 0;
  for (std::size_t i = 0; i < recorded_bodies().plain.size(); i += 17) {
    const Value document = Value::parse(recorded_bodies().plain[i]);
    std::vector<Value::json_pointer> places;
    every_pointer(document, Value::json_pointer(), places);
    for (const auto& place : places) {
      for (const Value& wrong : wrong_things()) {
        Value damaged = document;
        damaged[place] = wrong;
        const ChatReply reply = read_chat_reply(damaged.dump(-1, ' ', false, Value::error_handler_t::replace));
        const std::string symptom = judged(reply);
        ++tried;
        const std::string where = place.to_string();
        const bool carries_answer = where.empty() || where == "/choices" || where == "/choices/0" ||
                                    where == "/choices/0/message" || where == "/choices/0/message/content";
        // A damaged place that carries the answer leaves no healthy reply, unless the text itself is fine.
        if (carries_answer && !(where == "/choices/0/message/content" && wrong == "text")) {
          EXPECT_NE(symptom, "") << where << " = " << wrong.dump(-1, ' ', false, Value::error_handler_t::replace);
        }
      }
      if (place.empty()) continue;
      Value without = document;
      Value& parent = without[place.parent_pointer()];
      if (parent.is_object()) parent.erase(place.back());
      judged(read_chat_reply(without.dump()));
    }
  }
  EXPECT_GT(tried, 500);
}

TEST(Mutations, EveryCutOfARealReplyIsNamed) {
  const std::string& body = recorded_bodies().plain.front();
  for (std::size_t size = 0; size < body.size(); ++size) {
    EXPECT_EQ(read_chat_reply(std::string_view(body).substr(0, size)).problem_class, "malformed_response") << size;
  }
}

TEST(Mutations, EveryCutOfARealStreamIsNamedOrWhole) {
  const std::string& body = recorded_bodies().streams.front();
  const std::size_t done = body.find("data: [DONE]");
  ASSERT_NE(done, std::string::npos);
  for (std::size_t size = 0; size < body.size(); ++size) {
    ChatStream stream;
    stream.feed(std::string_view(body).substr(0, size));
    const ChatReply reply = stream.finish(ChatStream::Ending::cut);
    const bool has_end = size >= done + 12;
    EXPECT_EQ(reply.problem_class.empty(), has_end) << size;
  }
}

TEST(Mutations, RandomDamageNeverBreaksTheReaders) {
  std::mt19937 random(20261130);
  std::vector<std::string> corpus = recorded_bodies().plain;
  corpus.insert(corpus.end(), recorded_bodies().streams.begin(), recorded_bodies().streams.end());
  for (int round = 0; round < 400; ++round) {
    std::string bytes = corpus[random() % corpus.size()];
    for (std::size_t hits = 1 + random() % 6; hits > 0 && !bytes.empty(); --hits) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 20);
          break;
        case 2:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 40));
          break;
        default:
          bytes.insert(at, 1, "{}[],:\"\\\n"[random() % 9]);
      }
    }
    judged(read_chat_reply(bytes));
    ChatStream stream;
    for (std::size_t from = 0; from < bytes.size(); from += 97) stream.feed(std::string_view(bytes).substr(from, 97));
    const ChatReply reply = stream.finish(round % 2 == 0 ? ChatStream::Ending::whole : ChatStream::Ending::cut);
    judged(reply);
    holds_answer(bytes, {"Paris"});
  }
}

}  // namespace
}  // namespace millwright
