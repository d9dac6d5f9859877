#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Build the fuzzer of the wire decoder with clang and libFuzzer, and run it: run_fuzz.sh <source root> <build directory> <seconds>.
# Exit status 77 (skipped) where either is missing.
set -eu
root=$1 build=$2 seconds=$3
mkdir -p "$build/corpus"
if ! command -v clang++ > /dev/null; then
  echo "skipped: no clang++"
  exit 77
fi
flags="-std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all"
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, decltype(sizeof 0)) { return 0; }' > "$build/probe.cpp"
# shellcheck disable=SC2086
if ! clang++ $flags "$build/probe.cpp" -o "$build/probe" 2> "$build/probe.log"; then
  echo "skipped: clang++ has no libFuzzer: $(tail -1 "$build/probe.log")"
  exit 77
fi
# shellcheck disable=SC2086
clang++ $flags -I"$root" "$root/tests/fuzz/wire_fuzz.cpp" "$root/core/bootstrap/wire.cpp" "$root/core/error.cpp" -o "$build/wire_fuzz"
exec "$build/wire_fuzz" -max_total_time="$seconds" -max_len=5000 -timeout=5 -print_final_stats=1 -artifact_prefix="$build/" \
  "$build/corpus" "$root/tests/fuzz/corpus"
