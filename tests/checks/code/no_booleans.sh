#!/usr/bin/env bash
# no_booleans.sh INCLUDE_DIR...: no public function takes a bare boolean, because f(x, true) does not say what is true.
# Exceptions are listed: the function's name says what the boolean means, or the function is one of FIT's.
set -euo pipefail
allowed='requires_grad_\(bool on = true\)|void train\(bool on = true\)|bool uneven, const void|bool claim\(const std::string& what, bool holds\)|Linear\(std::int64_t in_features, std::int64_t out_features, bool bias = true\)|MultiHeadAttention\(std::int64_t d_model, std::int64_t num_heads, double dropout, bool bias\)'
found=$(grep -rnE '[(,] ?bool [a-z_]+( = (true|false))?[,)]|^ *bool [a-z_]+( = (true|false))?[,)]' --include='*.hpp' "$@" |
  grep -vE "$allowed" | grep -vE ':[0-9]+:[^()]*;' || true)
[ -z "$found" ] || { printf 'these take a bare boolean:\n%s\n' "$found"; exit 1; }
