#!/usr/bin/env bash
# tools.sh format|shellcheck|workflows <repository root>: what is installed checks, what is not is skipped.
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
  workflows)
    PATH=$PATH:build/bindings/python/venv/bin
    have check-jsonschema
    check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
    ;;
esac
