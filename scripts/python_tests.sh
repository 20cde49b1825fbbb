#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the Python package as users have it: installs dist/plimsoll-*.whl (scripts/wheel.sh builds it
# where there is none) into a virtual environment of its own, without an index, and runs tests/python.
#
#   scripts/python_tests.sh [--torch] [pytest arguments...]
#
# --torch: with PyTorch and torchax, several GB; without it their tests are skipped. PYTHON names the
# interpreter (python3), ENVIRONMENT the environment's folder (build/python-tests).
set -euo pipefail
cd "$(dirname "$0")/.."
packages=('jax==0.10.2' numpy pytest flatbuffers onnx onnxruntime)
if [ "${1:-}" = --torch ]; then
  shift
  packages+=('torch==2.15.0' 'torchax>=0.0.14.dev0')
fi
wheels=(dist/plimsoll-*.whl)
if [ ! -e "${wheels[0]}" ]; then
  scripts/wheel.sh
  wheels=(dist/plimsoll-*.whl)
fi
environment=${ENVIRONMENT:-build/python-tests}
if [ ! -x "$environment/bin/python" ]; then
  "${PYTHON:-python3}" -m venv "$environment"
fi
pip=("$environment/bin/python" -m pip --disable-pip-version-check)
"${pip[@]}" install --quiet "${packages[@]}"
"${pip[@]}" install --quiet --no-index --no-deps --force-reinstall "${wheels[0]}"
# From elsewhere, so that what is imported is what was installed.
tests=$PWD/tests/python
python=$(realpath -s "$environment/bin/python")
cd "$(mktemp -d)"
"$python" -m pytest -q -rs -p no:cacheprovider "$tests" "$@"
