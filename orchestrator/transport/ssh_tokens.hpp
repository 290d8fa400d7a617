// The %-tokens of ssh_config(5), ${VARIABLES} and ~.
#pragma once

#include <string>

#include "orchestrator/base/error.hpp"

namespace millwright {

struct SshTokens {
  std::string original_host, host, port, user, local_user, home, key_alias, jump;
};

// %% %C %d %h %i %j %k %L %l %n %p %r %u; any other is an error that names it.
Result<std::string> expand_tokens(const std::string& text, const SshTokens& tokens);
// The same, then ${NAME} and a leading ~/ . An unset variable is an error.
Result<std::string> expand_path(const std::string& text, const SshTokens& tokens);

}  // namespace millwright
