#include "steps/core/package.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "orchestrator/base/text.hpp"
#include "steps/contract/apt.hpp"
#include "steps/core/run_parts.hpp"

namespace millwright {

namespace {

using apt::Goal;
using apt::Wish;

Signature make_signature() {
  Signature s;
  s.kind = "package";
  s.summary = "Packages of the distribution are installed, newest, of a version, or gone.";
  s.doc =
      "For apt (Debian, Ubuntu, Proxmox). Installs without recommended extras, keeps changed configuration files, and "
      "waits up to five minutes for another apt or dpkg to finish.\n\n"
      "Package lists are refreshed by themselves when there are none, or when a package or version is not in them.\n\n"
      "Undo removes exactly what came along, dependencies included, and puts older versions back; it refuses when a "
      "package that came later needs one of them, or when an older version is no longer to be had.";
  s.inputs = {
      {.name = "name",
       .type = ValueType::list,
       .need = Need::required,
       .doc = "A package or a list of them; name=version pins one.",
       .known_elsewhere_as = {"pkg", "packages"}},
      {.name = "state", .default_value = "present", .one_of = {"present", "absent", "latest"}, .doc = "How."},
      {.name = "version", .doc = "For one package: exactly this version; 1.22* takes the newest that begins so."},
      {.name = "update_cache",
       .type = ValueType::boolean,
       .doc = "true: refresh package lists older than `cache_valid` first; false: never. Default: when needed."},
      {.name = "cache_valid",
       .type = ValueType::duration,
       .default_value = "1h",
       .doc = "How long package lists count as fresh.",
       .known_elsewhere_as = {"cache_valid_time"}}};
  s.outputs = {{.name = "versions", .type = ValueType::mapping, .doc = "Installed version by package name."}};
  s.positional = "name";
  s.example =
      "- uses: package\n"
      "  with: [jq, pciutils]\n"
      "- uses: package\n"
      "  with: {name: linux-headers-amd64, state: latest}\n";
  s.deadline = std::chrono::minutes(60);
  return s;
}

Goal goal_of(const Inputs& inputs) {
  const std::string state = inputs.string("state");
  return state == "absent" ? Goal::absent : state == "latest" ? Goal::latest : Goal::present;
}

std::vector<Wish> wishes_of(const Inputs& inputs) {
  std::vector<Wish> wishes;
  for (const std::string& name : inputs.strings("name")) {
    const std::size_t equals = name.find('=');
    wishes.push_back({name.substr(0, equals), equals == std::string::npos ? "" : name.substr(equals + 1)});
  }
  if (wishes.size() == 1 && inputs.has("version")) wishes[0].version = inputs.string("version");
  return wishes;
}

bool version_fits(const std::string& version, const std::string& wished) {
  if (ends_with(wished, "*")) return starts_with(version, wished.substr(0, wished.size() - 1));
  return wished.empty() || version == wished;
}

struct Installed {
  std::string status;  // dpkg's two letters; empty: unknown to dpkg
  std::string version;
  std::string candidate;

  bool present() const { return status.size() >= 2 && status[1] == 'i'; }
};

struct Facts {
  std::string manager;
  std::string lists;
  bool interrupted = false;
  std::set<std::string> held;
  std::vector<std::string> broken, near, takes;
  std::map<std::string, Installed> packages;
  std::map<std::string, std::vector<std::string>> versions;
  std::map<std::string, std::set<std::string>> providers;
};

Facts parse(const std::string& out) {
  Facts facts;
  const auto text = [](const std::string& word) { return word == "-" ? std::string() : word; };
  for (const std::string& line : split_lines(out)) {
    const std::vector<std::string> w = split(line, ' ');
    if (w[0] == "interrupted") facts.interrupted = true;
    if (w.size() < 2) continue;
    if (w[0] == "manager") facts.manager = w[1];
    if (w[0] == "lists") facts.lists = w[1];
    if (w[0] == "held") facts.held.insert(w[1]);
    if (w[0] == "broken") facts.broken.push_back(w[1]);
    if (w[0] == "near") facts.near.push_back(w[1]);
    if (w[0] == "takes") facts.takes.push_back(w[1]);
    if (w.size() < 3) continue;
    if (w[0] == "version") facts.versions[w[1]].push_back(w[2]);
    if (w[0] == "provider") facts.providers[w[1]].insert(w[2]);
    if (w[0] == "package" && w.size() >= 5) facts.packages[w[1]] = {text(w[2]), text(w[3]), text(w[4])};
  }
  return facts;
}

Failure refuse(std::string message, std::string hint) {
  return fail(make_error(ErrorKind::refused, std::move(message)).with_hint(std::move(hint)));
}

class Planner {
 public:
  Planner(const Inputs& inputs, Facts facts) : inputs_(inputs), facts_(std::move(facts)), wishes_(wishes_of(inputs)) {
    Value versions = Value::object();
    for (const auto& [name, package] : facts_.packages) {
      if (package.present()) versions[name] = package.version;
    }
    change_.outputs = {{"versions", std::move(versions)}};
  }

  Result<Change> plan() {
    const Goal goal = goal_of(inputs_);
    const Result<void> planned = goal == Goal::absent ? plan_removal() : plan_install(goal);
    if (!planned) return fail(planned.error());
    if (change_.empty()) {
      change_.summary = as_wanted(goal);
    } else if (auto healthy = check_health(); !healthy) {
      return fail(healthy.error());
    }
    return std::move(change_);
  }

 private:
  const Installed& installed(const std::string& name) { return facts_.packages[name]; }

  std::string as_wanted(Goal goal) {
    if (wishes_.size() > 1) return fmt::format("{} packages as wanted", wishes_.size());
    const std::string& name = wishes_[0].name;
    return goal == Goal::absent ? name + " is absent" : fmt::format("{} {}", name, installed(name).version);
  }

  Result<void> check_health() const {
    if (facts_.broken.empty() && !facts_.interrupted) return {};
    return refuse(facts_.broken.empty() ? "dpkg was interrupted on this node"
                                        : "packages are half installed: " + join(facts_.broken, ", "),
                  "repair it first: dpkg --configure -a, then apt-get -f install");
  }

  bool lists_can_help() const {
    if (inputs_.has("update_cache") && !inputs_.boolean("update_cache")) return false;
    return facts_.lists != "fresh";
  }

  // Whether to refresh the lists before looking further; decided once for the whole step.
  bool wants_refresh(bool something_unknown) const {
    if (!lists_can_help()) return false;
    return something_unknown || facts_.lists == "none" ||
           (inputs_.has("update_cache") && inputs_.boolean("update_cache"));
  }

  bool is_known(const Wish& wish) {
    if (wish.version.empty()) return !installed(wish.name).candidate.empty();
    const auto& versions = facts_.versions[wish.name];
    return std::any_of(versions.begin(), versions.end(),
                       [&wish](const std::string& version) { return version_fits(version, wish.version); });
  }

  Failure unknown(const Wish& wish) {
    const std::string& name = wish.name;
    if (!facts_.versions[name].empty()) {
      return refuse(fmt::format("{} is not to be had in version {}", name, wish.version),
                    "there are: " + join(facts_.versions[name], ", "));
    }
    if (const auto& providers = facts_.providers[name]; !providers.empty()) {
      return refuse(fmt::format("{} is a virtual package", name),
                    "name one that provides it: " + join({providers.begin(), providers.end()}, ", "));
    }
    const auto near = nearest(name, facts_.near);
    return refuse(fmt::format("no package is called {}", name),
                  near ? fmt::format("did you mean {}?", *near)
                       : "is its repository configured on this node (/etc/apt/sources.list.d)?");
  }

  bool satisfied(const Wish& wish, Goal goal, bool refresh) {
    const Installed& package = installed(wish.name);
    if (!package.present() || !version_fits(package.version, wish.version)) return false;
    if (goal != Goal::latest || !wish.version.empty()) return true;
    return !refresh && (package.candidate.empty() || package.candidate == package.version);
  }

  Result<void> plan_install(Goal goal) {
    bool something_unknown = false;
    bool something_to_do = goal == Goal::latest;
    for (const Wish& wish : wishes_) {
      const Installed& package = installed(wish.name);
      const bool there = package.present() && version_fits(package.version, wish.version);
      something_to_do = something_to_do || !there;
      if (!there && !is_known(wish)) something_unknown = true;
    }
    const bool refresh = something_to_do && wants_refresh(something_unknown);
    std::vector<std::string> specs, words;
    for (const Wish& wish : wishes_) {
      if (satisfied(wish, goal, refresh)) continue;
      const Installed& package = installed(wish.name);
      if (package.present() && facts_.held.count(wish.name) != 0) {
        if (wish.version.empty()) continue;  // latest: a held package is as new as it is allowed to be
        return refuse(fmt::format("{} is held at {}", wish.name, package.version),
                      "somebody pinned it on purpose; apt-mark unhold " + wish.name + " lets it change");
      }
      if (!is_known(wish) && !refresh) return unknown(wish);
      specs.push_back(wish.version.empty() ? wish.name : wish.name + "=" + wish.version);
      describe(wish, package, refresh, words);
    }
    if (specs.empty()) return {};
    if (refresh) change_.actions.push_back(apt::update_action());
    change_.actions.push_back(apt::install_action(specs, "install " + join(words, ", ")));
    change_.summary = join(words, ", ");
    return {};
  }

  void describe(const Wish& wish, const Installed& package, bool refresh, std::vector<std::string>& words) {
    std::string wanted = wish.version.empty() ? package.candidate : wish.version;
    if (refresh && wish.version.empty()) wanted = "newest";
    words.push_back(package.present() ? fmt::format("{} {} -> {}", wish.name, package.version, wanted)
                                      : fmt::format("{} {}", wish.name, wanted));
    if (package.present()) change_.diff += fmt::format("- {} {}\n", wish.name, package.version);
    change_.diff += fmt::format("+ {} {}\n", wish.name, wanted);
  }

  Result<void> plan_removal() {
    std::vector<std::string> names;
    for (const Wish& wish : wishes_) {
      const Installed& package = installed(wish.name);
      const char state = package.status.size() > 1 ? package.status[1] : 'n';
      if (state == 'n' || state == 'c') continue;  // not there, or only its configuration files are left
      if (facts_.held.count(wish.name) != 0) {
        return refuse(fmt::format("{} is held at {}", wish.name, package.version),
                      "somebody pinned it on purpose; apt-mark unhold " + wish.name + " lets it go");
      }
      names.push_back(wish.name);
      change_.diff += fmt::format("- {} {}\n", wish.name, package.version);
    }
    if (names.empty()) return {};
    std::vector<std::string> along;
    for (const std::string& name : facts_.takes) {
      if (std::find(names.begin(), names.end(), name) == names.end()) along.push_back(name);
    }
    std::string title = "remove " + join(names, ", ");
    if (!along.empty()) title += " and what needs it: " + join(along, ", ");
    for (const std::string& name : along) change_.diff += fmt::format("- {}\n", name);
    change_.summary = title;
    change_.actions.push_back(apt::remove_action(names, std::move(title)));
    return {};
  }

  const Inputs& inputs_;
  Facts facts_;
  std::vector<Wish> wishes_;
  Change change_;
};

// Debian policy, 5.6.1: lower case letters, digits, + - . ; here also the architecture and a version after =. A final
// minus would make apt-get remove it.
bool is_package_name(std::string_view name) {
  const std::string_view plain = name.substr(0, name.find('='));
  return plain.size() >= 2 && std::isalnum(static_cast<unsigned char>(plain.front())) != 0 &&
         plain.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789+-.:") == std::string_view::npos &&
         plain.back() != '-';
}

}  // namespace

const Signature& PackageStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Error> PackageStep::check(const Inputs& inputs) const {
  std::vector<Error> errors;
  if (!inputs.has("name")) return errors;
  const Value& names = inputs.value("name");
  if (names.empty()) errors.push_back(core::input_error("name", "'name' is empty"));
  for (const Value& name : names) {
    if (name.is_null()) continue;
    if (!name.is_string() || !is_package_name(name.get_ref<const std::string&>())) {
      errors.push_back(core::input_error("name", fmt::format("{} cannot be the name of a package", name.dump()),
                                         "lower case letters, digits, + - . only"));
    }
  }
  if (names.size() > 1 && inputs.has("version")) {
    errors.push_back(core::input_error("version", "'version' is for one package", "write name=version in the list"));
  }
  return errors;
}

std::vector<Question> PackageStep::ask(const Inputs& inputs) const {
  const auto valid = std::chrono::duration_cast<std::chrono::minutes>(inputs.duration("cache_valid")).count();
  return {{.key = "packages",
           .script = apt::question(wishes_of(inputs), goal_of(inputs), std::max<long long>(valid, 1)),
           .deadline = std::chrono::minutes(2)}};
}

Result<Change> PackageStep::plan(const Inputs& inputs, const Answers& answers) const {
  const Answer& answer = answers.at("packages");
  if (!answer.ok()) {
    Error error = make_error(ErrorKind::refused, "the package database cannot be asked");
    error.detail = answer.err;
    return fail(std::move(error));
  }
  Facts facts = parse(answer.out);
  if (facts.manager != "apt") {
    return refuse(facts.manager == "none"
                      ? "no package manager was found on this node"
                      : fmt::format("the package manager here is {}; `package` knows only apt so far", facts.manager),
                  "use `command` with a guard, e.g. unless: command -v jq");
  }
  return Planner(inputs, std::move(facts)).plan();
}

}  // namespace millwright
