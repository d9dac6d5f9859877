#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# gate.sh <gate> <libsymm.so> <repository root> [C compiler]
# Compares the built library with what is promised. Gates that have a golden file rewrite it with SYMM_UPDATE_GOLDEN=1, for a
# change of the ABI that is meant; the difference then shows in the same commit as the change.
set -euo pipefail
gate=$1 library=$2 root=$3 compiler=${4:-cc}
here=$root/tests/abi
skip() {
  echo "SKIPPED: $*"
  exit 77
}

compare() { # compare <golden file> < actual
  local golden=$here/$1 actual
  actual=$(mktemp)
  trap 'rm -f "$actual"' RETURN
  cat >"$actual"
  [[ -s $actual ]] || { echo "nothing to compare with $1" && return 1; }
  if [[ -n ${SYMM_UPDATE_GOLDEN:-} ]]; then cp "$actual" "$golden"; fi
  diff -u --label "tests/abi/$1" --label actual "$golden" "$actual"
}

exports() { nm -D --defined-only --with-symbol-versions "$library" | awk '{ print $2, $3 }' | LC_ALL=C sort; }

dump() {
  abidw --exported-interfaces-only --headers-dir "$root/capi/include" --drop-private-types --no-comp-dir-path \
    --no-corpus-path "$library"
}

case $gate in
  exports) exports | compare exports.txt ;;
  layout) python3 "$here/layout.py" "$root/capi/include/symm/symm.h" "$compiler" | compare layout.txt ;;
  needed)
    # The loader is libc's own; everything else would be a dependency.
    needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    echo "NEEDED:" "${needed:-nothing}"
    extra=$(grep -vE '^(libc\.so\.6|ld-linux[-a-z0-9_]*\.so\.[0-9]+)$' <<<"$needed" || true)
    [[ -z $extra ]] || { echo "not allowed:" "$extra" && exit 1; }
    ;;
  soname)
    soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    [[ $soname == libsymm.so.0 ]] || { echo "SONAME is '$soname'" && exit 1; }
    ;;
  flags)
    # NODELETE: the library is never unmapped under a running monitor thread. NOW: a missing symbol shows when loading.
    readelf -d "$library" | grep -E 'FLAGS'
    readelf -d "$library" | grep -E '\(FLAGS_1\).*NODELETE' >/dev/null || { echo "no NODELETE" && exit 1; }
    readelf -d "$library" | grep -E '\(FLAGS_1\).*NOW' >/dev/null || { echo "no NOW" && exit 1; }
    if readelf -d "$library" | grep STATIC_TLS; then
      echo "STATIC_TLS: dlopen would fail when static TLS is used up"
      exit 1
    fi
    if readelf -d "$library" | grep -E 'RPATH|RUNPATH'; then
      echo "a search path in a library that needs nothing"
      exit 1
    fi
    ;;
  cxx)
    # A C++ runtime that is linked in but visible clashes with the caller's.
    nm -D "$library" | awk '$(NF - 1) == "u"' | grep . && { echo "GNU_UNIQUE symbols" && exit 1; }
    nm -D --defined-only "$library" | awk '{ print $3 }' | grep -E '^_Z' && { echo "C++ symbols exported" && exit 1; }
    # Weak ones (transactional memory, in libstdc++.a) are nobody's duty.
    undefined=$(nm -D --undefined-only "$library" | awk '$1 == "U" { print $2 }' | grep -E '^(_Z|__cxa_|__gxx|_Unwind)' || true)
    # libc itself offers this one.
    undefined=$(grep -vE '^__cxa_(finalize|thread_atexit_impl|atexit)' <<<"$undefined" || true)
    [[ -z $undefined ]] || { echo "C++ runtime expected from elsewhere:" "$undefined" && exit 1; }
    ;;
  libabigail)
    command -v abidiff >/dev/null || skip "abidiff is not installed (Debian: abigail-tools)"
    [[ $(uname -m) == x86_64 ]] || skip "the baseline is of x86_64, this is $(uname -m)"
    if [[ -n ${SYMM_UPDATE_GOLDEN:-} ]]; then dump >"$here/libsymm.abi"; fi
    # Without debug information there is nothing to compare, and abidiff would be content.
    (($(dump | grep -c '<function-decl') > 0)) || { echo "the library has no debug information on its interface" && exit 1; }
    # A changed struct is only exit status 4, so anything but 0 fails, added functions included.
    abidiff --headers-dir2 "$root/capi/include" "$here/libsymm.abi" "$library"
    ;;
  *)
    echo "unknown gate $gate" >&2
    exit 2
    ;;
esac
