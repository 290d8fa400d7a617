#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/cli/verbs.hpp"

namespace millwright {
namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  std::vector<const CLI::App*> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) verbs.push_back(verb);
  return verbs;
}

std::vector<std::string> words_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    for (const std::string& name : option->get_snames()) words.push_back("-" + name);
  }
  return words;
}

std::string names(const CLI::App& app) {
  std::vector<std::string> all;
  for (const CLI::App* verb : verbs_of(app)) all.push_back(verb->get_name());
  return join(all, " ");
}

// Verbs first, then the verb's options; all else is left to file names.
std::string for_bash(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* verb : verbs_of(app))
    cases += fmt::format("    {}) words='{}' ;;\n", verb->get_name(), join(words_of(*verb), " "));
  return "# bash completion of millwright; put it into ~/.local/share/bash-completion/completions/millwright\n"
         "_millwright() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} verb= words= i\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    case ${COMP_WORDS[i]} in -*) ;; *) verb=${COMP_WORDS[i]}; break ;; esac\n"
         "  done\n"
         "  case $verb in\n"
         "    '') words='" +
         names(app) + " " + join(words_of(app), " ") +
         "' ;;\n"
         "    completion) words='bash zsh fish' ;;\n" +
         cases +
         "  esac\n"
         "  if [[ -z $verb || $verb == completion || $current == -* ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "  fi\n"
         "}\n"
         "complete -o default -F _millwright millwright\n";
}

std::string for_zsh(const CLI::App& app) {
  std::string described;
  std::string cases;
  for (const CLI::App* verb : verbs_of(app)) {
    described += "    " + shell_quote(verb->get_name() + ":" + replace_all(verb->get_description(), ":", "\\:")) + "\n";
    cases += fmt::format("    {}) options=({}) ;;\n", verb->get_name(), join(words_of(*verb), " "));
  }
  return "#compdef millwright\n"
         "# zsh completion of millwright; put it as _millwright into a folder of $fpath\n"
         "_millwright() {\n"
         "  local -a verbs options\n"
         "  verbs=(\n" +
         described +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe verb verbs\n"
         "    return\n"
         "  fi\n"
         "  case $words[2] in\n"
         "    completion) options=(bash zsh fish) ;;\n" +
         cases +
         "  esac\n"
         "  if [[ $words[2] == completion || $PREFIX == -* ]]; then\n"
         "    compadd -- $options\n"
         "  else\n"
         "    _files\n"
         "  fi\n"
         "}\n"
         "compdef _millwright millwright\n";
}

std::string for_fish(const CLI::App& app) {
  std::string out = "# fish completion of millwright; put it into ~/.config/fish/completions/millwright.fish\n";
  for (const CLI::App* verb : verbs_of(app)) {
    out += fmt::format("complete -c millwright -n __fish_use_subcommand -f -a {} -d {}\n", verb->get_name(),
                       shell_quote(verb->get_description()));
    for (const CLI::Option* option : verb->get_options()) {
      if (option->get_lnames().empty() && option->get_snames().empty()) continue;
      std::string line = fmt::format("complete -c millwright -n '__fish_seen_subcommand_from {}'", verb->get_name());
      for (const std::string& name : option->get_snames()) line += " -s " + name;
      for (const std::string& name : option->get_lnames()) line += " -l " + name;
      if (option->get_items_expected_max() > 0) line += " -r";
      out += line + " -d " + shell_quote(option->get_description()) + "\n";
    }
  }
  return out + "complete -c millwright -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
}

}  // namespace

void add_completion(CLI::App& app, Session& session) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("completion", "Complete verbs and options in your shell");
  verb->add_option("shell", *shell, "bash, zsh or fish")
      ->type_name("SHELL")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->footer("\nExamples:\n  eval \"$(millwright completion bash)\"");
  verb->callback([&session, &app, shell] {
    session.chosen = [&session, &app, shell] {
      session.console.out(*shell == "bash" ? for_bash(app) : *shell == "zsh" ? for_zsh(app) : for_fish(app));
      return kDone;
    };
  });
}

}  // namespace millwright
