#include "orchestrator/cli/app.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/utf8.hpp"
#include "orchestrator/cli/playbook_file.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/report/text_layout.hpp"

namespace millwright {
namespace {

void add_verbs(CLI::App& app, Session& session) {
  add_plan(app, session);
  add_apply(app, session);
  add_resume(app, session);
  add_rollback(app, session);
  add_drift(app, session);
  add_verify(app, session);
  add_smoke(app, session);
  add_fit(app, session);
  add_doctor(app, session);
  add_facts(app, session);
  add_releases(app, session);
  add_lint(app, session);
  add_graph(app, session);
  add_schema(app, session);
  add_runs(app, session);
  add_show(app, session);
  add_evidence(app, session);
  add_lock(app, session);
  add_unlock(app, session);
  add_inventory(app, session);
  add_steps(app, session);
  add_completion(app, session);
  add_version(app, session);
}

// Descriptions wrapped, so that help fits into 80 columns.
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kHelpColumn); }
  std::string make_option_desc(const CLI::Option* option) const override {
    return join(wrap_text(option->get_description(), kHelpWidth - kHelpColumn), "\n");
  }

 private:
  static constexpr std::size_t kHelpColumn = 30;
  static constexpr std::size_t kHelpWidth = 80;
};

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// What CLI11 says is kept where it is clear; for what it does not know, a suggestion.
std::string explanation(const CLI::App& app, const CLI::ParseError& error, std::string& hint) {
  const auto chosen = app.get_subcommands();
  const CLI::App& verb = chosen.empty() ? app : *chosen.front();
  const std::string help = chosen.empty() ? "millwright --help" : fmt::format("millwright {} --help", verb.get_name());
  hint = help + " shows what there is";
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    // CLI11 keeps what it did not expect in its message only, last one first: "...not expected: SECOND FIRST".
    const std::string said = error.what();
    const std::size_t colon = said.rfind(": ");
    const std::string word = split(colon == std::string::npos ? said : said.substr(colon + 2), ' ').back();
    if (chosen.empty() && !starts_with(word, "-")) {
      if (const auto near = nearest(word, verb_names(app))) {
        hint = fmt::format("did you mean 'millwright {}'?", *near);
      } else if (const auto playbook = near_playbook(word)) {
        hint = fmt::format("did you mean 'millwright apply {}'?", *playbook);
      }
      return fmt::format("there is no verb '{}'", word);
    }
    const std::string option = word.substr(0, word.find('='));
    const auto names = option_names(verb);
    if (!chosen.empty() && std::find(names.begin(), names.end(), option) != names.end()) {
      hint = fmt::format("put it behind: millwright {} ... {}", verb.get_name(), word);
      return fmt::format("'{}' is an option of {} and cannot come before it", option, verb.get_name());
    }
    if (starts_with(word, "-")) {
      if (const auto near = nearest(option, option_names(verb))) hint = fmt::format("did you mean '{}'?", *near);
      return fmt::format("there is no option '{}'{}", option, chosen.empty() ? "" : " of " + verb.get_name());
    }
    return fmt::format("'{}' is one argument too many for {}", word, verb.get_name());
  }
  return error.what();
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments, const Wiring& wiring, Console& console) {
  for (const std::string& argument : arguments) {
    if (is_utf8(argument)) continue;
    console.err(render(make_error(ErrorKind::usage, "an argument is not UTF-8")
                           .with_hint("use a UTF-8 locale, or write the value into a file and give -e @FILE")));
    return kUsage;
  }
  Session session{wiring, console, {}, {}};
  CLI::App app(
      "millwright takes hosts with GPUs from whatever state they are in to a verified\n"
      "LLM endpoint, over plain SSH, and puts them back as they were if the endpoint\n"
      "does not answer properly.",
      "millwright");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", "millwright " + wiring.version, "Print the version");
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(0, 1);
  add_verbs(app, session);
  app.footer(
      "\nStart here:\n"
      "  millwright plan  PLAYBOOK -i INVENTORY     what would change\n"
      "  millwright apply PLAYBOOK -i INVENTORY     do it, test it, or take it back\n"
      "  millwright VERB --help                     options and examples of a verb");
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForVersion& version) {
    console.out(std::string(version.what()) + "\n");
    return kDone;
  } catch (const CLI::Success&) {
    const auto chosen = app.get_subcommands();
    console.out(chosen.empty() ? app.help() : chosen.front()->help("millwright"));
    return kDone;
  } catch (const CLI::ParseError& error) {
    std::string hint;
    const std::string message = explanation(app, error, hint);
    console.err(render(make_error(ErrorKind::usage, message).with_hint(hint)));
    return kUsage;
  }
  if (session.chosen) return session.chosen();
  console.out(app.help());
  return kUsage;
}

}  // namespace millwright
