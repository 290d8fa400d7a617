#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/plan.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

constexpr int kVocabularyPad = 64;  // VocabParallelEmbedding pads to it in both engines

std::string tp_flag(const Query& query) {
  return query.facts.engine() == "llama.cpp" ? "tensor-split" : "tensor-parallel-size";
}

// Values of tp that divide everything, for the hint.
std::string possible(const ModelShape& shape, int gpus, const auto& divides) {
  std::vector<std::string> out;
  for (int tp = 1; tp <= std::max(gpus, 8) && tp <= shape.heads; ++tp) {
    if (divides(tp)) out.push_back(std::to_string(tp));
  }
  return out.empty() ? "" : "possible are " + join(out, ", ");
}

struct Part {
  const char* what;
  int count;
};

// Widths that tensor parallelism cuts; experts stay whole with expert parallelism.
std::vector<Part> divided_parts(const ModelShape& shape, bool whole_experts = false) {
  std::vector<Part> out;
  const AttentionShape* first = shape.first_attention();
  if (first != nullptr) out.push_back({"attention heads", first->heads});
  if (shape.state.kind == StateKind::gdn || shape.state.kind == StateKind::kda) {
    out.push_back({"linear value heads", shape.state.heads});
    out.push_back({"linear key heads", shape.state.groups});
  } else if (shape.state.kind == StateKind::mamba2) {
    out.push_back({"Mamba heads", shape.state.heads});
  }
  if (shape.experts.count > 0 && !whole_experts) out.push_back({"the width of an expert", shape.experts.width});
  if (shape.experts.count == 0 && shape.mlp_width > 0) out.push_back({"the width of the MLP", shape.mlp_width});
  return out;
}

bool kv_heads_divide(const ModelShape& shape, int tp) {
  for (const LayerShape& layer : shape.layers) {
    if (!layer.attention || layer.attention->mla()) continue;
    const int heads = layer.attention->kv_heads;
    if (heads >= tp ? heads % tp != 0 : tp % heads != 0) return false;
  }
  return true;
}

int padded_vocabulary(int vocab) { return (vocab + kVocabularyPad - 1) / kVocabularyPad * kVocabularyPad; }

bool all_divide(const ModelShape& shape, int tp) {
  for (const Part& part : divided_parts(shape)) {
    if (part.count > 0 && part.count % tp != 0) return false;
  }
  return kv_heads_divide(shape, tp) && (shape.vocab == 0 || padded_vocabulary(shape.vocab) % tp == 0);
}

void check_division(const Query& query, const Layout& layout, std::vector<InvalidFlag>& out) {
  const ModelShape& shape = query.model.shape;
  const int tp = layout.tp;
  const auto hint =
      possible(shape, static_cast<int>(query.gpus.size()), [&](int other) { return all_divide(shape, other); });
  const bool whole_experts = query.set.on("enable-expert-parallel") ||
                             query.set.integer("expert-parallel-size", query.set.integer("ep-size", 1)) > 1;
  for (const Part& part : divided_parts(shape, whole_experts)) {
    if (part.count > 0 && part.count % tp != 0)
      out.push_back({tp_flag(query), fmt::format("{} ({}) cannot be divided by {}", part.what, part.count, tp), hint});
  }
  // "The output_size of gate's and up's weight is not divisible by weight quantization block_n": fp8.py of both
  // engines.
  const int width = shape.experts.count > 0 ? (whole_experts ? 0 : shape.experts.width) : shape.mlp_width;
  if (shape.quant.block > 0 && width > 0 && width % tp == 0 && width / tp % shape.quant.block != 0) {
    out.push_back({tp_flag(query),
                   fmt::format("a rank would have {} of the {} columns, and the quantisation's blocks have {}",
                               width / tp, width, shape.quant.block),
                   shape.experts.count > 0 ? "fewer ranks, or expert parallelism" : "fewer ranks"});
  }
  if (!kv_heads_divide(shape, tp)) {
    out.push_back({tp_flag(query),
                   fmt::format("key-value heads ({}) and {} ranks do not divide each other",
                               shape.first_attention()->kv_heads, tp),
                   hint});
  }
  if (shape.vocab > 0 && padded_vocabulary(shape.vocab) % tp != 0)
    out.push_back({tp_flag(query),
                   fmt::format("vocabulary ({}) cannot be divided by {}", padded_vocabulary(shape.vocab), tp), hint});
  if (layout.pp > static_cast<int>(shape.layers.size()))
    out.push_back({"pipeline-parallel-size",
                   fmt::format("{} stages and only {} layers", layout.pp, shape.layers.size()), "fewer stages"});
}

double least_compute(const Query& query, const Layout& layout) {
  double out = 0;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const double one = gpu_of_rank(query, rank).compute;
    if (one > 0 && (out == 0 || one < out)) out = one;
  }
  return out;
}

// What is stored or computed in, by the names of memory.yml's `dtypes`.
std::vector<std::pair<std::string, std::string>> dtypes_of(const Query& query) {
  std::vector<std::pair<std::string, std::string>> out;
  const std::string dtype = query.set.text("dtype", "auto");
  const std::string own = dtype == "auto" ? query.model.shape.dtype : dtype;
  if (query.facts.engine() != "llama.cpp") out.emplace_back("dtype", own == "bf16" ? "bfloat16" : own);
  if (const std::string kv = query.set.text("kv-cache-dtype", "auto"); kv != "auto")
    out.emplace_back("kv-cache-dtype", "kv:" + kv);
  const std::string quantisation = query.set.text("quantization", query.model.shape.quant.method);
  if (!quantisation.empty()) out.emplace_back("quantization", "weights:" + quantisation);
  return out;
}

void check_dtypes(const Knowledge& knowledge, const Query& query, const Layout& layout, std::vector<InvalidFlag>& out) {
  const double compute = least_compute(query, layout);
  if (compute <= 0) return;
  for (const auto& [flag, dtype] : dtypes_of(query)) {
    for (const Value& row : knowledge.file("memory").value("dtypes", Value::array())) {
      const auto name = row.at("dtype").get<std::string>();
      const bool fits = ends_with(name, "*") ? starts_with(dtype, name.substr(0, name.size() - 1)) : dtype == name;
      if (!fits || (row.contains("engine") && row.at("engine") != query.facts.engine())) continue;
      const double needs = row.at("compute").get<double>();
      if (compute < needs)
        out.push_back({flag,
                       fmt::format("{} needs compute capability {:.1f}, and {} has {:.1f}",
                                   row.at("what").get<std::string>(), needs, gpu_of_rank(query, 0).title, compute),
                       row.at("hint").get<std::string>()});
    }
  }
  for (const Value& row : knowledge.file("hardware").value("engines", Value::array())) {
    if (row.value("engine", std::string()) != query.facts.engine() || !row.contains("compute_capability")) continue;
    const auto matches = version_matches(query.facts.version(), row.value("versions", std::string()));
    const double needs = row.at("compute_capability").get<double>();
    if (matches && *matches && compute < needs)
      out.push_back({"engine",
                     fmt::format("{} {} needs compute capability {:.1f}, and {} has {:.1f}", query.facts.title(),
                                 query.facts.version().text(), needs, gpu_of_rank(query, 0).title, compute),
                     "another engine, or an older version"});
  }
}

// Longer than the model was made for: both engines end before anything is loaded.
void check_context(const Query& query, std::vector<InvalidFlag>& out) {
  const int asked = asked_context(query), most = longest_context(query).most;
  const std::string variable = query.facts.text("longer_context_variable");
  if (most <= 0 || asked <= most || query.set.on(variable)) return;
  out.push_back({query.facts.engine() == "sglang" ? "context-length" : "max-model-len",
                 fmt::format("{} tokens are more than the {} that {} was made for, and {} refuses to start", asked,
                             most, query.model.shape.name, query.facts.title()),
                 fmt::format("at most {}; or, where answers beyond that may be worthless, {}=1 in the server's "
                             "environment (here: --set {}=1)",
                             most, variable, variable)});
}

// Source: vllm 0.32.0, config/scheduler.py, verify_max_model_len.
void check_batch(const Query& query, std::vector<InvalidFlag>& out) {
  if (query.facts.engine() != "vllm" || !query.set.has("max-num-batched-tokens")) return;
  const int batch = query.set.integer("max-num-batched-tokens", 0);
  if (query.set.has("max-num-seqs") && batch < query.set.integer("max-num-seqs", 0))
    out.push_back({"max-num-batched-tokens",
                   fmt::format("a batch of {} tokens is smaller than the {} requests that it must have room for", batch,
                               query.set.integer("max-num-seqs", 0)),
                   "at least as many tokens as --max-num-seqs"});
  const int asked = asked_context(query);
  const int length = asked > 0 ? asked : query.model.shape.max_positions;
  if (query.set.text("enable-chunked-prefill") == "false" && batch < length)
    out.push_back(
        {"max-num-batched-tokens",
         fmt::format("without chunked prefill a batch of {} tokens cannot take a request of {}", batch, length),
         fmt::format("--max-num-batched-tokens {}, or a smaller --max-model-len", length)});
}

// What --context and --concurrency ask for, and a flag says otherwise.
void check_contradictions(const Query& query, std::vector<InvalidFlag>& out) {
  const bool vllm = query.facts.engine() == "vllm";
  if (query.facts.engine() == "llama.cpp") return;  // its context is that of all slots
  const char* length = vllm ? "max-model-len" : "context-length";
  const char* requests = vllm ? "max-num-seqs" : "max-running-requests";
  if (query.context && query.set.has(length) && query.set.integer(length, 0) != *query.context)
    out.push_back(
        {length,
         fmt::format("--context asks for {} tokens and this flag for {}", *query.context, query.set.integer(length, 0)),
         "leave one of the two out"});
  if (query.concurrency && query.set.has(requests) && query.set.integer(requests, 0) < *query.concurrency)
    out.push_back({requests,
                   fmt::format("--concurrency asks for {} requests at once and this flag allows {}", *query.concurrency,
                               query.set.integer(requests, 0)),
                   "leave one of the two out"});
}

// Combinations that the engine refuses whatever the memory.
void check_combinations(const Query& query, std::vector<InvalidFlag>& out) {
  if (query.facts.engine() != "sglang" || !query.model.shape.hybrid()) return;
  const std::string strategy =
      query.set.text("mamba-scheduler-strategy", query.set.text("mamba-radix-cache-strategy", "auto"));
  const bool drafts = query.set.has("speculative-algorithm");
  const bool buffer =
      starts_with(strategy, "extra_buffer") || (strategy == "auto" && query.facts.flag("extra_buffer_default"));
  if (starts_with(strategy, "extra_buffer") && query.set.on("disable-radix-cache"))
    out.push_back({"disable-radix-cache", "mamba extra_buffer is not compatible with --disable-radix-cache",
                   "leave one of the two out"});
  if (drafts && !buffer && !query.set.on("disable-radix-cache") &&
      query.facts.text("speculative_no_buffer") == "refused")
    out.push_back({"speculative-algorithm", "this version refuses drafts of a hybrid model without extra_buffer",
                   "--mamba-scheduler-strategy extra_buffer with SGLANG_ENABLE_SPEC_V2=1, or --disable-radix-cache"});
}

}  // namespace

Layout layout_of(const Query& query) {
  Layout out;
  const int gpus = static_cast<int>(query.gpus.size());
  if (query.facts.engine() == "llama.cpp") {
    out.pp = gpus;  // layers are spread; arithmetic of its own
    return out;
  }
  out.pp = std::max(1, query.set.integer("pipeline-parallel-size", 1));
  const bool shared = attention_groups(query) > 1;
  out.replicas = shared ? 1 : std::max(1, query.set.integer("data-parallel-size", 1));
  if (query.set.has("tensor-parallel-size")) {
    out.tp = std::max(1, query.set.integer("tensor-parallel-size", 1));
    return out;
  }
  for (int tp = std::max(1, gpus / out.pp / out.replicas); tp >= 1; --tp) {
    if (!all_divide(query.model.shape, tp) || tp % attention_groups(query) != 0) continue;
    out.tp = tp;
    break;
  }
  return out;
}

namespace {

void check_gpus(const Query& query, const Layout& layout, std::vector<InvalidFlag>& out) {
  const int groups = attention_groups(query);
  if (layout.tp % groups != 0)
    out.push_back({"data-parallel-size",
                   fmt::format("{} ranks cannot be divided into {} groups of attention", layout.tp, groups),
                   "a data-parallel-size that divides the tensor-parallel-size"});
  if (layout.gpus() <= static_cast<int>(query.gpus.size())) return;
  const std::string needed = layout.replicas > 1
                                 ? fmt::format("{} replicas of {} ranks each", layout.replicas, layout.ranks())
                                 : fmt::format("{} ranks", layout.ranks());
  out.push_back({"gpus", fmt::format("{} need {} GPUs, and there are {}", needed, layout.gpus(), query.gpus.size()),
                 layout.replicas > 1 ? "a smaller --set data-parallel-size or tensor-parallel-size, or more GPUs"
                                     : "a smaller --set tensor-parallel-size, or more GPUs"});
}

}  // namespace

std::vector<InvalidFlag> check_validity(const Knowledge& knowledge, const Query& query, const Layout& layout) {
  std::vector<InvalidFlag> out;
  if (query.facts.engine() != "llama.cpp") {
    check_division(query, layout, out);
    check_gpus(query, layout, out);
  }
  check_dtypes(knowledge, query, layout, out);
  check_context(query, out);
  check_batch(query, out);
  check_contradictions(query, out);
  check_combinations(query, out);
  return out;
}

}  // namespace millwright::planner
