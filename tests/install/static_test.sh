#!/usr/bin/env bash
# static_test.sh <source> <cmake> <C compiler> <C++ compiler> <symm>: a project of somebody else
# has a libsymm.a, within its own build, by find_package and by pkg-config, and two ranks of each
# meet over tcp:// on two machines, which are pretended. Where there is no libsodium.a, the
# configure step and the error say so.
set -euo pipefail
source=$1 cmake=$2 cc=$3 cxx=$4 tool=$5
consumer=$source/tests/install/consumer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CMAKE_PREFIX_PATH LD_LIBRARY_PATH PKG_CONFIG_PATH SYMM_BOOTSTRAP
export SYMM_SECRET_FILE=$work/secret

fail() {
  echo "$*"
  exit 1
}

# configure <source> <build> [options]
configure() {
  "$cmake" -S "$1" -B "$2" "-DCMAKE_C_COMPILER=$cc" "-DCMAKE_CXX_COMPILER=$cxx" "${@:3}" \
    >"$2.log" 2>&1 || fail "$(<"$2.log")"
}

# meet <program>: as two ranks, each of which takes itself for alone on its machine
meet() {
  local port
  port=$(python3 -c '
import socket
free = socket.socket()
free.bind(("", 0))
print(free.getsockname()[1])')
  # shellcheck disable=SC2016 # for the shells of the ranks
  SYMM_TIMEOUT_MS=60000 "$tool" run -n 2 --timeout 100 -- sh -c '
    SYMM_MACHINE=m$SYMM_RANK SYMM_BOOTSTRAP=tcp://127.0.0.1:$0 exec "$1"' "$port" "$1" 2>&1
}

mkdir "$work/parent"
cat >"$work/parent/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES C CXX)
set(SYMM_STATIC ON)
set(SYMM_INSTALL ON)
add_subdirectory("$source" symm)
add_executable(within "$consumer/consumer.c")
target_link_libraries(within PRIVATE symm::symm)
CMAKE

# A project that finds no libsodium.a hears of it.
configure "$work/parent" "$work/without" -DSYMM_CUDA=off -DSYMM_SODIUM_LIBRARY=
grep -q "found no libsodium.a" "$work/without.log" || fail "$(<"$work/without.log")"
configure "$work/parent" "$work/off" -DSYMM_CUDA=off -DSYMM_SODIUM=OFF
grep -q "SYMM_SODIUM is off" "$work/off.log" || fail "$(<"$work/off.log")"

configure "$work/parent" "$work/build" -DSYMM_CUDA=off \
  -DCMAKE_CXX_FLAGS=-DSYMM_SIMD_BASELINE_ONLY "-DCMAKE_CXX_COMPILER_LAUNCHER=$(command -v ccache)"
if grep -q "found no libsodium.a" "$work/build.log"; then
  echo "SKIPPED: no libsodium.a here"
  exit 77
fi
"$cmake" --build "$work/build" -j "$(nproc)" --target within >"$work/log" 2>&1 ||
  fail "$(<"$work/log")"
"$cmake" --install "$work/build" --prefix "$work/prefix" >/dev/null

configure "$consumer" "$work/by-cmake" -DCMAKE_PREFIX_PATH="$work/prefix"
"$cmake" --build "$work/by-cmake" >"$work/log" 2>&1 || fail "$(<"$work/log")"

PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name symm.pc)")
export PKG_CONFIG_PATH
read -ra flags < <(pkg-config --cflags --libs symm)
"$cc" -std=c99 "$consumer/consumer.c" -o "$work/by-pkg-config" "${flags[@]}"

for program in build/within by-cmake/consumer_c by-cmake/consumer_cxx by-pkg-config; do
  said=$(meet "$work/$program") || true
  if grep -q 'no engine' <<<"$said"; then
    echo "SKIPPED: no UCX here, which carries between machines"
    exit 77
  fi
  (($(grep -c 'consumer: 2 rank(s), sum 4' <<<"$said") == 2)) || fail "$program: $said"
done
