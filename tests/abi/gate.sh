#!/usr/bin/env bash
# gate.sh <gate> <libsymm.so> <repository root> [C compiler] Compares
# the built library with what is promised: layout.txt, which
# bindings/generator writes for a change of the ABI that is meant (the
# difference then shows in the same commit as the change), and symm.map.
set -euo pipefail
gate=$1 library=$2 root=$3 compiler=${4:-cc}
here=$root/tests/abi

case $gate in
  exports)
    exports=$(nm -D --defined-only --with-symbol-versions "$library" | awk '{ print $2, $3 }' | LC_ALL=C sort)
    if grep -qE 'symm_at_point|point:[a-z]' "$library"; then echo "points for tests are in it" && exit 1; fi
    diff -u --label promised --label actual <(python3 "$here/layout.py" "$root/capi/symm.map" | LC_ALL=C sort) - <<<"$exports"
    ;;
  layout) python3 "$here/layout.py" "$here/layout.txt" "$root/capi/include" "$library" "$compiler" ;;
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
    # NODELETE: the library is never unmapped under a running monitor thread. NOW: a
    # missing symbol shows when loading.
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
  *)
    echo "unknown gate $gate" >&2
    exit 2
    ;;
esac
