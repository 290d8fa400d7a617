#include "orchestrator/engine/answer_cache.hpp"

namespace millwright {

AnswerCache::Ticket AnswerCache::before_asking() const {
  const Lock guard(mutex_);
  return {changes_, changing_};
}

void AnswerCache::keep(const Ticket& ticket, const std::string& node, const std::map<std::string, Answers>& answers) {
  const Lock guard(mutex_);
  if (ticket.changes != changes_ || ticket.others != 0) return;
  for (const auto& [key, answer] : answers) answers_[{node, key}] = answer;
}

bool AnswerCache::has(const std::string& node, const std::string& key) const {
  const Lock guard(mutex_);
  return answers_.count({node, key}) != 0;
}

std::optional<Answers> AnswerCache::find(const std::string& node, const std::string& key) const {
  const Lock guard(mutex_);
  const auto kept = answers_.find({node, key});
  return kept == answers_.end() ? std::nullopt : std::optional(kept->second);
}

void AnswerCache::changed() {
  const Lock guard(mutex_);
  ++changes_;
  answers_.clear();
}

void AnswerCache::forget(const std::string& node) {
  const Lock guard(mutex_);
  for (auto it = answers_.begin(); it != answers_.end();) it = it->first.first == node ? answers_.erase(it) : ++it;
}

Changing::Changing(AnswerCache& cache) : cache_(cache) {
  const Lock guard(cache_.mutex_);
  ticket_ = {++cache_.changes_, cache_.changing_++};
  cache_.answers_.clear();
}

Changing::~Changing() {
  const Lock guard(cache_.mutex_);
  --cache_.changing_;
}

AskTurn::~AskTurn() {
  const Lock guard(cache_.mutex_);
  end_preparing();
  for (const std::string& key : keys_) cache_.asked_for_.erase(cache_.asked_for_.find({node_, key}));
  cache_.moved_.notify_all();
}

void AskTurn::end_preparing() {
  if (preparing_) cache_.preparing_.erase(node_);
  preparing_ = false;
}

std::optional<Answers> AskTurn::wait_for(const std::string& key) {
  const AnswerCache::Key wanted{node_, key};
  const Lock guard(cache_.mutex_);
  while (true) {
    const auto kept = cache_.answers_.find(wanted);
    if (kept != cache_.answers_.end()) return kept->second;
    // Both end by themselves: preparing sends nothing, and every question has a deadline.
    if (cache_.preparing_.count(node_) == 0 && cache_.asked_for_.count(wanted) == 0) break;
    cache_.moved_.wait(cache_.mutex_);
  }
  preparing_ = true;
  cache_.preparing_.insert(node_);
  return {};
}

void AskTurn::sending(const std::vector<std::string>& keys) {
  const Lock guard(cache_.mutex_);
  end_preparing();
  for (const std::string& key : keys) cache_.asked_for_.insert({node_, key});
  keys_.insert(keys_.end(), keys.begin(), keys.end());
  cache_.moved_.notify_all();
}

}  // namespace millwright
