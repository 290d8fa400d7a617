// How long a request may be: what the config says, as each engine derives it.
#include <algorithm>
#include <cmath>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/config_reader.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

// Of scalings a layer type each, the one that scales.
const Value* scaling_of(const ConfigReader& config) {
  const Value* found = config.find({"rope_scaling", "rope_parameters"});
  if (found == nullptr || !found->is_object()) return nullptr;
  const Value* out = found;
  for (const auto& [name, one] : found->items()) {
    if (!one.is_object()) continue;
    out = &one;
    if (ConfigReader(one).text({"rope_type", "type"}, "default") != "default") break;
  }
  return out;
}

// The config that a flag lays over the model's own.
Value override_of(const Query& query) {
  const bool sglang = query.facts.engine() == "sglang";
  Value out = Value::parse(query.set.text(sglang ? "json-model-override-args" : "hf-overrides", ""), nullptr, false);
  if (!out.is_object()) out = Value::object();
  const auto inner = out.find("text_config");
  if (inner != out.end() && inner->is_object()) out = Value(*inner);
  // vLLM before 0.12 has a flag of its own for it.
  const Value scaling = Value::parse(query.set.text("rope-scaling", ""), nullptr, false);
  if (scaling.is_object()) out["rope_scaling"] = scaling;
  return out;
}

LongestContext of_sglang(const PositionShape& shape) {
  const bool as_it_is = shape.original > 0 || shape.scaling == "llama3";
  const int base = shape.first > 0 ? shape.first : 2048;
  const int length = whole_of(base * (as_it_is ? 1.0 : shape.factor));
  return {length, length};
}

LongestContext of_vllm(const Query& query, const PositionShape& shape) {
  if (shape.smallest <= 0) return {0, 2048};
  double length = shape.smallest;
  const bool already = query.model.shape.model_type.find("gemma3") != std::string::npos || shape.scaling == "su" ||
                       shape.scaling == "longrope" || shape.scaling == "llama3";
  const bool yarn = shape.scaling.find("yarn") != std::string::npos;
  if (!already && (!yarn || query.facts.flag("yarn_scales_original"))) {
    if (yarn && shape.original > 0) length = shape.original;
    length *= shape.factor;
  }
  LongestContext out{whole_of(length), whole_of(length)};
  if (shape.scaling == "longrope" && shape.own_original > 0 && query.facts.flag("longrope_starts_at_original"))
    out.usual = shape.own_original;
  return out;
}

const char* context_flag(const Query& query) {
  return query.facts.engine() == "sglang" ? "context-length"
         : query.facts.engine() == "vllm" ? "max-model-len"
                                          : "ctx-size";
}

}  // namespace

PositionShape position_shape(const Value& config, PositionShape before) {
  const ConfigReader reader(config);
  PositionShape out = std::move(before);
  int smallest = 0;
  for (const char* key : {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
                          "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"}) {
    const int said = reader.number({key}, 0);
    if (said > 0) smallest = smallest == 0 ? said : std::min(smallest, said);
  }
  if (smallest > 0) out.smallest = reader.number({"model_max_length"}, smallest);
  out.first = reader.number(
      {"max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings"}, out.first);
  out.own_original = reader.number({"original_max_position_embeddings"}, out.own_original);
  if (const Value* scaling = scaling_of(reader); scaling != nullptr) {
    const ConfigReader rope(*scaling);
    out.scaling = rope.text({"rope_type", "type"}, "default");
    out.factor = std::max(1.0, rope.real("factor", 1.0));
    out.original = rope.number({"original_max_position_embeddings"}, 0);
  }
  return out;
}

LongestContext longest_context(const Query& query) {
  const ModelShape& model = query.model.shape;
  const std::string& engine = query.facts.engine();
  if (engine == "llama.cpp" || query.model.is_gguf) {
    const int limit = engine == "llama.cpp" ? 0 : model.max_positions;
    return {limit, model.max_positions};
  }
  const PositionShape shape = position_shape(override_of(query), model.positions);
  return engine == "sglang" ? of_sglang(shape) : of_vllm(query, shape);
}

bool fits_context_itself(const Query& query) {
  if (query.facts.engine() != "vllm" || !query.facts.flag("auto_context")) return false;
  const std::string said = query.set.text("max-model-len", "");
  return said == "auto" || said == "-1";
}

int asked_context(const Query& query) {
  if (fits_context_itself(query)) return 0;
  return query.set.integer(context_flag(query), query.context.value_or(0));
}

}  // namespace millwright::planner
