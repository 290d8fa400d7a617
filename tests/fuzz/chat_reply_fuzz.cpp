// Any body of a reply: the readers must name what is wrong with it, and hand on only text that a report can hold.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "steps/smoke/chat_reply.hpp"
#include "steps/smoke/utf8.hpp"

namespace {

void check(const millwright::ChatReply& reply) {
  const bool known = reply.problem_class.empty() || reply.problem_class == "malformed_response" ||
                     reply.problem_class == "error_in_200";
  if (!known || reply.problem_class.empty() != reply.problem.empty()) std::abort();
  std::vector<std::string> texts = {reply.problem,       reply.content.text, reply.reasoning.text,
                                    reply.finish_reason, reply.model,        reply.error_message};
  texts.insert(texts.end(), reply.surprises.begin(), reply.surprises.end());
  for (const millwright::ToolCall& tool : reply.tools) texts.insert(texts.end(), {tool.name, tool.arguments});
  for (const std::string& text : texts) {
    if (millwright::clean_utf8(text).invalid_bytes > 0) std::abort();
  }
  if (reply.content.has_text() && reply.content.text.empty()) std::abort();
  if (reply.completion_tokens.value_or(0) < 0 || reply.prompt_tokens.value_or(0) < 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  check(millwright::read_chat_reply(body));
  check(millwright::read_completion_reply(body));
  std::vector<std::string> surprises;
  std::string why;
  const auto document = millwright::parse_json(body, surprises, why);
  if (document.has_value() != why.empty()) std::abort();
  if (document) (void)document->dump();  // throws on what is no text
  return 0;
}
