#!/bin/sh
# Builds a fuzzer with clang and libFuzzer, and runs it:
#
#   run_fuzz.sh <source root> <build directory> <seconds> <name> <sources ...>
#
# The fuzzer is tests/fuzz/<name>_fuzz.cpp, and its seeds are in tests/fuzz/corpus/<name>.
# Exit status 77 (skipped) where clang or libFuzzer is missing.
set -eu
root=$1
build=$2
seconds=$3
name=$4
shift 4
mkdir -p "$build/corpus"

if ! command -v clang++ >/dev/null; then
  echo "SKIPPED: no clang++"
  exit 77
fi
flags="-std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all"
cat >"$build/probe.cpp" <<'CPP'
extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, decltype(sizeof 0)) { return 0; }
CPP
# shellcheck disable=SC2086
if ! clang++ $flags "$build/probe.cpp" -o "$build/probe" 2>"$build/probe.log"; then
  echo "SKIPPED: clang++ has no libFuzzer: $(tail -1 "$build/probe.log")"
  exit 77
fi

cd "$root"
# shellcheck disable=SC2086
clang++ $flags -I"$root" -I"$root/capi/include" "tests/fuzz/${name}_fuzz.cpp" "$@" \
  -o "$build/${name}_fuzz"
exec "$build/${name}_fuzz" -max_total_time="$seconds" -max_len=5000 -timeout=5 \
  -print_final_stats=1 -artifact_prefix="$build/" "$build/corpus" "tests/fuzz/corpus/$name"
