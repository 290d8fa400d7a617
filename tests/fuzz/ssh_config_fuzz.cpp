// Any bytes as ~/.ssh/config, and as words of an inventory's ssh arguments.
#include "orchestrator/transport/ssh_config.hpp"
#include "tests/fuzz/scratch_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (millwright::fuzz::mentions(text, "exec") || millwright::fuzz::mentions(text, "include")) return 0;
  const millwright::fuzz::ScratchFile file(text);
  millwright::SshQuery query;
  query.host = "gpu1.example.org";
  query.config_file = file.path();
  query.home = "/nonexistent";
  query.local_user = "ann";
  const auto settings = millwright::resolve_ssh(query);
  if (settings) {
    if (settings->host.empty() || settings->port < 1 || settings->port > 65535) std::abort();
  } else if (settings.error().message.empty()) {
    std::abort();
  }
  query.config_file = "none";
  query.args = {"-o", std::string(text)};
  (void)millwright::resolve_ssh(query);
  (void)millwright::parse_jumps(std::string(text));
  return 0;
}
