// What a lane's stream may bring: the reader must give the same payload however the stream is cut, keep to its frame,
// and never read beyond it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "orchestrator/transport/frame.hpp"

namespace {

struct Seen {
  std::string payload, opening, rest;
  int exit_code = 0;
  bool begun = false, done = false;
  bool operator==(const Seen&) const = default;
};

Seen read(std::string_view wire, std::size_t piece) {
  Seen seen;
  millwright::FrameReader reader("ababac");
  while (!wire.empty() && !reader.done()) {
    const std::string_view part = wire.substr(0, piece);
    const std::string_view left = reader.feed(part, seen.payload);
    wire.remove_prefix(part.size() - left.size());
    if (!left.empty() && !reader.done()) std::abort();  // bytes given back in the middle of a frame would be lost
  }
  seen.rest = wire;
  seen.opening = reader.opening();
  seen.exit_code = reader.exit_code();
  seen.begun = reader.begun();
  seen.done = reader.done();
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view wire(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Seen whole = read(wire, wire.size() + 1);
  if (read(wire, 1) != whole || read(wire, 1 + data[0]) != whole) std::abort();
  if (whole.payload.size() + whole.rest.size() > wire.size()) std::abort();
  (void)millwright::printf_word(wire);
  return 0;
}
