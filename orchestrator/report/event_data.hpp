// Reading the data of events without trusting it: an event of an older or newer millwright must not break a report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/value.hpp"

namespace millwright {

std::string text_in(const Value& data, const char* key);      // absent or no text: empty; numbers as written
std::int64_t integer_in(const Value& data, const char* key);  // absent or no number: 0
std::optional<double> number_in(const Value& data, const char* key);
std::vector<std::string> texts_in(const Value& data, const char* key);

// An error as text or as {message, hint, ...}: its message.
std::string error_sentence(const Value& data, const char* key);

}  // namespace millwright
