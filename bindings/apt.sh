# shellcheck shell=bash
#
# What `dev` and the scripts of the languages ask of Debian's packages; they source this file.

installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# offered <package>: the version that apt would install, (none), or nothing if apt knows no
# such package.
offered() { apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ { print $2 }'; }

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    -o Dpkg::Options::=--force-unsafe-io "$@"
}

as_root() {
  if ((EUID == 0)); then
    "$@"
  elif [[ -t 0 ]]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}
