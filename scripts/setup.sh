#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what Plimsoll builds with, from Debian 12's packages. Says what it does; does nothing when all is there.
# Works as root or through sudo. `--demo` adds the Fashion-MNIST files, `--dev` the compilers for fuzzing,
# `--wheel` what the Python wheel is built with besides.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache mold pkg-config
  llvm-19-dev libtbb-dev libdnnl-dev libgtest-dev libcli11-dev nlohmann-json3-dev libcpp-httplib-dev libbrotli-dev
  liblapack-dev libblas-dev libgfortran-12-dev
  liblz4-dev libxxhash-dev libfmt-dev libgloo-dev liburing-dev zlib1g-dev clang-format-19
  libonnx-testdata
)
for argument in "$@"; do
  case "$argument" in
    --demo) packages+=(dataset-fashion-mnist) ;;
    --dev) packages+=(clang-19 libclang-rt-19-dev) ;;
    --wheel) packages+=(libzstd-dev python3-venv) ;;
    *)
      echo "setup.sh: unknown argument '$argument' (known: --demo, --dev, --wheel)" >&2
      exit 2
      ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
    missing+=("$package")
  fi
done
if [ "${#missing[@]}" -eq 0 ]; then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

echo "setup: installing ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: not root and no sudo; install these by hand: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "setup: done"
