// Answers recorded from real systems, tests/data/steps_core/*.txt (Debian 12 nodes).
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "steps/contract/change.hpp"

namespace millwright::testing_tools {

inline std::string recorded(const std::string& name) {
  std::ifstream in(std::string(TEST_DATA) + "/steps_core/" + name, std::ios::binary);
  if (!in) throw std::runtime_error("no recording " + name);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline Answers answers_of(const std::string& key, std::string out, int exit_code = 0, std::string err = "") {
  Answers answers;
  answers.set(key, {exit_code, std::move(out), std::move(err)});
  return answers;
}

}  // namespace millwright::testing_tools
