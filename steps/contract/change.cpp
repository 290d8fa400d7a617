#include "steps/contract/change.hpp"

#include <stdexcept>

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

}  // namespace millwright
