#!/usr/bin/env bash
# Installs clang and lld for AMD GPUs (from the PyPI package ziglang) under target/ and prints the Python that has them.
#   export TILEWRIGHT_HIP_CLANG=$(ci/hip-clang.sh)
set -euo pipefail
cd "$(dirname "$0")/.."
venv=target/hip-clang
if ! "$venv/bin/python" -c 'import ziglang' 2>/dev/null; then
  python3 -m venv "$venv" >&2
  "$venv/bin/pip" install --quiet --disable-pip-version-check ziglang==0.17.1 >&2
fi
echo "$PWD/$venv/bin/python"
