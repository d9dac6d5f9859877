#!/usr/bin/env bash
# languages.sh <build directory> aab|abc|machines: the table, by a rank each of three
# languages, on pretended machines of these letters, or two that have networks, mounts
# and pids of their own. The languages' own tests, which come before and run the table
# on one machine, build what it starts; a language that is not there is replaced by C++.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=$(realpath "$1") layout=$2 bindings=$root/build/bindings
export SYMM_LIB=$build/lib/libsymm.so JULIA_DEPOT_PATH=$bindings/julia/depot

if [[ -n ${SYMM_RANK:-} ]]; then
  table=$here/table.txt package=$root/bindings/julia/LibSymm.jl python=$bindings/python/venv/bin/python
  rust=$bindings/rust/debug/examples/behaviours
  order=(rust julia python)
  case $layout in aab) order=(python rust julia) ;; abc) order=(julia python rust) ;; esac
  case ${order[SYMM_RANK]} in
    python) if [[ -x $python ]] && "$python" -c 'import symm, numpy'; then exec "$python" "$root/bindings/python/tests/behaviours.py" "$table"; fi ;;
    rust) if [[ -x $rust ]]; then exec "$rust" "$table"; fi ;;
    julia) if command -v julia >/dev/null; then
      exec julia -O1 --startup-file=no "--project=$package" -e 'include(ARGS[1]); rank = ENV["SYMM_RANK"]
        println("rank ", rank, ": ", Behaviours.run_table(ARGS[2], parse(Int, rank)), " scenarios")' "$package/test/behaviours.jl" "$table"
    fi ;;
  esac
  echo "no ${order[SYMM_RANK]}: C++ instead"
  exec "$build/bin/symm_behaviours" "$table"
fi

export LAYOUT=$layout
if [[ $layout == machines ]]; then
  unset LAYOUT
  name=symmb$$
  trap '"$root/tests/machines/machines" down $name' EXIT
  "$root/tests/machines/machines" up $name 2 || { [[ -n ${CI:-} ]] && exit 1; exit 77; }
  export HOW="--hosts 10.77.0.10:2,10.77.0.11:1 --launcher '$root/tests/machines/machines on $name %h sh -c'"
fi
"$here/run_table.sh" "$build/bin/symm" "${BASH_SOURCE[0]}" "$build" "$layout"
