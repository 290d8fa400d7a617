// Any text as an expression and as a template: a value or an error, never a crash, a hang or a full memory.
#include <cstdint>
#include <string_view>

#include "orchestrator/playbook/template.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millwright;
  if (size > 4096) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const ObjectScope scope(Value::parse(
      R"({"inputs": {"a": 1, "b": "text", "c": [1, "x", null], "d": {"e": 2.5}}, "item": "i", "index": 0})"));
  const SourceMark origin{"fuzz", 1, 1, 1, ""};
  if (const auto expression = Expression::parse(text, origin)) {
    if (const auto value = expression->evaluate(scope); !value) (void)render(value.error());
  } else {
    (void)render(expression.error());
  }
  YamlNode node;
  node.kind = YamlKind::scalar;
  node.quoted = true;
  node.text = std::string(text);
  node.mark = origin;
  if (const auto compiled = Template::compile(node)) (void)compiled->render(scope);
  return 0;
}
