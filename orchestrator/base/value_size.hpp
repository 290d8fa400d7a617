// How much memory a value takes. Pure; may be used from any thread.
#pragma once

#include <cstddef>

#include "orchestrator/base/value.hpp"

namespace millwright {

// Bytes, about: of its texts and keys, and of each value in it.
std::size_t value_size(const Value& value);

}  // namespace millwright
