#include <gtest/gtest.h>

#include "inventory/inventory.hpp"
#include "orchestrator/base/redact.hpp"
#include "temporary_folder.hpp"

namespace millwright {
namespace {

Result<Target> target_of(const std::string& variables) {
  const TemporaryFolder folder;
  const auto inventory = Inventory::load(folder.write("h.yml", "all: {hosts: {h: {" + variables + "}}}\n"));
  if (!inventory) return fail(inventory.error().front());
  return inventory->target("h");
}

TEST(Target, TakesAnsiblesConnectionVariables) {
  const auto target = target_of(
      "ansible_host: 10.0.0.9, ansible_port: '2222', ansible_ssh_user: admin, ansible_become: 'yes', "
      "ansible_become_pass: hunter22, ansible_password: pa55word, ansible_ssh_common_args: '-o ProxyJump=\"a b\" -J "
      "x', "
      "ansible_ssh_extra_args: -4, ansible_host_key_checking: false, ansible_ssh_private_key_file: /k, "
      "ansible_ssh_timeout: 7");
  ASSERT_TRUE(target) << render(target.error());
  EXPECT_EQ(target->address, "10.0.0.9");
  EXPECT_EQ(target->port, 2222);
  EXPECT_EQ(target->user, "admin");
  EXPECT_EQ(target->become, Become::root);
  EXPECT_EQ(target->become_password, "hunter22");
  EXPECT_EQ(target->password, "pa55word");
  EXPECT_EQ(target->ssh_args, (std::vector<std::string>{"-o", "ProxyJump=a b", "-J", "x", "-4"}));
  EXPECT_EQ(target->host_key_policy, HostKeyPolicy::off);
  EXPECT_EQ(target->identity_file, "/k");
  EXPECT_EQ(target->connect_timeout, std::chrono::seconds(7));
  EXPECT_EQ(redactor().redact("it is pa55word, hunter22"), "it is [secret], [secret]");
}

TEST(Target, ConnectionsThatAreNotSpokenHere) {
  EXPECT_EQ(target_of("ansible_connection: local")->via, Via::local);
  EXPECT_EQ(target_of("ansible_connection: smart")->via, Via::ssh);
  EXPECT_EQ(target_of("ansible_connection: winrm").error().message, "connection 'winrm' is not known");
  EXPECT_EQ(target_of("ansible_become: yes, ansible_become_method: su").error().message,
            "become by 'su' is not built yet");
}

TEST(Target, MistakesNameTheirPlace) {
  const auto expression = target_of("ansible_host: '{{ ip }}'");
  ASSERT_FALSE(expression);
  EXPECT_NE(expression.error().message.find("holds an expression"), std::string::npos);
  EXPECT_EQ(expression.error().where->line, 1);
  EXPECT_EQ(expression.error().where->column, 33);
  EXPECT_FALSE(target_of("ansible_port: ssh"));
  EXPECT_FALSE(target_of("ansible_port: 65536"));
  EXPECT_FALSE(target_of("ansible_become: maybe"));
  EXPECT_FALSE(target_of("ansible_user: [a]"));
  EXPECT_EQ(target_of("ansible_hots: x").error().hint, "did you mean 'ansible_host'?");
}

TEST(Target, VaultIsAnErrorOnlyWhereItIsUsed) {
  const TemporaryFolder folder;
  const auto inventory = Inventory::load(folder.write("h.yml", R"(
all:
  vars:
    token: !vault |
      $ANSIBLE_VAULT;1.1;AES256
      61626364
  hosts:
    a: {}
    b:
      ansible_become_password: !vault |
        $ANSIBLE_VAULT;1.1;AES256
        61626364
)"));
  ASSERT_TRUE(inventory);
  EXPECT_TRUE(inventory->target("a"));
  EXPECT_EQ(inventory->to_json()["_meta"]["hostvars"]["a"]["token"]["__ansible_vault"],
            "$ANSIBLE_VAULT;1.1;AES256\n61626364\n");
  const auto target = inventory->target("b");
  ASSERT_FALSE(target);
  EXPECT_NE(target.error().message.find("encrypted by ansible-vault"), std::string::npos);
  EXPECT_EQ(target.error().where->line, 10);
}

TEST(Secret, IsResolvedOnceAndRedacted) {
  const TemporaryFolder folder;
  folder.write("token.txt", "from-a-file\n");
  const auto inventory = Inventory::load(folder.write("h.yml", R"(
all:
  vars:
    file: !secret file:token.txt
    command: !secret "command:echo x >> )" + folder.path() + R"(/count; echo from-a-command"
    nested: {list: [!secret "env:MILLWRIGHT_TEST_SECRET"]}
  hosts: {a: , b: }
)"));
  ASSERT_TRUE(inventory) << render(inventory.error()[0]);
  ::setenv("MILLWRIGHT_TEST_SECRET", "from-the-environment", 1);
  const auto a = inventory->variables("a");
  const auto b = inventory->variables("b");
  ASSERT_TRUE(a) << render(a.error());
  EXPECT_EQ(*a, *b);
  EXPECT_EQ(*a, (Value{{"file", "from-a-file"},
                       {"command", "from-a-command"},
                       {"nested", {{"list", Value::array({"from-the-environment"})}}}}));
  EXPECT_EQ(std::filesystem::file_size(folder.path() + "/count"), 2U);
  EXPECT_EQ(redactor().redact("from-a-file from-a-command from-the-environment"), "[secret] [secret] [secret]");
  EXPECT_EQ(inventory->to_json()["_meta"]["hostvars"]["a"]["file"], "!secret file:token.txt");
  EXPECT_EQ(inventory->explain("a", "file")[0].value, "!secret file:token.txt");
}

TEST(Secret, SaysWhatIsWrongWithIt) {
  const SourceMark mark{"h.yml", 3, 5, 4, "x"};
  ::unsetenv("MILLWRIGHT_NOT_SET");
  EXPECT_EQ(resolve_secret("env:MILLWRIGHT_NOT_SET", mark).error().message,
            "the secret env:MILLWRIGHT_NOT_SET is not set");
  EXPECT_NE(resolve_secret("age:x.age", mark).error().message.find("not built yet"), std::string::npos);
  EXPECT_EQ(resolve_secret("enf:X", mark).error().hint, "did you mean 'env:'?");
  EXPECT_NE(resolve_secret("plain", mark).error().message.find("no reference"), std::string::npos);
  EXPECT_NE(resolve_secret("file:/nonexistent/x", mark).error().message.find("cannot read"), std::string::npos);
  const auto failed = resolve_secret("command:echo locked >&2; exit 3", mark);
  EXPECT_EQ(failed.error().exit_code, 3);
  EXPECT_EQ(failed.error().detail, "locked\n");
  EXPECT_EQ(failed.error().where->line, 3);
}

}  // namespace
}  // namespace millwright
