#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Many threads run programs under one limit that changes all the time, each result compared with the unlimited run's.
# `scripts/stress.sh [SECONDS] [SEED]`, 60 and 1 unless told; `PRESET=tsan` runs it under ThreadSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${PRESET:-release}
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" --target c_api_shared_budget_stress
"build/$preset/tests/c_api/c_api_shared_budget_stress" --seconds "${1:-60}" --seed "${2:-1}"
