#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats every C and C++ file in place; with --check only says which ones differ, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(git ls-files '*.h' '*.hpp' '*.cc' '*.c')
if [ "${1:-}" = --check ]; then
  clang-format-19 --dry-run --Werror "${files[@]}"
  echo "format: ${#files[@]} files are formatted"
else
  clang-format-19 -i "${files[@]}"
fi
