// What changes with the outside world (engine versions, flag names, error texts, minimum versions, remedies) is data:
// playbooks/knowledge/NAME.yml, each checked against playbooks/knowledge/schema/NAME.json before anything uses it.
//
// Immutable after loading; may be read from any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

class Knowledge {
 public:
  Knowledge() = default;  // knows nothing; for tests that need no data
  explicit Knowledge(std::map<std::string, Value, std::less<>> files) : files_(std::move(files)) {}

  bool has(std::string_view name) const;
  // The whole document of NAME.yml, by its name without ".yml": "engines", "models", "classes", "remedies". A name that
  // was not loaded gives an empty object.
  const Value& file(std::string_view name) const;
  std::vector<std::string> names() const;  // sorted

 private:
  std::map<std::string, Value, std::less<>> files_;
};

// Loads every *.yml of each folder; a file of a later folder replaces the one of that name from an earlier folder
// whole. The schema of a file is looked for in schema/ of its own folder, then of the earlier ones; a file without one
// is an error (invalid), as is a folder that cannot be read (io). All mistakes at once, each with its place.
tl::expected<Knowledge, std::vector<Error>> load_knowledge(const std::vector<std::string>& folders);

// Where the program finds its data, weakest first: the first that exists of $MILLWRIGHT_SHARE/playbooks/knowledge,
// <folder of the program>/../share/millwright/playbooks/knowledge and the source tree it was built from; then each
// folder of $MILLWRIGHT_KNOWLEDGE (colon separated), which overrides.
std::vector<std::string> knowledge_folders();

// The shipped playbooks' folder by the same rule; empty when there is none.
std::string shipped_playbooks();

}  // namespace millwright
