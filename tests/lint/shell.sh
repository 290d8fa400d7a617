#!/usr/bin/env bash
# Runs shellcheck over every shell script of the repository, found by its first line, and over what those source.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
mapfile -t scripts < <(git ls-files --cached --others --exclude-standard | while read -r f; do
  if [[ -f $f && $(head -c 64 "$f" | tr -d '\0' | head -n 1) =~ ^\#!.*[/\ ](ba|da)?sh$ ]]; then echo "$f"; fi
done)
shellcheck --source-path=. --external-sources "${scripts[@]}"
echo "${#scripts[@]} scripts are clean"
