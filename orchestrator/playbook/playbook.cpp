#include "orchestrator/playbook/playbook.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "orchestrator/base/read_file.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/playbook/document.hpp"

namespace millwright {
namespace {

// Includes are YAML and templates are texts: neither is larger than what YamlLimits lets through.
constexpr std::size_t kLargestBeside = YamlLimits().max_bytes;

std::optional<Amount> read_amount(Reader& reader, const YamlNode& node, std::string_view what) {
  const Value value = node.to_value();
  Amount amount;
  std::string number;
  if (value.is_number_integer() && value >= 0 && value <= 1'000'000'000) {
    amount.value = value.get<double>();
    return amount;
  }
  if (value.is_string()) number = value.get<std::string>();
  if (ends_with(number, "%")) {
    number.pop_back();
    const bool digits =
        !number.empty() && number.size() <= 3 && number.find_first_not_of("0123456789") == std::string::npos;
    if (digits && std::stoi(number) <= 100) {
      amount.value = std::stoi(number);
      amount.percent = true;
      return amount;
    }
  }
  reader.error(node.mark, fmt::format("{} must be a number of hosts or a percentage", what), "write 3 or 25%");
  return {};
}

void read_batches(Reader& reader, const YamlNode& node, StrategyDecl& strategy) {
  const bool list = node.kind == YamlKind::sequence;
  if (list && node.items.empty()) reader.error(node.mark, "'batch' is an empty list", "write 3, 25% or [1, 5, 25%]");
  for (const YamlNode& item : list ? node.items : std::vector<YamlNode>{node}) {
    const auto amount = read_amount(reader, item, "'batch'");
    if (!amount) continue;
    if (amount->value == 0) reader.error(item.mark, "a batch of no hosts would never end");
    strategy.batch.push_back(*amount);
  }
}

// The names are Ansible's.
void read_order(Reader& reader, const YamlNode& node, StrategyDecl& strategy) {
  static const std::vector<std::string> names = {"inventory", "reverse_inventory", "sorted", "reverse_sorted",
                                                 "shuffle"};
  const auto word = reader.word(node, "'order'");
  if (!word) return;
  const auto found = std::find(names.begin(), names.end(), *word);
  if (found == names.end()) {
    reader.error(node.mark, fmt::format("'{}' is no order of hosts", *word),
                 reader.suggest(*word, names, "one of " + join(names, ", ")));
    return;
  }
  strategy.order = static_cast<HostOrder>(found - names.begin());
}

void read_strategy(Reader& reader, const YamlNode& node, StrategyDecl& strategy) {
  if (node.kind == YamlKind::null || !reader.is_mapping(node, "'strategy'")) return;
  reader.check_keys(node, {"canary", "batch", "max_failures", "order"}, "strategy");
  if (const YamlNode* canary = node.find("canary")) {
    strategy.canary = reader.integer(*canary, "'canary'", 0).value_or(0);
  }
  if (const YamlNode* batch = node.find("batch")) {
    read_batches(reader, *batch, strategy);
  }
  if (const YamlNode* failures = node.find("max_failures")) {
    strategy.max_failures = read_amount(reader, *failures, "'max_failures'");
  }
  if (const YamlNode* order = node.find("order")) read_order(reader, *order, strategy);
}

void read_vars(Draft& draft, const YamlNode& node) {
  if (node.kind == YamlKind::null || !draft.reader.is_mapping(node, "'vars'")) return;
  for (const auto& [key, value] : node.entries) {
    const auto name = draft.reader.name(key, "variable");
    // Kept also when its value is wrong: those who read it are not wrong too.
    if (name) draft.playbook.vars.emplace(*name, draft.reader.compiled(value).value_or(Template()));
  }
}

void read_document(Draft& draft, const YamlNode& document) {
  Reader& reader = draft.reader;
  if (document.kind == YamlKind::sequence) {
    reader.error(document.mark, "a playbook is a mapping, not a list",
                 "one playbook a file: hosts: and steps: at the top");
    return;
  }
  if (!reader.is_mapping(document, "a playbook")) return;
  reader.check_keys(document, {"name", "hosts", "inputs", "vars", "strategy", "steps"}, "a playbook");
  Playbook& playbook = draft.playbook;
  playbook.name = std::filesystem::path(playbook.path).stem().string();
  if (const YamlNode* name = document.find("name")) playbook.name = reader.word(*name, "'name'").value_or("");
  if (const YamlNode* hosts = document.find("hosts")) {
    playbook.hosts = join(reader.words(*hosts, "'hosts'"), ",");
  } else {
    reader.error(document.mark, "a playbook needs 'hosts'", "a pattern of the inventory, e.g. hosts: all");
  }
  if (const YamlNode* inputs = document.find("inputs")) read_inputs(draft, *inputs);
  if (const YamlNode* vars = document.find("vars")) read_vars(draft, *vars);
  if (const YamlNode* strategy = document.find("strategy")) read_strategy(reader, *strategy, playbook.strategy);
  const YamlNode* steps = document.find("steps");
  if (steps == nullptr || steps->kind != YamlKind::sequence) {
    const SourceMark& mark = steps == nullptr ? document.mark : steps->mark;
    reader.error(mark, steps == nullptr ? "a playbook needs 'steps'" : "'steps' must be a list",
                 "begin each step with '- '");
    return;
  }
  read_steps(draft, *steps, playbook.path);
}

// By file in the order of reading, then by place.
void sort_errors(std::vector<Error>& errors, const std::vector<std::string>& files) {
  const auto key = [&files](const Error& error) {
    if (!error.where) return std::tuple(std::ptrdiff_t{-1}, 0, 0);
    const auto file = std::find(files.begin(), files.end(), error.where->file) - files.begin();
    return std::tuple(file, error.where->line, error.where->column);
  };
  std::stable_sort(errors.begin(), errors.end(), [&key](const Error& a, const Error& b) { return key(a) < key(b); });
  // A path read twice in one expression is one mistake; so is a file that is included twice.
  const auto same = [](const Error& a, const Error& b) { return a.where == b.where && a.message == b.message; };
  errors.erase(std::unique(errors.begin(), errors.end(), same), errors.end());
}

tl::expected<Playbook, std::vector<Error>> finish(const YamlNode& document, const std::string& path,
                                                  const StepRegistry& registry, const ParseOptions& options) {
  Draft draft(registry, options);
  draft.playbook.path = path;
  draft.files.push_back(path);
  read_document(draft, document);
  const std::vector<std::size_t> order = link_steps(draft);
  check_names(draft, order, options);
  if (std::vector<Error>& errors = draft.reader.found(); !errors.empty()) {
    sort_errors(errors, draft.files);
    return tl::unexpected(std::move(errors));
  }
  for (StepDraft& step : draft.steps) draft.playbook.steps.push_back(std::move(step.decl));
  return std::move(draft.playbook);
}

}  // namespace

Result<std::string> read_beside(Draft& draft, const std::string& path) {
  std::map<std::string, std::string>& read = draft.playbook.files;
  if (const auto known = read.find(path); known != read.end()) return known->second;
  if (const auto given = draft.options.files.find(path); given != draft.options.files.end()) {
    return read.emplace(path, given->second).first->second;
  }
  auto text = read_file(path, kLargestBeside);
  if (!text) return fail(text.error());
  return read.emplace(path, std::move(*text)).first->second;
}

int Amount::of(int total) const {
  if (!percent) return static_cast<int>(value);
  return static_cast<int>(std::ceil(value * total / 100.0));
}

const StepDecl* Playbook::find(const std::string& id) const {
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const StepDecl& step) { return step.id == id; });
  return found == steps.end() ? nullptr : &*found;
}

tl::expected<Playbook, std::vector<Error>> load_playbook(const std::string& path, const StepRegistry& registry,
                                                         const ParseOptions& options) {
  const auto document = load_yaml(path);
  if (!document) return tl::unexpected(document.error());
  return finish(*document, path, registry, options);
}

tl::expected<Playbook, std::vector<Error>> parse_playbook(std::string_view text, const std::string& path,
                                                          const StepRegistry& registry, const ParseOptions& options) {
  const auto document = parse_yaml(text, path);
  if (!document) return tl::unexpected(document.error());
  return finish(*document, path, registry, options);
}

std::string render_all(const std::vector<Error>& errors) {
  std::string out;
  for (const Error& error : errors) out += render(error);
  return out + fmt::format("{} error{}; nothing was contacted.\n", errors.size(), errors.size() == 1 ? "" : "s");
}

}  // namespace millwright
