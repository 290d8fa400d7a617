#include "orchestrator/base/redact.hpp"

#include <gtest/gtest.h>

namespace millwright {
namespace {

TEST(Redactor, HidesEveryFormOfASecret) {
  Redactor redactor;
  redactor.add("hf_s3cr&t/\"x");
  EXPECT_EQ(redactor.redact("token hf_s3cr&t/\"x used"), "token [secret] used");
  EXPECT_EQ(redactor.redact("aGZfczNjciZ0LyJ4"), "[secret]");
  EXPECT_EQ(redactor.redact("?t=hf_s3cr%26t%2F%22x"), "?t=[secret]");
  EXPECT_EQ(redactor.redact(R"({"t":"hf_s3cr&t/\"x"})"), R"({"t":"[secret]"})");
}

TEST(Redactor, HidesASecretAsAShellWordHasIt) {
  Redactor redactor;
  redactor.add("s3c'ret word");
  EXPECT_EQ(redactor.redact(R"(echo 's3c'\''ret word')"), "echo '[secret]'");
}

TEST(Redactor, HidesTheLinesOfAKeyFile) {
  Redactor redactor;
  redactor.add("-----BEGIN KEY-----\nabcdefgh\n");
  EXPECT_EQ(redactor.redact("found abcdefgh here"), "found [secret] here");
}

TEST(Redactor, LeavesTextAloneForSecretsTooShortToHide) {
  Redactor redactor;
  redactor.add("ab");
  EXPECT_EQ(redactor.redact("about cabs"), "about cabs");
}

TEST(Redactor, WalksValues) {
  Redactor redactor;
  redactor.add("hunter22");
  EXPECT_EQ(redactor.redact_value(Value{{"a", {1, "x hunter22"}}}), (Value{{"a", {1, "x [secret]"}}}));
}

}  // namespace
}  // namespace millwright
