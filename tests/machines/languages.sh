#!/usr/bin/env bash
# languages.sh <build directory>: four languages in one group
# on two pretended machines get the sums that they get on one.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath "$1")
name=symml$$
sums=$(mktemp -d -p "$build")
mkdir "$sums/1" "$sums/2"
trap '"$root/tests/machines/machines" down $name; rm -rf "$sums"' EXIT
"$root/examples/languages.sh" "$build" "$sums/1"
"$root/tests/machines/machines" up $name 2 || { [[ -n ${CI:-} ]] && exit 1; exit 77; }
status=0
said=$(SYMM_RUN="--hosts 10.77.0.10:2,10.77.0.11:2 --launcher '$root/tests/machines/machines on $name %h sh -c'" \
  "$root/examples/languages.sh" "$build" "$sums/2" 2>&1) || status=$?
printf '%s\n' "$said"
if grep -Eq 'UNAVAILABLE: .*(no engine|libsodium)' <<<"$said"; then exit 77; fi
((status == 0)) || exit 1
(cd "$sums" && sha256sum ./*/*)
(($(sha256sum "$sums"/*/* | cut -d' ' -f1 | sort -u | wc -l) == 1 && $(find "$sums" -type f | wc -l) == 8))
