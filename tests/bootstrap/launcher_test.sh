#!/bin/sh
# Ranks of a real launcher find each other:
#
#   launcher_test.sh openmpi|hydra|pmix|hydra2|torchrun2 path/to/exchange [sanitizer]
#
# Exits with 77 and a reason if the launcher is not installed. With pmix, hydra2 and torchrun2
# half of the ranks are on each of two pretended machines.
set -eu
launcher=$1
exchange=$2
sanitizer=${3-}

skip() {
  echo "SKIPPED: $1"
  exit 77
}

# fail <file> [words ...]: shows the file, says the words, and ends the test.
fail() {
  cat "$1"
  shift
  echo "$*"
  exit 1
}

# Variables of a batch system or of another launcher around this test must not be mixed in.
set_by_others='^((SLURM|SYMM|PMI|PMIX|OMPI|TORCHELASTIC)_[A-Za-z0-9_]*)=.*'
for name in $(env | sed -nE "s/$set_by_others/\\1/p") RANK WORLD_SIZE; do
  unset "$name"
done

runtime=$(mktemp -d -p "$(dirname "$exchange")")
trap 'rm -rf "$runtime"' EXIT
machines=$(cd "$(dirname "$0")/../machines" && pwd)/machines
job=symmp$$
first=10.77.0.10
second=10.77.0.11
export XDG_RUNTIME_DIR="$runtime" SYMM_PMIX="" SYMM_SECRET_FILE="$runtime/secret"
# Open MPI wants to be told twice that it may run as root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

need() { command -v "$1" >/dev/null || skip "$1 is not installed"; }

two_machines() {
  trap '"$machines" down $job; rm -rf "$runtime"' EXIT
  if ! "$machines" up $job 2; then
    [ -z "${CI-}" ] || exit 1
    skip "no network namespaces"
  fi
  "$machines" agent $job >"$runtime/agent"
  chmod +x "$runtime/agent"
}

# torchrun is started once on each machine.
torchrun_on_both() {
  half=$(($1 / 2))
  shift
  set -- --nnodes 2 --nproc-per-node $half --master-addr $first --master-port 29500 \
    --no-python "$@"
  "$machines" on $job $second torchrun --node-rank 1 "$@" &
  there=$!
  "$machines" on $job $first torchrun --node-rank 0 "$@" && wait $there
}

# start: what starts so many ranks, the number of which comes next. by: what the ranks say that
# they were started by. library: the MPI library that the launcher belongs to.
case $launcher in
  openmpi)
    need mpirun.openmpi
    # On one machine nobody asks PMIx.
    export SYMM_PMIX=/nowhere
    start="mpirun.openmpi --oversubscribe -n"
    by="Open MPI"
    library=libmpi.so.40
    ;;
  pmix)
    # Open MPI brings a PMIx.
    need mpirun.openmpi
    ldconfig -p | grep -q libpmix.so.2 || skip "libpmix.so.2 is not installed"
    [ -z "$sanitizer" ] || skip "PMIx was not built for the $sanitizer sanitizer"
    two_machines
    start="$machines on $job $first mpirun.openmpi --oversubscribe --host $first:2,$second:2
      -x SYMM_PMIX -x SYMM_SECRET_FILE --mca plm_rsh_agent $runtime/agent --mca btl tcp,self
      --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 -n"
    by="Open MPI"
    library=libmpi.so.40
    ;;
  hydra)
    need mpiexec.hydra
    start="mpiexec.hydra -n"
    by="PMI"
    library=libmpich.so.12
    ;;
  hydra2)
    need mpiexec.hydra
    two_machines
    # PMI-1 does not say where rank 0 is.
    export MASTER_ADDR=$first SYMM_PORT=29511
    start="$machines on $job $first mpiexec.hydra -launcher ssh -launcher-exec $runtime/agent
      -iface v0 -hosts $first,$second -n"
    by="PMI"
    library=libmpich.so.12
    ;;
  torchrun2)
    need torchrun
    two_machines
    start=torchrun_on_both
    by="torchrun"
    library="a library of it"
    ;;
  *)
    echo "no such launcher: $launcher"
    exit 2
    ;;
esac

# expect_ranks <number of ranks> <command ...>
expect_ranks() {
  size=$1
  shift
  # The ranks are started through a shell, as launch scripts do: their parents then differ.
  $start "$size" sh -c '"$@"; exit $?' sh "$@" >"$runtime/out" 2>&1 ||
    fail "$runtime/out" "failed: $start $size $*"
  rank=0
  while [ "$rank" -lt "$size" ]; do
    grep -qF "rank $rank of $size by env:// ($by)" "$runtime/out" ||
      fail "$runtime/out" "rank $rank of $size said nothing"
    rank=$((rank + 1))
  done
}

if [ "$launcher" = pmix ]; then
  for library_of in "/nowhere no PMIx" "libm.so.6 has no PMIx_Get_version"; do
    SYMM_PMIX=${library_of%% *} $start 4 "$exchange" >"$runtime/out" 2>&1 && exit 1
    refusal="unavailable: .*${library_of#* }.*MASTER_ADDR and SYMM_PORT"
    grep -Eq "$refusal" "$runtime/out" || fail "$runtime/out" "that is not the refusal"
  done
fi
expect_ranks 2 "$exchange" env://
expect_ranks 4 "$exchange" env:// 10
expect_ranks 8 "$exchange" env:// 1

# Two jobs at once keep apart, where their user gives them no port.
if [ "${launcher%2}" = "$launcher" ]; then
  (expect_ranks 3 "$exchange" env:// 20) &
  other=$!
  # One of two jobs of Open MPI fails where both make its directory at once.
  [ "$launcher" != openmpi ] || export TMPDIR="$runtime"
  $start 3 "$exchange" env:// 20 >"$runtime/second" 2>&1 ||
    fail "$runtime/second" "the second job failed"
  wait "$other"
fi

# An MPI library in the same processes changes nothing.
left_out="the part with MPI in the same process was left out"
if [ -n "$sanitizer" ]; then
  echo "with the $sanitizer sanitizer: $left_out (it leaks by itself, and was not built for one)"
elif ldconfig -p 2>/dev/null | grep -q "$library"; then
  expect_ranks 2 "$exchange" env:// 2 "$library"
else
  echo "without $library: $left_out"
fi

if [ ! -e "$runtime/agent" ] && [ -n "$(ls "$runtime/symm")" ]; then
  ls -R "$runtime/symm"
  echo "left behind"
  exit 1
fi
