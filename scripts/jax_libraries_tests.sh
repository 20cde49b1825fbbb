#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a library that uses JAX (optax, flax, numpyro) on Plimsoll.
#
#   scripts/jax_libraries_tests.sh SOURCE_TREE OUTPUT_FOLDER PATH...
#
# SOURCE_TREE: a checkout of the library, which is imported from there. PATH: files and folders of
# tests in it, e.g. `optax`, `tests/linen`, `test/infer/test_svi.py`. PYTHON names the interpreter
# (default: python3), which needs jax, pytest<9, pytest-timeout, pytest-xdist and what the library's
# own tests need. LIMIT sets a memory limit, e.g. 64MiB; SELECT is an expression for pytest's -k;
# SECONDS_PER_PATH (default: 1800) ends a path that takes longer, what ran by then counts.
# What failed is run again on XLA's CPU backend: what fails there, too, is counted apart. Writes a
# JUnit file and a log per path and backend, and prints a table; a crash ends one worker, not the
# run.
set -euo pipefail
if [ $# -lt 3 ]; then
  sed -n '4,15p' "$0" | cut -c3-
  exit 2
fi
plimsoll=$(realpath "$(dirname "$0")/..")
source=$(realpath "$1")
mkdir -p "$2/on_xla"
output=$(realpath "$2")
shift 2
export PYTHONPATH=$plimsoll/scripts:$plimsoll/plugins/jax${PYTHONPATH:+:$PYTHONPATH}
if [ -n "${LIMIT:-}" ]; then export JAX_PJRT_CLIENT_CREATE_OPTIONS="memory_limit:$LIMIT"; fi
cd "$source"

# tests PLATFORMS FOLDER NAME PATH...
tests() {
  local platforms=$1 folder=$2 name=$3
  shift 3
  JAX_PLATFORMS=$platforms timeout -s INT -k 60 "${SECONDS_PER_PATH:-1800}" \
    "${PYTHON:-python3}" -m pytest -q -rfE --color=no -p no:cacheprovider -p jax_tests_platform \
    -n "${WORKERS:-1}" --max-worker-restart=9999 --timeout=120 ${SELECT:+-k "$SELECT"} "$@" \
    --junitxml="$folder/$name.xml" > "$folder/$name.log" 2>&1 || true
  echo "$platforms $name: $(tail -n 1 "$folder/$name.log")"
}

for path in "$@"; do
  name=$(sed 's|/|.|g; s|\.py$||' <<< "${path%/}")
  tests plimsoll,cpu "$output" "$name" "$path"
  mapfile -t failed < <(sed -nE 's/^(FAILED|ERROR) (.*)/\2/p' "$output/$name.log" |
    sed 's/ - .*//' | sort -u)
  rm -f "$output/on_xla/$name.xml"
  if [ ${#failed[@]} -gt 0 ]; then
    tests cpu "$output/on_xla" "$name" "${failed[@]}"
  fi
done
"${PYTHON:-python3}" "$plimsoll/scripts/jax_tests_table.py" "$output"
