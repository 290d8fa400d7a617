#include "orchestrator/transport/launch.hpp"

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/transport/frame.hpp"

namespace millwright {
namespace {

constexpr std::size_t kSaidLimit = 2000;

// $HOME is left for the shell that reads this; sh, bash, zsh, fish and csh agree on these words.
std::string clean_shell(std::string_view home, const std::string& script) {
  std::string line = "env -i PATH=" + std::string(kNodePath) + " LC_ALL=C HOME=" + std::string(home) + " /bin/sh";
  if (!script.empty()) line += " -c " + shell_quote(script);
  return line;
}

Result<std::string> enter_container(const ContainerTarget& container, const std::string& script) {
  const std::string inner = "/bin/sh -c " + shell_quote("exec " + clean_shell("/root", script));
  const std::string id = shell_quote(container.id);
  if (container.backend == "lxc") return "lxc-attach -n " + id + " --clear-env -- " + inner;
  if (container.backend == "pct") return "pct exec " + id + " -- " + inner;
  if (container.backend == "incus") return "incus exec " + id + " --force-noninteractive -- " + inner;
  return fail(make_error(ErrorKind::usage, "unknown container backend '" + container.backend + "'")
                  .with_hint("known: lxc, pct, incus"));
}

bool says(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Error sudo_error(const std::string& where, const std::string& said, const LaunchSettings& settings) {
  const std::string as = "cannot become " + settings.become_user + " on " + where + ": ";
  if (says(said, "a password is required") || says(said, "no password was provided")) {
    return make_error(ErrorKind::auth, as + "sudo wants a password")
        .with_hint("set ansible_become_password from a secret, or allow this user NOPASSWD in sudoers");
  }
  if (says(said, "incorrect password") || says(said, "Sorry, try again")) {
    return make_error(ErrorKind::auth, as + "sudo refused the password")
        .with_hint("check ansible_become_password; it is the login user's own password");
  }
  if (says(said, "must have a tty")) {
    return make_error(ErrorKind::auth, as + "sudo insists on a terminal (requiretty)")
        .with_hint("add to sudoers there: Defaults:LOGIN_USER !requiretty");
  }
  if (says(said, "sudo: not found") || says(said, "sudo: No such file")) {
    return make_error(ErrorKind::auth, as + "sudo is not installed there")
        .with_hint("install sudo, or log in as " + settings.become_user);
  }
  if (says(said, "not in the sudoers") || says(said, "may not run sudo") || says(said, "not allowed to")) {
    return make_error(ErrorKind::auth, as + "sudoers does not allow it").with_hint("sudo -l shows what is allowed");
  }
  return make_error(ErrorKind::auth, as + (said.empty() ? "sudo ended without a word" : said));
}

}  // namespace

Result<Launch> make_launch(const LaunchSettings& settings, Become become, const std::string& script) {
  std::string program = clean_shell("\"$HOME\"", script);
  if (settings.container) {
    auto inside = enter_container(*settings.container, script);
    if (!inside) return Failure(inside.error());
    program = *inside;
    become = Become::root;
  }
  Launch launch;
  if (become == Become::no) {
    launch.command = "exec " + program;
    return launch;
  }
  if (settings.become_method != "sudo") {
    return fail(make_error(ErrorKind::usage, "become_method '" + settings.become_method + "' is not supported")
                    .with_hint("use sudo, or log in as root"));
  }
  launch.ready = "ready-" + make_nonce();
  launch.prompt = "prompt-" + make_nonce();
  std::string flags = "-n";
  if (!settings.become_password.empty()) {
    launch.password = PasswordPrompt::possible;
    flags = "-S -p " + launch.prompt;
  }
  const std::string user = shell_quote(settings.container ? "root" : settings.become_user);
  // In two halves: sudo's refusals quote the command.
  const std::string halves = launch.ready.substr(0, 20) + "\"\"" + launch.ready.substr(20);
  const std::string announce = launch.password == PasswordPrompt::possible ? "echo " + halves + " >&2; " : "";
  const std::string start = announce + "exec " + program;
  const std::string choose = "if test \"$(id -un)\" = " + user + "; then " + start + "; fi; exec sudo -H " + flags +
                             " -u " + user + " -- /bin/sh -c " + shell_quote(start);
  launch.command = "exec " + clean_shell("\"$HOME\"", choose);
  return launch;
}

Error explain_failed_launch(const LaunchSettings& settings, Become become, const std::string& where,
                            const std::string& said) {
  std::string text(trim(said.substr(0, kSaidLimit)));
  const bool by_sudo = says(text, "sudo") || says(text, "Sorry, ");
  if ((become == Become::root || settings.container) && by_sudo) return sudo_error(where, text, settings);
  if (settings.container) {
    return make_error(ErrorKind::connect, "cannot enter " + where + (text.empty() ? "" : ": " + text))
        .with_hint("is the container there and running? (" + settings.container->backend + " " +
                   settings.container->id + ")");
  }
  return make_error(ErrorKind::connect,
                    "no shell on " + where + (text.empty() ? ": it ended at once" : ", it said: " + text))
      .with_hint("the login must give a POSIX shell: no forced command, no nologin");
}

}  // namespace millwright
