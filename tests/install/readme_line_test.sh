#!/usr/bin/env bash
# readme_line_test.sh <source> <cmake> <C++ compiler> [build]: README's line for CMake configures
# where there is no GoogleTest, and asks for no tests and no benchmarks. With `build` all of the
# line is carried out, as the jobs of .github/workflows/test.yml do with several compilers.
set -euo pipefail
source=$1 cmake=$2 compiler=$3 all=${4:-}

line=$(grep -oE 'cmake -B build && cmake --build build .* --prefix <dir>' "$source/README.md")
[ -n "$line" ] || {
  echo "README.md has no line that begins with cmake -B build"
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CXX=$compiler
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
cd "$work"

if [ "$all" = build ]; then
  git clone --quiet "$source" clone
  cd clone
  eval "${line/<dir>/"$work/prefix"}"
  "$work/prefix/bin/symm" info >/dev/null
  exit
fi

options="-S $source -DSYMM_CUDA=OFF -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON"
first=${line%% &&*}
# shellcheck disable=SC2086  # the words of the line, and the options
"$cmake" ${first#cmake} $options >log 2>&1 || {
  cat log
  exit 1
}
for option in SYMM_TESTS SYMM_BENCH; do
  grep -q "^$option:BOOL=OFF" build/CMakeCache.txt || {
    echo "README's line sets $option"
    exit 1
  }
done
