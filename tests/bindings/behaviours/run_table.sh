#!/usr/bin/env bash
# run_table.sh <symm> <runner> <table>: three ranks of the runner. The last scenario kills rank 2, and only that may go wrong.
# LAYOUT=aab: the ranks are on machines of these names. HOW: how `symm run` starts them, instead of -n 3.
set -euo pipefail
symm=$1
shift
status=0
if [[ -n ${LAYOUT:-} ]]; then
  # shellcheck disable=SC2016 # for the shells of the ranks
  set -- bash -c 'export SYMM_MACHINE=${LAYOUT:SYMM_RANK:1}; exec "$@"' ranks "$@"
fi
declare -a how="(${HOW:--n 3})"
said=$("$symm" run "${how[@]}" --timeout 100 --grace 60 -- "$@" 2>&1) || status=$?
printf '%s\n' "$said"
if grep -q 'UNAVAILABLE: .*no engine' <<<"$said"; then exit 77; fi
if grep -q 'Fatal:' <<<"$said"; then exit 1; fi # of UCX, as its process ends
for rank in 0 1; do
  grep -Eq "^\[$rank\] rank $rank: [0-9]+ scenarios$" <<<"$said" || { echo "rank $rank did not get to the end" && exit 1; }
done
if ((status != 137)); then
  echo "the job ended with status $status; 137 is right, since rank 2 kills itself"
  exit 1
fi
