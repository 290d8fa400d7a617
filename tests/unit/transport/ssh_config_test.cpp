#include "orchestrator/transport/ssh_config.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "orchestrator/transport/known_hosts.hpp"
#include "tests/unit/transport/test_sshd.hpp"

namespace millwright {
namespace {

class SshConfig : public testing::Test {
 protected:
  Result<SshSettings> resolve(const std::string& config, const std::string& host, std::vector<std::string> args = {}) {
    SshQuery query;
    query.host = host;
    query.args = std::move(args);
    query.config_file = folder.write("config", config);
    query.home = folder.path("home");
    query.local_user = "me";
    return resolve_ssh(query);
  }
  TestFolder folder;
};

TEST_F(SshConfig, ReplacesTokensTildeAndVariables) {
  setenv("MW_TEST_KEYS", "/keys", 1);
  const auto ssh = resolve(
      "Host box\n HostName %h.example.org\n User root\n Port 2200\n IdentityFile ~/.ssh/%r@%h:%p-%n-%u%%\n"
      " IdentityFile ${MW_TEST_KEYS}/%d\n ProxyCommand nc -x %r %h %p # not a comment\n",
      "box");
  ASSERT_TRUE(ssh) << render(ssh.error());
  EXPECT_EQ(ssh->host, "box.example.org");
  EXPECT_EQ(ssh->identity_files,
            (std::vector<std::string>{folder.path("home") + "/.ssh/root@box.example.org:2200-box-me%",
                                      "/keys/" + folder.path("home")}));
  EXPECT_EQ(ssh->proxy_command, "nc -x root box.example.org 2200 # not a comment");
}

TEST_F(SshConfig, ArgumentsAreStrongerThanFiles) {
  const auto ssh = resolve("Port 1\nUser a\nIdentityFile /f\n", "h",
                           {"-p", "2", "-oUser=b", "-o", "IdentityFile /g", "-i", "/i", "-J", "j", "-q", "-4"});
  ASSERT_TRUE(ssh) << render(ssh.error());
  EXPECT_EQ(ssh->port, 2);
  EXPECT_EQ(ssh->user, "b");
  EXPECT_EQ(ssh->identity_files, (std::vector<std::string>{"/g", "/i", "/f"}));
  EXPECT_EQ(ssh->proxy_jump, "j");
  EXPECT_EQ(ssh->address_family, "inet");
}

TEST_F(SshConfig, WhatIsNotUnderstoodIsAnErrorAtItsPlace) {
  const auto typo = resolve("Host *\n  HostNam x\n", "h");
  ASSERT_FALSE(typo);
  EXPECT_EQ(typo.error().where->line, 2);
  EXPECT_EQ(typo.error().hint, "did you mean 'hostname'?");
  EXPECT_FALSE(resolve("Match final\n", "h"));
  EXPECT_FALSE(resolve("Match tagged x\n", "h"));
  EXPECT_FALSE(resolve("User \"open\nPort 1\n User \"x\n", "h"));
  EXPECT_FALSE(resolve("Port 70000\n", "h"));
  EXPECT_FALSE(resolve("HostName %z\n", "h"));
  EXPECT_FALSE(resolve("RevokedHostKeys /etc/revoked\n", "h"));
  EXPECT_FALSE(resolve("StrictHostKeyChecking perhaps\n", "h"));
  EXPECT_FALSE(resolve("", "h", {"-D", "1080"}));
  EXPECT_FALSE(resolve("", "h", {"-o"}));
  EXPECT_FALSE(resolve("Include loop\n", "h", {"-F", "/nonexistent"}));
  EXPECT_TRUE(resolve("IgnoreUnknown Use*\nUseKeychain yes\n", "h"));
}

TEST_F(SshConfig, AnIncludeLoopEnds) {
  folder.write("loop", "Include " + folder.path("loop") + "\n");
  EXPECT_FALSE(resolve("Include " + folder.path("loop") + "\n", "h"));
}

TEST(JumpHosts, AreReadInAllTheirForms) {
  const auto jumps = parse_jumps("a,u@b:22,ssh://c:2,me@x@[::1]:9");
  ASSERT_TRUE(jumps);
  EXPECT_EQ((*jumps)[0].host, "a");
  EXPECT_EQ((*jumps)[1].user, "u");
  EXPECT_EQ((*jumps)[2].port, 2);
  EXPECT_EQ((*jumps)[3].host, "::1");
  EXPECT_EQ((*jumps)[3].user, "me@x");
  EXPECT_FALSE(parse_jumps("a,,b"));
  EXPECT_FALSE(parse_jumps("a:0"));
}

TEST(Wildcard, MatchesAsOpenSshDoes) {
  EXPECT_TRUE(match_wildcard("web1.example.org", "web?.*"));
  EXPECT_TRUE(match_wildcard("", "*"));
  EXPECT_FALSE(match_wildcard("a", ""));
  EXPECT_FALSE(match_wildcard("abc", "a?"));
  EXPECT_TRUE(match_wildcard("aXbXc", "a*b*c"));
}

}  // namespace
}  // namespace millwright
