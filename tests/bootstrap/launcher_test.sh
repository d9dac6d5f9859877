#!/bin/sh
# Ranks of a real launcher find each other: launcher_test.sh openmpi|hydra|pmix path/to/exchange [sanitizer]
# Exits with 77 and a reason if the launcher is not installed. pmix: Open MPI on two pretended machines.
set -eu
launcher=$1 exchange=$2 sanitizer=${3-}

skip() { echo "skipped: $1"; exit 77; }

# What a batch system or another launcher around this test says is not to be mixed in.
for name in $(env | sed -nE 's/^((SLURM|SYMM|PMI|PMIX|OMPI|TORCHELASTIC)_[A-Za-z0-9_]*)=.*/\1/p') RANK WORLD_SIZE; do
  unset "$name"
done

runtime=$(mktemp -d -p "$(dirname "$exchange")")
trap 'rm -rf "$runtime"' EXIT
export XDG_RUNTIME_DIR="$runtime"
machines=$(cd "$(dirname "$0")/../machines" && pwd)/machines
job=symmp$$
export SYMM_PMIX=

case $launcher in
  openmpi)
    command -v mpirun.openmpi >/dev/null || skip "mpirun.openmpi is not installed"
    # As root Open MPI wants to be told twice.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export SYMM_PMIX=/nowhere # which one machine does not ask
    start="mpirun.openmpi --oversubscribe -n" by="Open MPI" library=libmpi.so.40 ;;
  pmix)
    command -v mpirun.openmpi >/dev/null || skip "mpirun.openmpi is not installed"
    ldconfig -p | grep -q libpmix.so.2 || skip "libpmix.so.2 is not installed"
    [ -z "$sanitizer" ] || skip "PMIx was not built for the $sanitizer sanitizer"
    trap '"$machines" down $job; rm -rf "$runtime"' EXIT
    "$machines" up $job 2 || { [ -z "${CI-}" ] || exit 1; skip "no network namespaces"; }
    "$machines" agent $job >"$runtime/agent"
    chmod +x "$runtime/agent"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    start="$machines on $job 10.77.0.10 mpirun.openmpi --oversubscribe --host 10.77.0.10:2,10.77.0.11:2 -x SYMM_PMIX -x SYMM_SECRET_FILE=$runtime/secret
      --mca plm_rsh_agent $runtime/agent --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 -n"
    by="Open MPI" library=libmpi.so.40 ;;
  hydra)
    command -v mpiexec.hydra >/dev/null || skip "mpiexec.hydra is not installed"
    start="mpiexec.hydra -n" by="PMI" library=libmpich.so.12 ;;
  *) echo "no such launcher: $launcher"; exit 2 ;;
esac

# Arguments: number of ranks, then the command.
expect_ranks() {
  size=$1; shift
  # Through a shell, as launch scripts do: the ranks' parents then differ.
  $start "$size" sh -c '"$@"; exit $?' sh "$@" >"$runtime/out" 2>&1 || {
    cat "$runtime/out"; echo "failed: $start $size $*"; exit 1
  }
  rank=0
  while [ "$rank" -lt "$size" ]; do
    grep -qF "rank $rank of $size by env:// ($by)" "$runtime/out" || {
      cat "$runtime/out"; echo "rank $rank of $size said nothing"; exit 1
    }
    rank=$((rank + 1))
  done
}

if [ "$launcher" = pmix ]; then
  for library_of in "/nowhere no PMIx" "libm.so.6 has no PMIx_Get_version"; do
    SYMM_PMIX=${library_of%% *} $start 4 "$exchange" >"$runtime/out" 2>&1 && exit 1
    grep -Eq "unavailable: .*${library_of#* }.*MASTER_ADDR and SYMM_PORT" "$runtime/out" || { cat "$runtime/out"; exit 1; }
  done
fi
expect_ranks 2 "$exchange" env://
expect_ranks 4 "$exchange" env:// 10
expect_ranks 8 "$exchange" env:// 1

# Two jobs at once keep apart.
(expect_ranks 3 "$exchange" env:// 20) & other=$!
[ "$launcher" != openmpi ] || export TMPDIR="$runtime" # one of two fails where both make its directory at once
$start 3 "$exchange" env:// 20 >"$runtime/second" 2>&1 || { cat "$runtime/second"; exit 1; }
wait "$other"

# An MPI library in the same processes.
if [ -n "$sanitizer" ]; then
  echo "with the $sanitizer sanitizer: the part with MPI in the same process was left out (it leaks by itself, and was not built for one)"
elif ldconfig -p 2>/dev/null | grep -q "$library"; then
  expect_ranks 2 "$exchange" env:// 2 "$library"
else
  echo "without $library: the part with MPI in the same process was left out"
fi

[ "$launcher" = pmix ] || [ -z "$(ls "$runtime/symm")" ] || { ls -R "$runtime/symm"; echo "left behind"; exit 1; }
