#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the root of a CUDA Toolkit: the machine's own, else one installed from PyPI into DIR (default
# build/cuda-toolkit). Everything else goes to stderr. Fails where neither can be had.
# Usage: CUDACXX="$(.ci/cuda_toolkit.sh)/bin/nvcc" cmake --preset cuda
# NIBBLE_CUDA_FROM_PYPI=1 ignores the machine's own toolkit.
set -eu
cd "$(dirname "$0")/.."
dir=${1:-build/cuda-toolkit}

if [ "${NIBBLE_CUDA_FROM_PYPI:-0}" != 1 ]; then
  for nvcc in "${CUDACXX:-}" "${CUDA_HOME:+$CUDA_HOME/bin/nvcc}" "$(command -v nvcc || true)" \
      /usr/local/cuda/bin/nvcc; do
    if [ -n "$nvcc" ] && [ -x "$nvcc" ] && "$nvcc" --version >/dev/null 2>&1; then
      nvcc=$(readlink -f "$nvcc")
      echo "CUDA Toolkit of this machine: $nvcc" >&2
      dirname "$(dirname "$nvcc")"
      exit 0
    fi
  done
fi

find_root() {
  for root in "$dir"/lib/python3*/site-packages/nvidia/cu1[3-9]; do
    if [ -x "$root/bin/nvcc" ] && [ -f "$root/include/cuda_runtime.h" ]; then
      (cd "$root" && pwd)
      return 0
    fi
  done
  return 1
}

if ! root=$(find_root); then
  echo "Installing nvcc and its companions from PyPI into $dir" >&2
  python3 -m venv "$dir" >&2
  "$dir/bin/python" -m pip install --quiet --disable-pip-version-check 'nvidia-cuda-nvcc>=13,<14' \
    'nvidia-cuda-runtime>=13,<14' 'nvidia-cuda-crt>=13,<14' 'nvidia-nvvm>=13,<14' \
    'nvidia-cuda-cccl>=13,<14' >&2
  root=$(find_root) || { echo "the packages hold no usable nvcc" >&2; exit 1; }
  # Wheels cannot hold links; these two are what CMake looks for in a toolkit.
  [ -e "$root/lib64" ] || ln -s lib "$root/lib64"
  for library in "$root"/lib/libcudart.so.*; do
    [ -e "$root/lib/libcudart.so" ] || ln -s "$(basename "$library")" "$root/lib/libcudart.so"
  done
fi
"$root/bin/nvcc" --version >&2
echo "$root"
