#include "steps/smoke/judge.hpp"

#include <gtest/gtest.h>

#include "rules_fixture.hpp"
#include "steps/smoke/known_answers.hpp"
#include "steps/smoke/utf8.hpp"

namespace millwright {
namespace {

std::string class_of(std::string_view text, TextKind kind = TextKind::prose) {
  return judge_text(*shipped_rules(), text, kind).symptom_class;
}

std::string times(int count, std::string_view piece) {
  std::string out;
  for (int i = 0; i < count; ++i) out += piece;
  return out;
}

TEST(JudgeText, HealthyTextsPass) {
  for (const char* text :
       {"Paris", " Paris\n\n", "The capital of France is Paris.", "4", "No, no, no!", "ha ha ha", "cat",
        "The sea is loved for its calm and for its storms. People walk along the shore to think, children dig in the "
        "sand, and old friends share a bench and watch the ships. Salt air clears the head, and the sound of the "
        "waves makes worries small. Some come to swim and some to fish, but most of them simply come to look.",
        "Step 1: open the box.\nStep 2: take the part out.\nStep 3: screw the part on.\nStep 4: close the box.",
        "| a | b |\n|---|---|\n| 1 | 2 |\n--------------------------------\n",
        "Das Meer ist schön, und viele Menschen mögen es sehr. Ænima, naïve, façade."}) {
    EXPECT_EQ(class_of(text), "") << text;
  }
}

TEST(JudgeText, LoopsAreNamed) {
  EXPECT_EQ(class_of(times(60, "!")), "single_token_loop");
  EXPECT_EQ(class_of(times(31, "G")), "single_token_loop");
  EXPECT_EQ(class_of("The capital of " + times(40, "the ")), "single_token_loop");
  EXPECT_EQ(class_of(times(30, "\xE5\x95\x8A")), "single_token_loop");
  EXPECT_EQ(class_of("Well. " + times(8, "I am a helpful assistant and I will help you. ")), "phrase_loop");
  // The budget ends in the middle of the phrase.
  EXPECT_EQ(class_of("Well. " + times(8, "I am a helpful assistant and I will help you. ") + "I am a help"),
            "phrase_loop");
}

TEST(JudgeText, SaladIsNamed) {
  EXPECT_EQ(class_of("\xE8\x8D\x90"
                     "icha\xD1\x82\xD1\x80\xD0\xB8"
                     "ать words \xE5\xB7\xAE maxWidth \xD8\xA7\xD9\x84 mentes \xED\x95\x9C asty"),
            "gibberish");
  EXPECT_EQ(class_of("leggtriggertriggertriggertriggertriggertriggertrigger Marrakech overlook saya"), "gibberish");
  EXPECT_EQ(class_of("overlook Landry segara intuitively bronchitis testbe camograbi equilateral divulge cort wedge "
                     "instructions comparison cream dream account fan lamina pend zebra moss under hulk tin wax rim"),
            "gibberish");
  EXPECT_EQ(class_of("Море красивое и люди его любят всегда"), "wrong_language");
}

TEST(JudgeText, MarkersAreNamed) {
  EXPECT_EQ(class_of("Okay, so France. </think> Paris"), "reasoning_leak");
  EXPECT_EQ(class_of("Paris<|im_end|>"), "control_token_leak");
  EXPECT_EQ(class_of("Paris \xEF\xBF\xBD"), "detokenizer_corruption");
  EXPECT_EQ(class_of("The\xC4\xA0sea\xC4\xA0is"), "detokenizer_corruption");
}

TEST(KnownAnswers, WordingDoesNotMatter) {
  EXPECT_TRUE(holds_answer("**Paris**!", {"Paris"}));
  EXPECT_TRUE(holds_answer("It is paris.", {"Paris"}));
  EXPECT_TRUE(holds_answer("There are Seven days.", {"7"}));
  EXPECT_TRUE(holds_answer("7", {"seven"}));
  EXPECT_TRUE(
      holds_answer("maple\xE2\x80\x91"
                   "cedar\xE2\x80\x91"
                   "17",
                   {"maple-cedar-17"}));
  EXPECT_FALSE(holds_answer("Parisian", {"Paris"}));
  EXPECT_FALSE(holds_answer("", {"Paris"}));
  EXPECT_FALSE(holds_answer("17", {"7"}));
}

TEST(Utf8, InvalidBytesBecomeOneReplacementPerSequence) {
  EXPECT_EQ(clean_utf8("a\xC0\x80z").text, "a\xEF\xBF\xBDz");
  EXPECT_EQ(clean_utf8("\xED\xA0\x80").invalid_bytes, 3u);      // a surrogate
  EXPECT_EQ(clean_utf8("\xF4\x90\x80\x80").invalid_bytes, 4u);  // above U+10FFFF
  EXPECT_EQ(clean_utf8("\xF0\x9F\x98\x80 ok").invalid_bytes, 0u);
  EXPECT_EQ(cut_text("a\xC3\xA9z", 2), "a...");
}

}  // namespace
}  // namespace millwright
