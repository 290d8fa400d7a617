#include "steps/smoke/chat_stream.hpp"

#include <algorithm>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

constexpr std::size_t kMaxLine = 1u << 20;
constexpr std::size_t kMaxText = 1u << 20;
constexpr std::size_t kMaxSurprises = 50;

}  // namespace

bool ChatStream::feed(std::string_view bytes) {
  while (!bytes.empty() && !stop_) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + piece.size() > kMaxLine) {
      reply_.problem_class = "oversized_response";
      reply_.problem = "a line of the stream is longer than 1 MiB";
      stop_ = true;
      break;
    }
    line_.append(piece);
    if (end == std::string_view::npos) break;
    const std::string line = std::move(line_);
    line_.clear();
    take_line(line);
    bytes.remove_prefix(end + 1);
  }
  return !stop_;
}

// WHATWG HTML, 9.2.6: "data:" with one optional blank; ":" starts a comment; other fields are of no interest here.
void ChatStream::take_line(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.empty()) return;
  if (line.front() == ':') {
    ++stream_.comments;
    return;
  }
  if (starts_with(line, "data:")) {
    take_data(trim(line.substr(5)));
  } else if (starts_with(line, "event:") || starts_with(line, "id:") || starts_with(line, "retry:")) {
    return;
  } else if (line.front() == '{') {
    take_data(line);  // an error body in place of a stream, or "data:" forgotten
    note_bad_line("a line of the stream lacks \"data:\"");
  } else {
    note_bad_line("a line of the stream is no event");
  }
}

void ChatStream::take_data(std::string_view data) {
  if (data.empty()) return;
  if (data == "[DONE]") {
    stream_.done = true;
    stop_ = true;
    return;
  }
  std::vector<std::string> surprises;
  std::string why;
  const std::optional<Value> document = parse_json(data, surprises, why);
  for (std::string& surprise : surprises) {
    if (reply_.surprises.size() < kMaxSurprises) reply_.surprises.push_back(std::move(surprise));
  }
  if (!document || !document->is_object()) {
    note_bad_line(document ? "a data line is no object" : replace_all(why, "the body", "a data line"));
    return;
  }
  ++stream_.chunks;
  if (const ServerError error = find_error(*document); error.found) {
    reply_.problem_class = "error_in_200";
    reply_.problem = reply_.error_message = error.message;
    reply_.error_type = error.type;
    stop_ = true;
    return;
  }
  const bool had_usage = reply_.has_usage;
  read_usage(*document, reply_);
  if (reply_.has_usage && !had_usage) stream_.usage_chunk = true;
  if (const auto model = document->find("model"); model != document->end() && model->is_string()) {
    reply_.model = model->get<std::string>();
  }
  const auto choices = document->find("choices");
  if (choices == document->end() || choices->is_null()) return;
  if (!choices->is_array()) {
    note_bad_line("choices of a chunk is no list");
    return;
  }
  if (!choices->empty()) take_delta(choices->front());
}

void ChatStream::take_delta(const Value& choice) {
  if (!choice.is_object()) {
    note_bad_line("choices[0] of a chunk is no object");
    return;
  }
  saw_choice_ = true;
  std::vector<std::string> surprises;
  if (std::string reason = read_finish_reason(choice, surprises); !reason.empty()) {
    reply_.finish_reason = std::move(reason);
    finished_ = true;
  }
  read_logprobs(choice, reply_);
  const auto delta = choice.find("delta");
  if (delta != choice.end() && !delta->is_null()) {
    if (!delta->is_object()) {
      note_bad_line("choices[0].delta is no object");
    } else {
      append(reply_.content, read_text_field(*delta, "content", "choices[0].delta", surprises));
      ChatReply piece;
      read_reasoning(*delta, "choices[0].delta", piece);
      append(reply_.reasoning, piece.reasoning);
      if (!piece.reasoning_name.empty()) reply_.reasoning_name = piece.reasoning_name;
      if (const auto calls = delta->find("tool_calls"); calls != delta->end() && calls->is_array()) {
        for (const Value& call : *calls) {
          const auto index = call.is_object() ? call.find("index") : call.end();
          const bool numbered = call.is_object() && index != call.end() && index->is_number_unsigned();
          const std::size_t at = numbered ? index->get<std::size_t>() : 0;
          add_tool_call(call, reply_.tools, at);
        }
        reply_.tool_calls =
            std::max({reply_.tool_calls, static_cast<int>(calls->size()), static_cast<int>(reply_.tools.size())});
      }
      for (std::string& surprise : piece.surprises) surprises.push_back(std::move(surprise));
    }
  }
  for (std::string& surprise : surprises) note_bad_line(std::move(surprise));
}

void ChatStream::append(TextField& field, const TextField& piece) {
  if (piece.state == FieldState::absent) return;
  if (field.state == FieldState::absent || field.state == FieldState::null) field.state = piece.state;
  if (piece.text.empty()) return;
  if (field.text.size() + piece.text.size() > kMaxText) {
    reply_.problem_class = "oversized_response";
    reply_.problem = "the streamed text is longer than 1 MiB";
    stop_ = true;
    return;
  }
  field.text += piece.text;
  if (piece.state == FieldState::text) {
    field.state = FieldState::text;
    has_text_ = true;
  } else if (field.state != FieldState::text) {
    field.state = FieldState::blank;
  }
}

void ChatStream::note_bad_line(std::string what) {
  ++stream_.bad_lines;
  if (reply_.surprises.size() < kMaxSurprises) reply_.surprises.push_back(std::move(what));
}

ChatReply ChatStream::finish(Ending ending) {
  if (!line_.empty() && !stop_) {
    const std::string line = std::move(line_);
    line_.clear();
    take_line(line);
  }
  reply_.stream = stream_;
  if (!reply_.problem_class.empty()) return reply_;
  if (!saw_choice_) {
    reply_.problem_class = ending == Ending::cut ? "stream_cut" : "stream_malformed";
    reply_.problem = stream_.chunks == 0 ? "the stream holds no chunk" : "no chunk of the stream has choices";
  } else if (!finished_ && !stream_.done) {
    reply_.problem_class = "stream_cut";
    reply_.problem = "the stream ends without finish_reason and [DONE]";
  } else if (!stream_.done) {
    reply_.problem_class = ending == Ending::cut ? "stream_cut" : "stream_malformed";
    reply_.problem = "the stream ends without [DONE]";
  } else if (stream_.bad_lines > 0) {
    reply_.problem_class = "stream_malformed";
    reply_.problem = reply_.surprises.empty() ? "lines of the stream cannot be read" : reply_.surprises.front();
  }
  return reply_;
}

}  // namespace millwright
