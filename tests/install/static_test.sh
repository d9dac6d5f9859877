#!/usr/bin/env bash
# static_test.sh <source> <cmake> <C compiler> <C++ compiler> <symm>: a project of somebody else
# has a libsymm.a, within its own build, by find_package and by pkg-config, and two ranks of each
# meet over tcp:// on two machines, which are pretended. That is so with libsodium.a, which the
# program links, and with the sources of libsodium, as packages have them: then libsymm.a contains
# it, under names that clash with no other libsodium. Where there is none, the configure step says
# so, and with SYMM_SODIUM=on fails.
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

if (configure "$work/parent" "$work/on" -DSYMM_CUDA=off -DSYMM_SODIUM=on -DSYMM_SODIUM_LIBRARY= \
  -DPython3_EXECUTABLE=/bin/false) >"$work/log"; then
  fail "SYMM_SODIUM=on is content with no libsodium"
fi
grep -q "SYMM_SODIUM=on, but no libsodium.a" "$work/log" || fail "$(<"$work/log")"

# What both builds compile alike is compiled once, wherever their folders are.
export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1

# build <folder> [options]: builds the project there, and installs libsymm.a into its prefix
build() {
  configure "$work/parent" "$work/$1/build" -DSYMM_CUDA=off "${@:2}" \
    -DCMAKE_CXX_FLAGS=-DSYMM_SIMD_BASELINE_ONLY "-DCMAKE_CXX_COMPILER_LAUNCHER=$(command -v ccache)"
  "$cmake" --build "$work/$1/build" -j "$(nproc)" --target within >"$work/log" 2>&1 ||
    fail "$(<"$work/log")"
  "$cmake" --install "$work/$1/build" --prefix "$work/$1/prefix" >/dev/null
}

# use <folder>: programs of somebody else with the installed libsymm.a, and the one built with it
use() {
  local flags said program pages
  configure "$consumer" "$work/$1/by-cmake" -DCMAKE_PREFIX_PATH="$work/$1/prefix"
  "$cmake" --build "$work/$1/by-cmake" >"$work/log" 2>&1 || fail "$(<"$work/log")"
  pages=$(dirname "$(find "$work/$1/prefix" -name symm.pc)")
  read -ra flags < <(PKG_CONFIG_PATH=$pages pkg-config --cflags --libs symm)
  "$cc" -std=c99 "$consumer/consumer.c" -o "$work/$1/by-pkg-config" "${flags[@]}"

  for program in build/within by-cmake/consumer_c by-cmake/consumer_cxx by-pkg-config; do
    said=$(meet "$work/$1/$program") || true
    if grep -q 'no engine' <<<"$said"; then
      echo "SKIPPED: no UCX here, which carries between machines"
      exit 77
    fi
    (($(grep -c 'consumer: 2 rank(s), sum 4' <<<"$said") == 2)) || fail "$program: $said"
  done
}

lacking=()
mkdir "$work/archive" "$work/sources"
if grep -q "found no libsodium.a" <(configure "$work/parent" "$work/look" -DSYMM_CUDA=off &&
  cat "$work/look.log"); then
  lacking+=("libsodium.a")
else
  build archive
  use archive
fi

if ! python3 -B "$source/packaging/third_party" "$work/third" sodium >"$work/log" 2>&1; then
  lacking+=("sources of libsodium: $(<"$work/log")")
else
  # Sources that are right are left alone: other runs may be reading them.
  file=$(stat -c '%i %y' "$work/third/libsodium/LICENSE")
  python3 -B "$source/packaging/third_party" "$work/third" sodium >"$work/log"
  [[ $(stat -c '%i %y' "$work/third/libsodium/LICENSE") == "$file" ]] ||
    fail "sources that were right were written again"
  build sources -DSYMM_SODIUM_SOURCE="$work/third/libsodium"
  if grep -rn -e -lsodium "$work/sources/prefix" --include=symm.pc; then
    fail "the program is told to link libsodium, which libsymm.a contains"
  fi
  names=$(find "$work/sources/build" -path '*/symm_sodium_objects.dir/*.o' -print0 |
    xargs -0 nm --defined-only | awk '$2 ~ /[A-Z]/ { print $3 }')
  grep -q '^symm_sodium_init$' <<<"$names" || fail "libsymm.a contains no libsodium"
  if grep -v '^symm_' <<<"$names"; then
    fail "these names of libsodium clash with another one: cmake/symm_sodium_names.txt lacks them"
  fi
  use sources
fi

if ((${#lacking[@]})); then
  printf 'SKIPPED: not here: %s\n' "${lacking[@]}"
  exit 77
fi
