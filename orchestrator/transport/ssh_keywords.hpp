// The keywords of ssh_config(5). Internal to transport/. Safe for concurrent use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millwright {

// Keywords of OpenSSH 9 that are read, or harmlessly skipped, here: all in lower case, in order. What is neither here
// nor an old name is an error, as in ssh.
const std::vector<std::string>& ssh_keywords();
bool is_ssh_keyword(std::string_view key);

// Of a keyword that ssh has renamed; any other is returned as it is.
std::string ssh_current_name(const std::string& key);

// Values of such a keyword add up; of all others the first one stands.
bool ssh_values_add_up(std::string_view key);

}  // namespace millwright
