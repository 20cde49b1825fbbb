#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs JAX's own tests on Plimsoll.
#
#   scripts/jax_tests.sh JAX_SOURCE_TREE OUTPUT_FOLDER [FILE...]
#
# JAX_SOURCE_TREE: a checkout of the tag of the installed jax, whose tests/ are run (all of them, or
# the files named, without `_test.py`). PYTHON names the interpreter (default: python3), which needs
# jax, pytest<9, pytest-timeout, pytest-xdist, hypothesis, mpmath, cloudpickle, flatbuffers,
# portpicker, filelock, pillow, absl-py and matplotlib. LIMIT sets a memory limit, e.g. 64MiB,
# DEVICES how many devices there are (1). Writes a JUnit file and a log per file of tests, and prints
# a table; a crash ends one worker, not the run.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '4,13p' "$0" | cut -c3-
  exit 2
fi
plimsoll=$(realpath "$(dirname "$0")/..")
source=$(realpath "$1")
mkdir -p "$2"
output=$(realpath "$2")
shift 2
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(cd "$source/tests" && ls ./*_test.py | sed 's|^\./||; s/_test\.py$//')
fi
export PYTHONPATH=$plimsoll/plugins/jax${PYTHONPATH:+:$PYTHONPATH}
export JAX_PLATFORMS=plimsoll,cpu JAX_NUM_GENERATED_CASES=${JAX_NUM_GENERATED_CASES:-1}
export JAX_SKIP_SLOW_TESTS=1
options=num_devices:${DEVICES:-1}
if [ -n "${LIMIT:-}" ]; then options+=";memory_limit:$LIMIT"; fi
export JAX_PJRT_CLIENT_CREATE_OPTIONS=$options
cd "$source"
for file in "${files[@]}"; do
  timeout 1800 "${PYTHON:-python3}" -m pytest -q -p no:cacheprovider -n 2 \
    --max-worker-restart=9999 --timeout=300 "tests/${file}_test.py" \
    --junitxml="$output/$file.xml" > "$output/$file.log" 2>&1 || true
  echo "$file: $(tail -n 1 "$output/$file.log")"
done
"${PYTHON:-python3}" "$plimsoll/scripts/jax_tests_table.py" "$output"
