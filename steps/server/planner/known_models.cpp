// Models by name: playbooks/knowledge/planner/model_shapes.yml.
#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/config_reader.hpp"
#include "steps/server/planner/model_files.hpp"

namespace millwright::planner {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Formats by what repositories put behind the model's name.
struct Suffix {
  const char* text;
  const char* format;
};
constexpr Suffix kSuffixes[] = {{"-fp8-dynamic", "fp8"}, {"-fp8", "fp8"},        {"-nvfp4", "nvfp4"}, {"-fp4", "nvfp4"},
                                {"-awq", "int4"},        {"-gptq-int4", "int4"}, {"-gptq", "int4"},   {"-int4", "int4"},
                                {"-autoround", "int4"},  {"-w4a16", "int4"},     {"-int8", "int8"},   {"-w8a8", "int8"},
                                {"-mxfp4", "mxfp4"},     {"-bf16", "bf16"}};

QuantShape quant_of_format(const std::string& format) {
  QuantShape out;
  if (format == "bf16") return out;
  out.method = format;
  out.linear_bits = format == "int4" ? 4.16 : format == "nvfp4" ? 4.5 : format == "mxfp4" ? 4.25 : 8.02;
  out.experts_only = format == "mxfp4";
  return out;
}

// "org/name" and "name" are the same; `*` stands for any end.
bool is_named(const std::string& wanted, const std::string& known) {
  const auto fits = [&](const std::string& pattern) {
    if (!ends_with(pattern, "*")) return wanted == pattern;
    return starts_with(wanted, pattern.substr(0, pattern.size() - 1));
  };
  const std::size_t slash = known.find('/');
  return fits(known) || (slash != std::string::npos && fits(known.substr(slash + 1)));
}

const Value* row_named(const Value& rows, const std::string& wanted) {
  for (const Value& row : rows) {
    for (const Value& name : row.at("names")) {
      if (is_named(wanted, lower(name.get<std::string>()))) return &row;
    }
  }
  return nullptr;
}

void scale(WeightParts& parts, double bytes) {
  const double factor = parts.total() > 0 ? bytes / parts.total() : 1;
  for (auto* list :
       {&parts.layer_split, &parts.layer_attention, &parts.layer_replicated, &parts.layer_kv, &parts.layer_experts}) {
    for (double& one : *list) one *= factor;
  }
  for (double* one : {&parts.embedding, &parts.head, &parts.vision, &parts.other}) *one *= factor;
}

// The size that a log or file list says for this format, if one does: of the very repository where that is known, since
// builds of one format differ by gigabytes.
void published_size(const Value& row, const std::string& format, const std::string& name, Model& model) {
  const Value* best = nullptr;
  const Value checkpoints = row.value("checkpoints", Value::array());
  for (const Value& checkpoint : checkpoints) {
    if (checkpoint.at("format").get<std::string>() != format) continue;
    const std::string repository = checkpoint.value("repository", "");
    const bool its_own = lower(repository) == lower(name);
    if (its_own) model.repository = repository;
    if (its_own || (repository.empty() && best == nullptr)) best = &checkpoint;
  }
  if (best == nullptr) return;
  scale(model.weights, best->at("gib").get<double>() * kGiB);
  model.weight_source = WeightSource::published;
  model.notes.push_back("size of the weights: " + best->at("source").get<std::string>());
}

Failure unknown(const Knowledge& knowledge, const std::string& name) {
  std::vector<std::string> names;
  for (const Value& row : knowledge.file("model_shapes").value("models", Value::array())) {
    for (const Value& one : row.at("names")) {
      const auto full = one.get<std::string>();
      names.push_back(full);
      names.push_back(full.substr(full.find('/') == std::string::npos ? 0 : full.find('/') + 1));
    }
  }
  const std::string wanted = lower(name);
  for (const Value& family : knowledge.file("models").value("models", Value::array())) {
    for (const Value& one : family.value("names", Value::array())) {
      const auto known = one.get<std::string>();
      if (ends_with(known, "*") || !is_named(wanted, lower(known))) continue;  // a whole series is no model
      return fail(
          make_error(ErrorKind::usage, fmt::format("{} is a known model, but its figures are not known here", name))
              .with_hint("download its config.json (and model.safetensors.index.json) into a folder and name that"));
    }
  }
  const auto near = nearest(name, names);
  return fail(make_error(ErrorKind::usage, fmt::format("there is no model or directory '{}'", name))
                  .with_hint(near ? fmt::format("did you mean '{}'?", *near)
                                  : "a directory with config.json, a GGUF file, or a name as in Qwen/Qwen3.6-27B"));
}

}  // namespace

Result<Model> known_model(const Knowledge& knowledge, const std::string& name) {
  static const Value none = Value::array();
  const Value& document = knowledge.file("model_shapes");
  const auto found = document.find("models");
  const Value& rows = found == document.end() ? none : *found;
  std::string wanted = lower(name), format;
  const Value* row = row_named(rows, wanted);
  for (const Suffix& suffix : kSuffixes) {
    if (row != nullptr || !ends_with(wanted, suffix.text)) continue;
    format = suffix.format;
    row = row_named(rows, wanted.substr(0, wanted.size() - std::string_view(suffix.text).size()));
  }
  if (row == nullptr && wanted.find('/') != std::string::npos) {
    // Another organisation's copy carries the name.
    wanted = wanted.substr(wanted.find('/') + 1);
    row = row_named(rows, wanted);
    for (const Suffix& suffix : kSuffixes) {
      if (row != nullptr || !ends_with(wanted, suffix.text)) continue;
      format = suffix.format;
      row = row_named(rows, wanted.substr(0, wanted.size() - std::string_view(suffix.text).size()));
    }
  }
  if (row == nullptr) return unknown(knowledge, name);
  auto shape = shape_of_config(row->at("config"), name);
  if (!shape) return fail(shape.error());
  Model model;
  model.shape = std::move(*shape);
  // What an engine downloads; a quantised copy is somebody else's.
  for (const Value& one : row->at("names")) {
    const auto full = one.get<std::string>();
    const bool whole = full.find('/') != std::string::npos && !ends_with(full, "*") && is_named(wanted, lower(full));
    if (format.empty() && model.repository.empty() && whole) model.repository = full;
  }
  if (!format.empty()) model.shape.quant = quant_of_format(format);
  if (format.empty()) format = model.shape.quant.method.empty() ? "bf16" : model.shape.quant.method;
  model.weights = weights_of_config(model.shape);
  model.source = row->at("source").get<std::string>();
  published_size(*row, format, name, model);
  return model;
}

}  // namespace millwright::planner
