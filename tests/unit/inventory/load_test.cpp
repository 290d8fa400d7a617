#include <gtest/gtest.h>
#include <sys/stat.h>

#include "inventory/inventory.hpp"
#include "orchestrator/base/redact.hpp"
#include "temporary_folder.hpp"

namespace millwright {
namespace {

using Names = std::vector<std::string>;

Inventory loaded(const std::string& source) {
  auto inventory = Inventory::load(source);
  if (inventory) return *inventory;
  std::string all;
  for (const Error& error : inventory.error()) all += render(error);
  ADD_FAILURE() << all;
  return *Inventory::load_all({});
}

TEST(Load, AnsibleYamlWithGroupsInGroups) {
  const TemporaryFolder folder;
  const Inventory inventory = loaded(folder.write("hosts.yml", R"(
all:
  vars: {ansible_user: root, become: no}
  hosts:
    loose.example.com:
  children:
    gpu:
      hosts:
        gpu[01:03].lab: {ansible_port: 2222}
      vars: {cards: 2}
    cpu:
      children:
        small: {hosts: {tiny: }}
)"));
  EXPECT_EQ(inventory.hosts(), (Names{"loose.example.com", "gpu01.lab", "gpu02.lab", "gpu03.lab", "tiny"}));
  EXPECT_EQ(inventory.hosts_of("cpu"), Names{"tiny"});
  EXPECT_EQ(inventory.hosts_of("ungrouped"), Names{"loose.example.com"});
  EXPECT_EQ(inventory.groups_of("tiny"), (Names{"all", "cpu", "small"}));
  EXPECT_EQ(*inventory.variables("gpu02.lab"),
            (Value{{"ansible_user", "root"}, {"become", false}, {"ansible_port", 2222}, {"cards", 2}}));
}

TEST(Load, AnsibleIni) {
  const TemporaryFolder folder;
  const Inventory inventory = loaded(folder.write("hosts", R"(
# a comment
lonely:2200 note='two words' n=5 # five
[web]
web[1:2] ansible_user=admin
[db]
db-[a:b]
[site:children]
web
db
[site:vars]
flag=yes
list=[1, 2]
quoted="x"
)"));
  EXPECT_EQ(*inventory.variables("lonely"), (Value{{"ansible_port", 2200}, {"note", "two words"}, {"n", 5}}));
  EXPECT_EQ(*inventory.variables("web2"),
            (Value{{"ansible_user", "admin"}, {"flag", "yes"}, {"list", {1, 2}}, {"quoted", "x"}}));
  EXPECT_EQ(inventory.hosts_of("site"), (Names{"web1", "web2", "db-a", "db-b"}));
  EXPECT_EQ(inventory.to_tree(),
            "@all:\n  |--@ungrouped:\n  |  |--lonely\n  |--@site:\n  |  |--@web:\n  |  |  |--web1\n  |  |  |--web2\n"
            "  |  |--@db:\n  |  |  |--db-a\n  |  |  |--db-b\n");
}

TEST(Load, OwnShapeTakesPlainNamesAndAnsiblesDoesNot) {
  const TemporaryFolder folder;
  const Inventory own = loaded(folder.write("own.yml", R"(
vars: {user: root, become: yes}
hosts:
  gpu1: {host: 10.0.0.1, port: 2222, identity_file: /k}
groups:
  gpu: [gpu1]
)"));
  const Target target = *own.target("gpu1");
  EXPECT_EQ(target.address, "10.0.0.1");
  EXPECT_EQ(target.port, 2222);
  EXPECT_EQ(target.user, "root");
  EXPECT_EQ(target.identity_file, "/k");
  EXPECT_EQ(target.become, Become::root);
  EXPECT_EQ(own.hosts_of("gpu"), Names{"gpu1"});

  const Inventory ansible = loaded(folder.write("ansible.yml", "all: {hosts: {web: {port: 8080, user: app}}}\n"));
  EXPECT_EQ(ansible.target("web")->port, std::nullopt);
  EXPECT_EQ(ansible.target("web")->user, "");
}

TEST(Load, VariablesFilesInAnsiblesOrder) {
  const TemporaryFolder folder;
  const std::string source = folder.write("hosts.yml", R"(
all:
  children:
    outer:
      vars: {v: inline-outer}
      children:
        inner: {hosts: {h: {own: inline}}, vars: {v: inline-inner, w: inline-inner}}
)");
  folder.write("group_vars/all.yml", "v: file-all\n");
  folder.write("group_vars/inner/10-first.yml", "x: 1\ny: 1\n");
  folder.write("group_vars/inner/20-second", "y: 2\n");
  folder.write("group_vars/inner/.hidden.yml", "x: hidden\n");
  folder.write("host_vars/h.json", R"({"own": "file"})");
  const Inventory inventory = loaded(source);
  EXPECT_EQ(*inventory.variables("h"),
            (Value{{"v", "file-all"}, {"w", "inline-inner"}, {"x", 1}, {"y", 2}, {"own", "file"}}));
  const auto why = inventory.explain("h", "v");
  ASSERT_EQ(why.size(), 3U);
  EXPECT_EQ(why[0].source, "group outer (depth 1)");
  EXPECT_EQ(why[1].source, "group inner (depth 2)");
  EXPECT_EQ(why[2].source, "group_vars/all.yml");
  EXPECT_TRUE(why[2].wins);
  EXPECT_FALSE(why[1].wins);
}

TEST(Load, PriorityDecidesBetweenGroupsOfOneDepth) {
  const TemporaryFolder folder;
  const Inventory inventory =
      loaded(folder.write("hosts.ini", "[a]\nh\n[b]\nh\n[a:vars]\nv=a\nansible_group_priority=10\n[b:vars]\nv=b\n"));
  EXPECT_EQ((*inventory.variables("h"))["v"], "a");
}

TEST(Load, FolderSkipsWhatAnsibleSkips) {
  const TemporaryFolder folder;
  folder.write("inv/01-a", "[web]\na\n");
  folder.write("inv/02-b.yml", "web: {hosts: {b: }}\n");
  folder.write("inv/03-c.ini", "[web]\nc\n");
  folder.write("inv/.hidden", "[web]\nd\n");
  folder.write("inv/group_vars/web.yml", "v: 1\n");
  const Inventory inventory = loaded(folder.path() + "/inv");
  EXPECT_EQ(inventory.hosts(), (Names{"a", "b"}));
  EXPECT_EQ((*inventory.variables("b"))["v"], 1);
}

TEST(Load, HostListAndNothing) {
  const Inventory list = loaded("one,two:2222,");
  EXPECT_EQ(list.hosts(), (Names{"one", "two"}));
  EXPECT_EQ(list.target("two")->port, 2222);
  const Inventory nothing = *Inventory::load_all({});
  EXPECT_EQ(nothing.hosts(), Names{});
  EXPECT_FALSE(nothing.match("all"));
  EXPECT_EQ(nothing.match("localhost").value_or(Names{}), Names{"localhost"});
  EXPECT_EQ(nothing.target("localhost")->via, Via::local);
}

TEST(Load, NamesOfVariablesWithoutTheirSecrets) {
  const TemporaryFolder folder;
  const Inventory inventory = loaded(
      folder.write("hosts.yml", "all: {hosts: {h: {a: !secret 'env:MILLWRIGHT_NOT_SET', b: 1}}, vars: {c: 2}}\n"));
  EXPECT_EQ(inventory.variable_names("h"), (std::set<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(inventory.variable_names("other").count("c") == 1);  // what `all` gives
}

TEST(Load, OnlyRegularFilesAreRead) {
  const TemporaryFolder folder;
  const std::string hosts = folder.write("hosts.yml", "all: {hosts: {h: }}\n");
  ASSERT_EQ(::mkfifo((folder.path() + "/pipe").c_str(), 0600), 0);
  for (const std::string& source : {std::string("/dev/zero"), folder.path() + "/pipe"}) {
    const auto inventory = Inventory::load(source);
    ASSERT_FALSE(inventory) << source;
    EXPECT_NE(inventory.error().front().message.find("cannot read " + source + ": it is a"), std::string::npos);
  }
  std::filesystem::create_directories(folder.path() + "/host_vars");
  ASSERT_EQ(::mkfifo((folder.path() + "/host_vars/h.yml").c_str(), 0600), 0);
  const auto inventory = Inventory::load(hosts);
  ASSERT_FALSE(inventory);
  EXPECT_NE(inventory.error().front().message.find("host_vars/h.yml: it is a pipe"), std::string::npos);
}

TEST(Load, LaterSourcesWin) {
  const TemporaryFolder folder;
  const auto inventory = Inventory::load_all(
      {folder.write("a.ini", "[g]\nh v=1 w=1\n"), folder.write("b.yml", "g: {hosts: {h: {v: 2}}}\n")});
  ASSERT_TRUE(inventory);
  EXPECT_EQ(*inventory->variables("h"), (Value{{"v", 2}, {"w", 1}}));
}

TEST(Load, YamlScalarsAsAnsibleReadsThem) {
  const TemporaryFolder folder;
  const Inventory inventory = loaded(folder.write("h.yml", R"(
all:
  hosts:
    h: {a: yes, b: Off, c: "yes", d: 0644, e: 1_000, f: 1:30, g: 1e3, h: 1.5, i: ~, j: 0o17, k: 10.0.0.1, l: 0x1f, m: y}
)"));
  EXPECT_EQ(*inventory.variables("h"), Value::parse(R"({"a": true, "b": false, "c": "yes", "d": 420, "e": 1000,
    "f": 90, "g": "1e3", "h": 1.5, "i": null, "j": "0o17", "k": "10.0.0.1", "l": 31, "m": "y"})"));
}

TEST(Load, EncryptedFilesAreSkippedWithAWarning) {
  const TemporaryFolder folder;
  const std::string source = folder.write("hosts.ini", "h\n");
  folder.write("group_vars/all/vault.yml", "$ANSIBLE_VAULT;1.1;AES256\n6162\n");
  const Inventory inventory = loaded(source);
  ASSERT_EQ(inventory.warnings().size(), 1U);
  EXPECT_NE(inventory.warnings()[0].find("group_vars/all/vault.yml is encrypted"), std::string::npos);
}

}  // namespace
}  // namespace millwright
