#include "orchestrator/cli/play.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <set>

#include "orchestrator/base/read_file.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/base/yaml.hpp"
#include "orchestrator/cli/playbook_file.hpp"
#include "orchestrator/engine/secrets.hpp"

namespace millwright {
namespace {

using Errors = std::vector<Error>;

template <class T>
const T* value_or_errors(const tl::expected<T, Errors>& result, Errors& errors) {
  if (result) return &*result;
  errors.insert(errors.end(), result.error().begin(), result.error().end());
  return nullptr;
}

void check_options(const PlayOptions& options, const Playbook& playbook, Errors& errors) {
  std::vector<std::string> ids;
  std::set<std::string> tags;
  for (const StepDecl& step : playbook.steps) {
    ids.push_back(step.id);
    tags.insert(step.tags.begin(), step.tags.end());
  }
  if (!options.start_at.empty() && playbook.find(options.start_at) == nullptr) {
    const auto near = nearest(options.start_at, ids);
    errors.push_back(make_error(ErrorKind::usage, fmt::format("--start-at: there is no step '{}'", options.start_at))
                         .with_hint(near ? fmt::format("did you mean '{}'?", *near) : "steps are " + join(ids, ", ")));
  }
  const std::vector<std::string> known(tags.begin(), tags.end());
  for (const auto* given : {&options.tags, &options.skip_tags}) {
    for (const std::string& tag : *given) {
      if (tags.count(tag) != 0) continue;
      const auto near = nearest(tag, known);
      errors.push_back(make_error(ErrorKind::usage, fmt::format("no step has the tag '{}'", tag))
                           .with_hint(near            ? fmt::format("did you mean '{}'?", *near)
                                      : known.empty() ? "the playbook has no tags"
                                                      : "tags are " + join(known, ", ")));
    }
  }
}

void fill_hosts(const Inventory& inventory, const std::vector<std::string>& names, Play& play, Errors& errors) {
  for (const std::string& name : names) {
    auto host = play_host(inventory, name);
    if (host) {
      play.hosts.push_back(std::move(*host));
    } else if (std::none_of(errors.begin(), errors.end(), [&](const Error& known) {
                 return known.where && known.where == host.error().where && known.message == host.error().message;
               })) {
      errors.push_back(host.error());  // one mistake in a group is not told once for each host
    }
  }
}

// Once more, with what is known now: names of variables that no host of the play has are mistakes.
void check_variables(const std::string& path, const StepRegistry& registry, const std::vector<PlayHost>& hosts,
                     Errors& errors) {
  std::set<std::string> names;
  for (const PlayHost& host : hosts) {
    for (const auto& [name, value] : host.vars.items()) names.insert(name);
  }
  ParseOptions options;
  options.inventory_variables = std::move(names);
  value_or_errors(load_playbook(path, registry, options), errors);
}

}  // namespace

void add_play_options(CLI::App& verb, PlayOptions& options) {
  verb.add_option("playbook", options.playbook, "A file, or the name of a shipped playbook")
      ->type_name("PLAYBOOK")
      ->required();
  add_inventory_options(verb, options.inventory);
  verb.add_option("-e,--extra-vars", options.extra, "Inputs: name=value, a JSON object, or @FILE; again for more")
      ->type_name("VALUES")
      ->allow_extra_args(false);
  verb.add_option("-t,--tags", options.tags, "Only steps with one of these tags, comma separated")
      ->type_name("TAGS")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--skip-tags", options.skip_tags, "No steps with one of these tags")
      ->type_name("TAGS")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--start-at", options.start_at, "Take the steps before this one as done")->type_name("STEP");
  verb.add_option("-f,--forks", options.forks, "Hosts at once (default: 50)")
      ->type_name("N")
      ->check(CLI::Range(1, 10000));
  verb.add_option("--steps-at-once", options.steps_at_once, "On one host, at most (default: 4)")
      ->type_name("N")
      ->check(CLI::Range(1, 8));
  verb.add_option("--lock-wait", options.lock_wait, "Wait so long for another run on the same node to end")
      ->type_name("DURATION");
}

Result<std::vector<std::string>> chosen_hosts(const Inventory& inventory, const std::string& pattern,
                                              const InventoryOptions& options) {
  auto hosts = match_hosts(inventory, pattern, options);
  if (!hosts) return fail(wrap(hosts.error(), fmt::format("choosing the hosts of the playbook, '{}'", pattern)));
  if (options.limit.empty()) return hosts;
  const auto limit = match_hosts(inventory, options.limit, options);
  if (!limit) return fail(wrap(limit.error(), fmt::format("applying --limit '{}'", options.limit)));
  const std::set<std::string> wanted(limit->begin(), limit->end());
  hosts->erase(std::remove_if(hosts->begin(), hosts->end(), [&](const auto& host) { return wanted.count(host) == 0; }),
               hosts->end());
  if (hosts->empty())
    return fail(
        make_error(ErrorKind::usage, fmt::format("--limit '{}' leaves none of the hosts '{}'", options.limit, pattern))
            .with_hint("millwright inventory -l PATTERN shows what a pattern matches"));
  return hosts;
}

Result<PlayHost> play_host(const Inventory& inventory, const std::string& host) {
  PlayHost out;
  auto target = inventory.target(host);
  if (!target) return fail(target.error());
  auto variables = inventory.variables(host);
  if (!variables) return fail(variables.error());
  out.target = std::move(*target);
  out.vars = std::move(*variables);
  out.groups = inventory.groups_of(host);
  return out;
}

namespace {

// A list on the command line, as -e 'flags=["--a", "1"]': what is no list there is text of its own.
Value with_lists(const Playbook& playbook, Value given, Errors& errors) {
  for (const auto& [name, input] : playbook.inputs) {
    const auto text = given.find(name);
    if (input.spec.type != ValueType::list || text == given.end() || !text->is_string()) continue;
    const std::string written(trim(text->get<std::string>()));
    if (!starts_with(written, "[")) continue;
    const auto node = parse_yaml(written, "-e " + name);
    if (node && node->kind == YamlKind::sequence) {
      *text = node->to_value();
    } else {
      *text = Value::array();
      errors.push_back(make_error(ErrorKind::usage, fmt::format("-e {}: begins with [ but is no list", name))
                           .with_hint("as in -e '" + name + "=[\"--a\", \"1\"]'"));
    }
  }
  return given;
}

}  // namespace

tl::expected<Play, Errors> prepare_play(const Session& session, const StepRegistry& registry,
                                        const PlayOptions& options) {
  Errors errors;
  Play play;
  const std::string path = playbook_file(options.playbook);
  const auto playbook = load_named_playbook(options.playbook, registry);
  const auto inventory = load_inventory(session, options.inventory);
  const auto extra = extra_variables(options.extra);
  const auto wait = parse_duration(options.lock_wait);
  const Playbook* book = value_or_errors(playbook, errors);
  const Inventory* hosts = value_or_errors(inventory, errors);
  const Value* given = value_or_errors(extra, errors);
  if (!wait) errors.push_back(wrap(wait.error(), "reading --lock-wait"));
  if (book != nullptr) check_options(options, *book, errors);
  if (book != nullptr && given != nullptr) {
    const auto inputs = resolve_inputs(*book, with_lists(*book, *given, errors));
    if (const Value* resolved = value_or_errors(inputs, errors)) {
      play.inputs = *resolved;
      hide_secret_inputs(*book, play.inputs);  // before a message can hold one
    }
  }
  if (book != nullptr && hosts != nullptr) {
    const auto names = chosen_hosts(*hosts, book->hosts, options.inventory);
    if (names) {
      const std::size_t before = errors.size();
      fill_hosts(*hosts, *names, play, errors);
      if (errors.size() == before) check_variables(path, registry, play.hosts, errors);
    } else {
      errors.push_back(names.error());
    }
  }
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  play.playbook = *book;
  const auto text = read_file(path);  // read before, so it is missing only if it was removed this instant
  if (!text) return tl::unexpected(Errors{text.error()});
  play.text = *text;
  play.options.inventory = options.inventory.sources;
  play.options.forks = options.forks;
  play.options.steps_at_once = options.steps_at_once;
  play.options.tags = options.tags;
  play.options.skip_tags = options.skip_tags;
  play.options.start_at = options.start_at;
  play.options.no_rollback = options.no_rollback;
  play.options.pipelining = options.no_pipeline ? Pipelining::off : Pipelining::on;
  play.options.lock_wait = *wait;
  play.options.mode = options.check ? Mode::plan : Mode::apply;
  play.options.why = fmt::format("{} {}", options.check ? "plan" : "apply", path);
  return play;
}

}  // namespace millwright
