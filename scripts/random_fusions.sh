#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every op case fused at random: the bits of its instructions one by one, whatever the threads, the alignment and the reuse.
# `scripts/random_fusions.sh [FIRST_SEED] [COUNT]`, 0 and 5 unless told; a seed goes once through the table of op cases.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target jit_random_fusions
build/release/tests/jit_random_fusions "${1:-0}" "${2:-5}"
