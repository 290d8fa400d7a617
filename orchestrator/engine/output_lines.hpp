// Output of a command as it comes, passed on in whole lines (so that a secret is never cut in two and slips through
// redaction), as step_output events.
#pragma once

#include <string>
#include <string_view>

#include "orchestrator/engine/recorder.hpp"
#include "orchestrator/transport/connection.hpp"

namespace millwright {

class OutputLines {
 public:
  OutputLines(Recorder& recorder, std::string host, std::string step)
      : recorder_(recorder), host_(std::move(host)), step_(std::move(step)) {}
  void add(OutputStream stream, std::string_view piece);
  void finish();  // what was left without a newline

 private:
  void emit(OutputStream stream, const std::string& text);

  Recorder& recorder_;
  const std::string host_, step_;
  std::string out_, err_;
  std::size_t emitted_ = 0;
};

}  // namespace millwright
