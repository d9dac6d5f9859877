#!/usr/bin/env bash
# expect_output.sh <text> <command ...>: the command succeeds and says the text.
# (ctest's PASS_REGULAR_EXPRESSION ignores the exit status.)
set -euo pipefail
text=$1
shift
output=$("$@")
printf '%s\n' "$output"
grep -qF -- "$text" <<<"$output"
