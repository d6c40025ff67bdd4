#!/usr/bin/env bash
# What a table of 50,000 rows costs: the table compiler's time, and rustc's time and memory on the generated module.
# Fails where rustc takes more than LIMIT_S (3) seconds or LIMIT_MB (300): set them for a slower machine. Needs GNU time
# for the memory.
set -euo pipefail
cd "$(dirname "$0")/.."
rows=${1:-50000}
target=${CARGO_TARGET_DIR:-target}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cargo run --release --locked -q -p tilewright --example large_table -- "$folder" "$rows"
cargo build --release --locked -q -p tilewright-dispatch
# Without the CPU executor: the module needs the table types alone.
deps=$target/release/deps
dispatch=$(ls -t "$deps"/libtilewright_dispatch-*.rlib | head -1)
echo "#![no_std]
#[path = \"fixture.rs\"]
pub mod fixture;" >"$folder/lib.rs"
measure=()
if [ -x /usr/bin/time ]; then measure=(/usr/bin/time -f '%U %e %M' -o "$folder/spent"); fi
start=$(date +%s.%N)
"${measure[@]}" rustc --edition 2024 --crate-type rlib -C opt-level=3 --extern tilewright_dispatch="$dispatch" \
    -L dependency="$deps" -o "$folder/liblarge.rlib" "$folder/lib.rs"
wall=$(echo "$(date +%s.%N) - $start" | bc)
if [ -s "$folder/spent" ]; then
    read -r user wall kib <"$folder/spent"
    echo "rustc: $wall s ($user s of processor time), $((kib / 1024)) MB"
    [ $((kib / 1024)) -le "${LIMIT_MB:-300}" ] || { echo "more than ${LIMIT_MB:-300} MB" >&2; exit 1; }
else
    echo "rustc: $wall s (no GNU time: memory not measured)"
fi
awk -v wall="$wall" -v limit="${LIMIT_S:-3}" 'BEGIN { exit !(wall <= limit) }' || {
    echo "more than ${LIMIT_S:-3} s" >&2
    exit 1
}
