#!/usr/bin/env bash
# gate.sh <gate> <libsymm.so> <repository root> [C compiler]: compares the built library with the
# promised ABI, which is layout.txt and symm.map, and with fused.txt, which may change with the
# version of fused.h. bindings/generator rewrites both for a change that is meant; the commit of the
# change then shows the difference.
set -euo pipefail
gate=$1 library=$2 root=$3 compiler=${4:-cc}
here=$root/tests/abi
if [[ ! -f $library ]]; then
  echo "$library is not built: build the target symm first"
  exit 1
fi

case $gate in
  exports)
    if grep -qE 'symm_at_point|point:[a-z]' "$library"; then
      echo "points for tests are in it"
      exit 1
    fi
    promised=$(python3 "$here/layout.py" "$root/capi/symm.map" | LC_ALL=C sort)
    actual=$(nm -D --defined-only --with-symbol-versions "$library" |
      awk '{ print $2, $3 }' | LC_ALL=C sort)
    if ! diff -u --label promised --label actual <(echo "$promised") <(echo "$actual"); then
      echo "+ is exported and not promised: layout.txt or fused.txt lacks it" \
        "(bindings/generator/generate.py write), or it is to be hidden; - is promised and not" \
        "exported: capi/symm.map or the library lacks it"
      exit 1
    fi
    ;;
  layout | fused)
    python3 "$here/layout.py" "$here/$gate.txt" "$root/capi/include" "$library" "$compiler"
    ;;
  needed)
    # The loader belongs to libc; everything else would be a dependency.
    needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    echo "NEEDED:" "${needed:-nothing}"
    extra=$(grep -vE '^(libc\.so\.6|ld-linux[-a-z0-9_]*\.so\.[0-9]+)$' <<<"$needed" || true)
    if [[ -n $extra ]]; then
      echo "not allowed:" "$extra"
      exit 1
    fi
    ;;
  soname)
    soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    if [[ $soname != libsymm.so.0 ]]; then
      echo "SONAME is '$soname'"
      exit 1
    fi
    ;;
  flags)
    # NODELETE: the library is never unmapped under a running monitor thread.
    # NOW: a missing symbol is found when the library is loaded.
    dynamic=$(readelf -d "$library")
    grep -E 'FLAGS' <<<"$dynamic"
    for flag in NODELETE NOW; do
      if ! grep -qE "\(FLAGS_1\).*$flag" <<<"$dynamic"; then
        echo "no $flag"
        exit 1
      fi
    done
    if grep STATIC_TLS <<<"$dynamic"; then
      echo "STATIC_TLS: dlopen would fail when static TLS is used up"
      exit 1
    fi
    if grep -E 'RPATH|RUNPATH' <<<"$dynamic"; then
      echo "a search path in a library that needs nothing"
      exit 1
    fi
    ;;
  cxx)
    # A C++ runtime that is linked in but visible clashes with the caller's.
    if nm -D "$library" | awk '$(NF - 1) == "u"' | grep .; then
      echo "GNU_UNIQUE symbols"
      exit 1
    fi
    if nm -D --defined-only "$library" | awk '{ print $3 }' | grep -E '^_Z'; then
      echo "C++ symbols exported"
      exit 1
    fi

    # Weak symbols (transactional memory, in libstdc++.a) may stay undefined; U is for the others.
    undefined=$(nm -D --undefined-only "$library" | awk '$1 == "U" { print $2 }' |
      grep -E '^(_Z|__cxa_|__gxx|_Unwind)' || true)
    # libc itself has these.
    undefined=$(grep -vE '^__cxa_(finalize|thread_atexit_impl|atexit)' <<<"$undefined" || true)
    if [[ -n $undefined ]]; then
      echo "C++ runtime expected from elsewhere:" "$undefined"
      exit 1
    fi
    ;;
  *)
    echo "unknown gate $gate" >&2
    exit 2
    ;;
esac
