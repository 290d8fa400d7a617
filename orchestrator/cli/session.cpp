#include "orchestrator/cli/session.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/journal/journal.hpp"

namespace millwright {

Paint Session::paint() const {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  if (common.no_color || console.out_is == Terminal::no || dumb) return Paint::no;
  return no_color != nullptr && *no_color != '\0' ? Paint::no : Paint::yes;
}

std::string Session::state_directory() const {
  if (!common.state.empty()) return common.state;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string own = variable("MILLWRIGHT_STATE"); !own.empty()) return own;
  // The specification says that a relative XDG_STATE_HOME counts for nothing.
  if (const std::string xdg = variable("XDG_STATE_HOME"); starts_with(xdg, "/")) return xdg + "/millwright";
  const std::string home = variable("HOME");
  return (home.empty() ? "/root" : home) + "/.local/state/millwright";
}

Result<std::unique_ptr<Journal>> Session::open_journal() const { return wiring.open_journal(state_directory()); }

Result<std::unique_ptr<Journal>> Session::open_kept_journal() const {
  namespace fs = std::filesystem;
  const char* const variable = std::getenv("MILLWRIGHT_STATE");
  const bool named = !common.state.empty() || (variable != nullptr && *variable != '\0');
  const std::string folder = state_directory();
  std::error_code failed;
  if (named && !fs::exists(folder + "/journal.db", failed)) {
    const bool there = fs::is_directory(folder, failed);
    return fail(make_error(ErrorKind::usage, there ? fmt::format("there is no journal in {}", folder)
                                                   : fmt::format("there is no folder {}", folder))
                    .with_hint(fmt::format("{} names the folder of a journal; the first apply makes it",
                                           common.state.empty() ? "MILLWRIGHT_STATE" : "--state")));
  }
  return open_journal();
}

int Session::refuse(const std::vector<Error>& errors) const {
  for (const Error& error : errors) console.err(redactor().redact(render(error)));
  console.err(fmt::format("{} error{}; nothing was contacted.\n", errors.size(), errors.size() == 1 ? "" : "s"));
  return kUsage;
}

int Session::fail_with(const Error& error) const {
  console.err(redactor().redact(render(error)));
  return kUsage;
}

bool Session::confirm(const std::string& question) const {
  if (console.in_is == Terminal::no || console.out_is == Terminal::no) {
    console.err("this is no terminal, so nobody can be asked; add -y to say yes beforehand\n");
    return false;
  }
  console.out(question + " [y/N] ");
  const std::string answer = console.read_line();
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace millwright
