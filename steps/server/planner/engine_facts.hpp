// Engines as data: the constants of one version (playbooks/knowledge/planner/memory.yml) and the flags that it knows
// (engine_flags.yml).
//
// Immutable after loading; safe from any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/base/units.hpp"
#include "steps/server/planner/quantity.hpp"

namespace millwright::planner {

// The knowledge folders (knowledge_folders()), each followed by its folder `planner` where it has one: the planner's
// data is large, and no other verb should pay for reading it.
std::vector<std::string> planner_folders(const std::vector<std::string>& folders);

class EngineFacts {
 public:
  EngineFacts(std::string engine, Version version, Value head, std::map<std::string, Value> set)
      : engine_(std::move(engine)), version_(std::move(version)), head_(std::move(head)), set_(std::move(set)) {}

  const std::string& engine() const { return engine_; }
  const Version& version() const { return version_; }
  std::string title() const { return head_.value("title", engine_); }
  // The words that start a server; a fact `launch` of the version wins.
  std::vector<std::string> launch() const;
  std::string model_flag() const { return head_.value("model_flag", std::string()); }

  // A fact that is not there, or of another type, is 0, empty or false: the data is checked by tests.
  double number(const std::string& name) const;
  bool flag(const std::string& name) const;
  std::string text(const std::string& name) const;
  Range range(const std::string& name) const;
  const Value& list(const std::string& name) const;
  bool listed(const std::string& name, const std::string& word) const;

 private:
  std::string engine_;
  Version version_;
  Value head_;
  std::map<std::string, Value> set_;
};

// `version` empty: the newest that the data was read from. usage: no such engine, no version at all, or one older than
// the data covers; each with what there is.
Result<EngineFacts> engine_facts(const Knowledge& knowledge, const std::string& engine, const std::string& version);

// The flags of one engine in one version.
class FlagTable {
 public:
  static Result<FlagTable> load(const Knowledge& knowledge, const std::string& engine, const Version& version);

  struct Found {
    std::string name;      // the flag's first name, by which settings are kept; empty when this version has none
    std::string spelling;  // as this version's command line takes it, without dashes
    std::string near;      // when it is unknown: the nearest that this version has
    bool known_elsewhere = false;
    std::string versions;   // of those that have it
    bool one_dash = false;  // `spelling` is a short name: "-tp", never "--tp"
  };
  // Dashes in front and underscores are forgiven. Python's argparse takes any prefix that only one flag has (--tp), and
  // vLLM's switches have a --no-... each.
  Found find(const std::string& word) const;
  // Values that flag `name` (its first name) can have in this version; nothing where the data has no list. For a
  // version between those that were read, what any of them takes. Of speculative-config: what its `method` can be.
  std::vector<std::string> choices(const std::string& name) const;
  // A version newer than all that the data was read from: it may have flags and values that nobody has looked at.
  bool newer_than_read() const { return newer_than_read_; }

 private:
  struct Row {
    std::string name;
    std::vector<std::string> also;
    std::vector<std::string> one_dash;  // of `also`, without the dash
    std::vector<std::string> choices;
    std::string versions;
    bool here = false;
  };
  std::vector<Row> rows_;
  bool newer_than_read_ = false;
  bool prefixes_ = true;
  bool negations_ = false;
};

}  // namespace millwright::planner
