#include "orchestrator/engine/output_lines.hpp"

namespace millwright {

namespace {

// Beyond this the journal of a chatty command would outgrow everything else; the end is in the result and the evidence.
constexpr std::size_t most = 256u << 10;
constexpr std::size_t longest_line = 16u << 10;

}  // namespace

void OutputLines::emit(OutputStream stream, const std::string& text) {
  if (emitted_ >= most || text.empty()) return;
  emitted_ += text.size();
  recorder_.emit(EventType::step_output, host_, step_,
                 {{"stream", stream == OutputStream::out ? "out" : "err"}, {"text", text}});
}

void OutputLines::add(OutputStream stream, std::string_view piece) {
  std::string& held = stream == OutputStream::out ? out_ : err_;
  held += piece;
  const std::size_t end = held.rfind('\n');
  if (end == std::string::npos && held.size() < longest_line) return;
  const std::size_t size = end == std::string::npos ? held.size() : end + 1;
  emit(stream, held.substr(0, size));
  held.erase(0, size);
}

void OutputLines::finish() {
  emit(OutputStream::out, out_);
  emit(OutputStream::err, err_);
  out_.clear();
  err_.clear();
}

}  // namespace millwright
