#include "steps/model/model_tree.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/value.hpp"
#include "steps/model/model_scripts.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;

// A safetensors file with one tensor of `bytes` bytes.
std::string safetensors(std::size_t bytes) {
  const Value header = {{"__metadata__", {{"format", "pt"}}},
                        {"w", {{"dtype", "U8"}, {"shape", {bytes}}, {"data_offsets", {0, bytes}}}}};
  const std::string text = header.dump();
  std::string out;
  for (std::size_t i = 0; i < 8; ++i) out += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return out + text + std::string(bytes, 'w');
}

class ModelTreeTest : public ::testing::Test {
 protected:
  ModelTreeTest() {
    shell_.write("m/config.json", R"({"architectures":["Gemma3ForCausalLM"]})");
    shell_.write("m/tokenizer/a b.json", "{}");
    shell_.write("m/model-00001-of-00002.safetensors", safetensors(1000));
    shell_.write("m/model-00002-of-00002.safetensors", safetensors(300));
    shell_.write("m/model.safetensors.index.json",
                 R"({"metadata":{"total_size":1300},"weight_map":{"a":"model-00001-of-00002.safetensors",)"
                 R"("b":"model-00002-of-00002.safetensors"}})");
    shell_.write("m/.cache/huggingface/lock", "no part of it");
    shell_.write("m/.gitattributes", "nor is this");
  }
  ModelSource source() const {
    ModelSource out;
    out.origin = ModelOrigin::on_node;
    out.location = shell_.path("m");
    out.file_name = "m";
    out.name = "m";
    out.revision = "r";
    return out;
  }
  // As on a node, but all below the temporary folder and without the group.
  Answer run(std::string script, const std::string& input = {}) {
    script = replace_all(std::move(script), "/var/lib/millwright", shell_.path("state"));
    script = replace_all(std::move(script), "chown -R root:millwright", ": ");
    shell_.write("input", input);
    return shell_.run("exec <" + shell_quote(shell_.path("input")) + "\n" + script, "-eu");
  }
  ModelTree hashed() const {
    auto tree = list_tree(shell_.path("m/")).value();
    EXPECT_TRUE(hash_tree(tree).has_value());
    return tree;
  }
  Error refused() const {
    const auto whole = check_tree(list_tree(shell_.path("m")).value());
    EXPECT_FALSE(whole.has_value());
    return whole ? Error{} : whole.error();
  }

  testing_tools::RealShell shell_;
};

TEST_F(ModelTreeTest, TheManifestIsTheSameHereAndOnTheNode) {
  const ModelTree tree = hashed();
  ASSERT_EQ(tree.files.size(), 5U);
  EXPECT_EQ(tree.files[0].path, "config.json");
  EXPECT_EQ(tree.files[4].path, "tokenizer/a b.json");
  EXPECT_EQ(tree.folders(), std::vector<std::string>{"tokenizer"});
  EXPECT_TRUE(check_tree(tree).has_value());
  const ModelFound there = read_look(run(verify_in_place_script(source())).out);
  EXPECT_EQ(there.sidecar_sha256, tree.sha256());
  const ModelFound looked = read_look(run(look_script(source())).out);
  EXPECT_TRUE(looked.there && looked.folder);
  EXPECT_EQ(looked.bytes, tree.bytes());
  EXPECT_EQ(looked.stamp, there.sidecar_stamp);
}

TEST_F(ModelTreeTest, TheCommandOfTheReferenceGivesTheSameHash) {
  const std::string command =
      "cd " + shell_quote(shell_.path("m")) +
      "; find -L . -name '.?*' -prune -o -type f -exec sha256sum {} + | sed 's|  ./|  |' | LC_ALL=C sort -k 2 | "
      "sha256sum\n";
  EXPECT_EQ(run(command).out.substr(0, 64), hashed().sha256());
}

TEST_F(ModelTreeTest, AnyTouchedFileMakesAnotherStamp) {
  const std::string before = read_look(run(look_script(source())).out).stamp;
  EXPECT_EQ(read_look(run(look_script(source())).out).stamp, before);
  run("touch -d '2001-01-01' " + shell_quote(shell_.path("m/tokenizer/a b.json")) + "\n");
  EXPECT_NE(read_look(run(look_script(source())).out).stamp, before);
}

TEST_F(ModelTreeTest, ACutShardIsNamedHereAndOnTheNode) {
  EXPECT_TRUE(run(check_in_place_script(source())).ok());
  fs::resize_file(shell_.path("m/model-00002-of-00002.safetensors"), 200);
  const Error here = refused();
  EXPECT_EQ(here.symptom_class, "file_corrupt");
  EXPECT_NE(here.message.find("model-00002-of-00002.safetensors has 200 bytes"), std::string::npos) << here.message;
  const Answer there = run(check_in_place_script(source()));
  EXPECT_EQ(there.exit_code, 5);
  EXPECT_NE(there.err.find("model-00002-of-00002.safetensors has 200 bytes"), std::string::npos) << there.err;
  fs::resize_file(shell_.path("m/model-00002-of-00002.safetensors"), 4);
  EXPECT_NE(refused().message.find("cut short"), std::string::npos);
  EXPECT_EQ(run(check_in_place_script(source())).exit_code, 5);
}

TEST_F(ModelTreeTest, AMissingShardIsNamedHereAndOnTheNode) {
  fs::remove(shell_.path("m/model-00002-of-00002.safetensors"));
  EXPECT_EQ(refused().symptom_class, "file_missing");
  EXPECT_NE(refused().message.find("lacks model-00002-of-00002.safetensors"), std::string::npos);
  const Answer there = run(check_in_place_script(source()));
  EXPECT_EQ(there.exit_code, 4);
  EXPECT_NE(there.err.find("lacks model-00002-of-00002.safetensors"), std::string::npos) << there.err;
}

TEST_F(ModelTreeTest, WhatIsNoModelIsRefused) {
  shell_.write("m/model-00001-of-00002.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n");
  EXPECT_NE(refused().hint.find("git lfs pull"), std::string::npos);
  EXPECT_EQ(run(check_in_place_script(source())).exit_code, 5);
  fs::remove(shell_.path("m/config.json"));
  EXPECT_NE(refused().message.find("no config.json"), std::string::npos);
  EXPECT_EQ(run(check_in_place_script(source())).exit_code, 4);
  shell_.write("m/a\\b", "");
  EXPECT_FALSE(list_tree(shell_.path("m")).has_value());
  fs::remove(shell_.path("m/a\\b"));
  fs::create_directory_symlink(shell_.path("m"), shell_.path("m/loop"));
  EXPECT_NE(list_tree(shell_.path("m")).error().hint.find("link"), std::string::npos);
}

TEST_F(ModelTreeTest, AFolderGetsItsNameOnlyWhenItIsWhole) {
  ModelSource sent = source();
  sent.origin = ModelOrigin::here;
  sent.tree = hashed();
  const std::string place = shell_.path("state/models/m/r");
  fs::create_directories(place);
  // As it is when the last file has not arrived, and a killed upload left something.
  fs::copy(shell_.path("m"), place + "/m.part", fs::copy_options::recursive);
  fs::remove(place + "/m.part/config.json");
  shell_.write("state/models/m/r/m.part/.millwright-0123", "half");
  Answer done = run(finish_tree_script(sent), sent.tree.manifest());
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("SHA-256 than there: config.json"), std::string::npos) << done.err;
  EXPECT_FALSE(fs::exists(place + "/m"));
  const std::string arrived = run(arrived_script(sent)).out;
  EXPECT_NE(arrived.find("2 tokenizer/a b.json\n"), std::string::npos) << arrived;
  EXPECT_EQ(arrived.find(" config.json"), std::string::npos) << "what is missing has not arrived: " << arrived;
  // A wrong one is removed, so that it is sent again.
  shell_.write("state/models/m/r/m.part/config.json", "{}");
  EXPECT_FALSE(run(finish_tree_script(sent), sent.tree.manifest()).ok());
  EXPECT_FALSE(fs::exists(place + "/m.part/config.json"));
  fs::copy(shell_.path("m/config.json"), place + "/m.part/config.json");
  done = run(finish_tree_script(sent), sent.tree.manifest());
  ASSERT_TRUE(done.ok()) << done.err;
  EXPECT_FALSE(fs::exists(place + "/m.part"));
  EXPECT_FALSE(fs::exists(place + "/m/.cache"));
  const ModelFound looked = read_look(run(look_script(sent)).out);
  EXPECT_EQ(looked.sidecar_sha256, sent.tree.sha256());
  EXPECT_EQ(looked.stamp, looked.sidecar_stamp) << "an unchanged folder is not read again";
}

TEST_F(ModelTreeTest, WhatWasHashedInPlaceIsRemembered) {
  const std::string line(trim(run(verify_in_place_script(source())).out));
  const Action remember = remember_action(source(), line);
  ASSERT_TRUE(run(remember.script).ok());
  const ModelFound looked = read_look(run(look_script(source())).out);
  EXPECT_EQ(looked.stamp, looked.sidecar_stamp);
  EXPECT_EQ(looked.sidecar_sha256, hashed().sha256());
  ASSERT_TRUE(run(remember.undo).ok());
  EXPECT_FALSE(fs::exists(shell_.path("state/models")));
}

}  // namespace
}  // namespace millwright
