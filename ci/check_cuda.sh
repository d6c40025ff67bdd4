#!/usr/bin/env bash
# Compiles a sample of every CUDA family's space to sm_90a, without a GPU, and holds registers, spills and shared memory
# against what the predicate assumes. NVRTC comes from PyPI, into target/venv-cuda.
#
#     ci/check_cuda.sh [KERNELS_A_FAMILY]
set -euo pipefail
cd "$(dirname "$0")/.."

venv=target/venv-cuda
nvrtc=nvidia-cuda-nvrtc==13.5.37
if ! "$venv/bin/python" -m pip list --format=freeze 2>/dev/null | grep -qx "$nvrtc"; then
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$nvrtc"
fi

cargo clippy -p tilewright-kernels --features cuda --all-targets --locked -- -D warnings
cargo run -q -p tilewright-kernels --locked --example cuda_sources -- target/cuda-sources "${1:-12}"
"$venv/bin/python" ci/check_cuda.py target/cuda-sources
