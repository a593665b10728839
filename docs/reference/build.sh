#!/usr/bin/env bash
# build.sh [DIR]   builds the site of guides and reference in DIR (build/site): DIR/html/index.html. A warning of doxygen
# is an error: a public name without a comment, a link that leads nowhere.
# Exit code 77: doxygen or python3 is not there.
set -euo pipefail
cd "$(dirname "$0")/../.."
site=$(realpath -m "${1:-build/site}")
for program in doxygen python3; do
  command -v $program >/dev/null || { echo "skipped: $program is not there"; exit 77; }
done
rm -rf "$site/html"
mkdir -p "$site"
{
  cat docs/reference/Doxyfile
  printf 'OUTPUT_DIRECTORY = "%s"\nWARN_LOGFILE = "%s"\n' "$site" "$site/warnings.txt"
} | doxygen -
if [ -s "$site/warnings.txt" ]; then
  sed "s|^$PWD/||" "$site/warnings.txt"
  exit 1
fi
docs/reference/site.py README.md "$site/html"
echo "$site/html/index.html"
