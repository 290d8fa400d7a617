// What installers of Python packages share: pinned packages, wheelhouses, and how a node reaches an index.
//
// Pure, except that a wheelhouse here is listed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "orchestrator/base/value.hpp"
#include "steps/contract/change.hpp"
#include "steps/server/engine_installer.hpp"

namespace millwright {

struct PinnedPackage {
  std::string name;
  std::string version;
  std::vector<std::string> sha256;  // of its files, lower-case hex
};

// A requirements file with hashes, as pip and uv read it.
std::string requirements_text(const std::vector<PinnedPackage>& packages);

// Reads such a file as playbooks/knowledge/locks/regenerate and `uv pip compile --generate-hashes` write it; comments
// and lines that name no package are left out.
std::vector<PinnedPackage> parse_requirements(const std::string& text);

// The wheels of these packages in a folder of the controller, by path, sorted.
std::vector<std::filesystem::path> wheels_here(const std::string& folder, const std::vector<PinnedPackage>& packages);

// Names under a source's `apt`.
std::vector<std::string> source_packages(const Value& source);

// Where the wheels of a source are on the node: its own folder for node:/path, else where they are uploaded to.
// Empty: from an index.
std::string wheelhouse_on_node(const Value& source, const std::vector<PinnedPackage>& packages);
// Actions that upload a wheelhouse of the controller; none for other sources.
std::vector<Action> upload_wheels(const Value& source, const std::vector<PinnedPackage>& packages,
                                  const std::string& what);
// Shell that removes what was uploaded; empty where nothing was.
std::string remove_uploaded_wheels(const Value& source, const std::vector<PinnedPackage>& packages);

// Shell that writes the engine's program into the environment $new: one that starts the launcher, or Python with the
// arguments of the source's `entry`. Empty where a source has neither: a package brings the program.
std::string program_script(const InstallJob& job);

// Shell that exports how to reach the outside: `proxy`, `no_proxy`, `ca_bundle` (node:/path) and `index` of a source.
// Without them: the system's certificates, and the index that the node's pip is configured for.
std::string download_settings(const Value& source);

}  // namespace millwright
