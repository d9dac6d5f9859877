#!/usr/bin/env bash
# mpi.sh <libsymm.so> <folder>: examples/mpi_store.c and the programs of docs/how-to/with-mpi.md
# are built by mpicc, and are right as four ranks; and so is examples/18-halos/halos_mpi.cpp, which
# has the result of halos.cpp. Ends with 77 where there is no Open MPI.
set -euo pipefail
library=$1 folder=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

for program in mpicc.openmpi mpirun.openmpi; do
  if ! command -v $program >/dev/null; then
    echo "SKIPPED: no $program"
    exit 77
  fi
done
mkdir -p "$folder"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# build <source> <program>
build() {
  mpicc.openmpi -std=c11 -Wall -Wextra -Werror -I"$root/capi/include" "$1" -o "$2" \
    -L"$(dirname "$library")" -lsymm -Wl,-rpath,"$(dirname "$library")"
}

# start <program>: as four ranks, of which each says a line
start() {
  timeout 60 mpirun.openmpi --oversubscribe -n 4 "$1"
}

# expect <text>: a line of what was said is this
expect() {
  grep -qxF -- "$1" <<<"$said" && return
  printf '%s\nnot said: %s\n' "$said" "$1"
  exit 1
}

# The blocks of C of the page, in their order: a directory, an id. Each is the middle of a
# function that makes a group of a communicator.
python3 - "$root/docs/how-to/with-mpi.md" "$folder" <<'PYTHON'
import pathlib
import re
import sys

BEGIN = """#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/symm.h>

static symm_status_t make(MPI_Comm comm, symm_group_t** out) {
  symm_group_t* group = NULL;
"""
END = """
  *out = group;
  return status;
}

int main(int argc, char** argv) {
  int rank;
  double x;
  symm_group_t* group;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
  if (make(half, &group) != SYMM_OK) {
    fprintf(stderr, "%s\\n", symm_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  x = rank;
  if (symm_allreduce(group, &x, &x, 1, SYMM_DTYPE_F64, SYMM_OP_SUM, NULL, NULL) != SYMM_OK) {
    fprintf(stderr, "%s\\n", symm_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  printf("rank %d: the %s ranks add up to %g\\n", rank, rank % 2 ? "odd" : "even", x);
  symm_group_finalize(group, NULL);
  symm_group_release(group);
  MPI_Comm_free(&half);
  MPI_Finalize();
  return 0;
}
"""
page = pathlib.Path(sys.argv[1]).read_text()
blocks = re.findall(r"^```c\n(.*?)^```", page, flags=re.M | re.S)
makers = [block for block in blocks if "symm_group_create" in block and "config" in block]
assert len(makers) >= 2, f"{len(makers)} blocks of the page make a group"
for number, block in enumerate(makers[:2]):
    text = block
    if "int rank" not in text:
        text = "int rank, size;\nMPI_Comm_rank(comm, &rank);\nMPI_Comm_size(comm, &size);\n" + text
    if "symm_status_t status" not in text:
        text = "symm_status_t status = SYMM_OK;\n" + text
    pathlib.Path(sys.argv[2], f"page{number}.c").write_text(BEGIN + text + END)
PYTHON

for source in "$root/examples/mpi_store.c" "$folder/page0.c" "$folder/page1.c"; do
  program=$folder/$(basename "$source" .c)
  build "$source" "$program"
  said=$(start "$program")
  for rank in 0 2; do
    expect "rank $rank: the even ranks add up to 2"
  done
  for rank in 1 3; do
    expect "rank $rank: the odd ranks add up to 4"
  done
done

mpicxx.openmpi -std=c++17 -O2 -ffp-contract=off -Wall -Wextra -Werror -DOMPI_SKIP_MPICXX \
  "$root/examples/18-halos/halos_mpi.cpp" -o "$folder/halos_mpi"
said=$(start "$folder/halos_mpi")
expect "after 400 steps row 30 has 2.841348 degrees in the middle, and changed by 0.060499"
echo "mpi_store.c, two programs of with-mpi.md and halos_mpi.cpp"
