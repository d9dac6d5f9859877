#!/usr/bin/env bash
# Four ranks in four languages, one group, one symmetric heap:
# languages.sh <build directory> [<directory for the sums>] SYMM_RUN:
# how `symm run` starts four ranks, instead of -n 4. A language that
# is not to be had here is replaced by C++, and the reason is printed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(realpath "${1:?usage: languages.sh <build directory>}")
library=$build/lib/libsymm.so
# Found beside each other once; `symm run` starts this script again for every rank.
if [[ -n ${SYMM_RANK:-} ]]; then
  IFS=$'\t' read -ra command <<<"$(sed -n "$((SYMM_RANK % 4 + 1))p" "$SYMM_LANGUAGES")"
  exec "${command[@]}" "${@:2}"
fi

commands=$(mktemp -p "$build") # on a machine of its own, /tmp may be another
trap 'rm -f "$commands"' EXIT
without() { echo "$1: a rank in C++ instead ($2)" && return 1; }
line() { (IFS=$'\t' && echo "$*" >>"$commands"); }
cpp() { line "$build/bin/symm_languages"; }

python_rank() {
  local python=$root/build/bindings/python/venv/bin/python
  [[ -f ${python%/bin/*}/.complete ]] || { without Python "bindings/python/dev setup has made no environment" || return; }
  "$root/bindings/python/dev" wheel "$library" >/dev/null || { without Python "its wheel could not be built" || return; }
  "$python" -m pip install -q --disable-pip-version-check --no-deps --no-index --force-reinstall "$root/build/bindings/python/dist/"libsymm-*.whl ||
    { without Python "its wheel could not be installed" || return; }
  line "$python" "$root/bindings/python/examples/demo.py"
}
rust_rank() {
  local program
  command -v cargo >/dev/null || { without Rust "no cargo" || return; }
  program=$("$root/bindings/rust/dev" example demo) || { without Rust "its example could not be built" || return; }
  line "$program"
}
julia_rank() {
  command -v julia >/dev/null || { without Julia "no julia" || return; }
  # Once, so that no rank keeps the others waiting while it compiles.
  SYMM_LIB=$library julia --startup-file=no --project="$root/bindings/julia/LibSymm.jl" -e 'using LibSymm' ||
    { without Julia "LibSymm.jl does not load" || return; }
  line julia --startup-file=no --project="$root/bindings/julia/LibSymm.jl" "$root/bindings/julia/examples/demo.jl"
}

cpp
python_rank || cpp
rust_rank || cpp
julia_rank || cpp
declare -a how="(${SYMM_RUN:--n 4})"
SYMM_LIB=$library SYMM_LANGUAGES=$commands "$build/bin/symm" run "${how[@]}" --timeout 120 -- "$(realpath "${BASH_SOURCE[0]}")" "$build" "${@:2}"
