// Reading a whole file of this machine that a person named. What is no regular file could give bytes for ever
// (/dev/zero) or never any (a pipe that nobody writes to), so it is refused by name, before it is read.
//
// May be used from any thread.
#pragma once

#include <cstddef>
#include <string>

#include "orchestrator/base/error.hpp"

namespace millwright {

inline constexpr std::size_t kLargestTextFile = 64u << 20;  // bytes; what people write is far smaller

// Whether a pipe will do too, as `@<(command)` of a shell hands it over: then it is read to its end, two minutes at
// most.
enum class Pipes { refused, read };

// Error (io): it does not exist, cannot be read, is no regular file, or has more than `max_bytes`; the message says
// which, the hint what to do.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes = kLargestTextFile,
                              Pipes pipes = Pipes::refused);

}  // namespace millwright
