#!/usr/bin/env bash
# demo_test.sh <source>: `./dev demo` installs the languages that this machine lacks, whether it
# makes its own build or finds a release, and says what for; where one cannot be had, it says why
# and goes on. The compiler, apt and the languages are stand-ins here.
set -euo pipefail
source=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "$*"
  [[ ! -f $scratch/said ]] || cat "$scratch/said"
  exit 1
}

# stand_in <file>: a program whose text is on stdin
stand_in() {
  mkdir -p "$(dirname "$scratch/$1")"
  { echo '#!/usr/bin/env bash' && cat; } >"$scratch/$1"
  chmod +x "$scratch/$1"
}

# set_up <preset>: a tree around the real `dev`
set_up() {
  rm -rf "${scratch:?}"/*
  mkdir -p "$scratch/bindings"
  cp "$source/dev" "$scratch/dev"
  cp "$source/bindings/apt.sh" "$scratch/bindings/"
  local program
  for program in cmake apt-get sudo "../build/$1/bin/symm" "../build/$1/bin/symm_languages"; do
    stand_in "bin/$program" <<<'exit 0'
  done
  stand_in bin/dpkg-query <<<'echo installed'
  stand_in examples/languages.sh <<TEXT
echo sum >"\$2/0"
TEXT
  local language
  for language in python rust julia; do
    # It is usable once it has been set up.
    stand_in "bindings/$language/dev" <<TEXT
case "\$*" in
  usable) [[ -e $scratch/has_$language ]] ;;
  "setup build") echo "setup of $language" && touch $scratch/has_$language ;;
esac
TEXT
  done
  [[ $1 == demo ]] || touch "$scratch/build/release/CMakeCache.txt"
}

demo() { PATH=$scratch/bin:$PATH "$scratch/dev" demo >"$scratch/said" 2>&1; }

for preset in demo release; do
  set_up $preset
  demo || fail "./dev demo failed (build: $preset)"
  for language in python rust julia; do
    [[ -e $scratch/has_$language ]] || fail "$language was not set up (build: $preset)"
  done
  grep -q "installing python rust julia .* four languages" "$scratch/said" ||
    fail "it does not say what it installs, and what for (build: $preset)"
  ! grep -q "setup of" "$scratch/said" || fail "it says more than it need (build: $preset)"
  demo
  ! grep -q installing "$scratch/said" || fail "it installs what is there (build: $preset)"
done

set_up demo
stand_in bindings/julia/dev <<TEXT
[[ \$1 == usable ]] || echo "no Julia to be had here"
exit 1
TEXT
demo || fail "./dev demo failed without Julia"
grep -q "no Julia to be had here" "$scratch/said" || fail "it does not say why there is no Julia"
