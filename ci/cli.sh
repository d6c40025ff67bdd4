#!/usr/bin/env bash
# The command line as a newcomer uses it, on the shipped declaration of a real small model and a small budget:
# tune, compile --check, verify, bench, explain, replay, shapes, devices, completions, man. Takes the binary's path.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(realpath "$1")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

run() { echo "+ tilewright $*" >&2; "$bin" "$@"; }

run devices
run shapes check shapes/*.toml >"$out/shapes.txt"
run shapes from-hf tuner/tests/fixtures/hf/smollm2-135m.json --out "$out/from-hf.toml"
run tune shapes/smollm2-135m.toml --out "$out/tables" --budget 45s
table=$(ls "$out"/tables/*/smollm2-135m.toml)
run compile --check "$table"
run verify "$table"
run explain "$table" --n 960 --k 576 --m 7
run bench "$table" --blocks 6 >"$out/bench.txt"
tail -n 8 "$out/bench.txt"

# The journal repeats the decisions exactly.
run tune shapes/smollm2-135m.toml --out "$out/again" --replay "${table%.toml}.journal" --quiet >/dev/null
for extension in toml csv rs; do
    cmp "${table%.toml}.$extension" "$out"/again/*/smollm2-135m.$extension
done

run completions bash >"$out/tilewright.bash"
run man --out "$out" >/dev/null
echo "command line: all passed"
