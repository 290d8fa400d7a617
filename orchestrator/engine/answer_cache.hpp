// What the nodes of one host have answered, by node and Unit::key. Answers are good until something changes the host:
// those that were asked while something did, or before it, are not kept.
//
// Safe for concurrent use: the steps of a host that run side by side share one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/base/mutex.hpp"
#include "steps/contract/change.hpp"

namespace millwright {

class AnswerCache {
 public:
  // Taken before asking; tells afterwards whether the answers are still good.
  struct Ticket {
    std::uint64_t changes = 0;
    int others = 0;  // changes in progress beside the asker's own
  };
  Ticket before_asking() const;
  void keep(const Ticket& ticket, const std::string& node, const std::map<std::string, Answers>& answers);
  bool has(const std::string& node, const std::string& key) const;
  std::optional<Answers> find(const std::string& node, const std::string& key) const;

  // Something changed the host: all answers are old.
  void changed();
  void forget(const std::string& node);

 private:
  friend class Changing;
  friend class AskTurn;
  using Key = std::pair<std::string, std::string>;  // node, unit

  mutable Mutex mutex_;
  Condition moved_;
  std::uint64_t changes_ MW_GUARDED_BY(mutex_) = 0;
  int changing_ MW_GUARDED_BY(mutex_) = 0;
  std::map<Key, Answers> answers_ MW_GUARDED_BY(mutex_);
  std::set<std::string> preparing_ MW_GUARDED_BY(mutex_);  // nodes for which somebody puts a batch together
  std::multiset<Key> asked_for_ MW_GUARDED_BY(mutex_);     // on their way
};

// While it lives, something is changing the host.
class Changing {
 public:
  explicit Changing(AnswerCache& cache);
  ~Changing();
  Changing(const Changing&) = delete;
  Changing& operator=(const Changing&) = delete;
  // For questions that travel behind the change, in the same round trip.
  const AnswerCache::Ticket& ticket() const { return ticket_; }

 private:
  AnswerCache& cache_;
  AnswerCache::Ticket ticket_;
};

// One who asks also asks for others; these wait for it instead of asking again.
class AskTurn {
 public:
  AskTurn(AnswerCache& cache, std::string node) : cache_(cache), node_(std::move(node)) {}
  ~AskTurn();
  AskTurn(const AskTurn&) = delete;
  AskTurn& operator=(const AskTurn&) = delete;

  // The answers when they are there or on their way. Nothing: the caller asks, and calls `sending` next.
  std::optional<Answers> wait_for(const std::string& key);
  void sending(const std::vector<std::string>& keys);

 private:
  void end_preparing() MW_REQUIRES(cache_.mutex_);

  AnswerCache& cache_;
  const std::string node_;
  bool preparing_ = false;
  std::vector<std::string> keys_;
};

}  // namespace millwright
