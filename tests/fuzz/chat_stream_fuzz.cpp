// What a server may stream: the reader must give the same reply however the network cuts the bytes into pieces, and
// only text that a report can hold.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "steps/smoke/chat_stream.hpp"
#include "steps/smoke/utf8.hpp"

namespace {

using millwright::ChatReply;
using millwright::ChatStream;

// Pieces of the sizes that `sizes` holds, again and again.
ChatReply read(std::string_view wire, std::string_view sizes, ChatStream::Ending ending) {
  ChatStream stream;
  for (std::size_t turn = 0; !wire.empty(); ++turn) {
    const std::string_view piece = wire.substr(0, 1 + static_cast<unsigned char>(sizes[turn % sizes.size()]) % 61);
    wire.remove_prefix(piece.size());
    if (!stream.feed(piece)) break;
  }
  return stream.finish(ending);
}

std::vector<std::string> texts(const ChatReply& reply) {
  std::vector<std::string> out = {reply.problem_class,  reply.problem,        reply.content.text,
                                  reply.reasoning.text, reply.reasoning_name, reply.finish_reason,
                                  reply.error_message,  reply.error_type,     reply.model};
  out.insert(out.end(), reply.surprises.begin(), reply.surprises.end());
  for (const millwright::ToolCall& tool : reply.tools) out.insert(out.end(), {tool.name, tool.arguments});
  for (const millwright::TokenLogprob& token : reply.logprobs) out.push_back(token.token);
  return out;
}

auto figures(const ChatReply& reply) {
  return std::tuple(reply.content.state, reply.reasoning.state, reply.tool_calls, reply.prompt_tokens,
                    reply.completion_tokens, reply.has_usage, reply.has_logprobs, reply.logprobs.size(),
                    reply.stream->chunks, reply.stream->bad_lines, reply.stream->comments, reply.stream->done,
                    reply.stream->usage_chunk);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view sizes = input.substr(0, 3), wire = input.substr(3);
  const auto ending = data[0] % 2 == 0 ? ChatStream::Ending::whole : ChatStream::Ending::cut;
  ChatStream at_once;
  at_once.feed(wire);
  const ChatReply whole = at_once.finish(ending);
  const ChatReply pieces = read(wire, sizes, ending);
  if (texts(whole) != texts(pieces) || figures(whole) != figures(pieces)) std::abort();
  for (const std::string& text : texts(whole)) {
    if (millwright::clean_utf8(text).invalid_bytes > 0) std::abort();
  }
  if (whole.problem_class.empty() != whole.problem.empty()) std::abort();
  return 0;
}
