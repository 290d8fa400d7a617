// sudo, with a user made for the test. Needs root, and MILLWRIGHT_TEST_USERS=1 because it adds and removes a user and a
// file in /etc/sudoers.d of this machine.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "orchestrator/transport/connector.hpp"
#include "orchestrator/transport/launch.hpp"
#include "tests/unit/transport/test_sshd.hpp"

namespace millwright {
namespace {

class BecomeTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0 || std::getenv("MILLWRIGHT_TEST_USERS") == nullptr)
      GTEST_SKIP() << "MILLWRIGHT_TEST_USERS is not set";
    user = "mwtest" + std::to_string(getpid());
    password = "Secret-" + std::to_string(getpid()) + "-x";  // looked for in the command lines of the whole machine
    sh("useradd -m -s /bin/sh " + user + "; echo " + user + ":" + password + " | chpasswd");
    sshd = std::make_unique<TestSshd>(std::vector<std::string>{"PasswordAuthentication yes"});
    sh("chmod 755 " + sshd->folder().path("") + "; chmod 644 " + sshd->folder().path("authorized_keys"));
    target = sshd->target();
    target.user = user;
  }
  void TearDown() override {
    if (user.empty()) return;
    sshd.reset();
    sh("rm -f /etc/sudoers.d/" + user + "; pkill -KILL -u " + user + "; userdel -rf " + user + " 2>/dev/null; true");
  }
  void allow(const std::string& rule) {
    sh("echo '" + user + " " + rule + "' >/etc/sudoers.d/" + user + "; chmod 440 /etc/sudoers.d/" + user);
  }
  Result<std::string> who(Become become) {
    auto connection = connector->connect(target);
    if (!connection) return Failure(connection.error());
    Command command;
    command.script = "id -un; echo \"$HOME\"";
    command.become = become;
    auto result = (*connection)->run(command);
    if (!result) return Failure(result.error());
    return result->out;
  }
  std::string refusal() {
    const auto result = who(Become::root);
    if (result) return "got in: " + *result;
    EXPECT_EQ(result.error().kind, ErrorKind::auth);
    return result.error().message;
  }

  SystemClock clock;
  std::unique_ptr<Connector> connector = make_connector(clock);
  std::string user;
  std::string password;
  std::unique_ptr<TestSshd> sshd;
  Target target;
};

TEST_F(BecomeTest, WithoutAPasswordWhereSudoersSaysSo) {
  allow("ALL=(ALL) NOPASSWD: ALL");
  EXPECT_EQ(*who(Become::no), user + "\n/home/" + user + "\n");
  EXPECT_EQ(*who(Become::root), "root\n/root\n");
  // A password that nobody asks for is not sent, least of all to the shell.
  target.become_password = "touch /tmp/never";
  EXPECT_EQ(*who(Become::root), "root\n/root\n");
}

TEST_F(BecomeTest, WithAPasswordOnStandardInputOnly) {
  allow("ALL=(ALL) ALL");
  EXPECT_NE(refusal().find("sudo wants a password"), std::string::npos) << refusal();
  target.become_password = "wrong";
  EXPECT_NE(refusal().find("refused the password"), std::string::npos) << refusal();
  target.become_password = password;
  EXPECT_EQ(*who(Become::root), "root\n/root\n");
  auto connection = *connector->connect(target);
  Command command;
  command.script =
      "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[S]" + password.substr(1) + "' || true";
  command.become = Become::root;
  EXPECT_EQ(connection->run(command)->out, "0\n");
  // Files and deadlines work there too.
  Upload upload;
  const std::string content(600000, 'x');
  upload.content = content;
  upload.path = "/root/" + user;
  upload.become = Become::root;
  ASSERT_TRUE(connection->upload(upload));
  EXPECT_TRUE(*connection->download(upload.path, 1 << 20, Become::root) == content);
  EXPECT_FALSE(connection->download(upload.path, 1 << 20, Become::no));
  const std::string nap = "sleep 60." + std::to_string(getpid());  // told apart from the naps of other tests
  command.script = "rm " + upload.path + "; " + nap;
  command.deadline = Milliseconds(300);
  EXPECT_EQ(connection->run(command).error().kind, ErrorKind::timeout);
  command.script = "pgrep -u root -x sleep -a | grep '" + nap + "' || true";
  command.deadline = std::chrono::seconds(5);
  EXPECT_EQ(connection->run(command)->out, "");
}

TEST_F(BecomeTest, SaysWhyNot) {
  allow("ALL=(nobody) ALL");
  target.become_password = password;
  EXPECT_NE(refusal().find("sudoers does not allow it"), std::string::npos) << refusal();
  allow("ALL=(ALL) NOPASSWD: ALL\nDefaults:" + user + " requiretty");
  target.become_password.clear();
  EXPECT_NE(refusal().find("requiretty"), std::string::npos) << refusal();
}

TEST_F(BecomeTest, LogsInWithAPassword) {
  target.identity_file = "/nonexistent";
  target.password = password;
  EXPECT_EQ(*who(Become::no), user + "\n/home/" + user + "\n");
  target.password = "wrong";
  const auto refused = who(Become::no);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::auth);
  EXPECT_NE(refused.error().message.find("password: refused"), std::string::npos) << refused.error().message;
  EXPECT_EQ(refused.error().message.find("wrong"), std::string::npos);
}

TEST(Launch, NeverPutsThePasswordOnTheCommandLine) {
  LaunchSettings settings;
  settings.become_password = "Secret-1";
  const auto launch = make_launch(settings, Become::root, "");
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->command.find("Secret"), std::string::npos);
  EXPECT_EQ(launch->password, PasswordPrompt::possible);
  settings.become_method = "doas";
  EXPECT_EQ(make_launch(settings, Become::root, "").error().kind, ErrorKind::usage);
}

TEST(Launch, EntersContainersAsRootOfTheHost) {
  LaunchSettings settings;
  settings.container = ContainerTarget{"lxc", "my box"};
  EXPECT_NE(make_launch(settings, Become::no, "")->command.find("lxc-attach -n"), std::string::npos);
  settings.container = ContainerTarget{"docker", "x"};
  EXPECT_EQ(make_launch(settings, Become::no, "").error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace millwright
