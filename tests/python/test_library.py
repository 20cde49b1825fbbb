# SPDX-License-Identifier: Apache-2.0
"""The library and the command of the package."""

import ctypes
import json
import pathlib
import shutil
import subprocess
import sys

import pytest
from processes import printed

import plimsoll


def test_imports_and_runs_without_jax_and_torch():
    code = """
import sys
for name in ("jax", "jaxlib", "torch", "torchax", "ml_dtypes"):
    sys.modules[name] = None
import numpy, plimsoll
program = '''HloModule m
ENTRY main {
  x = f32[3] parameter(0)
  ROOT y = f32[3] add(x, x)
}'''
(y,) = plimsoll.Context().load(program)(numpy.arange(3, dtype=numpy.float32))
print(numpy.asarray(y).tolist())
"""
    assert printed(code).strip() == "[0.0, 2.0, 4.0]"


def test_without_numpy_the_command_runs_and_the_rest_says_what_is_missing():
    code = """
import sys
sys.modules["numpy"] = None
import plimsoll, plimsoll.command
print(plimsoll.library_path() != "")
try:
    plimsoll.Context()
except ModuleNotFoundError as error:
    print("pip install numpy" in str(error))
"""
    assert printed(code).split() == ["True", "True"]


def test_plan_of_a_function_without_jax_says_what_to_install():
    code = """
import sys
sys.modules["jax"] = None
import plimsoll
try:
    plimsoll.plan(lambda x: x, 1.0)
except ModuleNotFoundError as error:
    print("pip install 'plimsoll[jax]'" in str(error))
"""
    assert printed(code).strip() == "True"


def test_exports_its_own_symbols_alone():
    if shutil.which("nm") is None:
        pytest.skip("no program nm to list symbols with")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", plimsoll.library_path()], stdout=subprocess.PIPE, text=True
    ).stdout
    names = [line.split()[-1] for line in listed.splitlines()]
    assert "plm_context_create" in names and "GetPjrtApi" in names
    others = [name for name in names if not name.startswith("plm_")]
    assert set(others) <= {"GetPjrtApi", "plimsoll_command"}


def test_needs_no_library_of_llvm():
    mapped = printed(
        "import plimsoll; plimsoll.Context(); print(open('/proc/self/maps').read())"
    )
    assert "libplimsoll" in mapped
    assert "libLLVM" not in mapped


def test_version_is_that_of_the_library():
    number = ctypes.CDLL(plimsoll.library_path()).plm_version()
    assert plimsoll.__version__ == f"{number >> 16}.{number >> 8 & 255}.{number & 255}"


def test_header_is_where_include_path_says():
    header = pathlib.Path(plimsoll.include_path()) / "plimsoll/plimsoll.h"
    assert "plm_buffer_borrow" in header.read_text()


def test_command_is_installed_and_keeps_exit_codes():
    command = pathlib.Path(sys.executable).parent / "plimsoll"
    told = json.loads(subprocess.run([command, "info", "--json"], stdout=subprocess.PIPE).stdout)
    assert told["version"] == plimsoll.__version__
    assert subprocess.run([command, "sink"], stderr=subprocess.PIPE).returncode == 2


@pytest.mark.parametrize("limit", [1.5, True, b"1MiB", [], float("nan")])
def test_a_limit_that_is_no_number_of_bytes_is_a_type_error(limit):
    with pytest.raises(TypeError, match="memory_limit: .*a number of bytes"):
        plimsoll.Context(limit)


@pytest.mark.parametrize("limit", [0, -1, 1 << 70, (1 << 64) + 4096, 1e30])
def test_a_limit_out_of_range_is_an_error_and_not_another_limit(limit):
    with pytest.raises(ValueError, match="memory_limit: .* bytes"):
        plimsoll.Context(limit)


def test_a_limit_may_be_a_whole_float():
    assert plimsoll.Context(1e6).limit_bytes == 1000000
    assert plimsoll.Context(float("inf")).limit_bytes is None
