// Text for HTML and XML. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millwright {

// For element content and quoted attributes: the five special characters as entities, control characters out, invalid
// UTF-8 as U+FFFD. Newlines stay.
std::string html(std::string_view text);

// <details><summary>title</summary><pre>text</pre></details>; nothing for an empty text.
std::string folded(std::string_view title, std::string_view text);

// "3.1 s"; empty for zero.
std::string html_duration(std::int64_t milliseconds);

// The word of a state as a coloured badge: "ok", "changed", "failed"...
std::string badge(std::string_view state);
// The CSS class of a state: good, new, bad, warn or mute.
std::string_view tone(std::string_view state);

}  // namespace millwright
