#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Random programs at random limits between floor and peak: same bits as unlimited, measured peak under the limit.
# `scripts/random_programs.sh [FIRST_SEED] [COUNT] [LIMITS] [FOLDER] [KIND]`, 0, 500 and 4 unless told; the texts of the
# programs that fail are left in FOLDER. KIND: only those of a kind, such as `rare` (tests/executor/random_program_check.h).
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target executor_random_programs
build/release/tests/executor_random_programs "${1:-0}" "${2:-500}" "${3:-4}" "${4:-}" "${5:-}"
