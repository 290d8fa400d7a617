// Quoting for POSIX sh. Every value that reaches a shell goes through shell_quote, and nothing else quotes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millwright {

// One shell word that stands for exactly `text`. Plain words ([A-Za-z0-9_./:=@%+,-]) stay as they are; all else is
// put in single quotes. NUL bytes cannot be passed to a command and are dropped.
std::string shell_quote(std::string_view text);

// The words quoted and joined by blanks.
std::string shell_join(const std::vector<std::string>& words);

}  // namespace millwright
