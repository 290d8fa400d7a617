#include <unistd.h>

#include "planner_test_data.hpp"
#include "steps/server/planner/size_check.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

double token_bytes(const ModelShape& model, int tp) {
  double out = 0;
  for (const LayerShape& layer : model.layers) out += layer.attention ? layer_token_bytes(*layer.attention, tp, 2) : 0;
  return out;
}

TEST(ModelShape, grouped_query_attention) {
  const ModelShape model =
      shape(R"({"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,
    "num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256,"max_position_embeddings":131072})");
  EXPECT_EQ(token_bytes(model, 1), 131072);
  EXPECT_EQ(token_bytes(model, 8), 16384);
  EXPECT_EQ(token_bytes(model, 16), 16384) << "a head cannot be cut";
}

TEST(ModelShape, one_key_value_head_for_all) {
  const ModelShape model = shape(
      R"({"model_type":"gpt_bigcode","n_embd":6144,"n_layer":40,"n_head":48,"multi_query":true,"vocab_size":49152})");
  ASSERT_NE(model.first_attention(), nullptr);
  EXPECT_EQ(model.first_attention()->kv_heads, 1);
  EXPECT_EQ(token_bytes(model, 4), 40 * 128 * 2 * 2);
}

TEST(ModelShape, falcon_s_new_architecture_has_key_value_heads_of_its_own) {
  const ModelShape model =
      shape(R"({"model_type":"falcon","hidden_size":8192,"num_hidden_layers":60,"num_attention_heads":128,
    "num_kv_heads":8,"multi_query":true,"new_decoder_architecture":true,"vocab_size":65024})");
  EXPECT_EQ(model.first_attention()->kv_heads, 8);
}

TEST(ModelShape, latent_attention_is_not_divided) {
  const auto model = known_model(shipped(), "Kimi-K2.5");
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(token_bytes(model->shape, 1), 70272);
  EXPECT_EQ(token_bytes(model->shape, 8), 70272);
}

TEST(ModelShape, windows_by_the_family_s_own_period) {
  const auto gemma = known_model(shipped(), "gemma-3-27b");
  EXPECT_EQ(gemma->shape.window_layers(), 52);
  EXPECT_EQ(gemma->shape.full_attention_layers(), 10);
  EXPECT_EQ(gemma->shape.largest_window(), 1024);
  const auto oss = known_model(shipped(), "gpt-oss-20b");
  EXPECT_EQ(oss->shape.window_layers(), 12);
  // The window in the file of a model that does not use it.
  const ModelShape qwen =
      shape(R"({"model_type":"qwen2","hidden_size":3584,"num_hidden_layers":28,"num_attention_heads":28,
    "num_key_value_heads":4,"sliding_window":131072,"use_sliding_window":false,"max_window_layers":28,"vocab_size":152064})");
  EXPECT_EQ(qwen.window_layers(), 0);
}

TEST(ModelShape, gated_delta_net_state) {
  const auto model = known_model(shipped(), "Qwen3.6-27B");
  EXPECT_EQ(model->shape.full_attention_layers(), 16);
  EXPECT_EQ(model->shape.recurrent_layers(), 48);
  const auto slot = [&](int tp, double dtype) {
    return layer_state_bytes(model->shape.state, tp, 3, 2, dtype).total() * 48;
  };
  EXPECT_EQ(slot(1, 4), 153944064);
  EXPECT_EQ(slot(2, 4), 76972032);
  EXPECT_EQ(slot(2, 2), 39223296);
  EXPECT_EQ(model->shape.mtp_layers, 1);
  EXPECT_TRUE(model->shape.vision.has_value());
}

TEST(ModelShape, states_of_other_qwens) {
  const auto slot = [](const char* name) {
    const auto model = known_model(shipped(), name);
    return layer_state_bytes(model->shape.state, 1, 3, 2, 4).total() * model->shape.recurrent_layers();
  };
  EXPECT_EQ(slot("Qwen3.5-9B"), 51511296);
  EXPECT_EQ(slot("Qwen3.5-397B-A17B"), 192061440);
}

TEST(ModelShape, attention_and_mamba_in_every_layer) {
  const auto model = known_model(shipped(), "tiiuae/Falcon-H1-7B-Instruct");
  EXPECT_EQ(model->shape.attention_layers(), 44);
  EXPECT_EQ(model->shape.recurrent_layers(), 44);
}

TEST(ModelShape, letters_of_nemotron_h) {
  const auto model = known_model(shipped(), "Nemotron-H-8B");
  EXPECT_EQ(model->shape.attention_layers(), 4);
  EXPECT_EQ(model->shape.recurrent_layers(), 24);
}

TEST(ModelShape, kimi_linear_counts_from_one) {
  const auto model = known_model(shipped(), "Kimi-Linear-48B-A3B-Instruct");
  EXPECT_EQ(model->shape.attention_layers(), 7);
  EXPECT_TRUE(model->shape.layers[3].attention.has_value());
  EXPECT_TRUE(model->shape.layers[0].recurrent);
}

TEST(ModelShape, groups_that_cannot_be_split_are_repeated) {
  StateShape one;
  one.kind = StateKind::mamba2;
  one.heads = 24, one.head_dim = 128, one.groups = 1, one.state = 256, one.conv_kernel = 4;
  EXPECT_EQ(layer_state_bytes(one, 1, 3, 2, 4).conv, (3072 + 512) * 3 * 2);
  EXPECT_EQ(layer_state_bytes(one, 2, 3, 2, 4).conv, (3072 + 2 * 512) / 2 * 3 * 2);
}

TEST(ModelShape, a_config_that_says_too_little) {
  for (const char* config : {"{}", R"({"hidden_size":4096})", R"({"hidden_size":4096,"num_hidden_layers":2})", "[]",
                             R"({"text_config":{}})"}) {
    const auto read = shape_of_config(Value::parse(config), "m");
    ASSERT_FALSE(read.has_value()) << config;
    EXPECT_FALSE(read.error().message.empty());
  }
}

TEST(Weights, of_a_config_are_those_of_the_published_checkpoints) {
  const auto gib = [](const char* name) { return known_model(shipped(), name)->weights.total() / kGiB; };
  // Load lines of public logs: results_raw.csv of llm-d-planner (vLLM 0.19.0).
  EXPECT_NEAR(gib("phi-4"), 27.39, 0.15);
  EXPECT_NEAR(gib("Mixtral-8x7B"), 86.99, 0.2);
  EXPECT_NEAR(gib("Qwen2.5-7B-Instruct"), 14.25, 0.1);
  EXPECT_NEAR(gib("Qwen2.5-7B-Instruct-FP8"), 8.14, 0.1);
  EXPECT_NEAR(gib("Qwen3-30B-A3B"), 56.88, 0.1);
  EXPECT_NEAR(gib("DeepSeek-V2-Lite"), 29.26, 0.2);
  EXPECT_NEAR(gib("gemma-3-27b"), 51.45, 0.6);
}

TEST(Weights, stages_take_the_rest_of_the_layers_before_the_last) {
  EXPECT_EQ(stage_layers(32, 2), (std::vector<int>{16, 16}));
  EXPECT_EQ(stage_layers(61, 4), (std::vector<int>{15, 15, 16, 15}));
  EXPECT_EQ(stage_layers(62, 4), (std::vector<int>{15, 16, 16, 15}));
}

const char* const kTiny =
    R"({"model_type":"llama","hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,
  "intermediate_size":16,"vocab_size":64,"max_position_embeddings":128,"tie_word_embeddings":true,"torch_dtype":"bfloat16"})";

Value tensor(double from, double to) { return {{"dtype", "BF16"}, {"shape", {1}}, {"data_offsets", {from, to}}}; }

TEST(ModelFiles, only_what_the_weight_map_names_counts) {
  Folder folder;
  folder.write("config.json", kTiny);
  folder.write("model.safetensors.index.json", Value{{"metadata", {{"total_size", 1}}},
                                                     {"weight_map",
                                                      {{"model.embed_tokens.weight", "a.safetensors"},
                                                       {"model.layers.0.self_attn.q_proj.weight", "a.safetensors"},
                                                       {"model.layers.1.mlp.up_proj.weight", "b.safetensors"}}}}
                                                   .dump());
  folder.write("a.safetensors", safetensors({{"model.embed_tokens.weight", tensor(0, 1000)},
                                             {"model.layers.0.self_attn.q_proj.weight", tensor(1000, 1400)},
                                             {"a.second.copy", tensor(1400, 9000)}}));
  folder.write("b.safetensors", safetensors({{"model.layers.1.mlp.up_proj.weight", tensor(0, 600)},
                                             {"__metadata__", {{"format", "pt"}}}}));
  folder.write("consolidated.safetensors", safetensors({{"everything", tensor(0, 90000)}}));
  const auto model = read_model(folder.path(), false);
  ASSERT_TRUE(model.has_value()) << render(model.error());
  EXPECT_EQ(model->weights.total(), 2000);
  EXPECT_EQ(model->weight_source, WeightSource::tensors);
  LoadOptions two;
  two.tp = 2;
  EXPECT_EQ(weights_on_stage(model->weights, model->shape, two, 0), 1000);
}

TEST(ModelFiles, an_index_whose_files_are_not_here_gives_its_total) {
  Folder folder;
  folder.write("config.json", kTiny);
  folder.write("model.safetensors.index.json",
               R"({"metadata":{"total_size":4096},"weight_map":{"x":"gone.safetensors"}})");
  const auto model = read_model(folder.path(), false);
  ASSERT_TRUE(model.has_value());
  EXPECT_NEAR(model->weights.total(), 4096, 0.5);
  EXPECT_EQ(model->weight_source, WeightSource::total_size);
  EXPECT_FALSE(model->notes.empty());
}

TEST(ModelFiles, a_head_beside_a_tied_embedding_is_dropped_and_drafts_are_apart) {
  const ModelShape model = shape(kTiny);
  const WeightParts parts = weights_of_tensors(model, {{"model.embed_tokens.weight", 100, "BF16"},
                                                       {"lm_head.weight", 100, "BF16"},
                                                       {"mtp.layers.0.mlp.up_proj.weight", 50, "BF16"},
                                                       {"model.layers.2.mlp.x.weight", 5, "BF16"},
                                                       {"visual.blocks.0.attn.qkv.weight", 30, "BF16"}});
  EXPECT_EQ(parts.head, 0);
  EXPECT_TRUE(parts.tied);
  EXPECT_EQ(parts.mtp, 55) << "layers beyond the last are drafts";
  EXPECT_EQ(parts.vision, 30);
  EXPECT_EQ(parts.total(), 130);
}

TEST(ModelFiles, broken_ones_say_what_and_where) {
  Folder folder;
  EXPECT_FALSE(read_model(folder.path("nothing"), false).has_value());
  EXPECT_FALSE(read_model(folder.path(), false).has_value());
  folder.write("config.json", "{ not json");
  EXPECT_NE(read_model(folder.path(), false).error().message.find("config.json"), std::string::npos);
  folder.write("config.json", kTiny);
  folder.write("model.safetensors", "version https://git-lfs.github.com/spec/v1");
  EXPECT_NE(read_model(folder.path(), false).error().message.find("model.safetensors"), std::string::npos);
  std::filesystem::remove(folder.path("model.safetensors"));
  folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":1000},"weight_map":{}})");
  const auto empty = read_model(folder.path(), false);
  ASSERT_FALSE(empty.has_value()) << "weights of no bytes fit everywhere";
  EXPECT_NE(empty.error().message.find("weight_map"), std::string::npos);
  folder.write("m.gguf", "GGUF\3");
  EXPECT_FALSE(read_model(folder.path("m.gguf"), true).has_value());
}

// Whoever wrote the file may be anybody: a figure that no model has is named, with its file, before anything is made
// of it.
TEST(ModelFiles, figures_that_no_model_has_are_refused_by_name) {
  struct Row {
    const char* pointer;
    Value value;
    const char* says;
  };
  for (const Row& row :
       {Row{"/hidden_size", 1e18, "hidden_size is 1e+18"}, Row{"/vocab_size", 4000000000u, "vocab_size"},
        Row{"/num_attention_heads", 1000000, "num_attention_heads is 1000000"},
        Row{"/intermediate_size", -256, "intermediate_size is -256"},
        Row{"/text_config/hidden_size", 1e300, "text_config.hidden_size is 1e+300"},
        Row{"/rope_scaling/factor", 1e9, "rope_scaling.factor"},
        Row{"/max_position_embeddings", 1e15, "max_position_embeddings is"}}) {
    Folder folder;
    Value config = Value::parse(kTiny);
    config[Value::json_pointer(row.pointer)] = row.value;
    folder.write("config.json", config.dump());
    const auto read = read_model(folder.path(), false);
    ASSERT_FALSE(read.has_value()) << row.pointer;
    EXPECT_NE(read.error().message.find("config.json: "), std::string::npos) << read.error().message;
    EXPECT_NE(read.error().message.find(row.says), std::string::npos) << read.error().message;
    EXPECT_FALSE(read.error().hint.empty());
  }
  // Each by itself is possible; all together are not.
  Folder folder;
  Value config = Value::parse(kTiny);
  config.update({{"hidden_size", 1 << 20}, {"intermediate_size", 1 << 22}, {"num_hidden_layers", 4096}});
  folder.write("config.json", config.dump());
  EXPECT_NE(read_model(folder.path(), false)
                .error()
                .message.find("hidden_size 1048576, 4096 layers, intermediate_size 4194304"),
            std::string::npos);
}

TEST(ModelFiles, bytes_that_no_model_has_are_refused_by_name) {
  Folder folder;
  folder.write("config.json", kTiny);
  folder.write("model.safetensors.index.json",
               R"({"metadata":{"total_size":1e38},"weight_map":{"a":"model-00001.safetensors"}})");
  const auto total = read_model(folder.path(), false);
  ASSERT_FALSE(total.has_value());
  EXPECT_NE(total.error().message.find("model.safetensors.index.json: metadata.total_size is 1e+38 bytes"),
            std::string::npos)
      << total.error().message;
  std::filesystem::remove(folder.path("model.safetensors.index.json"));
  for (const Value& offsets : {Value{0, 1e30}, Value{100, 50}, Value{-5, 7}}) {
    folder.write("model.safetensors",
                 safetensors({{"lm_head.weight", {{"dtype", "BF16"}, {"data_offsets", offsets}}}}));
    const auto tensor = read_model(folder.path(), false);
    ASSERT_FALSE(tensor.has_value()) << offsets.dump();
    EXPECT_NE(tensor.error().message.find("model.safetensors: data_offsets of lm_head.weight is"), std::string::npos)
        << tensor.error().message;
  }
}

TEST(ModelFiles, figures_of_every_known_model_are_believed) {
  for (const Value& row : shipped().file("model_shapes").at("models")) {
    const auto checked = check_config_numbers(row.at("config"), "config.json");
    EXPECT_TRUE(checked.has_value()) << row.at("name") << ": " << render(checked.error());
  }
}

TEST(ModelShape, without_heads_nothing_can_be_said) {
  for (const char* heads : {"0", "-4"}) {
    const auto out = shape_of_config(
        Value::parse(std::string(R"({"hidden_size":256,"num_hidden_layers":2,"num_key_value_heads":2,"head_dim":64,)") +
                     R"("num_attention_heads":)" + heads + "}"),
        "test");
    ASSERT_FALSE(out.has_value()) << heads;
    EXPECT_NE(out.error().message.find("num_attention_heads"), std::string::npos) << out.error().message;
  }
}

TEST(KnownModels, by_any_part_of_the_name_and_format) {
  EXPECT_TRUE(known_model(shipped(), "qwen3.6-27b").has_value());
  EXPECT_TRUE(known_model(shipped(), "unsloth/Qwen3.6-27B-FP8").has_value());
  const auto fp8 = known_model(shipped(), "Qwen/Qwen3.6-27B-FP8");
  EXPECT_NEAR(fp8->weights.total() / kGiB, 28.56, 0.01);
  // Builds of one format differ: each by its own name, any other by what is known of the format.
  const auto gib = [](const char* name) { return known_model(shipped(), name)->weights.total() / kGiB; };
  EXPECT_NEAR(gib("Inferact/Qwen3.8-27B-NVFP4"), 24.04, 0.01);
  EXPECT_NEAR(gib("unsloth/qwen3.8-27b-nvfp4"), 21.28, 0.01);
  EXPECT_NEAR(gib("somebody/Qwen3.8-27B-NVFP4"), 19.75, 0.01);
  EXPECT_EQ(known_model(shipped(), "inferact/qwen3.8-27b-nvfp4")->repository, "Inferact/Qwen3.8-27B-NVFP4");
  const auto wrong = known_model(shipped(), "Qwen/Qwen3.6-27C");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().hint.find("Qwen3.6-27B"), std::string::npos);
  const auto elsewhere = known_model(shipped(), "google/gemma-4-E4B-it");
  ASSERT_FALSE(elsewhere.has_value());
  EXPECT_NE(elsewhere.error().hint.find("config.json"), std::string::npos);
}

}  // namespace
}  // namespace millwright::planner

namespace millwright::planner {
namespace {

// Anything of a config may be of any type and size: it is read, or refused with a sentence, and planned for without
// end.
TEST(ModelShape, figures_of_any_type_and_size) {
  std::vector<Value> configs;
  const Value& rows = shipped().file("model_shapes").at("models");
  for (std::size_t row = 2; row < rows.size(); row += 6) configs.push_back(rows[row].at("config"));
  const std::vector<Value> odd = {nullptr, true,           "text",          "",       -1,        0, 1, 3, 1e300,
                                  4096.5,  Value::array(), Value::object(), {1, "x"}, {{"a", 1}}};
  for (const Value& config : configs) {
    std::vector<std::string> keys;
    const Value flat = config.flatten();
    for (const auto& [key, value] : flat.items()) keys.push_back(key);
    for (std::size_t at = 0; at < keys.size() * 2; ++at) {
      Value changed = config;
      changed[Value::json_pointer(keys[at % keys.size()])] = odd[(at * 7 + keys.size()) % odd.size()];
      auto read = shape_of_config(changed, "odd");
      if (!read) {
        EXPECT_FALSE(read.error().message.empty());
        continue;
      }
      Model model;
      model.shape = *read;
      model.weights = weights_of_config(*read);
      const char* engine = at % 3 == 0 ? "vllm" : at % 3 == 1 ? "sglang" : "llama.cpp";
      const Asked q = asked_of(std::move(model), engine, "", "2xH100", {});
      EXPECT_FALSE(q.plan().sentence.empty());
    }
  }
}

}  // namespace
}  // namespace millwright::planner
