#!/usr/bin/env bash
# options.sh INCLUDE_DIR...: every public struct of options declares them by FIT_OPTION, one in a line, and a derived
# one lists all options of its base, so that a chain keeps its type.
set -euo pipefail
find "$@" -name '*.hpp' -print0 | sort -z | xargs -0 awk '
  function fail(what) { printf "%s: %s\n", name, what; wrong = 1 }
  match($0, /^struct [A-Za-z0-9_]*(Options|Masks)( : [A-Za-z]+)? \{$/) {
    split($0, words, " ")
    name = words[2]
    base = words[3] == ":" ? words[4] : ""
    ++structs
    listed = ""
    next
  }
  !name { next }
  /^};/ {
    bases[name] = base
    repeated[name] = listed
    name = ""
    next
  }
  /^ *(\/\/|$)/ { next }
  /^  FIT_OPTION\([^;]*, [a-z_0-9]+\)( = [^;]*)?;/ {
    option = $0
    sub(/\)( = |;).*/, "", option)
    sub(/.*, /, "", option)
    options[name] = options[name] " " option
    ++count
    next
  }
  /FIT_INHERITED_OPTIONS\(/ { inside = 1 }
  inside {
    line = $0
    sub(/.*FIT_INHERITED_OPTIONS\([A-Za-z]+,/, "", line)
    inside = line !~ /\)/
    gsub(/[ ,)]+/, " ", line)
    listed = listed " " line
    next
  }
  /^  (explicit )?[A-Za-z]+\(.*\}$/ || /^  enum class / { next }  # a constructor, a type
  { fail("not an option: " $0) }
  END {
    for (name in bases)
      if (bases[name]) {
        n = split(options[bases[name]], all, " ")
        for (i = 1; i <= n; ++i)
          if (index(" " repeated[name] " ", " " all[i] " ") == 0) fail(all[i] " of " bases[name] " is not inherited")
      }
    if (structs < 58 || count < 300) { printf "only %d structs, %d options\n", structs, count; wrong = 1 }
    printf "%d structs of options, %d options\n", structs, count
    exit wrong
  }'
