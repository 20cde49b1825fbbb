# SPDX-License-Identifier: Apache-2.0
"""The shared library and its C ABI, declared for ctypes as `plimsoll/plimsoll.h` does.

Calls drop the interpreter's lock, so any number of threads may be in the library at once, and its
callbacks take the lock by themselves.
"""

import ctypes
import functools
import operator
import os
import pathlib
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_size_t,
    c_ubyte,
    c_uint32,
    c_void_p,
)

from .errors import Error

_PACKAGE = pathlib.Path(__file__).resolve().parent

NO_LIMIT = 2**63 - 1
BUFFER_ALIGNMENT = 64
MAX_RANK = 10

PLACEMENT_PROGRAM = 3
RUN_SYNCHRONOUS = 0
RUN_ASYNCHRONOUS = 1

ReleaseFunction = CFUNCTYPE(None, c_void_p)


class ContextOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("memory_limit_bytes", c_int64),
        ("planner", c_char_p),
        ("seed", c_int64),
        ("max_pending_ops", c_int64),
        ("log", c_void_p),
        ("log_user", c_void_p),
        ("disable_optimization", c_int),
        ("remedies", c_char_p),
        ("min_size_bytes", c_int64),
        ("planning_seconds", c_double),
        ("host_limit_bytes", c_int64),
        ("spill_dir", c_char_p),
        ("spill_limit_bytes", c_int64),
        ("planning", c_char_p),
    ]


class MemoryStatistics(Structure):
    _fields_ = [("struct_size", c_size_t)] + [(name, c_int64) for name in """
        limit_bytes used_bytes peak_bytes
        used_parameters used_constants used_outputs used_arena used_staging
        peak_parameters peak_constants peak_outputs peak_arena peak_staging
        allocations
        host_limit_bytes host_used_bytes host_peak_bytes
        disk_limit_bytes disk_used_bytes disk_peak_bytes
        swapped_out_bytes swapped_in_bytes
        reserved_bytes running_runs waiting_runs admitted_runs waited_runs most_passed
        used_activations used_workspaces used_encoded used_all_staging
        peak_activations peak_workspaces peak_encoded peak_all_staging
        code_bytes peak_code_bytes
        recomputed_bytes encoded_bytes
        """.split()]


class ExecutableOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("memory_limit_bytes", c_int64),
        ("planner", c_char_p),
        ("placements", POINTER(c_int)),
        ("placement_count", c_size_t),
        ("disable_optimization", c_int),
        ("default_placement", c_int),
    ]


class ValueInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("rank", c_size_t),
        ("dims", c_int64 * MAX_RANK),
        ("byte_size", c_size_t),
        ("name", c_char_p),
        ("aliased_parameter", c_int64),
    ]


class RunOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("deadline_seconds", c_double),
        ("cancellation", c_void_p),
        ("dont_wait", c_int),
    ]


class BufferRunOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("run", RunOptions),
        ("mode", c_int),
        ("keep", POINTER(c_ubyte)),
        ("done", c_void_p),
        ("done_user", c_void_p),
    ]


class _Status(c_void_p):
    """A `plm_status*` that a function returns; every call raises what it says."""


# Result and arguments of each function in use.
_FUNCTIONS = {
    "plm_version": (c_uint32, []),
    "plm_status_code": (c_int, [c_void_p]),
    "plm_code_name": (c_char_p, [c_int]),
    "plm_status_message": (c_char_p, [c_void_p]),
    "plm_status_limit_bytes": (c_int64, [c_void_p]),
    "plm_status_floor_bytes": (c_int64, [c_void_p]),
    "plm_status_culprit": (c_char_p, [c_void_p]),
    "plm_status_free": (None, [c_void_p]),
    "plm_context_create": (_Status, [POINTER(ContextOptions), POINTER(c_void_p)]),
    "plm_context_destroy": (None, [c_void_p]),
    "plm_context_set_limit": (_Status, [c_void_p, c_int64]),
    "plm_context_limit": (c_int64, [c_void_p]),
    "plm_context_device": (c_char_p, [c_void_p]),
    "plm_context_is_host_memory": (c_int, [c_void_p]),
    "plm_context_memory": (_Status, [c_void_p, POINTER(MemoryStatistics)]),
    "plm_context_reset_peak": (None, [c_void_p]),
    "plm_parse_memory_limit": (_Status, [c_char_p, c_char_p, c_int64, POINTER(c_int64)]),
    "plm_buffer_from_host": (
        _Status,
        [c_void_p, c_int, POINTER(c_int64), c_size_t, c_void_p, POINTER(c_int64)]
        + [POINTER(c_void_p)],
    ),
    "plm_buffer_borrow": (
        _Status,
        [c_void_p, c_int, POINTER(c_int64), c_size_t, c_void_p, ReleaseFunction, c_void_p]
        + [POINTER(c_void_p)],
    ),
    "plm_buffer_borrow_device": (
        _Status,
        [c_void_p, c_int, POINTER(c_int64), c_size_t, c_void_p, POINTER(c_int64)]
        + [ReleaseFunction, c_void_p, POINTER(c_void_p)],
    ),
    "plm_buffer_release": (None, [c_void_p]),
    "plm_buffer_dtype": (c_int, [c_void_p]),
    "plm_buffer_rank": (c_size_t, [c_void_p]),
    "plm_buffer_dims": (POINTER(c_int64), [c_void_p]),
    "plm_buffer_byte_size": (c_size_t, [c_void_p]),
    "plm_buffer_is_deleted": (c_int, [c_void_p]),
    "plm_buffer_is_ready": (c_int, [c_void_p]),
    "plm_buffer_delete": (None, [c_void_p]),
    "plm_buffer_wait": (_Status, [c_void_p]),
    "plm_buffer_read": (_Status, [c_void_p, c_void_p, c_size_t]),
    "plm_buffer_hold": (_Status, [c_void_p, POINTER(c_void_p), POINTER(c_void_p)]),
    "plm_hold_release": (None, [c_void_p]),
    "plm_executable_create": (
        _Status,
        [c_void_p, c_char_p, c_size_t, c_char_p, POINTER(ExecutableOptions), POINTER(c_void_p)],
    ),
    "plm_executable_load": (
        _Status,
        [c_void_p, c_char_p, POINTER(ExecutableOptions), POINTER(c_void_p)],
    ),
    "plm_executable_destroy": (None, [c_void_p]),
    "plm_executable_parameter_count": (c_size_t, [c_void_p]),
    "plm_executable_result_count": (c_size_t, [c_void_p]),
    "plm_executable_parameter": (_Status, [c_void_p, c_size_t, POINTER(ValueInfo)]),
    "plm_executable_result": (_Status, [c_void_p, c_size_t, POINTER(ValueInfo)]),
    "plm_executable_name": (c_char_p, [c_void_p]),
    "plm_executable_floor": (_Status, [c_void_p, POINTER(c_int64)]),
    "plm_executable_peak": (c_int64, [c_void_p]),
    "plm_executable_summary": (c_char_p, [c_void_p]),
    "plm_executable_run_buffers": (
        _Status,
        [c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_void_p), c_size_t]
        + [POINTER(BufferRunOptions)],
    ),
}


def library_path() -> str:
    """The shared library: the C ABI (`include_path()` has its header), the PJRT plugin and, in an
    installed package, the execution provider for ONNX Runtime.
    $PLIMSOLL_PJRT_LIBRARY, else the package's own, else that of a release build of this tree."""
    given = os.environ.get("PLIMSOLL_PJRT_LIBRARY")
    if given:
        return given
    places = [
        _PACKAGE / "lib/libplimsoll.so",
        _PACKAGE.parents[1] / "build/release/plugins/pjrt/libplimsoll_pjrt.so",
    ]
    return str(_first_of(places, "build the target plimsoll_pjrt, or set PLIMSOLL_PJRT_LIBRARY"))


def command_path() -> str:
    """The program `plimsoll`: the package's own, else that of a release build of this tree."""
    places = [_PACKAGE / "bin/plimsoll", _PACKAGE.parents[1] / "build/release/bin/plimsoll"]
    return str(_first_of(places, "build the target plimsoll_command"))


def include_path() -> str:
    """The folder to include `plimsoll/plimsoll.h` from, for C programs that link `library_path()`."""
    places = [_PACKAGE / "include", _PACKAGE.parents[1] / "runtime/include"]
    return str(_first_of(places, "the header comes with the package"))


def _first_of(places, remedy):
    for place in places:
        if place.exists():
            return place
    raise FileNotFoundError(f"none of {[str(place) for place in places]} is there ({remedy})")


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library, loaded at the first call. Any thread."""
    lib = ctypes.CDLL(library_path())
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(lib, name)
        function.argtypes = arguments
        function.restype = result
    for name, (result, _) in _FUNCTIONS.items():
        if result is _Status:
            function = getattr(lib, name)
            function.restype = c_void_p
            function.errcheck = functools.partial(_raise_error, lib)
    return lib


def _raise_error(lib, status, function, arguments):
    if not status:
        return None
    try:
        raise Error(
            lib.plm_code_name(lib.plm_status_code(status)).decode(),
            lib.plm_status_message(status).decode(errors="replace"),
            lib.plm_status_limit_bytes(status),
            lib.plm_status_floor_bytes(status),
            lib.plm_status_culprit(status).decode(errors="replace"),
        )
    finally:
        lib.plm_status_free(status)


def version() -> str:
    """The version of the package."""
    return "0.1.0"


_MOST_BYTES = 1 << 60  # that texts may say


def bytes_of(size, what: str, unlimited_peak_bytes: int = 0) -> int:
    """A size in bytes from a number, or from a text as `plm_parse_memory_limit` takes it. `what`
    names it in errors. None is 0: whatever the default is."""
    if size is None:
        return 0
    if isinstance(size, str):
        bytes_ = c_int64()
        library().plm_parse_memory_limit(
            size.encode(), what.encode(), unlimited_peak_bytes, ctypes.byref(bytes_)
        )
        return bytes_.value
    try:
        # 16e9 is a number of bytes, 1.5 and True are none.
        whole = int(size) if isinstance(size, float) and size.is_integer() else operator.index(size)
    except TypeError:
        whole = None
    if whole is None or isinstance(size, bool):
        raise TypeError(f'{what}: {size!r} (a number of bytes, or a text such as "512MiB")')
    if whole <= 0:
        raise ValueError(f"{what}: {whole} bytes (must be positive; None for the default)")
    if whole > _MOST_BYTES:  # the struct's field would keep the low 64 bits
        raise ValueError(f"{what}: {whole} bytes (at most {_MOST_BYTES}, 1048576 TiB)")
    return whole
