#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "orchestrator/base/text.hpp"
#include "orchestrator/playbook/ansible_names.hpp"
#include "orchestrator/playbook/document.hpp"

namespace millwright {
namespace {

// With a run's number and an item's before and behind it, it is one name of a file system, of at most 255 bytes.
constexpr std::size_t kLongestId = 100;

const std::vector<std::string>& step_keys() {
  static const std::vector<std::string> keys = {"id",   "name",           "uses",     "with",       "needs",  "in",
                                                "when", "foreach",        "register", "tags",       "retry",  "timeout",
                                                "lock", "ignore_failure", "become",   "on_failure", "include"};
  return keys;
}

void read_need(Reader& reader, const YamlNode& node, std::vector<NeedDecl>& needs) {
  NeedDecl need;
  need.mark = node.mark;
  if (node.kind == YamlKind::mapping) {
    reader.check_keys(node, {"step", "on"}, "a need");
    const YamlNode* step = node.find("step");
    if (step == nullptr) {
      reader.error(node.mark, "a need without 'step'", "write {step: ID, on: all}");
      return;
    }
    need.mark = step->mark;
    if (const auto id = reader.word(*step, "'step'")) need.step = *id;
    if (const YamlNode* on = node.find("on")) {
      need.on_all = on->text == "all";
      if (!need.on_all) reader.error(on->mark, "'on' can only be 'all'", "all: wait for every host of the play");
    }
  } else if (const auto id = reader.word(node, "'needs'")) {
    need.step = *id;
  }
  if (!need.step.empty()) needs.push_back(std::move(need));
}

void read_needs(Reader& reader, const YamlNode& node, StepDraft& step) {
  step.needs_given = true;
  if (node.kind == YamlKind::sequence) {
    for (const YamlNode& item : node.items) read_need(reader, item, step.decl.needs);
  } else if (node.kind == YamlKind::null) {
    reader.error(node.mark, "'needs' is empty", "write [] for a step that waits for nothing");
  } else {
    read_need(reader, node, step.decl.needs);
  }
}

void read_when(Reader& reader, const YamlNode& node, StepDecl& step) {
  if (node.kind != YamlKind::scalar || !node.tag.empty()) {
    reader.error(node.mark, fmt::format("'when' must be an expression, not {}", kind_name(node)),
                 node.kind == YamlKind::sequence ? "join conditions with 'and'" : "");
    return;
  }
  if (starts_with(trim(node.text), "{{") && ends_with(trim(node.text), "}}")) {
    reader.error(node.mark, "'when' is an expression already", "leave {{ and }} out");
    return;
  }
  Result<Expression> parsed = Expression::parse(node);
  if (parsed) {
    step.when = std::move(*parsed);
  } else {
    reader.errors({std::move(parsed.error())});
  }
}

void read_foreach(Reader& reader, const YamlNode& node, StepDecl& step) {
  std::optional<Template> compiled = reader.compiled(node);
  if (!compiled) return;
  if (node.kind != YamlKind::sequence && compiled->is_constant()) {
    reader.error(node.mark, fmt::format("'foreach' must be a list or an expression, not {}", kind_name(node)),
                 node.kind == YamlKind::scalar ? "an expression is written \"{{ ... }}\"" : "");
    return;
  }
  step.foreach = std::move(compiled);
}

void read_retry(Reader& reader, const YamlNode& node, RetryDecl& retry) {
  if (node.kind == YamlKind::scalar) {
    retry.times = reader.integer(node, "'retry'", 0).value_or(0);
    return;
  }
  if (!reader.is_mapping(node, "'retry'")) return;
  reader.check_keys(node, {"times", "delay", "backoff"}, "retry");
  const YamlNode* times = node.find("times");
  if (times == nullptr) reader.error(node.mark, "'retry' needs 'times'", "how many more attempts there are");
  if (times != nullptr) retry.times = reader.integer(*times, "'times'", 0).value_or(0);
  if (const YamlNode* delay = node.find("delay")) {
    retry.delay = reader.duration(*delay, "'delay'").value_or(retry.delay);
  }
  if (const YamlNode* backoff = node.find("backoff")) {
    retry.backoff = reader.number(*backoff, "'backoff'", 1).value_or(1.0);
  }
}

void read_lock(Reader& reader, const YamlNode& node, StepDraft& step) {
  LockDecl& lock = step.decl.lock;
  step.lock_mark = node.mark;
  if (node.kind != YamlKind::mapping) {
    lock.name = reader.word(node, "'lock'").value_or("");
    return;
  }
  reader.check_keys(node, {"name", "count", "on"}, "a lock");
  const YamlNode* name = node.find("name");
  if (name == nullptr)
    reader.error(node.mark, "a lock needs 'name'", "write lock: apt, or {name: mirror, count: 4, on: all}");
  if (name != nullptr) lock.name = reader.word(*name, "'name'").value_or("");
  if (const YamlNode* count = node.find("count")) lock.count = reader.integer(*count, "'count'", 1).value_or(1);
  if (const YamlNode* on = node.find("on")) {
    lock.on_all = on->text == "all";
    if (!lock.on_all) reader.error(on->mark, "'on' can only be 'all'", "all: counted over every host of the play");
  }
}

std::optional<HandlerDecl> read_handler(Reader& reader, const YamlNode& node) {
  HandlerDecl handler;
  handler.mark = node.mark;
  const YamlNode* what = node.find("do");
  if (what == nullptr) {
    reader.error(node.mark, "an on_failure entry needs 'do'", "write {do: remedy, attempts: 4} or {do: rollback}");
    return {};
  }
  const bool remedy = what->text == "remedy";
  if (!remedy && what->text != "rollback") {
    reader.error(what->mark, fmt::format("'{}' is nothing that can be done on failure", what->text),
                 reader.suggest(what->text, {"remedy", "rollback"}, "remedy or rollback"));
    return {};
  }
  handler.kind = remedy ? HandlerKind::remedy : HandlerKind::rollback;
  const std::vector<std::string> keys =
      remedy ? std::vector<std::string>{"do", "attempts", "within"} : std::vector<std::string>{"do"};
  reader.check_keys(node, keys, remedy ? "a remedy" : "a rollback");
  if (!remedy) return handler;
  if (const YamlNode* attempts = node.find("attempts")) {
    handler.attempts = reader.integer(*attempts, "'attempts'", 1).value_or(handler.attempts);
  }
  if (const YamlNode* within = node.find("within")) {
    handler.within = reader.duration(*within, "'within'").value_or(handler.within);
  }
  return handler;
}

void read_on_failure(Reader& reader, const YamlNode& node, StepDecl& step) {
  if (node.kind != YamlKind::sequence) {
    reader.error(node.mark, fmt::format("'on_failure' must be a list, not {}", kind_name(node)),
                 "begin each entry with '- '");
    return;
  }
  for (const YamlNode& item : node.items) {
    if (!step.on_failure.empty() && step.on_failure.back().kind == HandlerKind::rollback) {
      reader.error(item.mark, "nothing comes after a rollback", "put it last");
      return;
    }
    if (auto handler = read_handler(reader, item)) step.on_failure.push_back(std::move(*handler));
  }
}

void read_identity(Reader& reader, const YamlNode& node, StepDraft& step) {
  if (const YamlNode* id = node.find("id")) {
    step.id_mark = id->mark;
    step.decl.id = reader.name(*id, "id").value_or("");
    if (step.decl.id.size() > kLongestId) {
      reader.error(id->mark,
                   fmt::format("the id has {} letters, and at most {} are taken", step.decl.id.size(), kLongestId),
                   "folders on the nodes are named by it; a sentence for people goes into name:");
      step.decl.id.clear();
    }
  }
  if (const YamlNode* name = node.find("name")) step.decl.name = reader.word(*name, "'name'").value_or("");
  if (const YamlNode* in = node.find("in")) {
    step.in_mark = in->mark;
    step.decl.in = reader.word(*in, "'in'").value_or("");
  }
  if (const YamlNode* as = node.find("register")) {
    step.register_mark = as->mark;
    step.decl.register_as = reader.name(*as, "register").value_or("");
    constexpr std::array<std::string_view, 7> taken = {"inputs", "vars", "steps", "host", "run", "item", "index"};
    if (std::find(taken.begin(), taken.end(), step.decl.register_as) != taken.end()) {
      reader.error(as->mark, fmt::format("'{}' has a meaning of its own in expressions", step.decl.register_as),
                   "register under another name");
      step.decl.register_as.clear();
    }
  }
}

void read_behaviour(Reader& reader, const YamlNode& node, StepDraft& step) {
  StepDecl& decl = step.decl;
  if (const YamlNode* needs = node.find("needs")) read_needs(reader, *needs, step);
  if (const YamlNode* when = node.find("when")) read_when(reader, *when, decl);
  if (const YamlNode* foreach = node.find("foreach")) read_foreach(reader, *foreach, decl);
  if (const YamlNode* tags = node.find("tags")) decl.tags = reader.words(*tags, "'tags'");
  if (const YamlNode* retry = node.find("retry")) read_retry(reader, *retry, decl.retry);
  if (const YamlNode* timeout = node.find("timeout")) decl.timeout = reader.duration(*timeout, "'timeout'");
  if (const YamlNode* lock = node.find("lock")) read_lock(reader, *lock, step);
  if (const YamlNode* ignore = node.find("ignore_failure")) {
    decl.ignore_failure = reader.boolean(*ignore, "'ignore_failure'").value_or(false);
  }
  if (const YamlNode* become = node.find("become")) decl.become = reader.boolean(*become, "'become'");
  if (const YamlNode* handlers = node.find("on_failure")) read_on_failure(reader, *handlers, decl);
}

// "ansible.builtin.file" is this program's `file` too.
std::string hint_from_ansible(const Draft& draft, const std::string& name) {
  const std::string last = name.substr(name.rfind('.') + 1);
  if (starts_with(name, "ansible.") && draft.registry.find(last) != nullptr)
    return fmt::format("here it is '{}'", last);
  const auto known = ansible_name(name);
  if (!known || draft.registry.find(std::string(known->kind)) == nullptr) return {};
  return fmt::format("here it is '{}'{}{}", known->kind, known->how.empty() ? "" : ": ", known->how);
}

void read_uses(Draft& draft, const YamlNode& node, StepDraft& step) {
  const YamlNode* uses = node.find("uses");
  step.uses_mark = uses == nullptr ? node.mark : uses->mark;
  if (uses == nullptr) {
    draft.reader.error(node.mark, "a step needs 'uses'", "the step kind, e.g. uses: package");
    return;
  }
  const auto name = draft.reader.word(*uses, "'uses'");
  if (!name) return;
  step.decl.uses = *name;
  step.kind = draft.registry.find(*name);
  if (step.kind == nullptr) {
    const std::string hint = hint_from_ansible(draft, *name);
    draft.reader.error(
        uses->mark, fmt::format("unknown step kind '{}'", *name),
        !hint.empty() ? hint : draft.reader.suggest(*name, draft.registry.names(), "`millwright steps` lists all"));
  }
}

// `- package: {...}`: the shape of Ansible's tasks.
bool report_kind_as_key(Draft& draft, const YamlNode& node) {
  if (node.find("uses") != nullptr) return false;
  for (const auto& [key, value] : node.entries) {
    if (const std::string hint = hint_from_ansible(draft, key.text); !hint.empty()) {
      draft.reader.error(key.mark, fmt::format("'{}' is a module of Ansible's, and no key", key.text),
                         hint + "; write it under uses:, and what it takes under with:");
      return true;
    }
    if (draft.registry.find(key.text) == nullptr) continue;
    draft.reader.error(key.mark, fmt::format("the step kind '{}' is not a key", key.text),
                       fmt::format("write uses: {}, and what it takes under with:", key.text));
    return true;
  }
  return false;
}

}  // namespace

void read_step(Draft& draft, const YamlNode& node, const std::string& file) {
  if (!draft.reader.is_mapping(node, "a step")) return;
  StepDraft step;
  step.decl.mark = node.mark;
  if (report_kind_as_key(draft, node)) {
    read_identity(draft.reader, node, step);
  } else {
    const bool known = draft.reader.check_keys(node, step_keys(), "a step");
    read_identity(draft.reader, node, step);
    read_uses(draft, node, step);
    read_behaviour(draft.reader, node, step);
    const YamlNode* with = node.find("with");
    // With a key misspelt, that inputs are missing is most often the same mistake.
    if (with != nullptr || known) read_with(draft, step, with, file);
  }
  draft.steps.push_back(std::move(step));
}

}  // namespace millwright
