// Who we talk to and how we prove who we are, against real sshd instances on loopback.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/transport/connector.hpp"
#include "tests/unit/transport/test_sshd.hpp"

namespace millwright {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class SshLogin : public testing::Test {
 protected:
  Result<std::string> who(const Target& target) {
    auto connection = connector->connect(target);
    if (!connection) return Failure(connection.error());
    Command command;
    command.script = "id -un";
    auto result = (*connection)->run(command);
    if (!result) return Failure(result.error());
    return result->out;
  }
  void expect_in(const Target& target) {
    const auto user = who(target);
    ASSERT_TRUE(user) << render(user.error());
    EXPECT_EQ(*user, TestSshd::user() + "\n");
  }
  Error expect_out(const Target& target, ErrorKind kind) {
    const auto user = who(target);
    EXPECT_FALSE(user);
    if (user) return {};
    EXPECT_EQ(user.error().kind, kind) << render(user.error());
    return user.error();
  }
  static void expect_says(const Error& error, const std::string& part) {
    EXPECT_NE(render(error).find(part), std::string::npos) << render(error) << "lacks: " << part;
  }
  std::string place() const { return "[127.0.0.1]:" + std::to_string(sshd.port()); }

  SystemClock clock;
  std::unique_ptr<Connector> connector = make_connector(clock);
  TestSshd sshd;
};

TEST_F(SshLogin, AnUnknownKeyIsRefusedAndShown) {
  Target target = sshd.target();
  target.known_hosts_file = sshd.folder().write("empty", "");
  const Error error = expect_out(target, ErrorKind::host_key);
  const std::string shown = sh("ssh-keygen -lf " + sshd.folder().path("host_key.pub") + " | cut -d' ' -f2");
  expect_says(error, shown.substr(0, shown.size() - 1));
  EXPECT_EQ(read(target.known_hosts_file), "");
  // The command in the hint does what it says.
  const std::size_t echo = error.hint.find("echo ");
  ASSERT_NE(echo, std::string::npos);
  sh(error.hint.substr(echo));
  expect_in(target);
}

TEST_F(SshLogin, AcceptNewLearnsTheFirstKeyOnly) {
  Target target = sshd.target();
  target.known_hosts_file = sshd.folder().path("new/known_hosts");
  target.host_key_policy = HostKeyPolicy::accept_new;
  expect_in(target);
  EXPECT_EQ(read(target.known_hosts_file), place() + " " + sshd.host_key() + "\n");
  target.host_key_policy = HostKeyPolicy::strict;
  expect_in(target);
  TestSshd other;
  std::ofstream(target.known_hosts_file) << place() + " " + other.host_key() + "\n";
  target.host_key_policy = HostKeyPolicy::accept_new;
  expect_out(target, ErrorKind::host_key);
}

TEST_F(SshLogin, LearnsHashedNamesThatOpenSshReads) {
  Target target = sshd.target();
  target.known_hosts_file = sshd.folder().write("hashed", "");
  target.ssh_args = {"-o", "HashKnownHosts=yes", "-o", "StrictHostKeyChecking=accept-new"};
  expect_in(target);
  EXPECT_EQ(read(target.known_hosts_file).find("127.0.0.1"), std::string::npos);
  EXPECT_NE(sh("ssh-keygen -F " + shell_quote(place()) + " -f " + target.known_hosts_file).find("found"),
            std::string::npos);
  target.ssh_args = {"-o", "StrictHostKeyChecking=yes"};
  expect_in(target);
}

TEST_F(SshLogin, AChangedKeyNamesTheLineThatDiffers) {
  TestSshd other;
  Target target = sshd.target();
  target.known_hosts_file = sshd.folder().write("changed", "# one\n" + place() + " " + other.host_key() + "\n");
  const Error error = expect_out(target, ErrorKind::host_key);
  expect_says(error, "has changed");
  expect_says(error, target.known_hosts_file + ":2");
}

TEST_F(SshLogin, ARevokedKeyIsRefusedWhateverThePolicy) {
  Target target = sshd.target();
  target.known_hosts_file =
      sshd.folder().write("revoked", place() + " " + sshd.host_key() + "\n@revoked * " + sshd.host_key() + "\n");
  for (const HostKeyPolicy policy : {HostKeyPolicy::strict, HostKeyPolicy::accept_new, HostKeyPolicy::off}) {
    target.host_key_policy = policy;
    expect_says(expect_out(target, ErrorKind::host_key), "revoked");
  }
}

TEST_F(SshLogin, PolicyOffLetsAnUnknownHostIn) {
  Target target = sshd.target();
  target.known_hosts_file = sshd.folder().write("none", "");
  target.host_key_policy = HostKeyPolicy::off;
  expect_in(target);
}

TEST_F(SshLogin, ReadsPatternsAliasesPlainPortsAndSeveralFiles) {
  Target target = sshd.target();
  target.known_hosts_file.clear();
  const std::string key = sshd.host_key();
  const std::string empty = sshd.folder().write("kh0", "");
  const auto with = [&](const std::string& line, const std::string& alias = "") {
    const std::string file = sshd.folder().write("kh1", line + " " + key + "\n");
    target.ssh_args = {"-o", "UserKnownHostsFile=" + empty + " " + file, "-o", "GlobalKnownHostsFile=none"};
    if (!alias.empty()) target.ssh_args.insert(target.ssh_args.end(), {"-o", "HostKeyAlias=" + alias});
    return who(target).has_value();
  };
  EXPECT_TRUE(with(place()));
  EXPECT_TRUE(with("127.0.0.1"));
  EXPECT_TRUE(with("other,[127.0.0.?]:*"));
  EXPECT_TRUE(with("alias1", "alias1"));
  EXPECT_FALSE(with(place(), "alias1"));
  EXPECT_FALSE(with("[127.0.0.1]:1"));
  EXPECT_FALSE(with("[127.0.0.*]:*,!" + place()));
  EXPECT_FALSE(with("@cert-authority " + place()));
}

TEST_F(SshLogin, AsksForTheKindOfKeyThatIsKnown) {
  const std::string rsa = sshd.folder().path("rsa_key");
  sh("ssh-keygen -q -t rsa -b 2048 -N '' -f " + rsa);
  TestSshd two({"HostKey " + rsa});
  Target target = two.target();
  target.known_hosts_file = two.folder().write(
      "rsa_only", "[127.0.0.1]:" + std::to_string(two.port()) + " " + sh("cut -d' ' -f1,2 " + rsa + ".pub"));
  expect_in(target);
}

TEST_F(SshLogin, ARefusalListsWhatWasTried) {
  Target target = sshd.target();
  const std::string stranger = sshd.folder().path("stranger");
  sh("ssh-keygen -q -t ed25519 -N '' -f " + stranger);
  target.identity_file = stranger;
  target.password = "wrong";
  const Error error = expect_out(target, ErrorKind::auth);
  expect_says(error, "key " + stranger + ": refused");
  expect_says(error, "It accepts: publickey");
}

TEST_F(SshLogin, AnEncryptedKeySendsToTheAgentAndTheAgentWorks) {
  const std::string locked = sshd.folder().path("locked");
  sh("ssh-keygen -q -t ed25519 -N secret -f " + locked + "; cat " + locked + ".pub >>" +
     sshd.folder().path("authorized_keys"));
  Target target = sshd.target();
  target.identity_file = locked;
  target.ssh_args = {"-o", "IdentityAgent=none"};
  const Error error = expect_out(target, ErrorKind::auth);
  expect_says(error, "has a passphrase");
  expect_says(error, "ssh-add");
  const std::string socket = sshd.folder().path("agent");
  const std::string agent = sh("ssh-agent -a " + socket + " | sed -n 's/.*AGENT_PID=\\([0-9]*\\);.*/\\1/p'");
  const std::string ask = sshd.folder().write("ask", "#!/bin/sh\necho secret\n");
  sh("chmod 700 " + ask + "; SSH_AUTH_SOCK=" + socket + " SSH_ASKPASS=" + ask +
     " SSH_ASKPASS_REQUIRE=force ssh-add -q " + locked);
  target.ssh_args = {"-o", "IdentityAgent=" + socket};
  expect_in(target);
  target.ssh_args = {"-o", "IdentityAgent=" + socket, "-o", "IdentitiesOnly=yes"};
  expect_in(target);
  // With IdentitiesOnly a key that merely sits in the agent is not offered.
  target.identity_file = sshd.folder().path("stranger");
  sh("ssh-keygen -q -t ed25519 -N '' -f " + target.identity_file);
  expect_out(target, ErrorKind::auth);
  sh("kill " + agent);
}

TEST_F(SshLogin, AKeyThatOthersMayReadIsIgnored) {
  Target target = sshd.target();
  std::filesystem::permissions(target.identity_file, std::filesystem::perms(0644));
  target.ssh_args = {"-o", "IdentityAgent=none"};
  expect_says(expect_out(target, ErrorKind::auth), "others may read it");
}

TEST_F(SshLogin, ACertificateOpensTheDoor) {
  const std::string authority = sshd.folder().path("ca"), key = sshd.folder().path("certified");
  sh("ssh-keygen -q -t ed25519 -N '' -f " + authority + "; ssh-keygen -q -t ed25519 -N '' -f " + key +
     "; ssh-keygen -q -s " + authority + " -I test -n " + TestSshd::user() + " " + key + ".pub");
  TestSshd certified({"TrustedUserCAKeys " + authority + ".pub"});
  Target target = certified.target();
  target.identity_file = key;
  expect_in(target);
  std::filesystem::rename(key + "-cert.pub", key + ".elsewhere");
  expect_out(target, ErrorKind::auth);
  target.ssh_args.insert(target.ssh_args.end(), {"-o", "CertificateFile=" + key + ".elsewhere"});
  expect_in(target);
}

TEST_F(SshLogin, JumpsThroughAnotherHostWhoseKeyIsCheckedToo) {
  TestSshd jump;
  const std::string config = sshd.folder().write(
      "config", "Host jump\n  HostName 127.0.0.1\n  Port " + std::to_string(jump.port()) + "\n  User " +
                    TestSshd::user() + "\n  IdentityFile " + jump.key_file() + "\n  UserKnownHostsFile " +
                    jump.known_hosts() + "\nHost node\n  HostName 127.0.0.1\n  Port " + std::to_string(sshd.port()) +
                    "\n  ProxyJump jump\n  IdentityFile " + sshd.key_file() + "\n  UserKnownHostsFile " +
                    sshd.known_hosts() + "\n");
  Target target;
  target.name = "node";
  target.user = TestSshd::user();
  target.ssh_config_file = config;
  expect_in(target);
  EXPECT_NE(read(jump.folder().path("log")).find("Accepted publickey"), std::string::npos);
  // Through both, twice over: a chain as -J gives it.
  target.ssh_args = {"-J", "jump,jump"};
  expect_in(target);
  std::ofstream(jump.known_hosts()) << "";
  const Error error = expect_out(target, ErrorKind::host_key);
  expect_says(error, std::to_string(jump.port()));
  expect_says(error, "through");
}

TEST_F(SshLogin, AProxyCommandCarriesTheSession) {
  Target target = sshd.target();
  const std::string relay = sshd.folder().write(
      "relay.py",
      "import socket,sys,os,threading\ns=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
      "def up():\n  while True:\n    b=os.read(0,65536)\n    if not b: break\n    s.sendall(b)\n  s.shutdown(1)\n"
      "threading.Thread(target=up,daemon=True).start()\n"
      "while True:\n  b=s.recv(65536)\n  if not b: break\n  os.write(1,b)\n");
  target.ssh_args = {"-o", "ProxyCommand=/usr/bin/python3 " + relay + " %h %p"};
  expect_in(target);
  target.ssh_args = {"-o", "ProxyCommand=exit 1"};
  expect_out(target, ErrorKind::connect);
}

// Listens, and does with each connection what it is told.
class BadServer {
 public:
  explicit BadServer(std::string greeting) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
    listen(fd_, 5);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this, text = std::move(greeting)] {
      const int client = accept(fd_, nullptr, nullptr);
      if (client < 0) return;
      send(client, text.data(), text.size(), MSG_NOSIGNAL);
      char buffer[512];
      while (recv(client, buffer, sizeof buffer, 0) > 0) {
      }
      close(client);
    });
  }
  ~BadServer() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }
  int port = 0;

 private:
  int fd_;
  std::thread thread_;
};

TEST_F(SshLogin, APeerThatStaysSilentOrTalksNonsenseIsGivenUp) {
  for (const std::string greeting : {"", "HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-tarpit\r\n"}) {
    BadServer server(greeting);
    Target target = sshd.target();
    target.port = server.port;
    target.connect_timeout = Milliseconds(700);
    const auto begin = std::chrono::steady_clock::now();
    const auto connected = connector->connect(target);
    EXPECT_FALSE(connected);
    if (!connected) {
      EXPECT_TRUE(connected.error().kind == ErrorKind::timeout || connected.error().kind == ErrorKind::connect);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2)) << greeting;
  }
}

TEST_F(SshLogin, NobodyListeningAndNoSuchNameAreSaid) {
  Target target = sshd.target();
  sshd.stop();
  expect_says(expect_out(target, ErrorKind::connect), "Connection refused");
  target.address = "no-such-host.invalid";
  expect_says(expect_out(target, ErrorKind::connect), "no-such-host.invalid");
}

TEST_F(SshLogin, ALoginWithoutAShellIsSaid) {
  TestSshd forced({"ForceCommand echo this account is not for people"});
  Target target = forced.target();
  expect_says(expect_out(target, ErrorKind::connect), "ended");
}

}  // namespace
}  // namespace millwright
