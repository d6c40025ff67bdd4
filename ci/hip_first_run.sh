#!/usr/bin/env bash
# Tunes and verifies on the first AMD GPU and packs what to send back; see docs/hip.md.
#   ci/hip_first_run.sh [SHAPES [BUDGET]]
# DEVICE names other GPUs (`hip:1`, `hip:all`), TILEWRIGHT another program than the one it builds, OUT another folder.
set -euo pipefail
cd "$(dirname "$0")/.."
shapes=${1:-shapes/llama-3.1-405b-tp8.toml}
budget=${2:-30m}
out=${OUT:-hip-results}
program=${TILEWRIGHT:-target/release/tilewright}
[[ -n ${TILEWRIGHT:-} ]] || cargo build --release --locked

mkdir -p "$out"
"$program" devices | tee "$out/devices.txt"
{
    cat /opt/rocm/.info/version 2>/dev/null || echo "ROCm: version unknown"
    cat /sys/module/amdgpu/version 2>/dev/null || echo "amdgpu: version unknown"
    uname -sr
} >"$out/system.txt"
"$program" tune "$shapes" --device "${DEVICE:-hip:0}" --out "$out" --budget "$budget" 2>&1 | tee "$out/tune.txt"
"$program" devices | tee -a "$out/devices.txt"
for table in "$out"/hip-*/*.toml; do
    # A wrong kernel is a finding, not the end.
    "$program" verify "$table" 2>&1 | tee -a "$out/verify.txt" || true
done
tar -czf "$out.tar.gz" -C "$(dirname "$out")" "$(basename "$out")"
echo "packed $out.tar.gz: please send it (docs/hip.md says what is in it)"
