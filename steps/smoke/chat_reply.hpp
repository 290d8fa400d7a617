// What a chat endpoint answered, read so that nothing a server can send breaks the reader: every field may be null,
// absent, empty or of a wrong type, and what surprises is named.
//
// Pure functions over bytes; safe from any thread; nothing here throws on any input.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/value.hpp"

namespace millwright {

// How a text field came. `blank` is white space only.
enum class FieldState { absent, null, empty, blank, text, wrong_type };
std::string_view to_string(FieldState state);

struct TextField {
  FieldState state = FieldState::absent;
  std::string text;
  bool has_text() const { return state == FieldState::text; }
};

struct TokenLogprob {
  std::string token;
  std::optional<double> logprob;  // nothing: null, NaN or no number
};

struct ToolCall {
  std::string name, arguments;  // arguments: JSON as text, as the API has it
};

struct ChatReply {
  // What makes the whole reply unreadable or an error: a name of classes.yml (malformed_response, error_in_200), else
  // empty. `problem` says what it is.
  std::string problem_class;
  std::string problem;

  TextField content;
  TextField reasoning;         // `reasoning_content` or `reasoning`, whichever has more to say
  std::string reasoning_name;  // the name it came under
  std::string finish_reason;   // empty: null or absent
  int tool_calls = 0;
  std::vector<ToolCall> tools;  // those of tool_calls that are objects
  std::optional<std::int64_t> prompt_tokens;
  std::optional<std::int64_t> completion_tokens;
  bool has_usage = false;
  std::string model;
  std::string engine_hint;  // system_fingerprint and such, as it came
  std::vector<TokenLogprob> logprobs;
  bool has_logprobs = false;

  // Error of the server, flat or nested; also set for HTTP errors.
  std::string error_message;
  std::string error_type;

  // Everything that is not as the API promises, in words: "choices[0].message.content is a number, not a string".
  std::vector<std::string> surprises;

  // Only for streams.
  struct Stream {
    int chunks = 0;
    int bad_lines = 0;
    int comments = 0;
    bool done = false;         // [DONE] came
    bool usage_chunk = false;  // usage came in a chunk
  };
  std::optional<Stream> stream;
};

// The body of /v1/chat/completions, with whatever status.
ChatReply read_chat_reply(std::string_view body);

// The body of /v1/completions: the text of the first choice as content.
ChatReply read_completion_reply(std::string_view body);

// JSON out of bytes that may be anything: invalid UTF-8 is replaced (and named), nesting deeper than 100 is refused,
// NaN and Infinity as Python servers write them are read as null (and named). Nothing: no JSON, `why` says so.
std::optional<Value> parse_json(std::string_view bytes, std::vector<std::string>& surprises, std::string& why);

// An error object in any of the shapes that engines use; empty when the document holds none.
struct ServerError {
  std::string message;
  std::string type;
  bool found = false;
};
ServerError find_error(const Value& document);

// Used by the stream reader too.
TextField read_text_field(const Value& parent, std::string_view key, std::string_view path,
                          std::vector<std::string>& surprises);
void read_usage(const Value& document, ChatReply& reply);
void read_logprobs(const Value& choice, ChatReply& reply);
// Adds one element of a tool_calls list to the call at index `at`: streams send name and arguments in pieces.
void add_tool_call(const Value& call, std::vector<ToolCall>& tools, std::size_t at);
std::string read_finish_reason(const Value& choice, std::vector<std::string>& surprises);
// Sets reply.reasoning from whichever name has text.
void read_reasoning(const Value& message, std::string_view path, ChatReply& reply);

}  // namespace millwright
