#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "orchestrator/base/source_text.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/playbook/document.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;

// A file that is rendered into an input is read whole; a text larger than this is no template.
constexpr std::size_t kMaxTemplateBytes = 4u << 20;

std::string absolute_path(const std::string& path, const std::string& file) {
  std::error_code failed;
  const fs::path folder = fs::absolute(file, failed).parent_path();
  return failed ? path : (folder / path).lexically_normal().string();
}

// The text as a block scalar whose lines are the file's own.
YamlNode text_node(std::string text, const std::string& path) {
  YamlNode node;
  node.kind = YamlKind::scalar;
  node.quoted = true;
  node.text = std::move(text);
  const SourceText source(node.text, path);
  node.mark = source.mark(0);
  for (int line = 1; line <= source.line_count(); ++line) node.lines.push_back(source.mark(source.offset(line, 1)));
  return node;
}

std::optional<YamlNode> read_template(Draft& draft, const std::string& path, const SourceMark& mark) {
  Reader& reader = draft.reader;
  Result<std::string> text = read_beside(draft, path);
  if (!text) {
    reader.error(mark, text.error().message, "paths are relative to the playbook");
    return {};
  }
  if (text->size() > kMaxTemplateBytes) {
    reader.error(mark, fmt::format("{} has {} bytes; a template may have {}", path, text->size(), kMaxTemplateBytes));
    return {};
  }
  return text_node(std::move(*text), path);
}

bool is_expression(const YamlNode& node) { return node.text.find("{{") != std::string::npos; }

// Text that renders to itself: what would begin an expression or a statement is written as one that gives it.
std::string unevaluated(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = text[at] == '{' && at + 1 < text.size() && (text[at + 1] == '{' || text[at + 1] == '%');
    if (!begins) {
      out += text[at];
      continue;
    }
    out += fmt::format("{{{{ '{}' }}}}", text.substr(at, 2));
    ++at;
  }
  return out;
}

// The texts of an input: of a list its items', of a mapping {that: ...} that one's. The braces around a whole
// expression are left out.
YamlNode as_written(const YamlNode& node) {
  YamlNode out;
  out.kind = YamlKind::sequence;
  out.mark = node.mark;
  for (const YamlNode& item : node.kind == YamlKind::sequence ? node.items : std::vector<YamlNode>{node}) {
    const YamlNode* const own = item.find("that");
    std::string_view text = trim(own != nullptr ? own->text : item.text);
    if (starts_with(text, "{{") && ends_with(text, "}}")) text = trim(text.substr(2, text.size() - 4));
    YamlNode scalar;
    scalar.kind = YamlKind::scalar;
    scalar.quoted = true;
    scalar.mark = item.mark;
    scalar.text = unevaluated(text);
    out.items.push_back(std::move(scalar));
  }
  return out;
}

// controller_file and rendered_into of the signature. A path with an expression in it is left to the step kind.
void resolve_files(Draft& draft, const Signature& signature, YamlNode& with, const std::string& file) {
  Reader& reader = draft.reader;
  std::vector<YamlEntry> added;
  for (auto& [key, value] : with.entries) {
    const InputSpec* spec = signature.find_input(key.text);
    if (spec != nullptr && !spec->controller_file && !spec->rendered_into.empty()) {
      YamlNode name = key;
      name.text = spec->rendered_into;
      added.emplace_back(std::move(name), as_written(value));
    }
    if (spec == nullptr || !spec->controller_file || value.kind != YamlKind::scalar || value.text.empty()) continue;
    if (is_expression(value)) {
      if (!spec->rendered_into.empty()) {
        reader.error(value.mark, fmt::format("'{}' cannot be an expression", key.text),
                     "the file is read when the playbook is loaded");
      }
      continue;
    }
    value.text = absolute_path(value.text, file);
    if (spec->rendered_into.empty()) continue;
    if (auto text = read_template(draft, value.text, value.mark)) {
      YamlNode name = key;
      name.text = spec->rendered_into;
      added.emplace_back(std::move(name), std::move(*text));
    }
  }
  with.entries.insert(with.entries.end(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
}

// Names, dotted for entries of mappings, of everything that is not known before the run.
void find_open(const Template& with, const std::string& prefix, std::vector<std::string>& open) {
  for (const auto& [key, mark] : with.keys()) {
    const Template& entry = *with.entry(key);
    if (entry.is_constant()) continue;
    if (entry.keys().empty()) {
      open.push_back(prefix + key);
    } else {
      find_open(entry, prefix + key + ".", open);
    }
  }
}

void relax(std::vector<InputSpec>& specs, std::string_view path) {
  const std::size_t dot = path.find('.');
  for (InputSpec& spec : specs) {
    if (spec.name != path.substr(0, dot)) continue;
    if (dot != std::string_view::npos) {
      relax(spec.fields, path.substr(dot + 1));
    } else {
      spec.need = Need::optional;
      spec.default_value = nullptr;
    }
  }
}

// In lists and texts the unknown parts would be null or cut out; the whole input is absent instead.
void remove_open(Value& given, const std::vector<std::string>& open) {
  for (const std::string& path : open) {
    Value* at = &given;
    for (const std::string& part : split(path, '.')) at = &(*at)[part];
    *at = nullptr;
  }
}

// The signature with what is not known yet made optional and without default, so that it stays absent.
const Signature& relaxed(Draft& draft, const Signature& signature, const std::vector<std::string>& open) {
  if (open.empty()) return signature;
  const std::string key = signature.kind + "|" + join(open, "|");
  const auto found = draft.relaxed.find(key);
  if (found != draft.relaxed.end()) return found->second;
  Signature copy = signature;
  for (const std::string& path : open) relax(copy.inputs, path);
  return draft.relaxed.emplace(key, std::move(copy)).first->second;
}

// The place of an input named as check_inputs names it: an unknown one at its key, a wrong one at its value.
SourceMark mark_of(const StepDraft& step, const Signature& signature, const std::string& path) {
  const Template* at = &step.decl.with;
  const std::vector<InputSpec>* specs = &signature.inputs;
  SourceMark mark = step.uses_mark;
  for (const std::string& part : split(path, '.')) {
    const auto keys = at->keys();
    const auto key = std::find_if(keys.begin(), keys.end(), [&part](const auto& pair) { return pair.first == part; });
    if (key == keys.end()) return mark;
    const auto spec =
        std::find_if(specs->begin(), specs->end(), [&part](const InputSpec& s) { return s.name == part; });
    if (spec == specs->end()) return key->second;
    specs = &spec->fields;
    at = at->entry(part);
    const bool block = at->mark().line != key->second.line;
    mark = block ? key->second : at->mark();
  }
  return mark;
}

void report(Draft& draft, const StepDraft& step, const Signature& signature, std::vector<Error> errors) {
  // "needs 'path'" beside "unknown input 'dest', did you mean 'path'?" would be one mistake told twice.
  const std::string lead = "did you mean '";
  std::vector<std::string> meant;
  for (const Error& error : errors) {
    if (starts_with(error.hint, lead)) {
      meant.push_back(error.hint.substr(lead.size(), error.hint.find('\'', lead.size()) - lead.size()));
    }
  }
  const auto told = [&](const Error& error) {
    return step.decl.with.entry(error.detail) == nullptr &&
           std::find(meant.begin(), meant.end(), error.detail) != meant.end();
  };
  errors.erase(std::remove_if(errors.begin(), errors.end(), told), errors.end());
  for (Error& error : errors) {
    error.kind = ErrorKind::invalid;
    error.where = error.detail.empty() ? step.uses_mark : mark_of(step, signature, error.detail);
    error.detail.clear();
  }
  draft.reader.errors(std::move(errors));
}

std::optional<YamlNode> inputs_node(Draft& draft, const StepDraft& step, const YamlNode* node) {
  YamlNode with;
  with.kind = YamlKind::mapping;
  with.mark = step.uses_mark;
  if (node == nullptr || node->kind == YamlKind::null) return with;
  if (node->kind == YamlKind::mapping && node->tag.empty()) return *node;
  const Signature& signature = step.kind->signature();
  if (signature.positional.empty()) {
    draft.reader.error(node->mark, fmt::format("'with' must be a mapping, not {}", kind_name(*node)),
                       fmt::format("see `millwright steps {}`", signature.kind));
    return {};
  }
  YamlNode key;
  key.kind = YamlKind::scalar;
  key.text = signature.positional;
  key.mark = node->mark;
  with.mark = node->mark;
  with.entries.emplace_back(std::move(key), *node);
  return with;
}

}  // namespace

void read_with(Draft& draft, StepDraft& step, const YamlNode* node, const std::string& file) {
  if (step.kind == nullptr) {
    // Mistakes in its expressions can be told all the same.
    if (node != nullptr) step.decl.with = draft.reader.compiled(*node).value_or(Template());
    return;
  }
  std::optional<YamlNode> with = inputs_node(draft, step, node);
  if (!with) return;
  const Signature& signature = step.kind->signature();
  resolve_files(draft, signature, *with, file);
  std::optional<Template> compiled = draft.reader.compiled(*with);
  if (!compiled) return;
  step.decl.with = std::move(*compiled);
  std::vector<std::string> open;
  find_open(step.decl.with, "", open);
  const Signature& loose = relaxed(draft, signature, open);
  Value known = step.decl.with.constant_part();
  remove_open(known, open);
  auto checked = check_inputs(loose, known);
  if (!checked) {
    report(draft, step, signature, std::move(checked.error()));
    return;
  }
  report(draft, step, signature, step.kind->check(Inputs(std::move(*checked))));
}

}  // namespace millwright
