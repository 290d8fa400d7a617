// A real container (busybox, no network of its own but loopback) behind ssh and behind this machine.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "orchestrator/transport/connector.hpp"
#include "orchestrator/transport/curl_http.hpp"
#include "tests/unit/transport/test_sshd.hpp"

namespace millwright {
namespace {

class HopTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const bool can =
        geteuid() == 0 && std::system("command -v lxc-create >/dev/null && command -v busybox >/dev/null") == 0;
    if (!can) return;
    folder = new TestFolder;
    const std::string wanted = "mw-hop-" + std::to_string(getpid());
    const std::string config = folder->write("config", "lxc.net.0.type = empty\n");
    const std::string make = "lxc-create -n " + wanted + " -f " + config +
                             " -t busybox >/dev/null 2>&1 && lxc-start -n " + wanted + " && lxc-wait -n " + wanted +
                             " -s RUNNING -t 20 && lxc-attach -n " + wanted + " -- ip link set lo up </dev/null";
    if (std::system(make.c_str()) == 0) {
      name = wanted;
    } else {
      [[maybe_unused]] const int gone = std::system(("lxc-destroy -f -n " + wanted + " >/dev/null 2>&1").c_str());
    }
  }
  static void TearDownTestSuite() {
    if (!name.empty()) sh("lxc-destroy -f -n " + name + " >/dev/null 2>&1");
    delete folder;
  }
  void SetUp() override {
    if (name.empty()) GTEST_SKIP() << "needs root, lxc and busybox";
    sshd = std::make_unique<TestSshd>();
    auto connected = connector->connect(sshd->target());
    ASSERT_TRUE(connected) << render(connected.error());
    host = std::move(*connected);
    box = std::move(*connector->hop(*host, {"lxc", name}));
  }
  std::string out(const std::string& script, const std::string& input = "") {
    Command command;
    command.script = script;
    command.input = input;
    auto result = box->run(command);
    EXPECT_TRUE(result) << (result ? "" : render(result.error()));
    return result ? result->out : "";
  }

  static inline TestFolder* folder = nullptr;
  static inline std::string name;
  SystemClock clock;
  std::unique_ptr<Connector> connector = make_connector(clock);
  std::unique_ptr<TestSshd> sshd;
  std::unique_ptr<Connection> host, box;
};

TEST_F(HopTest, RunsScriptsInsideUnderBusybox) {
  EXPECT_EQ(box->name(), "lxc " + name + " in " + host->name());
  EXPECT_EQ(out("hostname; id -un"), name + "\nroot\n");
  EXPECT_EQ(out("env | grep -c -e '^container=' -e SSH || true"), "0\n");
  EXPECT_EQ(out("echo $HOME $LC_ALL"), "/root C\n");
  std::string bytes;
  for (int i = 0; i < 600000; ++i) bytes += static_cast<char>(i * 7 + i / 256);
  EXPECT_TRUE(out("cat", bytes) == bytes);
  Command broken;
  broken.script = "if then ('";
  EXPECT_EQ(box->run(broken)->exit_code, 2);
  const auto before = box->stats().round_trips;
  std::vector<Command> commands(20);
  for (Command& command : commands) command.script = "echo x; exit 3";
  const auto results = box->run_batch(commands);
  ASSERT_TRUE(results) << render(results.error());
  EXPECT_EQ((*results)[19].exit_code, 3);
  EXPECT_EQ(box->stats().round_trips, before + 1);
}

TEST_F(HopTest, MovesFilesInAndOut) {
  for (const std::size_t size : {std::size_t{1000}, std::size_t{3000000}}) {
    const std::string content(size, 'h');
    Upload upload;
    upload.path = "/root/file";
    upload.content = content;
    const auto done = box->upload(upload);
    ASSERT_TRUE(done) << render(done.error());
    EXPECT_TRUE(*box->download(upload.path, 4 << 20, Become::no) == content);
    EXPECT_EQ(out("ls -A /root"), "file\n");
  }
}

TEST_F(HopTest, ADeadlineKillsInside) {
  Command command;
  command.script = "sleep 321";
  command.deadline = Milliseconds(500);
  EXPECT_EQ(box->run(command).error().kind, ErrorKind::timeout);
  EXPECT_EQ(out("ps | grep -c '[s]leep 321' || true"), "0\n");
}

TEST_F(HopTest, ReachesAServerOnTheContainersLoopback) {
  out("mkdir -p /srv/web; echo 'from inside' >/srv/web/index.html; httpd -p 127.0.0.1:8099 -h /srv/web");
  auto tunnel = box->open_tunnel("127.0.0.1", 8099);
  ASSERT_TRUE(tunnel) << render(tunnel.error());
  const auto http = make_curl_http_client();
  HttpRequest request;
  request.url = "http://127.0.0.1:" + std::to_string((*tunnel)->local_port()) + "/index.html";
  for (int i = 0; i < 3; ++i) {
    const auto response = http->send(request);
    ASSERT_TRUE(response) << render(response.error());
    EXPECT_EQ(response->body, "from inside\n");
  }
}

TEST_F(HopTest, WorksFromThisMachineToo) {
  Target target;
  target.via = Via::local;
  target.name = "localhost";
  auto here = *connector->connect(target);
  auto inside = *connector->hop(*here, {"lxc", name});
  Command command;
  command.script = "hostname";
  EXPECT_EQ(inside->run(command)->out, name + "\n");
}

TEST_F(HopTest, AContainerThatIsNotThereIsSaid) {
  auto missing = *connector->hop(*host, {"lxc", "mw-no-such-box"});
  Command command;
  command.script = "true";
  const auto result = missing->run(command);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::connect);
  EXPECT_NE(render(result.error()).find("mw-no-such-box"), std::string::npos) << render(result.error());
}

}  // namespace
}  // namespace millwright
