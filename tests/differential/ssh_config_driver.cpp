// Prints what millwright makes of one host: ssh_config_driver CONFIG HOME HOST [ssh arguments...]; as `ssh -G` does,
// one "keyword value" a line. "refused" when the configuration is an error.
#include <cstdio>
#include <string>

#include "orchestrator/base/text.hpp"
#include "orchestrator/transport/ssh_config.hpp"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  millwright::SshQuery query;
  query.config_file = argv[1];
  query.home = argv[2];
  query.host = argv[3];
  query.args.assign(argv + 4, argv + argc);
  const auto values = millwright::read_ssh_config(query);
  const auto settings = millwright::resolve_ssh(query);
  if (!values || !settings) {
    std::puts("refused");
    return 0;
  }
  const auto raw = [&](const char* key) {
    const auto found = values->find(key);
    if (found == values->end()) return;
    for (const std::string& value : found->second) std::printf("%s %s\n", key, value.c_str());
  };
  std::printf("hostname %s\nport %d\nuser %s\n", settings->host.c_str(), settings->port, settings->user.c_str());
  std::printf("identitiesonly %s\n", settings->identities_only ? "yes" : "no");
  std::printf("userknownhostsfile %s\n", millwright::join(settings->user_known_hosts, " ").c_str());
  std::printf("globalknownhostsfile %s\n", millwright::join(settings->global_known_hosts, " ").c_str());
  std::printf("stricthostkeychecking %s\n", settings->strict_host_key_checking.c_str());
  std::printf("hashknownhosts %s\n", settings->hash_known_hosts ? "yes" : "no");
  std::printf("connecttimeout %d\n", settings->connect_timeout);
  std::printf("serveraliveinterval %d\nserveralivecountmax %d\n", settings->alive_interval, settings->alive_count);
  if (!settings->host_key_alias.empty()) std::printf("hostkeyalias %s\n", settings->host_key_alias.c_str());
  if (!settings->proxy_jump.empty()) std::printf("proxyjump %s\n", settings->proxy_jump.c_str());
  if (!settings->proxy_command.empty()) std::printf("proxycommand %s\n", values->at("proxycommand")[0].c_str());
  raw("identityfile");
  raw("certificatefile");
  return 0;
}
