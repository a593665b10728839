#!/usr/bin/env bash
# What the commands do before they build: names, missing packages. apt-get, sudo and the rest are stand-ins here.
set -euo pipefail
top=$(cd "$(dirname "$0")/../../.." && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

check() { # check WHAT EXPECTED-EXIT EXPECTED-TEXT COMMAND...
  local what=$1 exit=$2 text=$3 out status=0
  shift 3
  out=$("$@" 2>&1) || status=$?
  if [ "$status" != "$exit" ] || ! grep -qF -- "$text" <<<"$out"; then
    printf '%s: exit code %s and "%s" expected; it was %s and:\n%s\n' "$what" "$exit" "$text" "$status" "$out"
    exit 1
  fi
}

check "the list" 0 demonstrate "$top/examples/run" --list
check "a name that is not there" 2 "there is no example 'nosuch'. There are" "$top/examples/run" nosuch
check "and the names that are" 2 demonstrate "$top/examples/run" nosuch
for command in examples/run tests/run tests/arm64; do
  check "the help of $command" 0 "$command [" "$top/$command" --help
  # only what the file begins with
  [ "$("$top/$command" --help | wc -l)" -le 6 ] || { echo "$command --help prints its comments, too"; exit 1; }
done

# A machine with bash, coreutils and stand-ins: what `dpkg-query` says of a name stands behind it in $stage/installed.
machine() { # machine USER-ID [sudo]
  rm -rf "$stage/bin"
  mkdir "$stage/bin"
  local tool
  for tool in bash dirname realpath env cat grep sed; do ln -s "$(command -v "$tool")" "$stage/bin/"; done
  printf '#!/bin/bash\necho %s\n' "$1" >"$stage/bin/id"
  printf '#!/bin/bash\necho amd64\n' >"$stage/bin/dpkg"
  cat >"$stage/bin/dpkg-query" <<END
#!/bin/bash
sed -n "s/^\${!#} //p" "$stage/installed"
END
  cat >"$stage/bin/apt-get" <<END
#!/bin/bash
echo "\$*"
echo ran >>"$stage/apt"
END
  if [ "${2:-}" = sudo ]; then printf '#!/bin/bash\necho "as root: $*"\nexec "$@"\n' >"$stage/bin/sudo"; fi
  chmod +x "$stage"/bin/*
}
install() { # the packages of a machine for amd64 on which only liba and doca are there, and libd for arm64
  printf '%s\n' "liba installed amd64" "liba installed arm64" "doca installed all" "libd installed arm64" \
    "libd:arm64 installed arm64" >"$stage/installed"
  rm -f "$stage/apt"
  PATH=$stage/bin bash -c 'set -euo pipefail; source "$0/core/cmake/setup.sh"; install_missing "$@"' "$top" "$@"
}

machine 0
check "root installs what is missing" 0 "install -q -y --no-install-recommends libb libc" \
  install "liba: one" "libb: two" "libc: three"
check "and says why" 0 "libb: two" install "liba: one" "libb: two"
check "a package that is there for another processor" 0 "install -q -y --no-install-recommends libd" install "libd: four"
check "and one that is not there for it" 0 "install -q -y --no-install-recommends liba:arm64" install "liba:arm64: one"
machine 1000 sudo
check "sudo where it is there" 0 "as root: env DEBIAN_FRONTEND=noninteractive apt-get install" install "libb: two"
machine 1000
check "neither root nor sudo" 1 "run as root: apt-get update && apt-get install libb" install "liba: one" "libb: two"
check "what an example learns from" 1 "dataset-fashion-mnist" env PATH="$stage/bin" bash "$top/examples/run" fashion
machine 0
install "liba: one" "doca: for every processor" "libd:arm64: for another"
[ ! -e "$stage/apt" ] || { echo "apt-get was called although nothing was missing"; exit 1; }
