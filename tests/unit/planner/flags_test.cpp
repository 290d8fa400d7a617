// Values of flags: those that a version cannot have, and how the launch line spells the others.
#include <unistd.h>

#include "planner_test_data.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

struct Case {
  const char* engine;
  const char* version;
  const char* flag;
  const char* hint;  // a part of it
};

GivenFlags flags_of(const Case& one) {
  const auto facts = engine_facts(shipped(), one.engine, one.version);
  const auto table = FlagTable::load(shipped(), one.engine, facts->version());
  auto out = read_flags(*table, *facts, {one.flag});
  if (!out) ADD_FAILURE() << one.flag << ": " << render(out.error());
  return out.value_or(GivenFlags{});
}

TEST(FlagValues, that_are_none_say_what_is_possible) {
  for (const Case& one : {Case{"vllm", "0.19.0", "tensor-parallel-size=two", "whole number from 1"},
                          Case{"vllm", "0.19.0", "tensor-parallel-size=0", "whole number from 1"},
                          Case{"vllm", "0.19.0", "gpu-memory-utilization=95", "up to 1"},
                          Case{"vllm", "0.19.0", "gpu-memory-utilization=nan", "up to 1"},
                          Case{"vllm", "0.19.0", "max-num-seqs=1.5", "whole number"},
                          Case{"vllm", "0.19.0", "speculative-config=x", "num_speculative_tokens"},
                          Case{"vllm", "0.19.0", R"(speculative-config={"num_speculative_tokens":-3})", "at least one"},
                          Case{"vllm", "0.19.0", R"(speculative-config={"method":"dspark"})", "draft_model"},
                          Case{"vllm", "0.32.0", R"(speculative-config={"method":"mtpp"})", "did you mean mtp"},
                          Case{"vllm", "0.32.0", R"(speculative-config={"method":7})", "JSON"},
                          Case{"vllm", "0.32.0", "kv-cache-dtype=fp9", "did you mean fp8"},
                          Case{"vllm", "0.32.0", "dtype=banana", "bfloat16"},
                          Case{"vllm", "0.32.0", "max-model-len=0", "auto"},
                          Case{"vllm", "0.11.0", "max-model-len=auto", "whole number"},
                          Case{"vllm", "0.11.0", "max-model-len=-1", "whole number"},
                          Case{"vllm", "0.11.0", "kv-cache-dtype=nvfp4", "fp8_e4m3"},
                          Case{"sglang", "0.5.9", "speculative-algorithm=FOO", "EAGLE3"},
                          Case{"sglang", "0.5.9", "speculative-num-draft-tokens=-2", "whole number"},
                          Case{"sglang", "0.5.9", "mamba-full-memory-ratio=-1", "above 0"},
                          Case{"sglang", "0.5.9", "mem-fraction-static=1.5", "up to 1"},
                          Case{"sglang", "0.5.9", "mem-fraction-static=", "up to 1"},
                          Case{"sglang", "0.5.9", "context-length=8k", "whole number"},
                          Case{"sglang", "0.5.9", "kv-cache-dtype=nvfp4", "fp4_e2m1"},
                          Case{"sglang", "0.5.6", "mamba-ssm-dtype=float16", "bfloat16"},
                          Case{"llama.cpp", "0.7.0", "ctx-size=-5", "or 0"},
                          Case{"llama.cpp", "0.7.0", "np=0", "chosen by the server"},
                          Case{"llama.cpp", "0.7.0", "cache-type-k=zz", "q8_0"},
                          Case{"llama.cpp", "0.7.0", "ngl=some", "auto or all"},
                          Case{"llama.cpp", "0.7.0", "tensor-split=1,-2", "share"},
                          Case{"llama.cpp", "0.7.0", "fa=maybe", "on, off or auto"},
                          Case{"vllm", "0.32.0", "max-num-seqs=99999999999", "to 2000000000"},
                          Case{"vllm", "0.32.0", "max-num-batched-tokens=100T", "8k is 8000"},
                          Case{"vllm", "0.32.0", "kv-cache-memory-bytes=1000T", "bytes"},
                          Case{"llama.cpp", "0.7.0", "ctx-size=3000000000", "or 0"},
                          Case{"llama.cpp", "0.7.0", "kvu=2", "a switch"},
                          Case{"vllm", "0.32.0", "enforce-eager=maybe", "given alone or with true"},
                          Case{"vllm", "0.32.0", "no-enable-prefix-caching=", "a switch"},
                          Case{"sglang", "0.5.9", "disable-radix-cache=2", "a switch"},
                          Case{"sglang", "0.5.9", "enable-dp-attention=true false", "a switch"},
                          Case{"sglang", "0.5.9", "SGLANG_NO_SUCH=1", "SGLANG_ALLOW"}}) {
    const GivenFlags flags = flags_of(one);
    ASSERT_EQ(flags.invalid.size(), 1u) << one.flag;
    EXPECT_NE(flags.invalid.front().hint.find(one.hint), std::string::npos) << flags.invalid.front().hint;
    EXPECT_TRUE(flags.set.all().empty()) << one.flag << ": the arithmetic must not see it";
  }
}

TEST(FlagValues, that_are_possible) {
  for (const Case& one :
       {Case{"vllm", "0.32.0", "max-model-len=auto", ""}, Case{"vllm", "0.32.0", "max-model-len=25.6k", ""},
        Case{"vllm", "0.32.0", "max-num-batched-tokens=8K", ""}, Case{"vllm", "0.32.0", "kv-cache-dtype=nvfp4", ""},
        Case{"vllm", "0.8.5", "kv-cache-dtype=fp8", ""}, Case{"vllm", "0.32.0", "gpu-memory-utilization=1", ""},
        Case{"vllm", "0.10.1", "kv-cache-dtype=bfloat16", ""}, Case{"sglang", "0.5.9", "chunked-prefill-size=-1", ""},
        Case{"sglang", "0.5.23", "kv-cache-dtype=mxfp8", ""}, Case{"sglang", "0.5.9", "enable-mixed-chunk", ""},
        Case{"llama.cpp", "0.7.0", "np=-1", ""}, Case{"llama.cpp", "0.7.0", "ngl=all", ""},
        Case{"llama.cpp", "0.7.0", "ctx-size=0", ""}, Case{"llama.cpp", "0.7.0", "tensor-split=3,1", ""}}) {
    const GivenFlags flags = flags_of(one);
    EXPECT_TRUE(flags.invalid.empty()) << one.engine << " " << one.flag << ": "
                                       << (flags.invalid.empty() ? "" : flags.invalid.front().hint);
    EXPECT_EQ(flags.set.all().size(), 1u) << one.flag;
  }
}

TEST(FlagValues, switches_are_on_or_off_under_either_name) {
  struct Row {
    const char* engine;
    const char* flag;
    const char* name;
    bool on;
    const char* launched;  // empty: nothing of it
  };
  for (const Row& row :
       {Row{"vllm", "enforce-eager", "enforce-eager", true, "--enforce-eager"},
        Row{"vllm", "enforce-eager=yes", "enforce-eager", true, "--enforce-eager"},
        Row{"vllm", "enforce-eager=0", "enforce-eager", false, "--no-enforce-eager"},
        Row{"vllm", "no-enable-prefix-caching=false", "no-enable-prefix-caching", false, "--enable-prefix-caching"},
        Row{"sglang", "disable-radix-cache=False", "disable-radix-cache", false, ""},
        Row{"llama.cpp", "no-kv-offload", "no-kv-offload", true, "--no-kv-offload"},
        Row{"llama.cpp", "kv-offload", "no-kv-offload", false, ""},
        Row{"llama.cpp", "kv-offload=off", "no-kv-offload", true, "--no-kv-offload"},
        Row{"llama.cpp", "nkvo", "no-kv-offload", true, "--no-kv-offload"},
        Row{"llama.cpp", "no-kv-unified", "kv-unified", false, ""},
        Row{"llama.cpp", "kvu", "kv-unified", true, "--kv-unified"}}) {
    const Asked q = asked("Qwen/Qwen3-8B", row.engine, "", "80GiB", {row.flag});
    ASSERT_TRUE(q.flags.invalid.empty()) << row.flag;
    EXPECT_EQ(q.flags.set.on(row.name), row.on) << row.flag;
    const std::string line = launch_line(q.query, q.plan(), "m");
    const std::string ending = row.launched[0] == '\0' ? "Qwen/Qwen3-8B" : row.launched;
    EXPECT_EQ(line.substr(line.size() - std::min(line.size(), ending.size())), ending) << line;
  }
}

TEST(FlagValues, that_ask_for_more_than_there_is_do_not_fit) {
  struct Row {
    const char* engine;
    const char* version;
    const char* flag;
    const char* says;
  };
  for (const Row& row : {Row{"vllm", "0.32.0", "kv-cache-memory-bytes=500G", "CUDA out of memory"},
                         Row{"vllm", "0.32.0", "num-gpu-blocks-override=10000000", "CUDA out of memory"},
                         Row{"sglang", "0.5.23", "max-total-tokens=1", "max_running_request is zero"}}) {
    const Plan plan = asked("Qwen/Qwen3-8B", row.engine, row.version, "H100", {row.flag}).plan();
    EXPECT_EQ(plan.decision, Decision::does_not_fit) << row.flag << ": " << plan.sentence;
    EXPECT_NE(plan.engine_says.find(row.says), std::string::npos) << plan.engine_says;
  }
  EXPECT_EQ(asked("Qwen/Qwen3-8B", "vllm", "0.32.0", "H100", {"kv-cache-memory-bytes=40G"}).plan().decision,
            Decision::fits);
  Given given;
  EXPECT_FALSE(given.set("weights_gib", "1e30").has_value());
}

TEST(Tokens, as_a_person_writes_them) {
  EXPECT_EQ(tokens_of("32768").value_or(0), 32768);
  EXPECT_EQ(tokens_of("32k").value_or(0), 32768);
  EXPECT_EQ(tokens_of("128K").value_or(0), 131072);
  EXPECT_EQ(tokens_of("1M").value_or(0), 1048576);
  EXPECT_EQ(tokens_of("1.5k").value_or(0), 1536);
  for (const char* wrong : {"", "k", "0", "-1", "32kk", "32 k", "1e5", "0x10", "nan", "inf", "1.2", "1000M", "9g"}) {
    const auto read = tokens_of(wrong);
    ASSERT_FALSE(read.has_value()) << wrong;
    EXPECT_NE(read.error().hint.find("32k is 32768"), std::string::npos);
  }
}

TEST(FlagValues, sizes_with_letters) {
  Settings set;
  const auto number = [&](const char* text) {
    set.set("a", text);
    return set.number("a", -1);
  };
  EXPECT_EQ(number("8k"), 8000);
  EXPECT_EQ(number("8K"), 8192);
  EXPECT_EQ(number("2m"), 2e6);
  EXPECT_EQ(number("2G"), 2147483648.0);
}

LongestContext context_of(const char* config, const std::string& engine, const std::string& version,
                          const std::vector<std::string>& set = {}) {
  Model model;
  model.shape = shape(config);
  return longest_context(asked_of(model, engine, version, "H100", set).query);
}

constexpr const char* kBody = R"("hidden_size":256,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":1000)";

TEST(Context, as_each_engine_derives_it) {
  const auto config = [](const std::string& rest) { return "{" + std::string(kBody) + "," + rest + "}"; };
  const std::string plain = config(R"("max_position_embeddings":32768)");
  EXPECT_EQ(context_of(plain.c_str(), "vllm", "0.32.0").most, 32768);
  EXPECT_EQ(context_of(plain.c_str(), "sglang", "0.5.9").most, 32768);
  // Qwen's way of writing YaRN: the length is the original one. vLLM multiplied until 0.28; SGLang never does.
  const std::string yarn = config(
      R"("max_position_embeddings":40960,"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32768})");
  EXPECT_EQ(context_of(yarn.c_str(), "vllm", "0.19.0").most, 131072);
  EXPECT_EQ(context_of(yarn.c_str(), "vllm", "0.32.0").most, 40960);
  EXPECT_EQ(context_of(yarn.c_str(), "sglang", "0.5.23").most, 40960);
  const std::string linear = config(R"("max_position_embeddings":4096,"rope_scaling":{"type":"linear","factor":2.0})");
  EXPECT_EQ(context_of(linear.c_str(), "vllm", "0.32.0").most, 8192);
  EXPECT_EQ(context_of(linear.c_str(), "sglang", "0.5.9").most, 8192);
  const std::string llama3 = config(
      R"("max_position_embeddings":131072,"rope_scaling":{"rope_type":"llama3","factor":8.0,"original_max_position_embeddings":8192})");
  EXPECT_EQ(context_of(llama3.c_str(), "vllm", "0.19.0").most, 131072);
  EXPECT_EQ(context_of(llama3.c_str(), "sglang", "0.5.9").most, 131072);
  const std::string longrope = config(
      R"("max_position_embeddings":131072,"original_max_position_embeddings":4096,"rope_scaling":{"type":"longrope"})");
  EXPECT_EQ(context_of(longrope.c_str(), "vllm", "0.19.0").most, 131072);
  EXPECT_EQ(context_of(longrope.c_str(), "vllm", "0.19.0").usual, 4096);
  EXPECT_EQ(context_of(longrope.c_str(), "vllm", "0.11.0").usual, 131072);
  // Command-R: model_max_length is what counts; otherwise vLLM takes the smallest, SGLang the first that it looks for.
  const std::string both = config(R"("max_position_embeddings":8192,"model_max_length":131072)");
  EXPECT_EQ(context_of(both.c_str(), "vllm", "0.19.0").most, 131072);
  const std::string two = config(R"("max_position_embeddings":8192,"seq_length":16384)");
  EXPECT_EQ(context_of(two.c_str(), "vllm", "0.19.0").most, 8192);
  EXPECT_EQ(context_of(two.c_str(), "sglang", "0.5.9").most, 16384);
  // One that says nothing: vLLM takes any length, SGLang 2048.
  const std::string none = config(R"("model_type":"x")");
  EXPECT_EQ(context_of(none.c_str(), "vllm", "0.19.0").most, 0);
  EXPECT_EQ(context_of(none.c_str(), "sglang", "0.5.9").most, 2048);
}

TEST(Context, flags_lay_over_the_config) {
  const std::string plain = "{" + std::string(kBody) + R"(,"max_position_embeddings":32768})";
  EXPECT_EQ(
      context_of(
          plain.c_str(), "vllm", "0.19.0",
          {R"(hf-overrides={"rope_scaling":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":32768}})"})
          .most,
      131072);
  EXPECT_EQ(context_of(plain.c_str(), "sglang", "0.5.9",
                       {R"(json-model-override-args={"text_config":{"max_position_embeddings":65536}})"})
                .most,
            65536);
}

TEST(Context, longer_than_the_model_was_made_for_is_refused_with_the_way_out) {
  struct Engine {
    const char* name;
    const char* flag;
    const char* variable;
  };
  for (const Engine& one : {Engine{"vllm", "max-model-len", "VLLM_ALLOW_LONG_MAX_MODEL_LEN"},
                            Engine{"sglang", "context-length", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"}}) {
    const std::string longer = std::string(one.flag) + "=300000";
    const Plan refused = asked("Qwen3.6-27B", one.name, "", "H100", {longer}).plan();
    ASSERT_EQ(refused.invalid.size(), 1u) << one.name;
    EXPECT_EQ(refused.invalid.front().flag, one.flag);
    EXPECT_NE(refused.invalid.front().message.find("262144"), std::string::npos);
    EXPECT_NE(refused.invalid.front().hint.find(std::string(one.variable) + "=1"), std::string::npos);
    EXPECT_EQ(refused.decision, Decision::does_not_fit);
    Asked context = asked("Qwen3.6-27B", one.name, "", "4xH100");  // a pool of more tokens than that
    context.query.context = 262145;
    EXPECT_EQ(context.plan().invalid.size(), 1u) << one.name << " with --context";
    context.query.context = 262144;
    EXPECT_TRUE(context.plan().invalid.empty());
    const Asked allowed = asked("Qwen3.6-27B", one.name, "", "H100", {longer, std::string(one.variable) + "=1"});
    EXPECT_TRUE(allowed.plan().invalid.empty());
    const std::string line = launch_line(allowed.query, allowed.plan(), "m");
    EXPECT_EQ(line.rfind(std::string(one.variable) + "=1 ", 0), 0u) << line;
  }
}

TEST(Context, vllm_finds_the_longest_itself) {
  const std::vector<std::string> given = {"kv_pool_gib=3.18"};
  const Asked q = asked("Qwen3-Coder-30B-A3B", "vllm", "0.19.0", "H100", {"max-model-len=auto"}, given);
  const Outcome outcome = q.likely();
  EXPECT_TRUE(outcome.starts());
  EXPECT_NEAR(outcome.max_model_len, 34736, 16);
  EXPECT_GE(outcome.concurrency, 1);
  EXPECT_LT(outcome.concurrency, 1.01);
  // Where all of it fits, it stays what the model was made for.
  EXPECT_EQ(asked("Qwen3-Coder-30B-A3B", "vllm", "0.19.0", "H100", {"max-model-len=-1"}, {"kv_pool_gib=40"})
                .likely()
                .max_model_len,
            262144);
  const Outcome none = asked("Qwen3-8B", "vllm", "0.19.0", "H100", {"max-model-len=auto"}, {"kv_pool_gib=0"}).likely();
  EXPECT_EQ(none.ends, Stage::pool_sizing);
}

TEST(LaunchLine, is_one_that_the_engine_takes) {
  const auto line = [](const char* model, const char* engine, const char* version,
                       const std::vector<std::string>& set) {
    const Asked q = asked(model, engine, version, "2xH100", set);
    return launch_line(q.query, q.plan(), model);
  };
  // vLLM has -tp, and no --tp.
  EXPECT_EQ(line("Qwen3-8B", "vllm", "0.19.0", {"tp=2", "max-model-len=8192", "enable-prefix-caching=false"}),
            "vllm serve Qwen/Qwen3-8B --no-enable-prefix-caching --max-model-len 8192 --tensor-parallel-size 2");
  EXPECT_EQ(line("Qwen3-8B", "sglang", "0.5.9", {"tp=2"}),
            "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --tensor-parallel-size 2");
  EXPECT_EQ(line("Qwen3-8B", "sglang", "0.5.11", {"tp-size=2", "disable-radix-cache"}),
            "sglang serve --model-path Qwen/Qwen3-8B --disable-radix-cache --tp-size 2");
  EXPECT_EQ(line("Qwen3-8B", "llama.cpp", "0.7.0", {"ngl=all", "c=4096"}),
            "llama-server -m Qwen/Qwen3-8B --ctx-size 4096 --n-gpu-layers all");
}

}  // namespace
}  // namespace millwright::planner
