// Decides what to change for a symptom class, from playbooks/knowledge/remedies.yml and engines.yml.
//
// Immutable once made; safe from any thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/knowledge.hpp"
#include "steps/contract/step.hpp"

namespace millwright {

class LadderAdvisor final : public RemedyAdvisor {
 public:
  // An error of kind invalid names a ladder of an unknown class, an unknown remedy, or a row that lacks what its kind
  // needs.
  static Result<std::unique_ptr<LadderAdvisor>> from(const Knowledge& knowledge);

  // The first remedy of the class's ladder that applies to a server with these inputs and was not tried. Only steps
  // with an `engine` input can be remedied; for others, and at the end of the ladder, nothing.
  std::optional<Remedy> next(const RemedyQuery& query) const override;

 private:
  struct Row {
    std::string id, title, kind, engine, versions, device;
    std::vector<std::string> flags;
    Value set;
    bool degrades = false;
  };
  struct Catalogue {
    std::vector<std::string> known_good;   // newest first
    std::vector<std::string> installable;  // without being told how
  };

  std::optional<Remedy> apply(const Row& row, const RemedyQuery& query) const;
  std::optional<Remedy> change_version(const Row& row, const RemedyQuery& query) const;
  std::string current_version(const RemedyQuery& query) const;
  std::vector<std::string> versions_on_offer(const RemedyQuery& query) const;
  const Catalogue& catalogue(const std::string& engine) const;

  std::map<std::string, Row> rows_;
  std::map<std::string, std::vector<std::string>, std::less<>> ladders_;
  std::map<std::string, Catalogue> engines_;
};

}  // namespace millwright
