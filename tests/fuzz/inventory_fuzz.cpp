// Any bytes as an inventory, YAML or INI, and as a host pattern on it.
#include "inventory/inventory.hpp"
#include "tests/fuzz/scratch_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (millwright::fuzz::mentions(text, "secret") || millwright::fuzz::mentions(text, "lookup")) return 0;
  const millwright::fuzz::ScratchFile file(text);
  const auto inventory = millwright::Inventory::load(file.path());
  if (!inventory) {
    if (inventory.error().empty()) std::abort();
    for (const millwright::Error& error : inventory.error()) (void)render(error);
    return 0;
  }
  (void)inventory->to_json();
  (void)inventory->to_tree();
  for (const std::string& host : inventory->hosts()) {
    (void)inventory->variables(host);
    (void)inventory->target(host);
  }
  const std::string pattern(text.substr(0, 64));
  if (!millwright::fuzz::mentions(pattern, "@")) (void)inventory->match(pattern);  // @FILE reads another file
  (void)inventory->match("~" + pattern.substr(0, pattern.find_first_of(",:@ ")));
  return 0;
}
