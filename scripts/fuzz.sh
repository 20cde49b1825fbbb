#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes what reads bytes of others with libFuzzer, AddressSanitizer and UBSan.
#   scripts/fuzz.sh [--target NAME] [SECONDS] [libFuzzer options...]     (default: 60 seconds)
# Targets: hlo_text (the reader of HLO text, the default), array_file (safetensors and .npz), infer_request
# (bodies of the inference server), http_request (what it reads of a connection).
set -euo pipefail
cd "$(dirname "$0")/.."
target=hlo_text
if [ "${1:-}" = --target ]; then
  target=${2:-}
  shift 2
fi
if [ ! -e "tests/fuzz/${target}_fuzz.cc" ]; then
  echo "fuzz.sh: no target '$target' ($(cd tests/fuzz && ls *_fuzz.cc | sed 's/_fuzz.cc//' | tr '\n' ' '))" >&2
  exit 2
fi
seconds=${1:-60}
shift || true
clang=$(command -v clang++-19 || command -v clang++ || true)
if [[ -z $clang ]]; then
  echo "fuzz.sh: needs clang++-19 (Debian package clang-19)" >&2
  exit 2
fi
build=build/fuzz
cmake -S tests/fuzz -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$clang" >/dev/null
cmake --build "$build" --target "${target}_fuzz"
mkdir -p "$build/corpus/$target"
options=(-max_len=8192 -artifact_prefix="$build/")
if [ -e "tests/fuzz/$target.dict" ]; then options+=(-dict="tests/fuzz/$target.dict"); fi
exec "$build/${target}_fuzz" -max_total_time="$seconds" "${options[@]}" "$@" \
  "$build/corpus/$target" "tests/fuzz/$target"
