#!/usr/bin/env bash
# Are the C++ files as clang-format writes them? Versions differ in details, so only the one that the project uses counts.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
version=14
tool=$(command -v clang-format-$version || command -v clang-format) || { echo "clang-format is not installed"; exit 77; }
"$tool" --version | grep -q "version $version\." || { echo "needs clang-format $version, here is: $("$tool" --version)"; exit 77; }
git ls-files -z --cached --others --exclude-standard '*.cpp' '*.hpp' | xargs -0 "$tool" --dry-run --Werror
echo "all files are formatted"
