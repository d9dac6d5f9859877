#!/usr/bin/env bash
# Formatters and linters of others, in the versions of requirements.txt.
#
#   tests/lint/tools.sh <check> [root]   check the whole tree; 77 with a reason without the tool
#   tests/lint/tools.sh fix [root]       format the whole tree in place, by all formatters
#
# Checks: format (C, C++, CUDA), python, rust, julia, cmake, shell, spelling, workflows.
set -euo pipefail
what=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${2:-$here/../..}"

skip() {
  echo "SKIPPED: $*"
  exit 77
}

# pinned <tool>: sets `tool` to the path of the pinned version.
pinned() {
  tool=$(python3 "$here/pinned.py" "$1") && return
  echo "$tool"
  exit 77
}

# listed <patterns ...>: the files of the tree, also those that are not committed yet.
listed() {
  local file
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
    if [[ -f $file ]]; then echo "$file"; fi
  done
}

# with_first_line <extended regular expression>: the files whose first line matches.
with_first_line() {
  local file line
  listed | while read -r file; do
    IFS= read -r line 2>/dev/null <"$file" || true
    if [[ $line =~ $1 ]]; then echo "$file"; fi
  done
}

c_family() { listed '*.h' '*.c' '*.hpp' '*.cpp' '*.cu' '*.cuh'; }
cmake_files() { listed '*.cmake' '*CMakeLists.txt'; }
julia_files() { listed '*.jl'; }

shell_scripts() {
  with_first_line '^#!.*[/ ](ba)?sh$'
  echo bindings/apt.sh # sourced, so it has no first line that names a shell
}

# The Python files that ruff finds: those with the suffix, and those that pyproject.toml adds.
run_ruff() { "$tool" "$@" --quiet --no-cache .; }

run_rustfmt() {
  command -v cargo >/dev/null || skip "cargo is not installed"
  cargo fmt --version >/dev/null 2>&1 || skip "rustfmt is not installed"
  local manifest
  for manifest in bindings/rust/Cargo.toml bindings/rust/generate/Cargo.toml; do
    cargo fmt --all --manifest-path "$manifest" -- "$@"
  done
}

# JuliaFormatter is a package of Julia's registry, which .JuliaFormatter.toml configures.
run_julia() {
  command -v julia >/dev/null || skip "julia is not installed"
  julia --startup-file=no -e 'using JuliaFormatter' 2>/dev/null ||
    skip "JuliaFormatter is not installed in this julia"
  julia_files | julia --startup-file=no -e '
    using JuliaFormatter
    changed = [file for file in eachline(stdin) if !format_file(file; overwrite=ARGS[1] == "fix")]
    foreach(file -> println(file, ": not formatted"), changed)
    exit(ARGS[1] == "check" && !isempty(changed))' "$1"
}

case $what in
  format)
    pinned clang-format
    c_family | xargs "$tool" --dry-run -Werror
    ;;
  python)
    pinned ruff
    run_ruff format --check
    run_ruff check
    ;;
  rust)
    run_rustfmt --check
    ;;
  julia)
    run_julia check
    ;;
  cmake)
    pinned gersemi
    cmake_files | xargs "$tool" --check --diff
    ;;
  shell)
    pinned shfmt
    shell_scripts | xargs "$tool" -d
    pinned shellcheck
    shell_scripts | xargs "$tool" -x
    ;;
  spelling)
    pinned codespell
    listed | xargs "$tool"
    ;;
  workflows)
    pinned check-jsonschema
    "$tool" --builtin-schema vendor.github-workflows .github/workflows/*.yml
    "$tool" --builtin-schema vendor.dependabot .github/dependabot.yml
    find .github/ISSUE_TEMPLATE -name '*.yml' ! -name config.yml -print0 |
      xargs -0 "$tool" --builtin-schema vendor.github-issue-forms
    "$tool" --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
    ;;
  fix)
    # Each in a shell of its own: one formatter that is missing leaves the others to run.
    (pinned clang-format && c_family | xargs "$tool" -i) || echo "not formatted: C, C++, CUDA"
    (pinned ruff && run_ruff format) || echo "not formatted: Python"
    (pinned gersemi && cmake_files | xargs "$tool" -i) || echo "not formatted: CMake"
    (pinned shfmt && shell_scripts | xargs "$tool" -w) || echo "not formatted: shell scripts"
    (run_rustfmt) || echo "not formatted: Rust"
    (run_julia fix) || echo "not formatted: Julia"
    ;;
  *)
    sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
