// Small text helpers that more than one folder needs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millwright {

std::vector<std::string> split(std::string_view text, char separator);
std::vector<std::string> split_lines(std::string_view text);  // no empty last element for a trailing newline
std::string_view trim(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);
std::string replace_all(std::string text, std::string_view from, std::string_view to);

// The candidate nearest to `word` (Damerau-Levenshtein distance at most a third of its length, at least 1), for
// "did you mean". Nothing when none is near.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

// Lower-case hex SHA-256 (OpenSSL).
std::string sha256_hex(std::string_view bytes);

}  // namespace millwright
