#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The largest error of f32 functions over all 2^32 arguments, as rows of docs/numerics.md; minutes each.
# `scripts/math_errors.sh [FUNCTION]...`, all of them unless told.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target math_errors >/dev/null
build/release/tests/math_errors "$@"
