#!/usr/bin/env bash
# gallery.sh BUILD TOP: the figures in TOP/docs/images that take no training are those that the examples below BUILD draw
# now. With "update" behind it, it puts these there instead.
set -euo pipefail
build=$1 images=$2/docs/images
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
status=0
for figure in attention_step_by_step/words_causal six_tokens/causal attention_mathematics/cross_attention \
  demonstrate/self_attention; do
  example=${figure%/*}
  [ -d "$stage/$example" ] || "$build/$example" --quick --dark --out "$stage" >/dev/null
  for file in "${figure#*/}.svg" "${figure#*/}_dark.svg"; do
    if [ "${3:-}" = update ]; then
      cp "$stage/$example/$file" "$images/"
    elif ! cmp "$images/$file" "$stage/$example/$file"; then
      echo "docs/images/$file is not what $example draws now: tests/checks/docs/gallery.sh BUILD TOP update puts it there"
      status=1
    fi
  done
done
exit $status
