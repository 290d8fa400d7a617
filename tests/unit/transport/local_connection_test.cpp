// A real /bin/sh of this machine behind the same code that ssh uses.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/transport/connector.hpp"

namespace millwright {
namespace {

using std::chrono::steady_clock;

std::string all_bytes() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  return bytes;
}

class LocalConnection : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/mw-local-XXXXXX";
    folder = mkdtemp(name);
    Target target;
    target.name = "here";
    target.via = Via::local;
    connection = *connector->connect(target);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  CommandResult run(const std::string& script, const std::string& input = "") {
    Command command;
    command.script = script;
    command.input = input;
    auto result = connection->run(command);
    EXPECT_TRUE(result) << (result ? "" : render(result.error()));
    return result ? *result : CommandResult{};
  }
  std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::size_t files() {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }

  SystemClock clock;
  std::unique_ptr<Connector> connector = make_connector(clock);
  std::unique_ptr<Connection> connection;
  std::string folder;
};

TEST_F(LocalConnection, TellsOutputErrorsAndStatusApart) {
  const CommandResult result = run("printf out; printf err >&2; exit 7");
  EXPECT_EQ(result.out, "out");
  EXPECT_EQ(result.err, "err");
  EXPECT_EQ(result.exit_code, 7);
}

TEST_F(LocalConnection, NoScriptCanBreakTheLane) {
  EXPECT_EQ(run("if then (").exit_code, 2);
  EXPECT_EQ(run("echo 'open quote").exit_code, 2);
  EXPECT_EQ(run(")").exit_code, 2);
  EXPECT_EQ(run("exit 3").exit_code, 3);
  EXPECT_EQ(run("exec false").exit_code, 1);
  EXPECT_EQ(run("set -e; false; echo no").out, "");
  EXPECT_EQ(run("cat <<'END'\nit's $HOME `x`\nEND").out, "it's $HOME `x`\n");
  EXPECT_EQ(run("cat <<END\nnever closed").out, "never closed");
  EXPECT_EQ(run("kill -9 $(sh -c 'echo $PPID')").exit_code, 137);
  EXPECT_EQ(run("exec >&- 2>&-; exit 4").exit_code, 4);
  EXPECT_EQ(run("").exit_code, 0);
  EXPECT_EQ(run("# only a comment").exit_code, 0);
  EXPECT_EQ(run("-n").exit_code, 127);
  EXPECT_EQ(run("echo fine").out, "fine\n");
}

TEST_F(LocalConnection, NothingLeaksFromOneScriptIntoTheNext) {
  run("leak=1; export leak; cd /; umask 0; trap 'echo trapped' EXIT; alias ls=false; f() { echo f; }");
  EXPECT_EQ(run("echo \"[$leak]$(umask)\"; command -v f").out, "[]0022\n");
  setenv("MILLWRIGHT_TEST_LEAK", "1", 1);
  const std::string env = run("env | sort").out;
  EXPECT_EQ(env.find("MILLWRIGHT"), std::string::npos) << env;
  EXPECT_NE(env.find("LC_ALL=C\n"), std::string::npos);
  EXPECT_NE(env.find("PATH=/usr/local/sbin:"), std::string::npos);
}

TEST_F(LocalConnection, SetsTheEnvironmentOfOneCommand) {
  Command command;
  command.script = "printf '%s' \"$A\"";
  command.env["A"] = "it's \"so\"\n$(x)";
  EXPECT_EQ(connection->run(command)->out, "it's \"so\"\n$(x)");
  EXPECT_EQ(run("printf '%s' \"$A\"").out, "");
}

TEST_F(LocalConnection, CarriesAnyBytesBothWays) {
  std::mt19937 random(3);
  std::string bytes = all_bytes() + "-%s\\n" + all_bytes();
  EXPECT_EQ(run("cat", bytes).out, bytes);
  for (std::size_t i = 0; i < 1500000; ++i) bytes += static_cast<char>(random());
  const CommandResult result = run("tee /dev/stderr", bytes);
  EXPECT_TRUE(result.out == bytes);
  EXPECT_TRUE(result.err == bytes);
}

TEST_F(LocalConnection, StandardInputIsEmptyUnlessGiven) {
  EXPECT_EQ(run("cat; echo done").out, "done\n");
  EXPECT_EQ(run("read a; read b; printf '%s' \"$b$a\"; cat", "1\n2\n3").out, "213");
  EXPECT_EQ(run("exit 5", std::string(300000, 'x')).exit_code, 5);
}

TEST_F(LocalConnection, RunsAScriptOfSeveralMebibytes) {
  std::string script = "x='" + std::string(3 << 20, 'a') + "'; echo ${#x}";
  EXPECT_EQ(run(script).out, std::to_string(3 << 20) + "\n");
}

TEST_F(LocalConnection, ABatchIsOneRoundTripInOrder) {
  run("true");
  const TransportStats before = connection->stats();
  std::vector<Command> commands(200);
  for (std::size_t i = 0; i < commands.size(); ++i)
    commands[i].script = "echo " + std::to_string(i) + "; exit " + std::to_string(i % 100);
  const auto results = connection->run_batch(commands);
  ASSERT_TRUE(results);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    EXPECT_EQ((*results)[i].out, std::to_string(i) + "\n");
    EXPECT_EQ((*results)[i].exit_code, static_cast<int>(i % 100));
  }
  EXPECT_EQ(connection->stats().round_trips, before.round_trips + 1);
  EXPECT_EQ(connection->stats().commands, before.commands + 200);
}

TEST_F(LocalConnection, SaysOfEachCommandOfABatchWhenItHasEnded) {
  const std::string gate = folder + "/gate";
  std::vector<std::string> ended;
  std::vector<Command> batch(3);
  batch[0].script = "echo one; exit 4";
  // Ends only because the end of the first is told while the second still runs.
  batch[1].script = "i=0; until [ -e " + gate + " ]; do i=$((i + 1)); [ $i -lt 300 ] || exit 1; sleep 0.1; done";
  batch[2].script = "echo three; kill -9 $$";
  for (Command& command : batch) {
    command.done = [&](const CommandResult& result) {
      ended.push_back(result.out + std::to_string(result.exit_code));
      std::ofstream(gate) << "";
    };
  }
  EXPECT_FALSE(connection->run_batch(batch)) << "the last one kills its shell";
  EXPECT_EQ(ended, (std::vector<std::string>{"one\n4", "0"}));
}

TEST_F(LocalConnection, KeepsWhatOnePrintsForTheOthersOfItsBatchOnly) {
  std::vector<Command> batch(4);
  batch[0].script = "echo \"it's\"; echo said >&2; echo two; exit 3";
  batch[0].keep_as = "kept";
  batch[1].script = "printf '%s' \"${kept-none}\"; exit 5";
  batch[2].script = "kept=mine";
  batch[3].script = "printf '%s' \"$kept\"; /bin/sh -c 'printf %s \"${kept-unset}\"'";
  const auto results = connection->run_batch(batch);
  ASSERT_TRUE(results);
  EXPECT_EQ((*results)[0].out, "");
  EXPECT_EQ((*results)[0].err, "said\n");
  EXPECT_EQ((*results)[0].exit_code, 3);
  EXPECT_EQ((*results)[1].out, "it's\ntwo");
  EXPECT_EQ((*results)[1].exit_code, 5);
  EXPECT_EQ((*results)[3].out, "it's\ntwounset");
  EXPECT_EQ(run("printf '%s' \"${kept-none}\"").out, "none");
}

TEST_F(LocalConnection, KillsWhatIsToBeKeptWhenItsTimeIsOver) {
  const std::string pid_file = folder + "/pid";
  std::vector<Command> batch(2);
  batch[0].script = "sleep 600 & echo $! >" + pid_file + "; wait";
  batch[0].keep_as = "kept";
  batch[0].deadline = Milliseconds(300);
  batch[1].script = "true";
  const auto results = connection->run_batch(batch);
  ASSERT_FALSE(results);
  EXPECT_EQ(results.error().kind, ErrorKind::timeout);
  std::string pid;
  std::ifstream(pid_file) >> pid;
  // Whoever inherits it may take a moment to let a killed process go.
  const std::string gone =
      "n=0\nwhile kill -0 " + pid + "; do n=$((n + 1)); [ $n -lt 200 ] || exit 1; sleep 0.05; done";
  EXPECT_EQ(run(gone).exit_code, 0) << "it still runs";
  EXPECT_EQ(run("echo after").out, "after\n");
}

TEST_F(LocalConnection, KeepsUnderAVariablesNameOnly) {
  Command command;
  command.script = "true";
  command.keep_as = "a b";
  EXPECT_EQ(connection->run(command).error().kind, ErrorKind::usage);
}

TEST_F(LocalConnection, AnEmptyBatchIsEmpty) { EXPECT_EQ(connection->run_batch({})->size(), 0u); }

TEST_F(LocalConnection, CutsOutputAtTheLimitAndSaysSo) {
  Command command;
  command.script = "head -c 100000 /dev/zero; echo end >&2";
  command.max_output = 1000;
  const auto result = connection->run(command);
  EXPECT_EQ(result->out.size(), 1000u);
  EXPECT_EQ(result->err, "end\n");
  EXPECT_TRUE(result->truncated);
  EXPECT_FALSE(run("echo x").truncated);
}

TEST_F(LocalConnection, ShowsOutputWhileTheScriptRuns) {
  const std::string gate = folder + "/gate";
  Command command;
  command.script = "echo one; while [ ! -e " + gate + " ]; do sleep 0.02; done; echo two >&2";
  std::string seen;
  command.live = [&](OutputStream stream, std::string_view text) {
    seen += stream == OutputStream::out ? "out:" : "err:";
    seen += text;
    if (seen == "out:one\n") std::ofstream(gate) << "go";
  };
  EXPECT_TRUE(connection->run(command));
  EXPECT_EQ(seen, "out:one\nerr:two\n");
}

TEST_F(LocalConnection, ADeadlineKillsTheScriptAndWhatItStarted) {
  const std::string pids = folder + "/pids";
  Command command;
  command.script = "echo started; (sleep 97 & echo $! >>" + pids + "); sleep 98 & echo $! >>" + pids +
                   "; sh -c 'sleep 99; true' & echo $! >>" + pids + "; wait";
  command.deadline = Milliseconds(300);
  const auto begin = steady_clock::now();
  const auto result = connection->run(command);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::timeout);
  EXPECT_NE(result.error().detail.find("started"), std::string::npos);
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(3));
  std::istringstream lines(read(pids));
  int count = 0;
  for (std::string pid; std::getline(lines, pid); ++count) {
    // Gone, or dead and waiting for its parent to notice.
    EXPECT_EQ(run("[ ! -e /proc/" + pid + " ] || grep -q '^State:.Z' /proc/" + pid + "/status").exit_code, 0) << pid;
  }
  EXPECT_EQ(count, 3);
  EXPECT_EQ(run("echo again").out, "again\n");
}

TEST_F(LocalConnection, ADeadlineSparesWhatEarlierScriptsLeftRunning) {
  const std::string pid = run("sleep 60 >/dev/null 2>&1 & echo $!").out;
  run("sleep 0.05");  // process start times have a grain of 10 ms
  Command command;
  command.script = "sleep 50";
  command.deadline = Milliseconds(100);
  EXPECT_FALSE(connection->run(command));
  EXPECT_EQ(run("kill " + pid).exit_code, 0);
}

TEST_F(LocalConnection, ATimeoutInABatchStopsTheRest) {
  std::vector<Command> commands(3);
  commands[0].script = "true";
  commands[1].script = "sleep 30";
  commands[1].deadline = Milliseconds(200);
  commands[2].script = "touch " + folder + "/never";
  const auto results = connection->run_batch(commands);
  ASSERT_FALSE(results);
  EXPECT_NE(results.error().message.find("number 2 of 3"), std::string::npos) << results.error().message;
  run("sleep 0.1");
  EXPECT_FALSE(std::filesystem::exists(folder + "/never"));
}

TEST_F(LocalConnection, InterruptEndsACallFromAnotherThread) {
  std::atomic<bool> running = false;
  Command command;
  command.script = "echo up; sleep 60";
  command.live = [&](OutputStream, std::string_view) { running = true; };
  std::thread other([&] {
    while (!running) std::this_thread::yield();
    connection->interrupt();
  });
  const auto begin = steady_clock::now();
  const auto result = connection->run(command);
  other.join();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::interrupted);
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(3));
  EXPECT_EQ(run("echo on").out, "on\n");
}

TEST_F(LocalConnection, ServesManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 12; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        Command command;
        command.script = "echo " + std::to_string(t * 100 + i);
        const auto result = connection->run(command);
        if (result && result->out == std::to_string(t * 100 + i) + "\n") ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 120);
}

TEST_F(LocalConnection, AShellThatWasKilledWhileIdleIsReplacedUnseen) {
  const std::string shell = run("echo $$").out;
  ASSERT_EQ(kill(std::stoi(shell), SIGKILL), 0);
  EXPECT_EQ(run("echo here").out, "here\n");
}

TEST_F(LocalConnection, AScriptThatKillsItsShellIsAnErrorAndNotRunTwice) {
  Command command;
  command.script = "echo x >>" + folder + "/log; kill -9 $$";
  const auto result = connection->run(command);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::connect);
  EXPECT_EQ(read(folder + "/log"), "x\n");
  EXPECT_EQ(run("echo on").out, "on\n");
}

TEST_F(LocalConnection, PutsAFileInPlaceWithItsMode) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{5000}, std::size_t{3000000}}) {
    std::string content;
    std::mt19937 random(static_cast<unsigned>(size));
    for (std::size_t i = 0; i < size; ++i) content += static_cast<char>(random());
    Upload upload;
    upload.path = folder + "/it's a file";
    upload.content = content;
    upload.mode = "0640";
    std::uint64_t last = 0;
    upload.progress = [&](std::uint64_t done, std::uint64_t) { last = done; };
    const auto done = connection->upload(upload);
    ASSERT_TRUE(done) << render(done.error());
    EXPECT_TRUE(read(upload.path) == content) << size;
    EXPECT_EQ(last, size);
    struct stat status {};
    stat(upload.path.c_str(), &status);
    EXPECT_EQ(status.st_mode & 07777, 0640u);
    EXPECT_EQ(files(), 1u);
    EXPECT_TRUE(*connection->download(upload.path, 4 << 20, Become::no) == content);
  }
}

TEST_F(LocalConnection, StreamsALocalFile) {
  const std::string from = folder + "/from";
  std::ofstream(from) << std::string(700000, 'q');
  Upload upload;
  upload.path = folder + "/to";
  upload.local_path = from;
  ASSERT_TRUE(connection->upload(upload));
  EXPECT_EQ(read(folder + "/to"), std::string(700000, 'q'));
}

// Beyond what the node hashes afterwards.
TEST_F(LocalConnection, HashesALargeFileAsItArrives) {
  Upload upload;
  upload.local_path = folder + "/from";
  upload.path = folder + "/to";
  std::ofstream(upload.local_path) << "begins";
  std::filesystem::resize_file(upload.local_path, (256u << 20) + 1);
  const auto done = connection->upload(upload);
  ASSERT_TRUE(done) << render(done.error());
  EXPECT_EQ(run("cd " + folder + " && cmp from to && ls").out, "from\nto\n");
  if (geteuid() != 0) GTEST_SKIP() << "needs root for a small file system";
  const std::string disk = folder + "/disk";
  std::filesystem::create_directory(disk);
  ASSERT_EQ(run("mount -t tmpfs -o size=1m,mode=700 none " + disk).exit_code, 0);
  upload.path = disk + "/to";
  const auto full = connection->upload(upload);
  ASSERT_FALSE(full);
  EXPECT_NE(full.error().message.find("disk is full"), std::string::npos) << render(full.error());
  EXPECT_EQ(run("ls -A " + disk + "; umount " + disk).out, "");
}

TEST_F(LocalConnection, AFileThatCannotBeWrittenSaysWhyAndLeavesNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root for a small file system";
  const std::string disk = folder + "/disk";
  std::filesystem::create_directory(disk);
  ASSERT_EQ(run("mount -t tmpfs -o size=1m,mode=700 none " + disk).exit_code, 0);
  for (const std::size_t size : {std::size_t{200000}, std::size_t{8000000}}) {
    const std::string filler(size < 1000000 ? 900000 : 1, 'f');
    std::ofstream(disk + "/filler") << filler;
    const std::string content(size, 'c');
    Upload upload;
    upload.path = disk + "/file";
    upload.content = content;
    const auto done = connection->upload(upload);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::transfer);
    EXPECT_NE(done.error().message.find("disk is full"), std::string::npos) << render(done.error());
    EXPECT_EQ(run("ls -A " + disk).out, "filler\n");
    Upload again = upload;
    again.path = folder + "/missing/file";
    EXPECT_NE(connection->upload(again).error().message.find("is not there"), std::string::npos);
    again.path = disk;
    EXPECT_NE(connection->upload(again).error().message.find("is a folder"), std::string::npos);
  }
  run("mount -o remount,ro " + disk);
  Upload upload;
  upload.path = disk + "/file";
  upload.content = "x";
  EXPECT_NE(connection->upload(upload).error().message.find("read-only"), std::string::npos);
  EXPECT_EQ(run("umount " + disk).exit_code, 0);
}

TEST_F(LocalConnection, DownloadsUpToALimit) {
  std::ofstream(folder + "/f") << "12345";
  EXPECT_EQ(*connection->download(folder + "/f", 5, Become::no), "12345");
  EXPECT_EQ(connection->download(folder + "/f", 4, Become::no).error().kind, ErrorKind::transfer);
  EXPECT_NE(connection->download(folder + "/none", 4, Become::no).error().message.find("no such file"),
            std::string::npos);
}

TEST_F(LocalConnection, ReconnectGivesFreshShells) {
  const std::string before = run("echo $$").out;
  ASSERT_TRUE(connection->reconnect(std::chrono::seconds(5)));
  EXPECT_NE(run("echo $$").out, before);
}

}  // namespace
}  // namespace millwright
