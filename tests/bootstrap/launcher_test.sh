#!/bin/sh
# Ranks of a real launcher find each other: launcher_test.sh
# openmpi|hydra|pmix|hydra2|torchrun2 path/to/exchange [sanitizer]
# Exits with 77 and a reason if it is not installed. From the third
# on half of the ranks are on each of two pretended machines.
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
first=10.77.0.10 second=10.77.0.11
export SYMM_PMIX="" SYMM_SECRET_FILE="$runtime/secret"
# which Open MPI wants to be told twice
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

need() { command -v "$1" >/dev/null || skip "$1 is not installed"; }
two_machines() {
  trap '"$machines" down $job; rm -rf "$runtime"' EXIT
  "$machines" up $job 2 || { [ -z "${CI-}" ] || exit 1; skip "no network namespaces"; }
  "$machines" agent $job >"$runtime/agent"
  chmod +x "$runtime/agent"
}
torchrun_on_both() { # is started once on each
  half=$(($1 / 2)); shift
  set -- --nnodes 2 --nproc-per-node $half --master-addr $first --master-port 29500 --no-python "$@"
  "$machines" on $job $second torchrun --node-rank 1 "$@" & there=$!
  "$machines" on $job $first torchrun --node-rank 0 "$@" && wait $there
}

case $launcher in
  openmpi)
    need mpirun.openmpi
    export SYMM_PMIX=/nowhere # which one machine does not ask
    start="mpirun.openmpi --oversubscribe -n" by="Open MPI" library=libmpi.so.40 ;;
  pmix)
    need mpirun.openmpi # which has a PMIx
    ldconfig -p | grep -q libpmix.so.2 || skip "libpmix.so.2 is not installed"
    [ -z "$sanitizer" ] || skip "PMIx was not built for the $sanitizer sanitizer"
    two_machines
    start="$machines on $job $first mpirun.openmpi --oversubscribe --host $first:2,$second:2 -x SYMM_PMIX -x SYMM_SECRET_FILE
      --mca plm_rsh_agent $runtime/agent --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 -n"
    by="Open MPI" library=libmpi.so.40 ;;
  hydra)
    need mpiexec.hydra
    start="mpiexec.hydra -n" by="PMI" library=libmpich.so.12 ;;
  hydra2)
    need mpiexec.hydra
    two_machines
    export MASTER_ADDR=$first SYMM_PORT=29511 # PMI-1 does not say where rank 0 is
    start="$machines on $job $first mpiexec.hydra -launcher ssh -launcher-exec $runtime/agent -iface v0 -hosts $first,$second -n"
    by="PMI" library=libmpich.so.12 ;;
  torchrun2)
    need torchrun
    two_machines
    start=torchrun_on_both by="torchrun" library="a library of it" ;;
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

# Two jobs at once keep apart, where their user gives them no port.
if [ "${launcher%2}" = "$launcher" ]; then
  (expect_ranks 3 "$exchange" env:// 20) & other=$!
  # one of two fails where both make its directory at once
  [ "$launcher" != openmpi ] || export TMPDIR="$runtime"
  $start 3 "$exchange" env:// 20 >"$runtime/second" 2>&1 || { cat "$runtime/second"; exit 1; }
  wait "$other"
fi

# An MPI library in the same processes.
if [ -n "$sanitizer" ]; then
  echo "with the $sanitizer sanitizer: the part with MPI in the same process was left out (it leaks by itself, and was not built for one)"
elif ldconfig -p 2>/dev/null | grep -q "$library"; then
  expect_ranks 2 "$exchange" env:// 2 "$library"
else
  echo "without $library: the part with MPI in the same process was left out"
fi

[ -e "$runtime/agent" ] || [ -z "$(ls "$runtime/symm")" ] || { ls -R "$runtime/symm"; echo "left behind"; exit 1; }
