#!/usr/bin/env bash
# transformers.sh FIT_TESTS: what save_pretrained() writes gives the same answers in transformers. Skipped without it:
# pip install torch transformers safetensors, and peft for adapters. FIT_PYTHON names another python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
FIT_SAVED_FOLDER=$folder "$1" "models for transformers" >"$folder.log" || { cat "$folder.log" && exit 1; }
rm -f "$folder.log"
"${FIT_PYTHON:-python3}" "$(dirname "$0")/saved_models.py" "$folder"
