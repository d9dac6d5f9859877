#!/bin/sh
# Has spin look at every state of a model. Without a mutant nothing may be wrong; in each of
# its mutants something must be.
#
#   spin.sh model.pml mutants [argument for spin]
if ! command -v spin >/dev/null; then
  echo 'SKIPPED: spin is not installed'
  exit 77
fi
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
cd "$directory" || exit 1

for mutant in $(seq 0 "$2"); do
  said=$(spin -DMUTANT="$mutant" ${3+"$3"} -run -collapse "$1" 2>&1)
  errors=$(echo "$said" | grep -o 'errors: [01]')
  echo "mutant $mutant: $errors"
  case $mutant:$errors in
    '0:errors: 0' | [1-9]:'errors: 1') ;;
    *)
      echo "$said"
      exit 1
      ;;
  esac
done
