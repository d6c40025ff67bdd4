#!/usr/bin/env bash
# All tests: formatting, lints, documentation, unit and integration tests, the no_std core, committed tables, and the
# commands of the README on a small budget. Needs Rust (with rustfmt and clippy) and a C compiler for dependencies. Where
# Python is there too, the emulator's kernels are compiled afresh by the clang of the PyPI package ziglang (pinned);
# without it the code objects in the repository are used. The same goes for the CUDA kernels and nvidia-cuda-nvrtc.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step "formatting"
cargo fmt --all -- --check

step "lints"
cargo clippy --workspace --all-targets --locked -- -D warnings

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

step "no_std core"
cargo check -p tilewright-kernels --no-default-features --locked
cargo check -p tilewright-dispatch --no-default-features --locked

step "compiler for AMD targets"
if clang=$(ci/hip-clang.sh); then
    export TILEWRIGHT_HIP_CLANG=$clang
else
    echo "not to be had: the emulator is tested on the committed code objects"
fi

step "tests"
cargo test --workspace --locked

step "emulator behind the tuner's feature"
cargo clippy -p tilewright --features emulator --all-targets --locked -- -D warnings
cargo test -p tilewright --features emulator --test emulate_command --test inspect_command --locked
cargo test -p tilewright --features emulator --lib --locked inspect

step "executors for GPUs"
cargo clippy -p tilewright-dispatch --features cuda,hip --all-targets --locked -- -D warnings

step "CUDA kernels, compiled without a GPU"
if command -v python3 >/dev/null; then
    ci/check_cuda.sh 12
else
    echo "not checked: the compiler comes from PyPI, and there is no Python"
fi

step "command line"
cargo build --release --locked
ci/cli.sh target/release/tilewright

step "committed tables"
target/release/tilewright compile --check

step "example engine"
cargo run --release --locked -q -p tilewright-dispatch --example mlp
