#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the HLO text reader with libFuzzer, AddressSanitizer and UBSan.
#   scripts/fuzz.sh [SECONDS] [libFuzzer options...]     (default: 60 seconds)
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
clang=$(command -v clang++-19 || command -v clang++ || true)
if [[ -z $clang ]]; then
  echo "fuzz.sh: needs clang++-19 (Debian package clang-19)" >&2
  exit 2
fi
build=build/fuzz
cmake -S tests/fuzz -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$clang" >/dev/null
cmake --build "$build"
mkdir -p "$build/corpus"
exec "$build/hlo_text_fuzz" -max_total_time="$seconds" -max_len=8192 \
  -dict=tests/fuzz/hlo_text.dict -artifact_prefix="$build/" "$@" "$build/corpus" tests/fuzz/hlo_text
