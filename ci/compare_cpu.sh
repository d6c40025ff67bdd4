#!/usr/bin/env bash
# Sets the tuned CPU kernels beside oneDNN (torch), zentorch, ggml, onnxruntime, gemm and faer; see compare_cpu.py.
#   ci/compare_cpu.sh [--threads 1] [--m 1,4,8] [--shapes 4096x4096] [--json times.json]
# Needs the table of shapes/cpu-peers.toml (none is committed yet), Python, a C++ compiler, 6 GB for the packages (kept under target/) and, to mean anything, an idle machine. Run by
# hand, not in CI. One thread is pinned to one core.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! ls tables/cpu-*/cpu-peers.toml >/dev/null 2>&1; then
    echo "no table of shapes/cpu-peers.toml yet: make one for one core of this machine, idle, and compile it in:" >&2
    echo "  taskset -c 0 cargo run --release -- tune shapes/cpu-peers.toml --out tables" >&2
    exit 2
fi
venv=target/venv-cpu-peers
[ -d "$venv" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check \
    torch==2.14.1 zentorch==2.14.0.1 onnxruntime==1.32.0 onnx cmake ninja numpy
ggml=target/ggml-peer
if [ ! -e "$ggml/lib/libggml-cpu.so" ]; then
    rm -rf "$ggml" && mkdir -p "$ggml/source"
    "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-python \
        -d "$ggml" llama-cpp-python==0.3.36
    tar -xf "$ggml"/llama_cpp_python-*.tar.gz -C "$ggml/source" --strip-components=1
    PATH="$PWD/$venv/bin:$PATH" cmake -S "$ggml/source/vendor/llama.cpp" -B "$ggml/build" -G Ninja \
        -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DGGML_OPENMP=OFF -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF \
        -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DBUILD_SHARED_LIBS=ON >/dev/null
    "$venv/bin/cmake" --build "$ggml/build" --target ggml-base ggml-cpu >/dev/null
    mkdir -p "$ggml/lib"
    find "$ggml/build" -name 'libggml-*.so*' -exec cp -P {} "$ggml/lib/" \;
    rm -rf "$ggml/source" "$ggml/build" "$ggml"/*.tar.gz
fi
cargo build --quiet --release --locked -p tilewright-capi
RUSTFLAGS="-C target-cpu=native" cargo build --quiet --release --manifest-path ci/cpu-peers/Cargo.toml \
    --target-dir target/cpu-peers
one_core=()
case " $* " in *" --threads "[2-9]*) ;; *) one_core=(taskset -c 0) ;; esac
exec "${one_core[@]}" "$venv/bin/python" ci/compare_cpu.py --ours target/release/libtilewright_capi.so \
    --ggml "$ggml/lib" --crates target/cpu-peers/release/libcpu_peers.so "$@"
