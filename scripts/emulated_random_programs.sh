#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Random programs by kernels that are compiled for GPUs, on a recorded GPU that emulates them, at random limits: the
# CPU's bits (close, where there are sums of products), and the same at every limit.
# `scripts/emulated_random_programs.sh [FIRST_SEED] [COUNT] [LIMITS]`, 0, 500 and 2 unless told.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target emulated_random_programs
build/release/tests/emulated_random_programs "${1:-0}" "${2:-500}" "${3:-2}"
