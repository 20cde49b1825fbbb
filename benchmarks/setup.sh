#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the virtual environment in which the comparisons of one folder here run: onnx, whose PyTorch is several GB, or
# peers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -ne 2 ] || [ ! -f "$here/$1/requirements.txt" ]; then
  echo "usage: benchmarks/setup.sh onnx|peers FOLDER" >&2
  exit 2
fi
python3 -m venv "$2"
"$2/bin/pip" install --quiet -r "$here/$1/requirements.txt"
echo "$1: run $2/bin/python $here/$1/compare.py --build build/release"
