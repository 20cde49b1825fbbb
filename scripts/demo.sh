#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds, and trains a residual network on Fashion-MNIST four times: without a limit, at
# 60 % and 40 % of that peak, and at the smallest limit there is a plan for. Prints one table, and
# fails when the weights differ or a measured peak passes its limit. Arguments go to the program,
# e.g. --steps 48 or --json.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh --demo
cmake --preset release >/dev/null
cmake --build --preset release --target train_fashion_mnist
exec build/release/examples/train_fashion_mnist --demo "$@"
