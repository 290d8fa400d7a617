// What the questions about many paths have in common; mw_seen of path_actions.cpp reads it.
#include "steps/core/path_actions.hpp"

namespace millwright::core {

namespace {

// Of each path its name and what stat says, then the hashes of the files that are not large: three programs however
// many they are. The last newline would be lost.
constexpr std::string_view kLookScript = R"sh(mw_left=$#
while [ "$mw_left" -gt 0 ]; do
  if [ ! -L "$1" ] && { [ -f "$1" ] || [ -d "$1" ]; }; then set -- "$@" "$1"; fi
  shift
  mw_left=$((mw_left - 1))
done
[ "$#" -gt 0 ] || exit 0
echo
stat -c '%n
%a %u %g / %h %s %U %G' "$@"
mw_left=$#
while [ "$mw_left" -gt 0 ]; do
  [ ! -f "$1" ] || set -- "$@" "$1"
  shift
  mw_left=$((mw_left - 1))
done
[ "$#" -eq 0 ] || find "$@" -type f -size -8193 -exec sha256sum {} +
echo .
)sh";

}  // namespace

std::optional<SharedLook> path_look(std::string_view path) {
  // Names that the lines of the answer could not hold, or that could be taken for another's.
  if (path.find_first_of("\n\\") != std::string_view::npos || path.find("  ") != std::string_view::npos) return {};
  return SharedLook{"mw_paths", std::string(kLookScript), std::string(path)};
}

}  // namespace millwright::core
