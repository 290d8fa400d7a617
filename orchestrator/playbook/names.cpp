// What expressions read: whether it exists, and whether it is known by the time the step runs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "orchestrator/base/text.hpp"
#include "orchestrator/graph/graph.hpp"
#include "orchestrator/playbook/document.hpp"

namespace millwright {
namespace {

const std::vector<std::string> kRoots = {"inputs", "vars", "steps", "host", "run"};
const std::vector<std::string> kHostKeys = {"name", "address", "groups", "vars"};
// What every step has beside the outputs of its kind; see engine.
const std::vector<std::string> kCommonOutputs = {"changed", "state"};

// A step reads an output of another one.
struct Use {
  std::size_t reader;
  std::size_t source;
  SourceMark mark;
  std::string via;  // the variable that it goes through; empty: directly
};

enum class Items { in_scope, absent };

struct Place {
  std::optional<std::size_t> step;  // none: a variable of the playbook
  Items items = Items::absent;
};

class NameChecker {
 public:
  NameChecker(Draft& draft, const ParseOptions& options) : draft_(draft), options_(options) {}

  void run(const std::vector<std::size_t>& order) {
    check_variables();
    for (std::size_t i = 0; i < draft_.steps.size(); ++i) {
      const StepDecl& step = draft_.steps[i].decl;
      const Place place{i, step.foreach ? Items::in_scope : Items::absent};
      if (step.foreach) check(step.foreach->references(), step.foreach->required_references(), {i, Items::absent});
      if (step.when) check(step.when->references(), step.when->required_references(), place);
      check(step.with.references(), step.with.required_references(), place);
    }
    if (order.size() == draft_.steps.size()) check_order(order);
  }

 private:
  void check(const std::vector<PathReference>& all, const std::vector<PathReference>& required, const Place& place) {
    std::size_t next = 0;
    for (const PathReference& reference : all) {
      const bool must = next < required.size() && required[next] == reference;
      if (must) ++next;
      check_path(reference.first, reference.second, must, place);
    }
  }

  void undefined(const SourceMark& mark, const std::string& prefix, const std::string& name,
                 const std::vector<std::string>& candidates, std::string otherwise = "") {
    // Nearness is judged on the last name alone, or a long prefix would make everything near.
    std::string hint = draft_.reader.suggest(name, candidates, std::move(otherwise));
    if (starts_with(hint, "did you mean '")) hint.insert(14, prefix);
    draft_.reader.error(mark, fmt::format("'{}{}' is not defined here", prefix, name), std::move(hint));
  }

  void check_path(const std::vector<std::string>& path, const SourceMark& mark, bool must, const Place& place) {
    const std::string& root = path[0];
    if (root == "steps") {
      check_step(path, mark, must, place);
    } else if (root == "inputs") {
      if (must && path.size() > 1 && draft_.playbook.inputs.count(path[1]) == 0) {
        undefined(mark, "inputs.", path[1], keys_of(draft_.playbook.inputs));
      }
    } else if (root == "vars") {
      check_variable(path, mark, must, place);
    } else if (root == "host") {
      check_host(path, mark, must);
    } else if (root == "run") {
      if (must && path.size() > 1 && path[1] != "id") undefined(mark, "run.", path[1], {"id"});
    } else if (root == "item" || root == "index") {
      if (place.items == Items::in_scope) return;
      draft_.reader.error(mark, fmt::format("'{}' is not defined here", root), "it exists under foreach only");
    } else if (const auto found = draft_.registered.find(root); found != draft_.registered.end()) {
      check_output(path, 1, root + ".", found->second, mark, must);
      use(found->second, mark, place);
    } else if (must) {
      check_root(root, mark);
    }
  }

  void check_host(const std::vector<std::string>& path, const SourceMark& mark, bool must) {
    if (!must || path.size() < 2) return;
    if (!is_among(kHostKeys, path[1])) {
      undefined(mark, "host.", path[1], kHostKeys, "variables of the host are under host.vars");
      return;
    }
    const auto& known = options_.inventory_variables;
    if (path[1] != "vars" || path.size() < 3 || !known || known->count(path[2]) != 0) return;
    undefined(mark, "host.vars.", path[2], {known->begin(), known->end()},
              "the inventory gives it to none of the hosts");
  }

  void check_root(const std::string& root, const SourceMark& mark) {
    std::vector<std::string> candidates = kRoots;
    for (const auto& [name, step] : draft_.registered) candidates.push_back(name);
    std::sort(candidates.begin(), candidates.end());
    std::string elsewhere;
    if (draft_.positions.count(root) != 0) elsewhere = fmt::format("did you mean 'steps.{}'?", root);
    if (draft_.playbook.vars.count(root) != 0) elsewhere = fmt::format("did you mean 'vars.{}'?", root);
    if (draft_.playbook.inputs.count(root) != 0) elsewhere = fmt::format("did you mean 'inputs.{}'?", root);
    if (root == "null") elsewhere = "write none";
    if (!elsewhere.empty()) {
      draft_.reader.error(mark, fmt::format("'{}' is not defined here", root), elsewhere);
    } else {
      undefined(mark, "", root, candidates, "names begin with inputs, vars, steps or host; text goes in quotes");
    }
  }

  void check_step(const std::vector<std::string>& path, const SourceMark& mark, bool must, const Place& place) {
    if (path.size() < 2) {
      draft_.reader.error(mark, "which step's outputs are meant must be plain to see", "write steps.ID.OUTPUT");
      return;
    }
    const auto found = draft_.positions.find(path[1]);
    if (found == draft_.positions.end()) {
      unknown_step(path[1], mark);
      return;
    }
    check_output(path, 2, "steps." + path[1] + ".", found->second, mark, must);
    use(found->second, mark, place);
  }

  void unknown_step(const std::string& id, const SourceMark& mark) {
    std::vector<std::string> ids;
    std::string dashed;
    for (const StepDraft& step : draft_.steps) {
      if (!draft_.reader.suggests()) break;
      ids.push_back(step.decl.id);
      if (starts_with(step.decl.id, id + "-")) dashed = step.decl.id;
    }
    // steps.my-box.ip is the difference of steps.my and box.ip.
    const std::string otherwise = dashed.empty() ? "" : fmt::format("with '-' in the id write steps['{}']", dashed);
    if (otherwise.empty()) {
      undefined(mark, "steps.", id, ids);
    } else {
      draft_.reader.error(mark, fmt::format("'steps.{}' is not defined here", id), otherwise);
    }
  }

  void check_output(const std::vector<std::string>& path, std::size_t at, const std::string& prefix, std::size_t source,
                    const SourceMark& mark, bool must) {
    const StepDraft& step = draft_.steps[source];
    if (!must || path.size() <= at || step.kind == nullptr) return;
    std::vector<std::string> names = kCommonOutputs;
    std::string otherwise;
    if (step.decl.foreach) {
      names.push_back("items");
      otherwise = fmt::format("the step has a foreach: write {}items[0]...", prefix);
    } else {
      const auto& outputs = step.kind->signature().outputs;
      if (outputs.empty()) return;  // nothing declared: anything may come
      for (const OutputSpec& output : outputs) names.push_back(output.name);
      std::sort(names.begin(), names.end());
      otherwise = fmt::format("{} gives: {}", step.decl.uses, join(names, ", "));
    }
    if (!is_among(names, path[at])) undefined(mark, prefix, path[at], names, otherwise);
  }

  void use(std::size_t source, const SourceMark& mark, const Place& place) {
    if (place.step) {
      uses_.push_back({*place.step, source, mark, ""});
    } else {
      variable_uses_[current_variable_].insert(source);
    }
  }

  void check_variable(const std::vector<std::string>& path, const SourceMark& mark, bool must, const Place& place) {
    if (path.size() < 2) return;
    const auto& own = draft_.playbook.vars;
    if (own.count(path[1]) != 0) {
      if (!place.step) return;
      for (const std::size_t source : variable_uses_[path[1]]) uses_.push_back({*place.step, source, mark, path[1]});
      return;
    }
    if (!must || !options_.inventory_variables || options_.inventory_variables->count(path[1]) != 0) return;
    std::vector<std::string> names = keys_of(own);
    names.insert(names.end(), options_.inventory_variables->begin(), options_.inventory_variables->end());
    undefined(mark, "vars.", path[1], names, "neither the playbook nor the inventory sets it");
  }

  // Variables may read each other, in any order but not in a circle; what they read of steps is read by whoever reads
  // them.
  void check_variables() {
    const std::vector<std::string> names = keys_of(draft_.playbook.vars);
    std::vector<std::vector<std::size_t>> needs(names.size());
    std::vector<SourceMark> marks(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Template& value = draft_.playbook.vars.at(names[i]);
      current_variable_ = names[i];
      check(value.references(), value.required_references(), {});
      for (const auto& [path, mark] : value.references()) {
        if (path[0] != "vars" || path.size() < 2) continue;
        const auto other = std::lower_bound(names.begin(), names.end(), path[1]);
        if (other == names.end() || *other != path[1]) continue;
        needs[i].push_back(static_cast<std::size_t>(other - names.begin()));
        if (marks[i].line == 0) marks[i] = mark;
      }
    }
    if (const auto cycle = find_cycle(needs); !cycle.empty()) {
      std::vector<std::string> chain;
      for (const std::size_t i : cycle) chain.push_back("vars." + names[i]);
      draft_.reader.error(marks[cycle[0]], "variables are made of each other: " + join(chain, " -> "));
      return;
    }
    bool grown = true;
    while (grown) {
      grown = false;
      for (std::size_t i = 0; i < names.size(); ++i) {
        std::set<std::size_t>& mine = variable_uses_[names[i]];
        const std::size_t before = mine.size();
        for (const std::size_t other : needs[i]) {
          const std::set<std::size_t> theirs = variable_uses_[names[other]];
          mine.insert(theirs.begin(), theirs.end());
        }
        grown = grown || mine.size() != before;
      }
    }
  }

  // Is each source before its reader? For 64 sources at a time, which of them are before a step is a word of bits,
  // passed along the edges: linear in steps and edges for each 64 sources.
  void check_order(const std::vector<std::size_t>& order) {
    std::vector<std::size_t> sources;
    for (const Use& use : uses_) sources.push_back(use.source);
    std::sort(sources.begin(), sources.end());
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    std::vector<std::vector<std::size_t>> needs(draft_.steps.size());
    for (std::size_t i = 0; i < needs.size(); ++i) {
      for (const NeedDecl& need : draft_.steps[i].decl.needs) needs[i].push_back(draft_.positions.at(need.step));
    }
    std::sort(uses_.begin(), uses_.end(), [](const Use& a, const Use& b) { return a.source < b.source; });
    auto next_use = uses_.begin();
    for (std::size_t from = 0; from < sources.size(); from += 64) {
      const std::size_t to = std::min(from + 64, sources.size());
      std::unordered_map<std::size_t, std::uint64_t> bits;
      for (std::size_t k = from; k < to; ++k) bits[sources[k]] = std::uint64_t{1} << (k - from);
      std::vector<std::uint64_t> before(draft_.steps.size(), 0);
      for (const std::size_t i : order) {
        for (const std::size_t needed : needs[i]) {
          const auto bit = bits.find(needed);
          before[i] |= before[needed] | (bit == bits.end() ? 0 : bit->second);
        }
      }
      for (; next_use != uses_.end() && next_use->source <= sources[to - 1]; ++next_use) {
        if ((before[next_use->reader] & bits.at(next_use->source)) == 0) report_order(*next_use);
      }
    }
  }

  void report_order(const Use& use) {
    const std::string& id = draft_.steps[use.source].decl.id;
    const std::string through = use.via.empty() ? "" : fmt::format(" (through vars.{})", use.via);
    if (use.reader == use.source) {
      draft_.reader.error(use.mark, fmt::format("a step cannot read its own outputs{}", through));
    } else {
      draft_.reader.error(use.mark, fmt::format("step '{}' is not before this one{}", id, through),
                          fmt::format("add it: needs: [{}]", id));
    }
  }

  static bool is_among(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  template <class Map>
  static std::vector<std::string> keys_of(const Map& map) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : map) keys.push_back(key);
    return keys;
  }

  Draft& draft_;
  const ParseOptions& options_;
  std::vector<Use> uses_;
  std::string current_variable_;
  std::map<std::string, std::set<std::size_t>> variable_uses_;
};

}  // namespace

void check_names(Draft& draft, const std::vector<std::size_t>& order, const ParseOptions& options) {
  NameChecker(draft, options).run(order);
}

}  // namespace millwright
