// Prints the JSON Schema of playbooks over the test step kinds; schema.py validates it and playbooks with it.
#include <iostream>

#include "orchestrator/playbook/playbook.hpp"
#include "tests/unit/playbook/kinds.hpp"

int main() {
  std::cout << millwright::playbook_schema(millwright::testing::registry()).dump(2) << '\n';
  return std::cout.good() ? 0 : 1;
}
