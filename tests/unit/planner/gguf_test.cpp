#include <unistd.h>

#include "planner_test_data.hpp"
#include "steps/server/planner/gguf.hpp"
#include "steps/server/planner/llama_cpp.hpp"

namespace millwright::planner {
namespace {

// Writes a GGUF header (ggml/docs/gguf.md); the tensors' data is not there.
class Header {
 public:
  Header& text(const std::string& key, const std::string& value) {
    begin(key, 8);
    raw(value);
    return *this;
  }
  Header& number(const std::string& key, std::uint32_t value) {
    begin(key, 4);
    plain(value);
    return *this;
  }
  Header& numbers(const std::string& key, const std::vector<std::uint32_t>& values) {
    begin(key, 9);
    plain<std::uint32_t>(4);
    plain<std::uint64_t>(values.size());
    for (const std::uint32_t value : values) plain(value);
    return *this;
  }
  Header& texts(const std::string& key, std::size_t count) {
    begin(key, 9);
    plain<std::uint32_t>(8);
    plain<std::uint64_t>(count);
    for (std::size_t one = 0; one < count; ++one) raw("t");
    return *this;
  }
  Header& tensor(const std::string& name, const std::vector<std::uint64_t>& shape, std::uint32_t type) {
    std::swap(bytes_, tensors_);
    raw(name);
    plain<std::uint32_t>(static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t size : shape) plain(size);
    plain(type);
    plain<std::uint64_t>(0);
    std::swap(bytes_, tensors_);
    ++tensor_count_;
    return *this;
  }
  std::string file() const {
    Header head;
    head.bytes_ = "GGUF";
    head.plain<std::uint32_t>(3);
    head.plain<std::uint64_t>(tensor_count_);
    head.plain<std::uint64_t>(pairs_);
    return head.bytes_ + bytes_ + tensors_;
  }

 private:
  template <class T>
  void plain(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void raw(const std::string& text) {
    plain<std::uint64_t>(text.size());
    bytes_ += text;
  }
  void begin(const std::string& key, std::uint32_t type) {
    raw(key);
    plain(type);
    ++pairs_;
  }
  std::string bytes_, tensors_;
  std::uint64_t pairs_ = 0, tensor_count_ = 0;
};

Header qwen35() {
  return Header()
      .text("general.architecture", "qwen35")
      .number("qwen35.block_count", 64)
      .number("qwen35.embedding_length", 5120)
      .number("qwen35.attention.head_count", 24)
      .number("qwen35.attention.head_count_kv", 4)
      .number("qwen35.attention.key_length", 256)
      .number("qwen35.attention.value_length", 256)
      .number("qwen35.context_length", 262144)
      .number("qwen35.full_attention_interval", 4)
      .number("qwen35.ssm.conv_kernel", 4)
      .number("qwen35.ssm.inner_size", 6144)
      .number("qwen35.ssm.state_size", 128)
      .number("qwen35.ssm.group_count", 16)
      .number("qwen35.feed_forward_length", 17408)
      .texts("tokenizer.ggml.tokens", 1000)
      .tensor("token_embd.weight", {5120, 1000}, 8)
      .tensor("blk.0.ffn_up.weight", {5120, 17408}, 12);
}

Model model_of(const Folder& folder, const Header& header) {
  folder.write("m.gguf", header.file());
  auto model = read_model(folder.path("m.gguf"), true);
  if (!model) ADD_FAILURE() << render(model.error());
  return model.value_or(Model{});
}

TEST(Gguf, a_hybrid_s_cache_and_states_are_what_llama_cpp_prints) {
  const Folder folder;
  const Model model = model_of(folder, qwen35());
  EXPECT_EQ(model.shape.attention_layers(), 16);
  EXPECT_EQ(model.shape.recurrent_layers(), 48);
  EXPECT_EQ(model.shape.vocab, 1000);
  const double bytes = 5120.0 * 1000 * 34 / 32 + 5120.0 * 17408 * 144 / 256;
  EXPECT_DOUBLE_EQ(model.weights.total(), bytes);
  // LM Studio's tracker #1862: 16384 MiB and 598.50 MiB at 262144 tokens and 4 sequences.
  const Asked asked = asked_of(model, "llama.cpp", "0.7.0", "96GiB", {"ctx-size=262144", "parallel=4", "kv-unified"});
  const LlamaSettings settings = llama_settings(asked.query);
  constexpr double mib = 1024.0 * 1024.0;
  EXPECT_DOUBLE_EQ(llama_kv_bytes(asked.query, settings, 0, 64) / mib, 16384);
  EXPECT_DOUBLE_EQ(llama_state_bytes(asked.query, settings, 0, 64) / mib, 598.5);
}

TEST(Gguf, streams_of_their_own_when_the_slots_are_given) {
  const Folder folder;
  const Model model = model_of(folder, qwen35());
  // llama.cpp 0.7.0: -c 12000 -np 3 makes 3 x 4096 cells; without -np 4 slots share one stream.
  EXPECT_EQ(llama_cells(
                asked_of(model, "llama.cpp", "0.7.0", "96GiB", {"ctx-size=12000", "parallel=3"}).query,
                llama_settings(asked_of(model, "llama.cpp", "0.7.0", "96GiB", {"ctx-size=12000", "parallel=3"}).query))
                .full,
            3 * 4096);
  const Asked shared = asked_of(model, "llama.cpp", "0.7.0", "96GiB", {"ctx-size=12000"});
  EXPECT_EQ(llama_cells(shared.query, llama_settings(shared.query)).full, 12032);
}

TEST(Gguf, a_context_for_each_of_the_requests) {
  const Folder folder;
  Asked q = asked_of(model_of(folder, qwen35()), "llama.cpp", "0.7.0", "96GiB");
  q.query.context = 4096;
  q.query.concurrency = 8;
  const Plan plan = q.plan();
  EXPECT_EQ(plan.max_model_len, 4096);
  EXPECT_EQ(plan.kv_tokens.mid, 8 * 4096);
  EXPECT_EQ(plan.flags.front().value, "32768");
}

TEST(Gguf, fit_lowers_a_context_that_was_not_given) {
  const Folder folder;
  const Model model = model_of(folder, qwen35());
  const auto context = [&](const std::vector<std::string>& set) {
    return asked_of(model, "llama.cpp", "0.7.0", "6GiB", set).likely();
  };
  const Outcome lowered = context({});
  EXPECT_TRUE(lowered.starts());
  EXPECT_LT(lowered.max_model_len, 262144);
  EXPECT_EQ(lowered.max_model_len % 256, 0);
  EXPECT_NEAR(lowered.ranks[0].headroom_gib, 1.0, 0.03) << "as much as leaves the margin of 1024 MiB";
  EXPECT_FALSE(context({"fit=off"}).starts());
  EXPECT_FALSE(context({"ctx-size=262144"}).starts());
}

TEST(Gguf, windows_of_gpt_oss) {
  const Folder folder;
  const Model model = model_of(folder, Header()
                                           .text("general.architecture", "gpt-oss")
                                           .number("gpt-oss.block_count", 36)
                                           .number("gpt-oss.embedding_length", 2880)
                                           .number("gpt-oss.attention.head_count", 64)
                                           .number("gpt-oss.attention.head_count_kv", 8)
                                           .number("gpt-oss.attention.key_length", 64)
                                           .number("gpt-oss.attention.value_length", 64)
                                           .number("gpt-oss.attention.sliding_window", 128)
                                           .number("gpt-oss.context_length", 131072));
  const Asked asked = asked_of(model, "llama.cpp", "0.7.0", "192GiB", {"ctx-size=262144", "parallel=2"});
  const LlamaCells cells = llama_cells(asked.query, llama_settings(asked.query));
  // ollama #16480: 9216 MiB for 131072 cells x 2, 90 MiB for 1280 cells.
  EXPECT_EQ(cells.full, 2 * 131072);
  EXPECT_EQ(cells.window, 2 * 768) << "0.7.0: each stream has its window and one micro-batch";
}

TEST(Gguf, an_old_conversion_keeps_no_latent) {
  const Folder folder;
  const Header old = Header()
                         .text("general.architecture", "deepseek2")
                         .number("deepseek2.block_count", 27)
                         .number("deepseek2.embedding_length", 2048)
                         .number("deepseek2.attention.head_count", 16)
                         .number("deepseek2.attention.head_count_kv", 16)
                         .number("deepseek2.attention.key_length", 192)
                         .number("deepseek2.attention.value_length", 128)
                         .number("deepseek2.attention.kv_lora_rank", 512)
                         .number("deepseek2.context_length", 163840);
  const Asked asked = asked_of(model_of(folder, old), "llama.cpp", "0.7.0", "48GiB", {"ctx-size=8192", "parallel=1"});
  // A public log: 2160 MiB at 8192 tokens, 270 KiB a token.
  EXPECT_DOUBLE_EQ(llama_kv_bytes(asked.query, llama_settings(asked.query), 0, 27) / 1024 / 1024, 2160);
  Header latent = old;
  latent.number("deepseek2.attention.key_length_mla", 192).number("deepseek2.rope.dimension_count", 64);
  const Asked newer =
      asked_of(model_of(folder, latent), "llama.cpp", "0.7.0", "48GiB", {"ctx-size=8192", "parallel=1"});
  EXPECT_DOUBLE_EQ(llama_kv_bytes(newer.query, llama_settings(newer.query), 0, 27), 27.0 * 8192 * 576 * 2);
}

TEST(Gguf, layers_with_neither_attention_nor_state) {
  const Folder folder;
  const Model model = model_of(folder, Header()
                                           .text("general.architecture", "nemotron_h")
                                           .number("nemotron_h.block_count", 4)
                                           .number("nemotron_h.embedding_length", 64)
                                           .number("nemotron_h.attention.head_count", 8)
                                           .numbers("nemotron_h.attention.head_count_kv", {0, 0, 2, 0})
                                           .numbers("nemotron_h.feed_forward_length", {0, 128, 0, 0})
                                           .number("nemotron_h.ssm.inner_size", 128)
                                           .number("nemotron_h.ssm.state_size", 16)
                                           .number("nemotron_h.ssm.group_count", 1)
                                           .number("nemotron_h.context_length", 4096));
  EXPECT_EQ(model.shape.attention_layers(), 1);
  EXPECT_EQ(model.shape.recurrent_layers(), 2);
}

TEST(Gguf, cut_short_anywhere_is_an_error_and_never_more) {
  const Folder folder;
  const std::string whole = qwen35().file();
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    folder.write("cut.gguf", whole.substr(0, size));
    EXPECT_FALSE(read_gguf(folder.path("cut.gguf")).has_value()) << size;
  }
  EXPECT_FALSE(read_gguf(folder.path("missing.gguf")).has_value());
}

TEST(Gguf, figures_that_no_model_has_are_refused_by_name) {
  const Folder folder;
  const auto refused = [&](Header header) {
    folder.write("odd.gguf", header.file());
    const auto read = read_model(folder.path("odd.gguf"), true);
    return read ? std::string() : read.error().message;
  };
  EXPECT_NE(
      refused(qwen35().number("qwen35.embedding_length", 2000000000)).find("odd.gguf: qwen35.embedding_length is"),
      std::string::npos);
  EXPECT_NE(refused(qwen35().numbers("qwen35.attention.head_count_kv", {4, 3000000000u})).find("is 3000000000, which"),
            std::string::npos);
  EXPECT_NE(
      refused(qwen35().tensor("output.weight", {1ULL << 40, 1ULL << 40}, 0)).find("the size of tensor output.weight"),
      std::string::npos);
  EXPECT_EQ(refused(qwen35()), "");
}

TEST(Gguf, lengths_beyond_reason_are_refused) {
  const Folder folder;
  std::string bytes = qwen35().file();
  for (std::size_t at = 8; at < 32; ++at) {
    std::string broken = bytes;
    broken[at] = '\x7f';
    folder.write("odd.gguf", broken);
    EXPECT_FALSE(read_gguf(folder.path("odd.gguf")).has_value() && at < 24) << at;
  }
}

}  // namespace
}  // namespace millwright::planner
