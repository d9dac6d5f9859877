#!/usr/bin/env bash
# goroutines.sh <go> <libsymm.so> <folder>: runs goroutines.go with the library; the folder is
# Go's cache.
set -euo pipefail
go=$1 library=$2 folder=$3
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
include=$root/capi/include

unset GOFLAGS
export GOCACHE=$folder CGO_ENABLED=1 GO111MODULE=off
# Go keeps what it has made of a header until the flags change, though the header has changed.
header=$(sha256sum <"$include/symm/symm.h" | cut -c1-16)
export CGO_CFLAGS="-I$include -DSYMM_HEADER_$header"
export CGO_LDFLAGS="$library -Wl,-rpath,${library%/*}"
exec "$go" run "$root/tests/capi/goroutines.go"
