#!/usr/bin/env bash
# install_test.sh <build folder> <C compiler> <C++ compiler> <version>
#
# Installs, moves what was installed, and then plays somebody else who uses it: by
# find_package, by pkg-config, by the tool.
set -euo pipefail
build=$1 cc=$2 cxx=$3 version=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# No symm that this machine has may be found.
unset CMAKE_PREFIX_PATH LD_LIBRARY_PATH PKG_CONFIG_PATH

say() { printf '\n-- %s\n' "$*"; }

fail() {
  echo "$*"
  exit 1
}

say "install, then move"
cmake --install "$build" --prefix "$scratch/first" >/dev/null
mv "$scratch/first" "$scratch/moved"
prefix=$scratch/moved
(cd "$prefix" && find . -type f -o -type l | LC_ALL=C sort)
libdir=$(dirname "$(find "$prefix" -name libsymm.so)")
[[ $(readlink "$libdir/libsymm.so") == libsymm.so.0 ]]
[[ $(readlink "$libdir/libsymm.so.0") == "libsymm.so.$version" ]]
[[ -f $libdir/libsymm.so.$version ]]
if [[ -f $build/lib/symm-nccl/libsymm_nccl.so ]]; then
  [[ $(readlink "$libdir/symm-nccl/libnccl.so.2") == libsymm_nccl.so ]]
  [[ $(readlink "$libdir/symm-nccl/libnccl.so") == libsymm_nccl.so ]]
  # shellcheck disable=SC2016
  preloaded=$("$prefix/bin/symm" run -n 1 --nccl --no-prefix -- sh -c 'echo "$LD_PRELOAD"')
  [[ $preloaded == "$libdir/symm-nccl/libsymm_nccl.so" ]]
  # What ldconfig makes of the folder of the libraries is no libnccl.so.2.
  cp -a "$libdir" "$scratch/scanned"
  /sbin/ldconfig -n "$scratch/scanned" 2>/dev/null || true
  [[ ! -e $scratch/scanned/libnccl.so.2 ]]
fi
for header in symm.h fused.h symm.hpp fused.hpp page.h device.cuh exchange.cuh multimem.cuh; do
  [[ -f $prefix/include/symm/$header ]]
done
[[ ! -f $build/symm.f90 ]] || cmp "$build/symm.f90" "$prefix/include/symm/symm.f90"

say "no file names the prefix, the build folder or the source folder"
for place in "$scratch/first" "$(cd "$build" && pwd)" "$root"; do
  if grep -rIl -F "$place/" "$prefix"; then fail "the files above name $place"; fi
done

say "every link of a page leads somewhere"
python3 - "$prefix/share/doc/symm" <<'PYTHON'
import pathlib
import re
import sys

links = [
    (page, link)
    for page in pathlib.Path(sys.argv[1]).rglob("*.md")
    for link in re.findall(r"\]\(([^)#]+)", page.read_text())
    if "://" not in link
]
lost = [f"{page}: {link}" for page, link in links if not (page.parent / link).exists()]
sys.exit("\n".join(lost) or (0 if len(links) > 100 else "there are hardly any"))
PYTHON

say "find_package"
compilers=("-DCMAKE_C_COMPILER=$cc" "-DCMAKE_CXX_COMPILER=$cxx")
cmake -S "$here/consumer" -B "$scratch/by-cmake" -DCMAKE_PREFIX_PATH="$prefix" \
  "${compilers[@]}" >/dev/null
cmake --build "$scratch/by-cmake" >/dev/null
"$scratch/by-cmake/consumer_c"
"$scratch/by-cmake/consumer_cxx"
cmake -S "$root/examples/cmake-project" -B "$scratch/project" -DCMAKE_PREFIX_PATH="$prefix" \
  "${compilers[@]}" >/dev/null
cmake --build "$scratch/project" >/dev/null
[[ $("$scratch/project/example") == 'rank 0 of 1: the sum is 0' ]]
if cmake -S "$here/consumer" -B "$scratch/elsewhere" "${compilers[@]}" >/dev/null 2>&1; then
  echo "find_package found symm without being told where:"
  fail "the test above may have used another one"
fi

say "a subproject builds no tool and sets nothing of its parent's"
mkdir "$scratch/parent"
cat >"$scratch/parent/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES C CXX)
add_subdirectory("$root" symm)
target_link_libraries(symm INTERFACE symm::headers)
if(
  TARGET symm_tool
  OR (DEFINED CACHE{CMAKE_BUILD_TYPE} AND CMAKE_BUILD_TYPE)
  OR CMAKE_CXX_COMPILER_LAUNCHER
  OR CMAKE_CXX_STANDARD
)
  message(FATAL_ERROR "symm has changed its parent")
endif()
CMAKE
cmake -S "$scratch/parent" -B "$scratch/parent/build" -DSYMM_CUDA=off "${compilers[@]}" >/dev/null
parent=$scratch/parent/build
grep -q '^SYMM_UNITY:STRING=all$' "$parent/CMakeCache.txt" ||
  fail "the parent would compile file by file, which takes four times as long"
if grep -q libsymm "$parent/cmake_install.cmake" "$parent/symm/cmake_install.cmake"; then
  fail "the parent would install symm"
fi
# The build itself would take minutes; the test of static libraries makes one.
cmake -S "$root/examples/cmake-project" -B "$scratch/fetched" -DSYMM_SOURCES="$root" \
  -DSYMM_CUDA=off "${compilers[@]}" >/dev/null
targets=$(cmake --build "$scratch/fetched" --target help)
grep -qw example <<<"$targets"
if grep -q libsymm "$scratch/fetched/cmake_install.cmake"; then
  fail "the project would install symm"
fi

say "the projects of docs/c.md, which are a block of CMake, and another one in place of a line"
python3 - "$root" "$scratch" <<'PYTHON'
import pathlib
import re
import sys

root, scratch = map(pathlib.Path, sys.argv[1:])
blocks = re.findall(r"^```cmake\n(.*?)^```", (root / "docs/c.md").read_text(), flags=re.M | re.S)
assert len(blocks) == 2, f"docs/c.md has {len(blocks)} blocks of CMake"
found, fetched = blocks
line = re.search(r"^find_package.*\n", found, flags=re.M)[0]
assert "<sources of symm>" in fetched
fetched = found.replace(line, fetched.replace("<sources of symm>", str(root)))
for name, text in (("by-page", found), ("by-page-fetched", fetched)):
    (scratch / name).mkdir()
    (scratch / name / "CMakeLists.txt").write_text(text)
    example = (root / "examples/cmake-project/example.cpp").read_text()
    (scratch / name / "example.cpp").write_text(example)
PYTHON
cmake -S "$scratch/by-page" -B "$scratch/by-page/build" -DCMAKE_PREFIX_PATH="$prefix" \
  "${compilers[@]}" >/dev/null
cmake --build "$scratch/by-page/build" >/dev/null
[[ $("$scratch/by-page/build/example") == 'rank 0 of 1: the sum is 0' ]]
cmake -S "$scratch/by-page-fetched" -B "$scratch/by-page-fetched/build" -DSYMM_CUDA=off \
  "${compilers[@]}" >/dev/null
targets=$(cmake --build "$scratch/by-page-fetched/build" --target help)
grep -qw example <<<"$targets"

say "pkg-config"
export PKG_CONFIG_PATH=$libdir/pkgconfig
[[ $(pkg-config --modversion symm) == "$version" ]]
read -ra flags < <(pkg-config --cflags --libs symm)
"$cc" -std=c99 "$here/consumer/consumer.c" -o "$scratch/by-pkg-config-c" "${flags[@]}"
"$cxx" -std=c++17 "$here/consumer/consumer.cpp" -o "$scratch/by-pkg-config-cxx" "${flags[@]}"
"$scratch/by-pkg-config-c"
"$scratch/by-pkg-config-cxx"
"$prefix/bin/symm" run -n 2 -- "$scratch/by-pkg-config-c" >/dev/null

say "the installed device headers"
"$cxx" -std=c++17 -Wall -Wextra -Werror -x c++ -fsyntax-only "${flags[@]}" \
  "$prefix/include/symm/exchange.cuh" 2>"$scratch/device" || fail "$(<"$scratch/device")"
nvcc=$(sed -n 's/^SYMM_NVCC:FILEPATH=//p' "$build/CMakeCache.txt")
if [[ -x $nvcc ]]; then
  "$nvcc" -ccbin "$cxx" -std=c++17 -arch=sm_90 -I"$prefix/include" -cubin \
    -o "$scratch/kernel.cubin" "$here/consumer/kernel.cu"
fi

say "the installed tool needs libc, of which libm and the loader are parts"
tool=$prefix/bin/symm
allowed='^(libc|libm|ld-linux.*)\.so'
if objdump -p "$tool" | awk '$1 == "NEEDED" { print $2 }' | grep -vE "$allowed"; then
  fail "the tool needs more"
fi

say "the tool takes its kernels from the library beside it, and says where there is none"
install -D "$tool" "$scratch/alone/symm"
alone() { env -i PATH="$scratch/alone" "$scratch/alone/symm" "$@"; }
alone doctor
alone run -n 2 symm bench allreduce -e 1M -n 2 >/dev/null
alone info | grep 'cuda .*libsymm.so.0: cannot open'
if "$tool" info | grep 'libsymm.so.0: '; then exit 1; fi

say "manual and completions"
grep -q '^\.SS bench' "$prefix/share/man/man1/symm.1"
grep -q '^complete .* symm$' "$prefix/share/bash-completion/completions/symm"
grep -q '^complete -c symm .* -a bench' "$prefix/share/fish/vendor_completions.d/symm.fish"

say "the tool runs programs of users"
says_version='import json, sys; sys.exit(sys.argv[1] not in str(json.load(sys.stdin)))'
"$tool" info --json | python3 -c "$says_version" "$version"
"$tool" run -n 2 -- "$scratch/by-cmake/consumer_c" | tee "$scratch/run"
(($(grep -c 'consumer: 2 rank(s), sum 4' "$scratch/run") == 2))
