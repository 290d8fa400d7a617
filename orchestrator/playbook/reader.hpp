// Typed reading of YAML nodes that goes on after mistakes and collects them. Internal to playbook/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/yaml.hpp"
#include "orchestrator/playbook/template.hpp"

namespace millwright {

// Reading functions report what is wrong and return nothing then. `what` names the value in messages: "'timeout'".
class Reader {
 public:
  void error(const SourceMark& mark, std::string message, std::string hint = "");
  void errors(std::vector<Error> more);
  // "did you mean 'x'?" when one is near, else `otherwise`. After many mistakes no more are looked for: with thousands
  // of steps and thousands of mistakes that alone would take minutes.
  std::string suggest(std::string_view word, const std::vector<std::string>& candidates, std::string otherwise = "");

  // Whether `suggest` still looks: asked before candidates are gathered at a cost.
  bool suggests() const { return suggestions_left_ > 0; }

  // Every key that is not among `allowed` is an error; `owner` says whose keys they are: "a step". True: none is.
  bool check_keys(const YamlNode& mapping, const std::vector<std::string>& allowed, std::string_view owner);
  bool is_mapping(const YamlNode& node, std::string_view what);
  // A scalar without expressions, not empty.
  std::optional<std::string> word(const YamlNode& node, std::string_view what);
  // A word that can stand in an expression: letters, digits, _ and (not first) -.
  std::optional<std::string> name(const YamlNode& node, std::string_view what);
  std::optional<bool> boolean(const YamlNode& node, std::string_view what);
  std::optional<int> integer(const YamlNode& node, std::string_view what, int least);
  std::optional<double> number(const YamlNode& node, std::string_view what, double least);
  std::optional<Milliseconds> duration(const YamlNode& node, std::string_view what);
  // A list of words, or one word.
  std::vector<std::string> words(const YamlNode& node, std::string_view what);
  std::optional<Template> compiled(const YamlNode& node);

  std::vector<Error>& found() { return errors_; }

 private:
  std::vector<Error> errors_;
  int suggestions_left_ = 100;
};

std::string_view kind_name(const YamlNode& node);  // "a list", "nothing"...

}  // namespace millwright
