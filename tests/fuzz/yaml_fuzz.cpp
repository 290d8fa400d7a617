// Any bytes: the loader must return a document or errors with places inside the text, and never crash or hang.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "orchestrator/base/yaml.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = millwright::parse_yaml(text, "fuzz.yml", {1u << 16, 64, 10'000});
  if (document) {
    (void)document->to_value();
    return 0;
  }
  if (document.error().empty()) std::abort();
  for (const millwright::Error& error : document.error()) {
    if (!error.where || error.where->line < 1 || error.where->column < 1) std::abort();
    (void)render(error);
  }
  return 0;
}
