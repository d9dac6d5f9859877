#!/usr/bin/env bash
# tools.sh format|shellcheck|alone <repository root>: what is installed checks, what is not is skipped.
set -euo pipefail
cd "$2"
have() { command -v "$1" >/dev/null || { echo "SKIPPED: $1 is not installed" && exit 77; }; }
listed() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do [[ -f $file ]] && echo "$file"; done; }

case $1 in
  format)
    have clang-format
    listed '*.h' '*.c' '*.hpp' '*.cpp' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror
    ;;
  shellcheck)
    have shellcheck
    mapfile -t scripts < <(listed | while read -r file; do
      if head -n 1 "$file" | grep -qE '^#!.*\b(ba)?sh\b'; then echo "$file"; fi
    done)
    ((${#scripts[@]} > 0))
    shellcheck -x "${scripts[@]}"
    ;;
  alone) # CI compiles the tool's files together, users one by one: each includes what it uses
    listed 'tools/*.cpp' | xargs -P 2 -n 1 "${CXX:-c++}" -std=c++20 -fsyntax-only -I. -Icapi/include
    ;;
esac
