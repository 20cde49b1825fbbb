#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the virtual environment that compare.py runs in: `benchmarks/onnx/setup.sh FOLDER`. PyTorch is several GB.
set -euo pipefail
if [ $# -ne 1 ]; then
  echo "usage: benchmarks/onnx/setup.sh FOLDER" >&2
  exit 2
fi
python3 -m venv "$1"
"$1/bin/pip" install --quiet -r "$(dirname "$0")/requirements.txt"
echo "onnx: run $1/bin/python $(dirname "$0")/compare.py --build build/release"
