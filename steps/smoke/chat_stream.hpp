// A server-sent event stream of chat.completion.chunk objects, read piece by piece as the bytes come.
//
// Used from one thread; nothing here throws on any input. Memory is bounded: lines beyond 1 MiB and text beyond 1 MiB
// are cut and named.
#pragma once

#include <string>
#include <string_view>

#include "steps/smoke/chat_reply.hpp"

namespace millwright {

class ChatStream {
 public:
  // Returns false once nothing more can matter ([DONE], an error object, or a limit), so that reading may stop.
  bool feed(std::string_view bytes);
  // After the last byte. `complete`: the connection ended as it should.
  enum class Ending { whole, cut };
  ChatReply finish(Ending ending);
  bool has_text() const { return has_text_; }  // a first token came

 private:
  void take_line(std::string_view line);
  void take_data(std::string_view data);
  void take_delta(const Value& choice);
  void append(TextField& field, const TextField& piece);
  void note_bad_line(std::string what);

  ChatReply reply_;
  ChatReply::Stream stream_;
  std::string line_;
  bool stop_ = false;
  bool has_text_ = false;
  bool finished_ = false;  // a finish_reason came
  bool saw_choice_ = false;
};

}  // namespace millwright
