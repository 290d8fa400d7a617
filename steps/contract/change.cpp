#include "steps/contract/change.hpp"

#include <stdexcept>

#include "orchestrator/base/text.hpp"

namespace millwright {

void Answers::set(std::string key, Answer answer) { answers_[std::move(key)] = std::move(answer); }

bool Answers::has(std::string_view key) const { return answers_.find(key) != answers_.end(); }

const Answer& Answers::at(std::string_view key) const {
  const auto it = answers_.find(key);
  if (it == answers_.end()) throw std::logic_error("no question has the key " + std::string(key));
  return it->second;
}

std::string Answers::text(std::string_view key) const {
  std::string out = at(key).out;
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::string Answers::digest() const {
  std::string lines;
  for (const auto& [key, answer] : answers_) {
    lines += key + ' ' + std::to_string(answer.exit_code) + ' ' + sha256_hex(answer.out) + '\n';
  }
  return sha256_hex(lines);
}

}  // namespace millwright
