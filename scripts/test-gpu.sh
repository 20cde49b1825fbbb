#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests on this machine's GPU, within ten minutes: builds what is missing, runs the tests labelled `gpu`, then, where
# compute-sanitizer is found, some of them under it. Without a GPU they are skipped, and say why.
set -euo pipefail
cd "$(dirname "$0")/.."
deadline=$((SECONDS + 600))
left() { echo $((deadline - SECONDS > 1 ? deadline - SECONDS : 1)); }

cmake --preset release > /dev/null
cmake --build --preset release --target device_gpu_tests plimsoll -j "$(nproc)"
build/release/bin/plimsoll info | sed -n '/^devices/,/^$/p'
export PLIMSOLL_CALIBRATION=off
status=0
timeout "$(left)" ctest --test-dir build/release -L gpu --output-on-failure || status=$?
if ! command -v compute-sanitizer > /dev/null; then
  echo "compute-sanitizer: not found, nothing is run under it"
elif ! build/release/bin/plimsoll info | grep -q '^  cuda:0'; then
  echo "compute-sanitizer: no GPU"
else
  for tool in memcheck racecheck synccheck; do
    echo "compute-sanitizer --tool $tool"
    timeout "$(left)" compute-sanitizer --tool "$tool" --error-exitcode 1 \
      build/release/tests/device_gpu_tests --gtest_filter='Gpu.*' || status=$?
  done
fi
exit "$status"
