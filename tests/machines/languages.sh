#!/usr/bin/env bash
# languages.sh <build directory>: four languages in one group on two pretended machines get
# the sums that they get on one machine.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath "$1")
machines=$root/tests/machines/machines
name=symml$$
sums=$(mktemp -d -p "$build")
mkdir "$sums/1" "$sums/2"
trap '"$machines" down $name; rm -rf "$sums"' EXIT

"$root/examples/languages.sh" "$build" "$sums/1"
if ! "$machines" up $name 2; then
  [[ -z ${CI:-} ]] || exit 1
  echo "SKIPPED: no network namespaces"
  exit 77
fi

status=0
how="--hosts 10.77.0.10:2,10.77.0.11:2 --launcher '$machines on $name %h sh -c'"
said=$(SYMM_RUN=$how "$root/examples/languages.sh" "$build" "$sums/2" 2>&1) || status=$?
printf '%s\n' "$said"
if grep -Eq 'UNAVAILABLE: .*(no engine|libsodium)' <<<"$said"; then exit 77; fi
((status == 0)) || exit 1

# Four files of each job, all of them equal.
(cd "$sums" && sha256sum ./*/*)
(($(find "$sums" -type f | wc -l) == 8))
(($(sha256sum "$sums"/*/* | cut -d' ' -f1 | sort -u | wc -l) == 1))
