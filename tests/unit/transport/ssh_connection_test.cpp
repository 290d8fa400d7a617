// Against a real sshd on loopback.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "orchestrator/transport/connector.hpp"
#include "tests/unit/transport/test_sshd.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

class SshConnection : public testing::Test {
 protected:
  std::unique_ptr<Connection> connect(const Target& target) {
    auto connection = connector->connect(target);
    EXPECT_TRUE(connection) << (connection ? "" : render(connection.error()));
    return connection ? std::move(*connection) : nullptr;
  }
  static Command script(const std::string& text) {
    Command command;
    command.script = text;
    return command;
  }
  static std::string out(Connection& connection, const std::string& text) {
    auto result = connection.run(script(text));
    EXPECT_TRUE(result) << (result ? "" : render(result.error()));
    return result ? result->out : "";
  }

  SystemClock clock;
  std::unique_ptr<Connector> connector = make_connector(clock);
  TestSshd sshd;
};

TEST_F(SshConnection, RunsScriptsAndBatches) {
  auto connection = connect(sshd.target());
  ASSERT_TRUE(connection);
  EXPECT_EQ(connection->name(), TestSshd::user() + "@127.0.0.1:" + std::to_string(sshd.port()));
  EXPECT_EQ(out(*connection, "printf '%s' \"$0\"; printf e >&2"), "/bin/sh");
  const auto before = connection->stats().round_trips;
  std::vector<Command> commands;
  for (int i = 0; i < 30; ++i) commands.push_back(script("echo " + std::to_string(i)));
  const auto results = connection->run_batch(commands);
  ASSERT_TRUE(results);
  EXPECT_EQ((*results)[29].out, "29\n");
  EXPECT_EQ(connection->stats().round_trips, before + 1);
}

TEST_F(SshConnection, CarriesManyBytesBothWays) {
  auto connection = connect(sshd.target());
  ASSERT_TRUE(connection);
  std::string bytes;
  for (int i = 0; i < 3000000; ++i) bytes += static_cast<char>(i * 7 + i / 256);
  Command command = script("tee /dev/stderr");
  command.input = bytes;
  const auto result = connection->run(command);
  ASSERT_TRUE(result) << render(result.error());
  EXPECT_TRUE(result->out == bytes);
  EXPECT_TRUE(result->err == bytes);
}

TEST_F(SshConnection, UploadsAndDownloads) {
  auto connection = connect(sshd.target());
  ASSERT_TRUE(connection);
  const std::string content(20 << 20, 'm');
  Upload upload;
  upload.path = sshd.folder().path("big");
  upload.content = content;
  const auto done = connection->upload(upload);
  ASSERT_TRUE(done) << render(done.error());
  EXPECT_TRUE(*connection->download(upload.path, 32 << 20, Become::no) == content);
  upload.path = "/proc/nothing/here";
  EXPECT_EQ(connection->upload(upload).error().kind, ErrorKind::transfer);
}

TEST_F(SshConnection, ADeadlineKillsThereAndTheConnectionStays) {
  auto connection = connect(sshd.target());
  ASSERT_TRUE(connection);
  const std::string pid_file = sshd.folder().path("pid");
  Command command = script("echo $$ >" + pid_file + "; sleep 300");
  // On a busy machine a short deadline may pass before the script has begun: then a longer one is tried.
  for (command.deadline = Milliseconds(300); !fs::exists(pid_file); command.deadline *= 3) {
    ASSERT_LT(command.deadline, std::chrono::minutes(1)) << "the script never begins";
    const auto begin = steady_clock::now();
    const auto result = connection->run(command);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::timeout);
    EXPECT_LT(steady_clock::now() - begin, command.deadline + std::chrono::seconds(30));
  }
  // A killed process is there until it is scheduled once more; a living one would stay for 300 seconds.
  EXPECT_EQ(out(*connection, "read pid <" + pid_file +
                                 "; n=0; while grep State /proc/$pid/status 2>/dev/null | grep -vq Z; do"
                                 " n=$((n + 1)); [ $n -lt 600 ] || { echo alive; break; }; sleep 0.05; done"),
            "");
  EXPECT_EQ(out(*connection, "echo on"), "on\n");
}

TEST_F(SshConnection, ALostSessionIsAnErrorSoonAndReconnectHeals) {
  auto connection = connect(sshd.target());
  ASSERT_TRUE(connection);
  Command command = script("echo up; sleep 300");
  command.deadline = std::chrono::minutes(5);
  std::atomic<bool> up = false;
  command.live = [&](OutputStream, std::string_view) {
    up = true;
    up.notify_one();
  };
  steady_clock::time_point killed;
  std::thread killer([&] {
    up.wait(false);
    killed = steady_clock::now();
    sshd.kill_sessions();
  });
  const auto result = connection->run(command);
  const auto end = steady_clock::now();
  up = true;  // should the script have failed before it said so
  up.notify_one();
  killer.join();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::connect);
  EXPECT_LT(end - killed, std::chrono::seconds(30));  // far below the deadline
  // The shell's end may arrive before the session's.
  while (connection->alive() && steady_clock::now() - end < std::chrono::seconds(30)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_FALSE(connection->alive());
  EXPECT_EQ(connection->run(script("true")).error().kind, ErrorKind::connect);
  ASSERT_TRUE(connection->reconnect(std::chrono::seconds(60)));
  EXPECT_TRUE(connection->alive());
  EXPECT_EQ(out(*connection, "echo back"), "back\n");
}

TEST_F(SshConnection, ReconnectFailsAtItsDeadlineWhileTheHostIsDown) {
  auto connection = connect(sshd.target());
  ASSERT_TRUE(connection);
  sshd.stop();
  const auto done = connection->reconnect(std::chrono::seconds(2));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::connect);
  sshd.start();
  EXPECT_TRUE(connection->reconnect(std::chrono::seconds(10)));
  EXPECT_EQ(out(*connection, "echo back"), "back\n");
}

TEST_F(SshConnection, ReconnectWaitsForAServerThatRestarts) {
  auto connection = connect(sshd.target());
  ASSERT_TRUE(connection);
  sshd.stop();
  std::thread restart([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));  // for so long the port refuses
    sshd.start();
  });
  const auto done = connection->reconnect(std::chrono::seconds(20));
  restart.join();
  ASSERT_TRUE(done) << render(done.error());
  EXPECT_EQ(out(*connection, "echo back"), "back\n");
}

TEST_F(SshConnection, ServesThreadsAndTunnelsSideBySide) {
  auto connection = connect(sshd.target());
  ASSERT_TRUE(connection);
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 12; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string text = std::to_string(t * 100 + i);
        const auto result = connection->run(script("echo " + text));
        if (result && result->out == text + "\n") ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 120);
}

TEST_F(SshConnection, InterruptEndsACall) {
  auto connection = connect(sshd.target());
  ASSERT_TRUE(connection);
  std::atomic<bool> up = false;
  Command command = script("echo up; sleep 300");
  command.live = [&](OutputStream, std::string_view) { up = true; };
  std::thread other([&] {
    while (!up) std::this_thread::yield();
    connection->interrupt();
  });
  const auto result = connection->run(command);
  other.join();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::interrupted);
  EXPECT_EQ(out(*connection, "echo on"), "on\n");
}

TEST_F(SshConnection, FewSessionsAreMadeDoWith) {
  TestSshd narrow({"MaxSessions 2"});
  auto connection = connect(narrow.target());
  ASSERT_TRUE(connection);
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      const auto result = connection->run(script("sleep 0.1; echo ok"));
      if (result && result->out == "ok\n") ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 6);
}

}  // namespace
}  // namespace millwright
