// Durations, sizes and versions as people write them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"

namespace millwright {

// "90", "90s", "1.5m", "2h", "1h30m", "250ms", "1d"; a bare number is seconds. Negative or overflowing: invalid.
Result<Milliseconds> parse_duration(std::string_view text);
// "3.1 s", "2 m 10 s", "1 h 04 m", "85 ms": at most two units, as in the terminal view.
std::string format_duration(Milliseconds duration);

// "512", "64K", "64KiB", "1.5GiB", "2GB" (decimal), "16 MiB"; a bare number is bytes.
Result<std::uint64_t> parse_size(std::string_view text);
// "55.6 GiB", "812 B": binary units.
std::string format_size(std::uint64_t bytes);

// A version by PEP 440 (https://peps.python.org/pep-0440/), which also orders what llama.cpp, Debian upstream parts and
// NVIDIA drivers use. Epoch, release, a/b/rc, post, dev, local. Build tags of llama.cpp ("b11669") order by number.
class Version {
 public:
  static Result<Version> parse(std::string_view text);
  const std::string& text() const { return text_; }
  friend bool operator<(const Version& a, const Version& b) { return a.key_ < b.key_; }
  friend bool operator>(const Version& a, const Version& b) { return b < a; }
  friend bool operator<=(const Version& a, const Version& b) { return !(b < a); }
  friend bool operator>=(const Version& a, const Version& b) { return !(a < b); }
  friend bool operator==(const Version& a, const Version& b) { return a.key_ == b.key_; }

 private:
  std::string text_;
  std::string key_;  // compares bytewise in version order
};

// ">=0.5.9,<0.6", "==0.5.*", "~=0.5.9", "!=0.5.10"; an empty specifier allows everything. Malformed: invalid.
Result<bool> version_matches(const Version& version, std::string_view specifier);

}  // namespace millwright
