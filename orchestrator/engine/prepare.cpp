#include "orchestrator/engine/prepare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/value_size.hpp"

namespace millwright {

namespace {

using References = std::vector<std::pair<std::vector<std::string>, SourceMark>>;

// A step that has finished without outputs (it failed and that was ignored, or it was not chosen) will not get any
// later: expressions may go on with `default`. Only planning cannot know.
bool outputs_known(const RunContext& run, const PlayHost& host, std::size_t step) {
  const StepResult result = run.board.get(host.target.name, step);
  const bool open = result.progress == Progress::waiting || result.progress == Progress::running;
  return result.outputs_known || (!open && run.options.mode == Mode::apply);
}

// A variable of the playbook is known when what it is made of is. `seen` are the variables that were looked at: where
// each holds another one twice, going through them again and again would never end.
bool known_now(const RunContext& run, const PlayHost& host, const References& references, std::set<std::string>& seen) {
  for (const auto& [path, mark] : references) {
    if (path.empty()) continue;
    if (path[0] == "steps") {
      if (path.size() < 2) {
        for (std::size_t step = 0; step < run.playbook.steps.size(); ++step) {
          if (!outputs_known(run, host, step)) return false;
        }
      } else if (const auto at = run.order.position(path[1]); at && !outputs_known(run, host, *at)) {
        return false;
      }
      continue;
    }
    for (std::size_t step = 0; step < run.playbook.steps.size(); ++step) {
      if (run.playbook.steps[step].register_as == path[0] && !outputs_known(run, host, step)) return false;
    }
    const auto var = path[0] == "vars" && path.size() > 1 ? run.playbook.vars.find(path[1]) : run.playbook.vars.end();
    if (var == run.playbook.vars.end() || !seen.insert(var->first).second) continue;
    if (!known_now(run, host, var->second.references(), seen)) return false;
  }
  return true;
}

bool known_now(const RunContext& run, const PlayHost& host, const References& references) {
  std::set<std::string> seen;
  return known_now(run, host, references, seen);
}

// Bytes of all variables of a playbook together, for one host.
constexpr std::size_t kMostVariables = std::size_t{32} << 20;

// What other steps see of one: its outputs, and how it went.
Value seen(const StepResult& result) {
  Value out = result.outputs.is_object() ? result.outputs : Value{{"items", result.outputs}};
  if (!out.contains("changed")) out["changed"] = result.progress == Progress::changed;
  if (!out.contains("state")) out["state"] = to_string(result.progress);
  return out;
}

Result<void> add_playbook_vars(const RunContext& run, const PlayHost& host, Value& scope) {
  std::vector<const std::pair<const std::string, Template>*> open;
  for (const auto& entry : run.playbook.vars) {
    if (known_now(run, host, entry.second.references())) open.push_back(&entry);
  }
  std::optional<Error> last;
  bool progressed = true;
  std::size_t size = 0;
  // A variable may read another one: those that cannot be rendered yet get another turn after the others.
  while (!open.empty() && progressed) {
    progressed = false;
    std::vector<const std::pair<const std::string, Template>*> left;
    for (const auto* entry : open) {
      Result<Value> value = entry->second.render(ObjectScope(scope, &run.secrets));
      if (!value) {
        last = wrap(value.error(), "working out the variable " + entry->first);
        left.push_back(entry);
        continue;
      }
      size += value_size(*value);
      if (size > kMostVariables) {
        return fail(make_error(ErrorKind::invalid, fmt::format("the variables of the playbook are too large: more than "
                                                               "{} MiB with '{}'",
                                                               kMostVariables >> 20, entry->first))
                        .at(entry->second.mark())
                        .with_hint("does one variable hold another several times over?"));
      }
      scope["vars"][entry->first] = *value;
      progressed = true;
    }
    open = std::move(left);
  }
  if (!open.empty()) return fail(*last);
  return {};
}

// The steps whose outputs are read by these expressions. Handing every step the outputs of all would make the last one
// of a long playbook the slowest.
void add_read(const RunContext& run, const References& references, std::set<std::size_t>& read) {
  const std::vector<StepDecl>& steps = run.playbook.steps;
  for (const auto& [path, mark] : references) {
    if (path.empty()) continue;
    const auto named = path[0] == "steps" && path.size() > 1 ? run.order.position(path[1]) : std::nullopt;
    if (named) {
      read.insert(*named);
      continue;
    }
    for (std::size_t step = 0; step < steps.size(); ++step) {
      if (path[0] == "steps" || steps[step].register_as == path[0]) read.insert(step);
    }
  }
}

std::set<std::size_t> steps_read(const RunContext& run, const StepDecl& decl) {
  std::set<std::size_t> read;
  add_read(run, decl.with.references(), read);
  if (decl.when) add_read(run, decl.when->references(), read);
  if (decl.foreach) add_read(run, decl.foreach->references(), read);
  for (const auto& [name, value] : run.playbook.vars) add_read(run, value.references(), read);
  return read;
}

void add_steps(const RunContext& run, const PlayHost& host, const StepDecl& reader, Value& scope) {
  for (std::size_t step : steps_read(run, reader)) {
    if (!outputs_known(run, host, step)) continue;
    const StepResult result = run.board.get(host.target.name, step);
    const StepDecl& decl = run.playbook.steps[step];
    const Value value = seen(result);
    scope["steps"][decl.id] = value;
    if (!decl.register_as.empty()) scope[decl.register_as] = value;
  }
}

Error joined(const std::vector<Error>& errors, const StepDecl& decl) {
  Error first = errors.front();
  if (!first.where) {
    const Template* entry = decl.with.entry(first.detail);
    first.where = entry != nullptr ? entry->mark() : decl.mark;
  }
  first.detail.clear();
  for (std::size_t i = 1; i < errors.size(); ++i) first.detail += errors[i].message + "\n";
  return first;
}

void hide_secrets(const Signature& signature, const Value& inputs) {
  for (const InputSpec& spec : signature.inputs) {
    if (spec.secrecy != Secrecy::secret || !inputs.contains(spec.name)) continue;
    const Value& value = inputs[spec.name];
    redactor().add(value.is_string() ? value.get<std::string>() : value.dump());
  }
}

// The names an expression of this host may read.
Result<Value> scope_of(const RunContext& run, const PlayHost& host, const StepDecl& reader, const Unit* unit) {
  Value scope = Value::object();
  scope["vars"] = host.vars.is_object() ? host.vars : Value::object();
  scope["inputs"] = run.inputs;
  scope["host"] = {{"name", host.target.name},
                   {"address", host.target.address.empty() ? host.target.name : host.target.address},
                   {"groups", host.groups},
                   {"vars", scope["vars"]}};
  scope["run"] = {{"id", run.run()}};
  scope["steps"] = Value::object();
  add_steps(run, host, reader, scope);
  if (Result<void> added = add_playbook_vars(run, host, scope); !added) return fail(added.error());
  if (unit != nullptr && unit->index) {
    scope["item"] = unit->item;
    scope["index"] = *unit->index;
  }
  return scope;
}

// What is known of a step's inputs may be wrong already, whatever the rest will be: planning says so.
std::vector<Error> wrong_already(const RunContext& run, const PlayHost& host, const StepDecl& decl,
                                 const Scope& scope) {
  const AnyStepKind* kind = run.services.registry->find(decl.uses);
  if (kind == nullptr) return {};
  Signature relaxed = kind->signature();
  Value known = Value::object();
  for (const auto& [name, mark] : decl.with.keys()) {
    const Template* entry = decl.with.entry(name);
    if (entry != nullptr && known_now(run, host, entry->references())) {
      Result<Value> value = entry->render(scope);
      if (!value) return {value.error()};
      known[name] = std::move(*value);
      continue;
    }
    for (InputSpec& input : relaxed.inputs) {
      if (input.name != name) continue;
      input.need = Need::optional;
      input.default_value = nullptr;
      input.one_of.clear();
    }
  }
  tl::expected<Value, std::vector<Error>> checked = check_inputs(relaxed, known);
  if (!checked) return checked.error();
  hide_secrets(kind->signature(), *checked);  // before a message can hold one
  return kind->check(Inputs(std::move(*checked)));
}

}  // namespace

Result<std::optional<std::vector<Unit>>> units_of(const RunContext& run, const PlayHost& host, std::size_t step) {
  const StepDecl& decl = run.playbook.steps[step];
  if (!decl.foreach) return std::optional(std::vector<Unit>{Unit{step, &decl, {}, {}}});
  if (!known_now(run, host, decl.foreach->references())) return std::optional<std::vector<Unit>>();
  Result<Value> scope = scope_of(run, host, decl, nullptr);
  if (!scope) return fail(scope.error());
  Result<Value> items = decl.foreach->render(ObjectScope(std::move(*scope), &run.secrets));
  if (!items) return fail(wrap(items.error(), "working out foreach of step " + decl.id));
  if (!items->is_array()) {
    return fail(make_error(ErrorKind::invalid,
                           fmt::format("foreach of step {} is no list but a {}", decl.id, items->type_name()))
                    .at(decl.foreach->mark()));
  }
  std::vector<Unit> units;
  for (std::size_t i = 0; i < items->size(); ++i) units.push_back({step, &decl, i, (*items)[i]});
  return std::optional(std::move(units));
}

namespace {

Result<Value> given_inputs(const StepDecl& decl, const Signature& signature, const Scope& scope) {
  Result<Value> given = decl.with.render(scope);
  if (!given) return fail(wrap(given.error(), "working out the inputs of step " + decl.id));
  if (!given->is_object() && !given->is_null() && !signature.positional.empty()) {
    given = Value{{signature.positional, *given}};
  }
  if (given->is_null()) given = Value::object();
  return given;
}

// All inputs are known.
std::vector<Error> wrong_as_given(const StepDecl& decl, const AnyStepKind& kind, const Scope& scope) {
  Result<Value> given = given_inputs(decl, kind.signature(), scope);
  if (!given) return {given.error()};
  tl::expected<Value, std::vector<Error>> checked = check_inputs(kind.signature(), *given);
  if (!checked) return checked.error();
  hide_secrets(kind.signature(), *checked);
  return kind.check(Inputs(std::move(*checked)));
}

}  // namespace

Result<void> judge(const RunContext& run, const PlayHost& host, const Unit& unit) {
  const StepDecl& decl = *unit.decl;
  const AnyStepKind* kind = run.services.registry->find(decl.uses);
  if (kind == nullptr || (decl.when && !known_now(run, host, decl.when->references()))) return {};
  Result<Value> object = scope_of(run, host, decl, &unit);
  if (!object) return fail(object.error());
  const ObjectScope scope(std::move(*object), &run.secrets);
  if (decl.when) {
    const Result<Value> condition = decl.when->evaluate(scope);
    if (!condition) return fail(wrap(condition.error(), "working out when of step " + decl.id));
    if (!truthy(*condition)) return {};
  }
  std::vector<Error> errors = known_now(run, host, decl.with.references()) ? wrong_as_given(decl, *kind, scope)
                                                                           : wrong_already(run, host, decl, scope);
  // A file here may be what an earlier step makes.
  errors.erase(std::remove_if(errors.begin(), errors.end(),
                              [&](const Error& error) {
                                const InputSpec* input = kind->signature().find_input(error.detail);
                                return input != nullptr && input->controller_file;
                              }),
               errors.end());
  return errors.empty() ? Result<void>() : fail(joined(errors, decl));
}

Result<std::optional<Prepared>> prepare(const RunContext& run, const PlayHost& host, const Unit& unit,
                                        const Value& replace) {
  const StepDecl& decl = *unit.decl;
  if (decl.when && !known_now(run, host, decl.when->references())) return std::optional<Prepared>();
  Result<Value> object = scope_of(run, host, decl, &unit);
  if (!object) return fail(object.error());
  const ObjectScope scope(std::move(*object), &run.secrets);
  Prepared prepared;
  if (decl.when) {
    const Result<Value> condition = decl.when->evaluate(scope);
    if (!condition) return fail(wrap(condition.error(), "working out when of step " + decl.id));
    prepared.wanted = truthy(*condition);
    if (!prepared.wanted) return std::optional(std::move(prepared));
  }
  if (!known_now(run, host, decl.with.references())) {
    if (run.options.mode != Mode::plan) return std::optional<Prepared>();
    const std::vector<Error> errors = wrong_already(run, host, decl, scope);
    return errors.empty() ? Result<std::optional<Prepared>>(std::nullopt) : fail(joined(errors, decl));
  }
  const AnyStepKind* kind = run.services.registry->find(decl.uses);
  if (kind == nullptr) return fail(make_error(ErrorKind::invalid, "no step kind " + decl.uses).at(decl.mark));
  const Signature& signature = kind->signature();
  Result<Value> given = given_inputs(decl, signature, scope);
  if (!given) return fail(given.error());
  if (replace.is_object()) given->update(replace);
  tl::expected<Value, std::vector<Error>> checked = check_inputs(signature, *given);
  if (!checked) return fail(joined(checked.error(), decl));
  hide_secrets(signature, *checked);
  prepared.inputs = std::move(*checked);
  if (const std::vector<Error> errors = kind->check(Inputs(prepared.inputs)); !errors.empty()) {
    return fail(joined(errors, decl));
  }
  return std::optional(std::move(prepared));
}

}  // namespace millwright
