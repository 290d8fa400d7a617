#include "steps/server/planner/terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "orchestrator/base/text.hpp"

namespace millwright::planner {

std::string Settings::text(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

double Settings::number(const std::string& name, double otherwise) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(found->second.c_str(), &end);
  if (end == found->second.c_str()) return otherwise;
  // vLLM takes 8k (1000) and 8K (1024) where it counts tokens or bytes; so with m, g and t.
  double factor = 1;
  for (const char letter : {'k', 'm', 'g', 't'}) {
    factor *= 1000;
    if (*end == letter) return value * factor;
    if (*end == letter - 'a' + 'A') return value * std::pow(1024.0, std::round(std::log10(factor) / 3));
  }
  return value;
}

bool Settings::on(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return false;
  const std::string& value = found->second;
  return value.empty() || value == "true" || value == "True" || value == "yes" || value == "1" || value == "on";
}

Result<int> tokens_of(const std::string& text) {
  constexpr double most = 1e9;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string letter = text.substr(static_cast<std::size_t>(end - text.c_str()));
  const double factor = letter.empty()                   ? 1
                        : letter == "k" || letter == "K" ? 1024
                        : letter == "m" || letter == "M" ? 1024.0 * 1024
                                                         : 0;
  const double tokens = number * factor;
  const bool plain = !text.empty() && text.find_first_not_of("0123456789.kKmM") == std::string::npos;
  if (!plain || factor == 0 || tokens < 1 || tokens > most || tokens != std::floor(tokens))
    return fail(make_error(ErrorKind::usage, fmt::format("'{}' is no number of tokens", text))
                    .with_hint("a whole number from 1 to 1000000000; 32k is 32768, 1M is 1048576"));
  return static_cast<int>(tokens);
}

Result<void> Given::set(const std::string& term, const std::string& value) {
  struct Name {
    const char* name;
    std::optional<double> Given::*field;
  };
  static constexpr Name known[] = {{"weights_gib", &Given::weights_gib},
                                   {"pre_gib", &Given::pre_gib},
                                   {"post_gib", &Given::post_gib},
                                   {"kv_pool_gib", &Given::kv_pool_gib},
                                   {"activation_gib", &Given::activation_gib},
                                   {"non_torch_gib", &Given::non_torch_gib},
                                   {"graphs_gib", &Given::graphs_gib}};
  std::vector<std::string> names;
  for (const Name& name : known) {
    names.emplace_back(name.name);
    if (term != name.name) continue;
    constexpr double kMostGiven = 65536;  // no GPU has as much
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !std::isfinite(number) || number < 0 || number > kMostGiven)
      return fail(make_error(ErrorKind::usage, fmt::format("'{}' is no number of GiB for {}", value, term))
                      .with_hint("as in --given weights_gib=14.99"));
    this->*name.field = number;
    return {};
  }
  const auto near = nearest(term, names);
  return fail(make_error(ErrorKind::usage, fmt::format("there is no term '{}'", term))
                  .with_hint(near ? fmt::format("did you mean '{}'?", *near) : "known are " + join(names, ", ")));
}

void Outcome::end_at(Stage stage, std::string message, double missing) {
  if (!starts()) return;
  ends = stage;
  engine_says = std::move(message);
  missing_gib = std::max(0.0, missing);
}

int attention_groups(const Query& query) {
  const bool shared = query.facts.engine() == "sglang" && query.set.on("enable-dp-attention");
  return shared ? std::max(1, query.set.integer("data-parallel-size", 1)) : 1;
}

int kv_heads_on_rank(const AttentionShape& attention, int tp) {
  return std::max(1, attention.kv_heads / std::max(1, tp));
}

double layer_token_bytes(const AttentionShape& attention, int tp, double kv_bytes) {
  if (attention.mla()) return (attention.latent + attention.rope) * kv_bytes;
  return kv_heads_on_rank(attention, tp) * (attention.head_dim + attention.v_head_dim) * kv_bytes;
}

StateBytes layer_state_bytes(const StateShape& state, int tp, int conv_rows, double conv_dtype, double state_dtype) {
  const double ranks = std::max(1, tp);
  const double inner = static_cast<double>(state.heads) * state.head_dim;
  // extra_groups_for_head_shards: groups that cannot be split are repeated until there is one a rank.
  const int groups =
      state.groups > 0 && state.groups % std::max(1, tp) != 0 ? std::max(state.groups, tp) : state.groups;
  StateBytes out;
  if (state.kind == StateKind::short_conv) {
    out.conv = inner / ranks * conv_rows * conv_dtype;
    return out;
  }
  const double conv = state.kind == StateKind::mamba1 ? inner : inner + 2.0 * groups * state.state;
  out.conv = std::floor(conv / ranks) * conv_rows * conv_dtype;
  out.recurrence = std::floor(inner / ranks) * state.state * state_dtype;
  return out;
}

double expert_workspace_gib(const ModelShape& shape, int tokens, int tp) {
  if (shape.experts.count == 0 || shape.quant.method == "mxfp4") return 0;
  const double width = static_cast<double>(shape.experts.width) / std::max(1, tp);
  const double rows = static_cast<double>(tokens) * shape.experts.per_token;
  const double bytes = dtype_bytes(shape.dtype).value_or(2);
  return rows * (std::max(2 * width, static_cast<double>(shape.hidden)) + width) * bytes / kGiB;
}

double forward_peak_gib(const ModelShape& shape, int tokens, int tp) {
  const double bytes = dtype_bytes(shape.dtype).value_or(2);
  const double ranks = std::max(1, tp);
  double widest = 0;
  for (const LayerShape& layer : shape.layers) {
    const double mlp = layer.experts ? shape.experts.shared_width / ranks : layer.mlp_width / ranks;
    widest = std::max(widest, (shape.gated_mlp ? 3 : 2) * mlp);
    if (layer.attention) {
      const AttentionShape& attention = *layer.attention;
      widest = std::max(widest, (attention.heads * attention.head_dim / ranks) * 2 +
                                    kv_heads_on_rank(attention, tp) * (attention.head_dim + attention.v_head_dim));
    }
    if (layer.recurrent) {
      const StateShape& state = shape.state;
      widest = std::max(widest, (4.0 * state.heads * state.head_dim + 2.0 * state.groups * state.state) / ranks);
    }
  }
  return tokens * (widest + 3.0 * shape.hidden) * bytes / kGiB + expert_workspace_gib(shape, tokens, tp);
}

double kv_dtype_bytes(const std::string& flag, const ModelShape& shape, const std::string& dtype_flag) {
  if (!flag.empty() && flag != "auto") return dtype_bytes(flag).value_or(2);
  if (!dtype_flag.empty() && dtype_flag != "auto") return dtype_bytes(dtype_flag).value_or(2);
  const double own = dtype_bytes(shape.dtype).value_or(2);
  return own > 2 && shape.dtype == "float32" ? 4 : own;
}

StageLayers stage_range(const ModelShape& shape, const Layout& layout, int stage) {
  const std::vector<int> counts = stage_layers(static_cast<int>(shape.layers.size()), layout.pp);
  StageLayers out;
  for (int before = 0; before < stage; ++before)
    out.first += static_cast<std::size_t>(counts[static_cast<std::size_t>(before)]);
  out.end = out.first + static_cast<std::size_t>(counts[static_cast<std::size_t>(stage)]);
  return out;
}

// How far off the sizes of each source were on public logs (tests/bench/planner), as a share of the weights.
double weight_doubt(WeightSource source) {
  switch (source) {
    case WeightSource::tensors:
      return 0.005;
    case WeightSource::total_size:
      return 0.01;
    case WeightSource::published:
      return 0.01;
    case WeightSource::config:
      return 0.025;
  }
  return 0.03;
}

double weights_gib(const Query& query, const Layout& layout, int stage, bool with_mtp, Scenario scenario) {
  if (query.given.weights_gib) return *query.given.weights_gib;
  LoadOptions options;
  options.tp = layout.tp;
  options.pp = layout.pp;
  // The experts of all replicas of vLLM are one: FusedMoEParallelConfig divides them by tp * dp.
  if (query.facts.engine() == "vllm") options.ep = std::max(1, query.set.integer("data-parallel-size", 1));
  const int groups = attention_groups(query);
  options.attention_tp = std::max(1, layout.tp / groups);
  options.embedding_split = groups == 1;
  options.with_mtp = with_mtp;
  options.with_vision = !query.set.on("language-only") && !query.set.on("language-model-only");
  const ModelShape& shape = query.model.shape;
  const std::string dtype = query.set.text("dtype", "auto");
  if (dtype != "auto" && shape.quant.method.empty())
    options.dtype_factor = dtype_bytes(dtype).value_or(2) / dtype_bytes(shape.dtype).value_or(2);
  // A checkpoint that is not quantised, quantised while it is loaded.
  const std::string online = query.set.text("quantization", "");
  if (shape.quant.method.empty() && starts_with(online, "fp8"))
    options.linear_factor = 1.0 / dtype_bytes(shape.dtype).value_or(2);
  if (shape.quant.method.empty() && starts_with(online, "bitsandbytes"))
    options.linear_factor = 4.5 / 8 / dtype_bytes(shape.dtype).value_or(2);
  const double gib = weights_on_stage(query.model.weights, shape, options, stage) / kGiB;
  return pick(Range::around(gib, weight_doubt(query.model.weight_source)), scenario);
}

const Gpu& gpu_of_rank(const Query& query, int rank) {
  return query.gpus[std::min(static_cast<std::size_t>(rank), query.gpus.size() - 1)];
}

Outcome outcome_of(const Query& query, const Layout& layout, Scenario scenario) {
  if (query.facts.engine() == "sglang") return sglang_outcome(query, layout, scenario);
  if (query.facts.engine() == "vllm") return vllm_outcome(query, layout, scenario);
  return llama_cpp_outcome(query, layout, scenario);
}

}  // namespace millwright::planner
