#!/usr/bin/env bash
# dlopen_go.sh <libsymm.so> <symm> <folder>: examples/dlopen.go is built with the header alone,
# opens the library, and is right alone and as three ranks. Ends with 77 where there is no Go.
set -euo pipefail
library=$1 symm=$2 folder=$3
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

if ! command -v go >/dev/null; then
  echo "SKIPPED: no go"
  exit 77
fi
mkdir -p "$folder"
export GOCACHE=$folder/cache GOENV=off GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=1
include=$root/capi/include
# Go keeps what it has made of a header until the flags change, though the header has changed.
header=$(sha256sum <"$include/symm/symm.h" | cut -c1-16)
export CGO_CFLAGS="-I$include -DSYMM_HEADER_$header"
go vet "$root/examples/dlopen.go"
go build -o "$folder/dlopen" "$root/examples/dlopen.go"

# expect <lines> <text>: so many lines of what was said end in the text
expect() {
  local found
  found=$(grep -c -e "$2\$" <<<"$said") || true
  [[ $found == "$1" ]] && return
  printf '%s\nnot %s times: %s\n' "$said" "$1" "$2"
  exit 1
}

export SYMM_LIB=$library
said=$("$folder/dlopen")
expect 1 'rank 0 of 1: the sums are \[0 1\]'
said=$("$symm" run -n 3 --timeout 60 -- "$folder/dlopen")
expect 1 'rank 1 of 3: rank 0 was here'
expect 3 'the sums are \[3 3\]'

# What goes wrong is said by the library's message, or by the loader.
said=$(SYMM_BOOTSTRAP=nowhere:// "$folder/dlopen" 2>&1) && exit 1
expect 1 'rank to blame -1: .*nowhere.*'
said=$(SYMM_LIB=/nowhere/libsymm.so "$folder/dlopen" 2>&1) && exit 1
expect 1 '/nowhere/libsymm.so: cannot open.*'
