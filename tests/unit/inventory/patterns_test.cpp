#include <gtest/gtest.h>

#include "inventory/inventory.hpp"
#include "temporary_folder.hpp"

namespace millwright {
namespace {

using Names = std::vector<std::string>;

class Patterns : public ::testing::Test {
 protected:
  Names match(const std::string& pattern) const {
    const auto found = inventory_.match(pattern);
    EXPECT_TRUE(found) << pattern << ": " << (found ? "" : render(found.error()));
    return found ? *found : Names{};
  }
  Error error(const std::string& pattern) const {
    const auto found = inventory_.match(pattern);
    EXPECT_FALSE(found) << pattern;
    return found ? Error{} : found.error();
  }

  TemporaryFolder folder_;
  Inventory inventory_ = *Inventory::load(
      folder_.write("hosts.ini", "lone\n[web]\nweb[1:4]\n[db]\ndb1\ndb2\nweb4\n[site:children]\nweb\ndb\n[empty]\n"));
};

TEST_F(Patterns, AsAnsibleReadsThem) {
  EXPECT_EQ(match("all"), (Names{"lone", "web1", "web2", "web3", "web4", "db1", "db2"}));
  EXPECT_EQ(match("web*"), (Names{"web1", "web2", "web3", "web4"}));
  EXPECT_EQ(match("web?,lone"), (Names{"web1", "web2", "web3", "web4", "lone"}));
  EXPECT_EQ(match("db:lone"), (Names{"db1", "db2", "web4", "lone"}));
  EXPECT_EQ(match("web:&db"), Names{"web4"});
  EXPECT_EQ(match("web:!db"), (Names{"web1", "web2", "web3"}));
  EXPECT_EQ(match("!db,site"), (Names{"web1", "web2", "web3"}));
  EXPECT_EQ(match("!site"), Names{"lone"});
  EXPECT_EQ(match("~(web|db)[12]"), (Names{"web1", "web2", "db1", "db2"}));
  EXPECT_EQ(match("web[0]"), Names{"web1"});
  EXPECT_EQ(match("web[-1]"), Names{"web4"});
  EXPECT_EQ(match("web[1:2]"), (Names{"web2", "web3"}));
  EXPECT_EQ(match("web[2:]"), (Names{"web3", "web4"}));
  EXPECT_EQ(match("web[0:0]"), Names{"web1"});
  EXPECT_EQ(match("web[13]*"), (Names{"web1", "web3"}));
  EXPECT_EQ(match("web[!1]"), (Names{"web2", "web3", "web4"}));
  EXPECT_EQ(match("localhost"), Names{"localhost"});
}

TEST_F(Patterns, FileOfPatterns) {
  EXPECT_EQ(match("@" + folder_.write("limit", "web1\n\ndb\n")), (Names{"web1", "db1", "db2", "web4"}));
  EXPECT_NE(error("@/nonexistent").message.find("cannot read"), std::string::npos);
  EXPECT_NE(error("@/dev/zero").message.find("it is a device"), std::string::npos);
  EXPECT_NE(error("@" + folder_.write("none", "\n \n")).message.find("there is no host pattern"), std::string::npos);
}

// As Python's re.match, which Ansible asks.
TEST_F(Patterns, RegularExpressions) {
  EXPECT_EQ(match("~web"), (Names{"web1", "web2", "web3", "web4"}));
  EXPECT_EQ(match("~eb1,lone"), Names{"lone"});  // from the start
  EXPECT_EQ(match("~web(?!1|$)"), (Names{"web2", "web3", "web4"}));
  EXPECT_EQ(match("~(?i)WEB1$"), Names{"web1"});
  EXPECT_EQ(match("~(?P<kind>db)\\d$"), (Names{"db1", "db2"}));
  EXPECT_EQ(match("~.*ne$"), (Names{"lone"}));
}

TEST_F(Patterns, RegularExpressionsEnd) {
  const Inventory inventory = *Inventory::load(folder_.write("long.ini", std::string(60, 'a') + "b\n"));
  const auto found = inventory.match("~(a+)+$");
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("cannot be decided"), std::string::npos) << found.error().message;
  // Deeply nested, and long: neither may take the stack.
  EXPECT_NE(error("~" + std::string(400, '(') + "a" + std::string(400, ')')).message.find("no regular expression"),
            std::string::npos);
  EXPECT_NE(error("~" + std::string(2000, 'a')).message.find("too long"), std::string::npos);
  const Inventory long_name = *Inventory::load(folder_.write("longer.ini", std::string(100'000, 'a') + "\n"));
  const auto ended = long_name.match("~(a|b)*$");
  if (!ended) {
    EXPECT_NE(ended.error().message.find("cannot be decided"), std::string::npos) << ended.error().message;
  }
}

TEST_F(Patterns, MatchingNothingIsAnError) {
  EXPECT_EQ(error("wbe1").hint, "did you mean 'web1'?");
  EXPECT_EQ(error("all:!wbe").hint, "did you mean 'web'?");
  EXPECT_EQ(error("gpu*").message, "no host matches 'gpu*'");
  EXPECT_EQ(error("empty").message, "no host matches 'empty'");
  EXPECT_EQ(error("web[4]").hint, "'web' has 4 hosts, counted from 0");
  EXPECT_NE(error("~(web").message.find("no regular expression"), std::string::npos);
  EXPECT_EQ(error("").message, "the host pattern is empty");
}

}  // namespace
}  // namespace millwright
