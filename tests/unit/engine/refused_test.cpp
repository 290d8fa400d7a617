// What is wrong with a step before the first one has begun.
#include <gtest/gtest.h>

#include <filesystem>

#include "steps/core/register.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Lines = std::vector<std::string>;

// The second step waits for the first one's outputs; its version is known, and wrong whatever they will be.
std::string wrong_later(const std::string& more, const std::string& version = "nonsense") {
  return "name: x\nhosts: all\nvars: {v: " + version +
         "}\nsteps:\n  - {id: first, uses: release, with: {path: \"{dir}/a\", version: \"1\"}}\n"
         "  - {id: wrong, uses: release, with: {path: \"{{ steps.first.endpoint }}\", version: \"{{ vars.v }}\"}" +
         more + "}\n  - {id: last, uses: note, with: {path: \"{dir}/b\", text: x}}\n";
}

TEST(Refused, WhatIsWrongAlreadyIsSaidBeforeAnythingIsDone) {
  Bench bench;
  int scripts = 0;
  bench.lab.before_script([&](const std::string&, const std::string&) { ++scripts; });
  const auto done = bench.apply(wrong_later(""));
  ASSERT_TRUE(done);
  EXPECT_EQ(done->exit, ExitCode::failed);
  EXPECT_EQ(bench.results(), (Lines{"h1 wrong failed", "h1 first cancelled", "h1 last cancelled"}));
  EXPECT_EQ(scripts, 0) << "no host is asked for it";
  const std::vector<Event> finished = bench.events(EventType::step_finished);
  ASSERT_FALSE(finished.empty());
  EXPECT_EQ(finished[0].data["error"]["message"], "'nonsense' is no version");
  EXPECT_NE(finished[0].data["error"]["where"].get<std::string>().find(":6:"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(bench.dir("h1") + "/a"));
  EXPECT_EQ(done->hosts.at(0).changed, 0);
}

TEST(Refused, WhatMayNotRunOrMayFailIsLeftUntilItsTurn) {
  for (const char* more :
       {", when: \"vars.v == 'other'\"", ", ignore_failure: true", ", when: \"steps.first.changed\""}) {
    Bench bench;
    ASSERT_TRUE(bench.apply(wrong_later(more))) << more;
    EXPECT_TRUE(std::filesystem::exists(bench.dir("h1") + "/a")) << more;
  }
  // A file on this machine may be made by a step before.
  Bench files;
  register_core_steps(files.registry);
  const std::string made = files.folder.path() + "/made.sh";
  EXPECT_TRUE(files.apply("name: x\nhosts: all\nvars: {f: \"" + made +
                          "\"}\nsteps:\n  - {id: first, uses: command, with: {run: \"echo : >" + made +
                          "\"}}\n  - {id: second, uses: script, with: {source: \"{{ vars.f }}\"}}\n"))
      << (files.error ? render(*files.error) : "");
  EXPECT_EQ(files.results(), (Lines{"h1 first changed", "h1 second changed"}));
  Bench items;
  ASSERT_TRUE(items.apply(
      "name: x\nhosts: all\nvars: {v: [one, nonsense]}\nsteps:\n  - {id: first, uses: release, with: {path: "
      "\"{dir}/a\", version: \"1\"}}\n  - {id: wrong, uses: release, foreach: \"{{ vars.v }}\", with: {path: "
      "\"{{ steps.first.endpoint }}\", version: \"{{ item }}\"}}\n"));
  EXPECT_EQ(items.results(), (Lines{"h1 wrong failed", "h1 first cancelled"}));
}

}  // namespace
}  // namespace millwright::testing
