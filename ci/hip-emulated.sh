#!/usr/bin/env bash
# Builds the stand-in for ROCm's libraries and prints a folder that holds it under their names. For instance
#   LD_LIBRARY_PATH=$(ci/hip-emulated.sh) TILEWRIGHT_EMULATED_GPU=mi355x cargo run --features hip -- devices
# An argument is passed on to cargo: `--release`.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --locked --quiet -p tilewright-hip-emulated "$@" >&2
profile=debug
[[ "$*" == *--release* ]] && profile=release
folder=$PWD/target/hip-emulated-$profile
mkdir -p "$folder"
for library in libamdhip64.so libhiprtc.so; do
    ln -sf "$PWD/target/$profile/libtilewright_hip_emulated.so" "$folder/$library"
done
echo "$folder"
