// Logs that do not say their version, and logs that are none.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "orchestrator/base/text.hpp"
#include "planner_test_data.hpp"
#include "steps/server/planner/line_pattern.hpp"
#include "steps/server/planner/render.hpp"
#include "steps/server/planner/replan.hpp"
#include "steps/server/planner/version_guess.hpp"

namespace millwright::planner {
namespace {

VersionGuess guess(const std::string& text, const std::string& model, const std::string& gpus) {
  const auto known = known_model(shipped(), model);
  return guess_version(shipped(), reading(text), &*known, *parse_gpu_spec(shipped(), gpus));
}

bool has(const VersionGuess& guess, const std::string& version) {
  return std::find(guess.possible.begin(), guess.possible.end(), version) != guess.possible.end();
}

TEST(VersionGuess, the_story_s_log_is_of_none_that_would_have_had_room_or_refused_it) {
  const VersionGuess out = guess(log_text("composed-sglang-0.5.9-story.log"), "Qwen3.6-27B", "2xA6000");
  EXPECT_EQ(out.version, "0.5.9");
  EXPECT_TRUE(out.figures_agree);
  EXPECT_FALSE(has(out, "0.5.12")) << "it refuses drafts of a hybrid without extra_buffer";
  EXPECT_FALSE(has(out, "0.5.23")) << "it would have had room";
  EXPECT_NE(words_of(out).find("0.5.9 assumed"), std::string::npos);
}

TEST(VersionGuess, arguments_alone_say_something) {
  // 0.5.6 has no mamba-scheduler-strategy, and 0.5.23 none any more.
  const LogReading log = reading(log_text("composed-sglang-0.5.9-story.log"));
  const VersionGuess out = guess_version(shipped(), log, nullptr, {});
  EXPECT_FALSE(has(out, "0.5.6"));
  EXPECT_FALSE(has(out, "0.5.23"));
  EXPECT_TRUE(has(out, "0.5.12"));
}

TEST(VersionGuess, the_newest_whose_tokens_come_out) {
  // Gemma's cells are the same in every version: all that know its arguments are left.
  const VersionGuess out = guess(log_text("sglang-0.5.11-cpu-ok.log"), "gemma-3-270m", "24GiB");
  EXPECT_TRUE(out.figures_agree);
  EXPECT_TRUE(has(out, "0.5.11"));
  std::string text = log_text("sglang-0.5.11-cpu-ok.log");
  for (std::size_t at = text.find("=92532"); at != std::string::npos; at = text.find("=92532")) text[at + 1] = '1';
  const VersionGuess wrong = guess(text, "gemma-3-270m", "24GiB");
  EXPECT_FALSE(wrong.figures_agree);
  EXPECT_NE(words_of(wrong).find("trust none"), std::string::npos);
}

TEST(VersionGuess, a_replan_of_another_version_says_so) {
  const LogReading log = reading(log_text("composed-sglang-0.5.9-story.log"));
  Asked q = asked("Qwen3.6-27B", "sglang", "0.5.23", "2xA6000");
  add_logged_flags(log, q.table, q.flags);
  q.query.set = q.flags.set;
  const Replan out = replan(shipped(), q.query, q.flags, q.table, log, {});
  const std::string all = join(out.arithmetic, "\n");
  EXPECT_NE(all.find("free before the weights 46.60, after them 20.70"), std::string::npos) << "as the log has it";
  EXPECT_NE(all.find("or it is another version"), std::string::npos) << all;
}

TEST(IsLog, another_engine_s_and_no_log_at_all) {
  EXPECT_TRUE(check_is_log(reading(log_text("composed-sglang-0.5.9-story.log"))).has_value());
  EXPECT_TRUE(check_is_log(reading("ValueError: No available memory for the cache blocks.", "vllm")).has_value());
  for (const char* text : {"", "\n", "hello\nworld\n"}) {
    const auto none = check_is_log(reading(text, "sglang"));
    ASSERT_FALSE(none.has_value()) << text;
    EXPECT_NE(none.error().hint.find("journalctl"), std::string::npos);
  }
  const auto other = check_is_log(reading(log_text("vllm-0.32.0-cpu-ok.log"), "sglang"));
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().hint, "--engine vllm");
}

TEST(LinePattern, groups_and_what_cannot_be_compiled) {
  const auto pattern = LinePattern::compile("a=([0-9.]+)(?: b=([0-9]+))?");
  ASSERT_TRUE(pattern.has_value());
  EXPECT_EQ(pattern->groups("x a=1.5"), (std::vector<std::string>{"1.5", ""}));
  EXPECT_EQ(pattern->groups("x a=1.5 b=2"), (std::vector<std::string>{"1.5", "2"}));
  EXPECT_FALSE(pattern->groups("nothing").has_value());
  EXPECT_FALSE(LinePattern::compile("a(").has_value());
}

TEST(LinePattern, one_that_tries_forever_is_no_match) {
  const auto pattern = LinePattern::compile("(a+)+b");
  EXPECT_FALSE(pattern->groups(std::string(200, 'a')).has_value());
}

TEST(Broken, lines_end_at_the_terminal_and_what_is_copied_stays_whole) {
  const std::string text = "GPU 0  [" + std::string(90, 'W') + "]\nnote     " + std::string("word ") +
                           "one two three four five six seven eight nine ten eleven twelve\nLaunch:\n  " +
                           std::string(100, 'q') + " y\n";
  const std::string out = broken(text, 50);
  EXPECT_NE(out.find("GPU 0  [" + std::string(90, 'W') + "]\n"), std::string::npos);
  EXPECT_NE(out.find("\n         "), std::string::npos) << "under the text, not under the label";
  EXPECT_NE(out.find("  " + std::string(100, 'q') + " y\n"), std::string::npos);
  for (const std::string& line : split_lines(out))
    EXPECT_TRUE(line.size() <= 50 || line[0] == 'G' || line.find("qqq") != std::string::npos) << line;
  EXPECT_EQ(broken("short\n", 80), "short\n");
}

}  // namespace
}  // namespace millwright::planner
