#include "steps/server/planner/size_check.hpp"

#include <fmt/format.h>

#include <map>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/model_shape.hpp"

namespace millwright::planner {
namespace {

// Some ten times what the largest published model has of each.
constexpr double kWidth = 4u << 20;
constexpr double kCount = 64u << 10;
constexpr double kVocabulary = 64u << 20;
constexpr double kLength = 1e9;
constexpr double kFactor = 1e5;
constexpr double kBytes = 64.0 * 1024 * kGiB;

// Those of config.json that are read (model_shape.cpp, config_reader.cpp).
double most_of_config(const std::string& key) {
  static const std::map<std::string, double> known = {{"n_embd", kWidth},
                                                      {"d_model", kWidth},
                                                      {"dim", kWidth},
                                                      {"n_inner", kWidth},
                                                      {"width", kWidth},
                                                      {"mamba_d_state", kWidth},
                                                      {"mamba_d_ssm", kWidth},
                                                      {"mamba_d_head", kWidth},
                                                      {"mamba_headdim", kWidth},
                                                      {"intermediate_size_mamba", kWidth},
                                                      {"intermediate_size_moe", kWidth},
                                                      {"n_head", kCount},
                                                      {"n_heads", kCount},
                                                      {"num_heads", kCount},
                                                      {"n_layer", kCount},
                                                      {"n_layers", kCount},
                                                      {"depth", kCount},
                                                      {"layers", kCount},
                                                      {"num_layers", kCount},
                                                      {"n_groups", kCount},
                                                      {"mamba_d_conv", kCount},
                                                      {"mamba_expand", kCount},
                                                      {"mamba_n_heads", kCount},
                                                      {"mamba_n_groups", kCount},
                                                      {"mamba_ngroups", kCount},
                                                      {"mamba_num_heads", kCount},
                                                      {"n_mamba_heads", kCount},
                                                      {"expand", kCount},
                                                      {"conv_kernel", kCount},
                                                      {"conv_L_cache", kCount},
                                                      {"n_positions", kLength},
                                                      {"max_seq_len", kLength},
                                                      {"seq_length", kLength},
                                                      {"max_sequence_length", kLength},
                                                      {"sliding_window", kLength},
                                                      {"sliding_window_size", kLength},
                                                      {"attention_chunk_size", kLength},
                                                      {"factor", kFactor},
                                                      {"vocab_size", kVocabulary},
                                                      {"padded_vocab_size", kVocabulary}};
  if (const auto found = known.find(key); found != known.end()) return found->second;
  for (const char* end : {"hidden_size", "intermediate_size", "ffn_dim", "inner_dim", "head_dim", "_lora_rank",
                          "state_size", "mlp_dim", "embed_dim", "index_head_dim", "nope_head_dim"}) {
    if (ends_with(key, end)) return kWidth;
  }
  for (const char* end : {"_attention_heads", "_key_value_heads", "_value_heads", "_key_heads", "_experts",
                          "_hidden_layers", "_predict_layers", "_mtp_layers", "conv_kernel_dim", "conv_kernel_size"}) {
    if (ends_with(key, end)) return kCount;
  }
  return ends_with(key, "position_embeddings") ? kLength : 0;
}

double most_of_gguf(const std::string& key) {
  for (const char* end :
       {"embedding_length", "feed_forward_length", "key_length", "value_length", "key_length_swa", "value_length_swa",
        "key_length_mla", "kv_lora_rank", "dimension_count", "inner_size", "state_size", "kda.head_dim"}) {
    if (ends_with(key, end)) return kWidth;
  }
  for (const char* end : {"block_count", "head_count", "head_count_kv", "expert_count", "expert_used_count",
                          "nextn_predict_layers", "group_count", "conv_kernel", "l_cache"}) {
    if (ends_with(key, end)) return kCount;
  }
  if (ends_with(key, "context_length") || ends_with(key, "sliding_window")) return kLength;
  return ends_with(key, "vocab_size") ? kVocabulary : 0;
}

Failure impossible(const std::string& file, const std::string& field, const std::string& value, double most) {
  return fail(make_error(ErrorKind::invalid, fmt::format("{}: {} is {}, which no model has", file, field, value))
                  .with_hint(fmt::format("at most {:.0f} is believed; download the file anew", most)));
}

// Below zero counts as absent where a file says -1 for "none".
Result<void> check(const Value& value, const std::string& file, const std::string& field, double most) {
  if (value.is_array()) {
    for (const Value& one : value) {
      if (auto checked = check(one, file, field, most); !checked) return checked;
    }
  }
  if (!value.is_number() || (value.get<double>() <= most && value.get<double>() >= -1)) return {};
  return impossible(file, field, value.dump(), most);
}

Result<void> walk(const Value& object, const std::string& file, const std::string& path, int depth) {
  constexpr int kDeepest = 4;
  for (auto it = object.begin(); it != object.end(); ++it) {
    const std::string field = path.empty() ? it.key() : path + "." + it.key();
    if (it->is_object() && depth < kDeepest) {
      if (auto checked = walk(*it, file, field, depth + 1); !checked) return checked;
    } else if (const double most = most_of_config(it.key()); most > 0) {
      if (auto checked = check(*it, file, field, most); !checked) return checked;
    }
  }
  return {};
}

}  // namespace

Result<void> check_config_numbers(const Value& config, const std::string& file) {
  return config.is_object() ? walk(config, file, "", 0) : Result<void>();
}

Result<void> check_gguf_numbers(const GgufFile& header, const std::string& file) {
  for (const auto& [key, value] : header.values) {
    const double most = most_of_gguf(key);
    if (most <= 0) continue;
    if (auto checked = check(value, file, key, most); !checked) return checked;
  }
  return {};
}

Result<void> check_bytes(double bytes, const std::string& file, const std::string& field) {
  if (bytes >= 0 && bytes <= kBytes) return {};
  return impossible(file, field, fmt::format("{:.6g} bytes", bytes), kBytes);
}

}  // namespace millwright::planner
