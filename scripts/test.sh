#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and runs every test. `scripts/test.sh [PRESET] [ctest arguments...]`; PRESET is release (the default),
# dev, asan or tsan.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
if [ $# -gt 0 ] && [[ "$1" != -* ]]; then
  preset=$1
  shift
fi
scripts/setup.sh
cmake --preset "$preset"
cmake --build --preset "$preset"
# One more than there are processors: some tests wait for others to time out.
ctest --preset "$preset" -j "$(($(nproc) + 1))" "$@"
