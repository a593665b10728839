#!/usr/bin/env bash
# build.sh [DIR [OUT]]   builds the site of guides and reference in DIR (build/site): DIR/html/index.html. Pictures of
# pages lead to the live page, if examples have left it in OUT (out). A warning of doxygen is an error: a public name
# without a comment, a link that leads nowhere.
# Exit code 77: doxygen or python3 is not there.
set -euo pipefail
cd "$(dirname "$0")/../.."
site=$(realpath -m "${1:-build/site}") out=$(realpath -m "${2:-out}")
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
mkdir "$site/html/pages"
while read -r picture page; do
  if [ -f "$out/$page.html" ]; then
    cp "$out/$page.html" "$site/html/pages/$picture.html"
  else
    echo "$picture has no live page: examples/run ${page%%/*} writes it"
  fi
done <<'END'
course course/course
five_minutes demonstrate/five_minutes
lesson attention_step_by_step/attention_step_by_step
demonstrate demonstrate/demonstrate
attention_mathematics attention_mathematics/attention_mathematics
six_tokens six_tokens/six_tokens
jax_notebook jax_notebook/jax_notebook
attention_variants attention_variants/attention_variants
induction induction/induction
model_page train_names/model
training_heads demonstrate/training_heads
END
docs/reference/site.py README.md "$site/html"
echo "$site/html/index.html"
