// Evidence on disk: one file an exchange, never overwritten.
#pragma once

#include <string>
#include <string_view>

#include "orchestrator/base/error.hpp"

namespace millwright {

// Makes the folder and its missing parents, 0700. io when it cannot be.
Result<void> make_private_directory(const std::string& path);

// Writes <folder>/<name>, or <name>-2, -3... when that exists; 0600, synced before it returns. Returns the path.
Result<std::string> write_evidence(const std::string& folder, const std::string& name, std::string_view bytes);

}  // namespace millwright
