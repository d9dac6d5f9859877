#!/usr/bin/env bash
# Four ranks in four languages, one group, one symmetric heap:
#
#   languages.sh <build directory> [<directory for the sums>]
#
# SYMM_RUN says how `symm run` starts four ranks, instead of -n 4. A language that cannot be
# had here, even by the `setup` of its binding, is replaced by C++, and the reason is printed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(realpath "${1:?usage: languages.sh <build directory>}")
library=$build/lib/libsymm.so

# The command of each rank is found once, below; `symm run` starts this script again for
# every rank.
if [[ -n ${SYMM_RANK:-} ]]; then
  IFS=$'\t' read -ra command <<<"$(sed -n "$((SYMM_RANK % 4 + 1))p" "$SYMM_LANGUAGES")"
  exec "${command[@]}" "${@:2}"
fi

# The file lies in the build, since /tmp may be another one on a pretended machine.
commands=$(mktemp -p "$build")
trap 'rm -f "$commands"' EXIT

without() {
  echo "$1: a rank in C++ instead ($2)"
  return 1
}

# line <words of a command ...>
line() { (IFS=$'\t' && echo "$*" >>"$commands"); }

# The languages of the ranks.
languages=()

cpp() {
  languages+=(C++)
  line "$build/bin/symm_languages"
}

python_rank() {
  local environment=$root/build/bindings/python/venv
  local python=$environment/bin/python
  local wheels=$root/build/bindings/python/dist
  [[ -f $environment/.complete ]] ||
    { without Python "bindings/python/dev setup has made no environment" || return; }
  "$root/bindings/python/dev" wheel "$library" >/dev/null ||
    { without Python "its wheel could not be built" || return; }
  "$python" -m pip install -q --disable-pip-version-check --no-deps --no-index \
    --force-reinstall "$wheels/"libsymm-*.whl ||
    { without Python "its wheel could not be installed" || return; }
  languages+=(Python)
  line "$python" "$root/bindings/python/examples/demo.py"
}

rust_rank() {
  local program
  "$root/bindings/rust/dev" usable ||
    { without Rust "no cargo that is new enough: bindings/rust/dev setup" || return; }
  program=$("$root/bindings/rust/dev" example demo) ||
    { without Rust "its example could not be built" || return; }
  languages+=(Rust)
  line "$program"
}

julia_rank() {
  local julia=(julia --startup-file=no "--project=$root/bindings/julia/LibSymm.jl")
  "$root/bindings/julia/dev" usable ||
    { without Julia "no julia that works: bindings/julia/dev setup" || return; }
  # The package is compiled once, so that no rank keeps the others waiting for that.
  SYMM_LIB=$library "${julia[@]}" -e 'using LibSymm' ||
    { without Julia "LibSymm.jl does not load" || return; }
  languages+=(Julia)
  line "${julia[@]}" "$root/bindings/julia/examples/demo.jl"
}

cpp
python_rank || cpp
rust_rank || cpp
julia_rank || cpp
echo "the ranks are in ${languages[*]}"

declare -a how="(${SYMM_RUN:--n 4})"
self=$(realpath "${BASH_SOURCE[0]}")
SYMM_LIB=$library SYMM_LANGUAGES=$commands \
  "$build/bin/symm" run "${how[@]}" --timeout 120 -- "$self" "$build" "${@:2}"
