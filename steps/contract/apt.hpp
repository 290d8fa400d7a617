// Shell text for Debian's package manager: what `package` asks, runs and takes back. Pure functions of package names.
#pragma once

#include <string>
#include <vector>

#include "steps/contract/change.hpp"

namespace millwright::apt {

struct Wish {
  std::string name;     // may carry an architecture: "libc6:i386"
  std::string version;  // exact, or a prefix with * at its end; empty: any
};

enum class Goal { present, latest, absent };

// Read-only. Lines: "manager apt", "lists fresh|old|none", "held NAME", "broken NAME STATUS", "interrupted",
// "package NAME STATUS VERSION CANDIDATE" for each name ("-" for nothing), "version NAME V" for each available version
// of those with a wished one, "near NAME" and "provider NAME P" for unknown ones, "takes NAME" for what a removal takes
// along. On other systems: "manager NAME" and nothing else. Lists older than `valid_minutes` are old.
std::string question(const std::vector<Wish>& wishes, Goal goal, long long valid_minutes);

Action update_action();
// `specs` as apt-get takes them: "nginx", "nginx=1.22.1-9".
Action install_action(const std::vector<std::string>& specs, std::string title);
enum class Conffiles { leave, remove };
// With Conffiles::remove they are kept for the undo, as they were.
Action remove_action(const std::vector<std::string>& names, std::string title, Conffiles conffiles = Conffiles::leave);

}  // namespace millwright::apt
