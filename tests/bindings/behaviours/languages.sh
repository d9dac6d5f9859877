#!/usr/bin/env bash
# languages.sh <build directory> aab|abc|machines
#
# Runs the table of behaviours by a rank each of three languages, on pretended machines of
# these letters, or on two that have networks, mounts and pids of their own. The languages'
# own tests, which come before and run the table on one machine, build the programs that it
# starts; a language that is not there is replaced by C++, and the test counts as skipped.
# shellcheck disable=SC2317,SC2329 # languages are called by their names
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=$(realpath "$1") layout=$2
bindings=$root/build/bindings
# Ranks on machines of their own do not inherit the environment; each runs this script again.
export SYMM_IPC_HOLD_MS=60000
export SYMM_LIB=$build/lib/libsymm.so JULIA_DEPOT_PATH=$bindings/julia/depot

table=$build/tests/bindings/behaviours/table.$layout.txt
python=$bindings/python/venv/bin/python
rust=$bindings/rust/debug/examples/behaviours
package=$root/bindings/julia/LibSymm.jl

run_in_python() {
  if [[ -x $python ]] && "$python" -c 'import symm, numpy'; then
    exec "$python" "$root/bindings/python/tests/behaviours.py" "$table"
  fi
}

run_in_rust() {
  if [[ -x $rust ]]; then exec "$rust" "$table"; fi
}

run_in_julia() {
  if command -v julia >/dev/null; then
    exec julia -O1 --startup-file=no "--project=$package" -e '
      include(ARGS[1])
      rank = ENV["SYMM_RANK"]
      scenarios = Behaviours.run_table(ARGS[2], parse(Int, rank))
      println("rank ", rank, ": ", scenarios, " scenarios")' \
      "$package/test/behaviours.jl" "$table"
  fi
}

# `symm run` starts this script again for each rank.
if [[ -n ${SYMM_RANK:-} ]]; then
  case $layout in
    aab) order=(python rust julia) ;;
    abc) order=(julia python rust) ;;
    *) order=(rust julia python) ;;
  esac
  language=${order[SYMM_RANK]}
  "run_in_$language"
  echo "no $language: C++ instead"
  exec "$build/bin/symm_behaviours" "$table"
fi

sed -E -f "$here/on_machines.sed" "$here/table.txt" >"$table"
export LAYOUT=$layout
if [[ $layout == machines ]]; then
  # They have no directory of tokens in common.
  for scenario in pieces_by_tokens bundles_and_versions a_reader_sleeps; do
    begin="^scenario $scenario\$"
    sed -E -i "/$begin/,/^scenario /{/$begin/d;/^scenario /!d}" "$table"
  done
  unset LAYOUT
  name=symmb$$
  machines=$root/tests/machines/machines
  trap '"$machines" down $name' EXIT
  if ! "$machines" up $name 2; then
    [[ -z ${CI:-} ]] || exit 1
    echo "SKIPPED: no network namespaces"
    exit 77
  fi
  export HOW="--hosts 10.77.0.10:2,10.77.0.11:1 --launcher '$machines on $name %h sh -c'"
fi
status=0
said=$("$here/run_table.sh" "$build/bin/symm" "${BASH_SOURCE[0]}" "$build" "$layout" 2>&1) ||
  status=$?
printf '%s\n' "$said"
if ((status == 0)) && grep -q ': C++ instead' <<<"$said"; then
  echo "SKIPPED: passed, but not in every language"
  exit 77
fi
exit $status
