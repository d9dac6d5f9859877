#!/usr/bin/env bash
# run_table.sh <symm> <runner> <table>
#
# Runs the table of behaviours by three ranks of the runner, or four. The last scenario kills
# rank 2, and no other rank may end in a failure. LAYOUT=aab puts the ranks on machines of
# these names, and makes them four if it has four letters. HOW says how `symm run` starts them,
# instead of -n 3.
set -euo pipefail
symm=$1
shift
status=0 LAYOUT=${LAYOUT:-}
if [[ -n $LAYOUT ]]; then
  # shellcheck disable=SC2016 # for the shells of the ranks
  set -- bash -c 'export SYMM_MACHINE=${LAYOUT:SYMM_RANK:1}; exec "$@"' ranks "$@"
fi

# The table says so where a token shall not be held.
export SYMM_IPC_HOLD_MS=60000

# What is published under a name is found by all who look there.
SYMM_IPC_DIRECTORY=$(mktemp -d)
export SYMM_IPC_DIRECTORY

# languages.sh, whose last word is no table, makes its own.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
table=$(mktemp)
trap 'rm -rf "$table" "${four:-}" "$SYMM_IPC_DIRECTORY"' EXIT
if [[ -n $LAYOUT && -f ${!#} ]]; then
  sed -E -f "$here/on_machines.sed" "${!#}" >"$table"
  set -- "${@:1:$#-1}" "$table"
fi

survivors=(0 1)
if ((${#LAYOUT} == 4)); then
  # Rank 3 does what the other survivors of a failure do. The scenarios of blocks of their own
  # lengths, those up to bad arguments, and those of neighbours are written for 3 ranks, and left
  # out.
  four=$(mktemp)
  from='^scenario blocks_of_their_own_lengths'
  to='^scenario bad_arguments'
  function='^scenario reductions_by_a_function$'
  sed -E \
    -e "/$from/,/$to/{/$to/!d}" \
    -e '/^scenario exchange$/,/^scenario /{/^scenario exchange$/d;/^scenario /!d}' \
    -e '/^scenario neighbor_blocks$/,/^scenario /{/^scenario neighbor_blocks$/d;/^scenario /!d}' \
    -e 's/size=3/size=4/' \
    -e 's/^(0,1 .*group=rest) rank=self size=2/\1 size=3/' \
    -e 's/^(0,1 expect at=p.* from=)1/\13/' \
    -e 's/^0,1 /0,1,3 /' \
    -e "/$function/,/^scenario /s/^([01al]+ expect .*) from=2 /\\1 from=3 /" \
    -e "/$function/,/^scenario /s/ root=3 / root=4 /" \
    -e '/^scenario prefix_reductions$/,/^scenario /s/^2 (expect .* op=MIN )/3 \1/' \
    -e 's/^0,2 (signal|barrier ->|allreduce group=c)/0,2,3 \1/' \
    -e 's/^1,2 (signal|barrier (channel=2 )?-> MISMATCH)/1,2,3 \1/' \
    -e 's/ among=(.:.) channel=9 / among=\1:3 channel=9 /' \
    -e '/ messages /s/=0:1:2 /=0:1:2:3 /g' \
    -e '/ messages /s/=2:1:0 /=3:2:1:0 /g' \
    -e 's/^(all (recv rank=left|wait_request) .* rank=)2,0,1:/\13,0,1,2:/' \
    "${!#}" >"$four"
  set -- "${@:1:$#-1}" "$four"
  survivors+=(3) HOW='-n 4'
fi

declare -a how="(${HOW:--n 3})"
said=$("$symm" run "${how[@]}" --timeout 150 --grace 60 -- "$@" 2>&1) || status=$?
printf '%s\n' "$said"
if grep -q 'UNAVAILABLE: .*no engine' <<<"$said"; then exit 77; fi
# UCX says so as its process ends.
if grep -q 'Fatal:' <<<"$said"; then exit 1; fi
for rank in "${survivors[@]}"; do
  if ! grep -Eq "^\[$rank\] rank $rank: [0-9]+ scenarios$" <<<"$said"; then
    echo "rank $rank did not get to the end"
    exit 1
  fi
done
if ((status != 137)); then
  echo "the job ended with status $status; 137 is right, since rank 2 kills itself"
  exit 1
fi
