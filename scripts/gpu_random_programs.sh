#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Random programs by kernels that are compiled for GPUs, at random limits: the CPU's bits (close, where there are sums of
# products), and the same at every limit. On a recorded GPU that emulates them, or on a GPU by its name.
# `scripts/gpu_random_programs.sh [WHERE] [FIRST_SEED] [COUNT] [LIMITS]`: emulated, 0, 500 and 2 unless told.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target gpu_random_programs
build/release/tests/gpu_random_programs "${1:-emulated}" "${2:-0}" "${3:-500}" "${4:-2}"
