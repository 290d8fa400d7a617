// Round trips as the transport counts them, over a real sshd and with the real core steps.
#include <gtest/gtest.h>

#include <filesystem>

#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/transport/connector.hpp"
#include "steps/core/register.hpp"
#include "steps/server/register.hpp"
#include "tests/support/passing_connection.hpp"
#include "tests/unit/engine/harness.hpp"
#include "tests/unit/transport/test_sshd.hpp"

namespace millwright::testing {
namespace {

// Keeps what was counted when the connection goes away.
class CountedConnection final : public PassingConnection {
 public:
  CountedConnection(std::unique_ptr<Connection> inner, TransportStats& kept)
      : PassingConnection(std::move(inner)), kept_(kept) {}
  ~CountedConnection() override { kept_ = inner().stats(); }

 private:
  TransportStats& kept_;
};

class CountingConnector final : public Connector {
 public:
  explicit CountingConnector(Clock& clock) : real_(make_connector(clock)) {}
  Result<std::unique_ptr<Connection>> connect(const Target& target) override {
    Result<std::unique_ptr<Connection>> inner = real_->connect(target);
    if (!inner) return inner;
    return std::make_unique<CountedConnection>(std::move(*inner), stats);
  }
  Result<std::unique_ptr<Connection>> hop(Connection& host, const ContainerTarget& target) override {
    return real_->hop(host, target);
  }
  TransportStats stats;  // of the last connection that has gone

 private:
  const std::unique_ptr<Connector> real_;
};

class RoundTrips : public ::testing::Test {
 protected:
  RoundTrips() {
    register_core_steps(registry_);
    std::filesystem::create_directories(here());
  }
  std::string here() const { return folder_.path() + "/node"; }

  // What the transport counted after login.
  std::uint64_t apply(const std::string& steps, ExitCode exit = ExitCode::done) {
    const std::string text = "name: x\nhosts: all\nsteps:\n" + steps;
    auto book = parse_playbook(text, "test.yml", registry_);
    if (!book) ADD_FAILURE() << render(book.error().front());
    PlayHost host;
    host.target = sshd_.target();
    host.target.name = "h1";
    RunOptions options;
    options.node_state_dir = folder_.path() + "/state";
    EngineServices services;
    services.connector = &connector_;
    services.journal = &journal_;
    services.sink = &sink_;
    services.clock = &clock_;
    services.http = &http_;
    services.registry = &registry_;
    const Result<RunSummary> done = Engine(services, interrupt_).run(*book, text, Value::object(), {host}, options);
    if (!done) ADD_FAILURE() << render(done.error());
    EXPECT_EQ(done->exit, exit) << done->sentence;
    sentence_ = done->sentence;
    last_ = done->hosts.at(0);
    return connector_.stats.round_trips;
  }

  std::string file(int i) const {
    return "  - {uses: file, with: {path: \"" + here() + "/f" + std::to_string(i) + "\", content: \"text " +
           std::to_string(i) + "\\n\", mode: \"0640\"}}\n";
  }
  std::string folder(const std::string& name) const {
    return "  - {uses: file, with: {path: \"" + here() + "/" + name + "\", state: directory, mode: \"0750\"}}\n";
  }
  std::string command(int i) const {
    return "  - {uses: command, with: {run: \"echo " + std::to_string(i) + " >>" + here() + "/log\"}}\n";
  }
  std::string guarded(int i) const {
    const std::string path = here() + "/made" + std::to_string(i);
    return "  - {uses: command, with: {run: \"mkdir " + path + "\", creates: " + path + "}}\n";
  }

  TestSshd sshd_;
  TemporaryFolder folder_;
  SystemClock clock_;
  CountingConnector connector_{clock_};
  MemoryJournal journal_;
  EventList sink_;
  NoHttp http_;
  StepRegistry registry_;
  InterruptLevel interrupt_{0};
  HostSummary last_;
  std::string sentence_;
};

// Opening a shell counts as one.
constexpr std::uint64_t opening = 1;

TEST_F(RoundTrips, AFreshRunOfThirtyStepsTakesAtMostSixAndAConvergedOneAsksOnce) {
  std::string steps;
  for (int i = 0; i < 10; ++i) steps += file(i) + guarded(i) + folder("d" + std::to_string(i));
  const std::uint64_t fresh = apply(steps);
  EXPECT_EQ(last_.changed, 30);
  EXPECT_EQ(fresh, opening + 3) << "questions, actions, the lock";
  EXPECT_LE(fresh, 6u);
  EXPECT_EQ(apply(steps), opening + 1);
  EXPECT_EQ(last_.ok, 30);
}

TEST_F(RoundTrips, ThirtyPlainCommandsAreOneBatch) {
  std::string steps;
  for (int i = 0; i < 30; ++i) steps += command(i);
  EXPECT_LE(apply(steps), opening + 3);
  EXPECT_EQ(last_.changed, 30);
  std::string wanted;
  for (int i = 0; i < 30; ++i) wanted += std::to_string(i) + "\n";
  EXPECT_EQ(read_file(here() + "/log"), wanted);
}

TEST_F(RoundTrips, AHundredFilesArePlacedInOneAndAskedForInOne) {
  std::string steps;
  for (int i = 0; i < 100; ++i) steps += file(i);
  EXPECT_EQ(apply(steps), opening + 3);
  EXPECT_EQ(last_.changed, 100);
  EXPECT_EQ(read_file(here() + "/f99"), "text 99\n");
  EXPECT_EQ(apply(steps), opening + 1);
  EXPECT_EQ(last_.ok, 100);
}

TEST_F(RoundTrips, WhatAnEarlierStepMakesPossibleCostsOneMore) {
  std::string steps = folder("deep/er");
  for (int i = 0; i < 10; ++i) {
    steps += "  - {uses: file, with: {path: \"" + here() + "/deep/er/f" + std::to_string(i) + "\", content: x}}\n";
  }
  // Until the folder is there, the files under it cannot be planned; all of them are sent together then.
  EXPECT_LE(apply(steps), opening + 4);
  EXPECT_EQ(last_.changed, 11);
}

// All that a server step asks before it decides, of every engine, is one. This machine has no such model, which is
// known after that one; what a second run asks besides is one HTTP request (steps_server:
// ASecondRunIsOneBatchAndOneRequest).
TEST_F(RoundTrips, WhatAServerStepAsksIsOne) {
  const auto knowledge = load_knowledge({std::string(SOURCE_DIR) + "/playbooks/knowledge"});
  ASSERT_TRUE(knowledge) << render(knowledge.error().front());
  register_server_steps(registry_, *knowledge);
  for (const char* engine : {"llama.cpp", "sglang", "vllm"}) {
    const std::string step = "  - {uses: server, with: {name: nobodys, engine: " + std::string(engine) + ", model: \"" +
                             here() + "/none\", device: cpu}}\n";
    EXPECT_EQ(apply(step, ExitCode::failed), opening + 1) << engine;
    EXPECT_NE(sentence_.find("there is no model"), std::string::npos) << sentence_;
    EXPECT_EQ(last_.changed, 0);
  }
}

}  // namespace
}  // namespace millwright::testing
