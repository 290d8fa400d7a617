// How a program gets started at the far end: with a clean environment, as another user by sudo, inside a container. All
// of it is one command line for the login shell; a password is never part of it.
//
// Values; no threads, no I/O.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/base/error.hpp"
#include "orchestrator/transport/connection.hpp"

namespace millwright {

// The PATH of every script: what Debian gives root, /usr/local first.
inline constexpr std::string_view kNodePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct LaunchSettings {
  std::string become_method = "sudo";
  std::string become_user = "root";
  std::string become_password;
  std::optional<ContainerTarget> container;  // then become applies to the host, and the program runs as root inside
};

enum class PasswordPrompt { never, possible };

struct Launch {
  std::string command;
  // possible: wait on standard error for `prompt` (send the password) or `ready` (standard input is the program's).
  PasswordPrompt password = PasswordPrompt::never;
  std::string prompt;
  std::string ready;
};

// `script` empty: an interactive-free /bin/sh that reads its commands from standard input; else /bin/sh -c script.
Result<Launch> make_launch(const LaunchSettings& settings, Become become, const std::string& script);

// What it means that a program ended before it did anything, from what it said on standard error.
Error explain_failed_launch(const LaunchSettings& settings, Become become, const std::string& where,
                            const std::string& said);

}  // namespace millwright
