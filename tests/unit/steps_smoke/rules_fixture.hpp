// The shipped rules, read the way the program reads them.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "orchestrator/base/knowledge.hpp"
#include "steps/smoke/register.hpp"
#include "steps/smoke/rules.hpp"

namespace millwright {

inline const Knowledge& shipped_knowledge() {
  static const Knowledge knowledge = [] {
    auto loaded = load_knowledge({std::string(SOURCE_DIR) + "/playbooks/knowledge"});
    if (!loaded) throw std::runtime_error(render(loaded.error().front()));
    return *loaded;
  }();
  return knowledge;
}

inline std::shared_ptr<const SmokeRules> shipped_rules() {
  static const auto rules = [] {
    auto made = load_smoke_rules(shipped_knowledge());
    if (!made) throw std::runtime_error(render(made.error()));
    return *made;
  }();
  return rules;
}

}  // namespace millwright
