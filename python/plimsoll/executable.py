# SPDX-License-Identifier: Apache-2.0
"""Compiled programs."""

import ctypes
import json
import os
import pathlib
from ctypes import c_int64, c_void_p
from typing import NamedTuple

from . import _library, dtypes
from . import buffer as buffers
from ._library import BufferRunOptions, ExecutableOptions, bytes_of, library


class ValueInfo(NamedTuple):
    """A parameter or a result. dtype: HLO's name, "f32". aliased_parameter: of a result, the
    parameter whose donated memory it is returned in, else None."""

    name: str
    dtype: str
    shape: tuple
    nbytes: int
    aliased_parameter: int


class Executable:
    """A program, compiled, with its plans for a limit.

    program: HLO text (str); a portable StableHLO artifact (bytes), which is what `jax.export` gives
    as `mlir_module_serialized` and by `serialize()`; that `Exported` itself; or a path of a file of
    one of these, or of a model in ONNX (`pathlib.Path` or str). memory_limit: of one run, arguments and results included, in bytes
    or as a text, in which "50%peak" is a share of the program's own peak without a limit; None: the
    context's as it is when a run starts. planner: as of `Context`. as_written: without optimization.

    Raises `Error`: INVALID_ARGUMENT with the place of bad text, RESOURCE_EXHAUSTED with the floor
    where no plan fits. Any number of threads may run one.
    """

    def __init__(
        self, context, program, *, name="program", memory_limit=None, planner=None, as_written=False
    ):
        self._context = context
        is_path = isinstance(program, os.PathLike) or (
            isinstance(program, str) and _is_path(program)
        )
        text = os.fsencode(program) if is_path else program_bytes(program)
        name = None if is_path else name
        options = ExecutableOptions(
            struct_size=ctypes.sizeof(ExecutableOptions),
            planner=None if planner is None else planner.encode(),
            disable_optimization=as_written,
            default_placement=_library.PLACEMENT_PROGRAM,
        )
        if isinstance(memory_limit, str) and memory_limit.endswith("peak"):
            options.memory_limit_bytes = _library.NO_LIMIT
            self._create(text, name, options)
            memory_limit = bytes_of(memory_limit, "memory_limit", self.peak_bytes)
            library().plm_executable_destroy(self._handle)
            self._handle = None
        options.memory_limit_bytes = bytes_of(memory_limit, "memory_limit")
        self._create(text, name, options)
        lib = library()
        self._result_count = lib.plm_executable_result_count(self._handle)

    # `name` is None where `text` is the path of a file, which finds other files from there.
    def _create(self, text, name, options):
        handle = c_void_p()
        if name is None:
            library().plm_executable_load(
                self._context._handle, text, ctypes.byref(options), ctypes.byref(handle)
            )
        else:
            library().plm_executable_create(
                self._context._handle,
                text,
                len(text),
                name.encode(),
                ctypes.byref(options),
                ctypes.byref(handle),
            )
        self._handle = handle.value

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            library().plm_executable_destroy(handle)

    @property
    def name(self) -> str:
        """The module's name."""
        return library().plm_executable_name(self._handle).decode()

    @property
    def parameters(self) -> list:
        """A `ValueInfo` for each array that the program takes; tuples are taken apart."""
        lib = library()
        return [
            self._info(lib.plm_executable_parameter, i)
            for i in range(lib.plm_executable_parameter_count(self._handle))
        ]

    @property
    def results(self) -> list:
        """A `ValueInfo` for each array that the program gives; tuples are taken apart."""
        return [self._info(library().plm_executable_result, i) for i in range(self._result_count)]

    @property
    def floor_bytes(self) -> int:
        """The smallest limit that a plan exists for; looked for when first asked for."""
        floor = c_int64()
        library().plm_executable_floor(self._handle, ctypes.byref(floor))
        return floor.value

    @property
    def peak_bytes(self) -> int:
        """The most device bytes that a run takes which has all the memory that the limits allowed
        when the executable was made: parameters, constants, results and temporaries."""
        return library().plm_executable_peak(self._handle)

    @property
    def summary(self) -> dict:
        """The plan: the fields of `plm_context_report` that concern one, among them
        `predicted_seconds`, `recomputed_bytes` and `peak_by_cause`."""
        return json.loads(library().plm_executable_summary(self._handle))

    def __call__(self, *arguments) -> list:
        """`run(*arguments)`."""
        return self.run(*arguments)

    def run(self, *arguments, asynchronous=False, deadline_seconds=0.0) -> list:
        """Runs once; gives a `Buffer` for each result.

        arguments: one `Buffer` of the executable's context per parameter, or an array of NumPy or
        of another library, which is used where it lies if that can be, without a copy, while the run
        lasts. A buffer whose parameter the program donates is deleted by the call and its memory
        taken over; arrays of others stay as they are. asynchronous: returns at once, with results
        that are pending; arrays that are no buffers are copied first. A run waits while other runs
        hold the memory that it needs: `Error` DEADLINE_EXCEEDED after `deadline_seconds`, if not 0.
        """
        given = [self._argument(argument, asynchronous) for argument in arguments]
        parameters = (c_void_p * max(len(given), 1))(*(b._handle for b in given))
        results = (c_void_p * max(self._result_count, 1))()
        options = BufferRunOptions(struct_size=ctypes.sizeof(BufferRunOptions))
        options.run.deadline_seconds = deadline_seconds
        options.mode = _library.RUN_ASYNCHRONOUS if asynchronous else _library.RUN_SYNCHRONOUS
        library().plm_executable_run_buffers(
            self._handle,
            parameters,
            len(given),
            results,
            self._result_count,
            ctypes.byref(options),
        )
        return [buffers.Buffer(results[i], self._context) for i in range(self._result_count)]

    def _argument(self, argument, asynchronous):
        if isinstance(argument, buffers.Buffer):
            return argument
        if asynchronous:
            return self._context.buffer(argument)
        return buffers.from_any(self._context, argument, borrow=True)

    def _info(self, function, index) -> ValueInfo:
        info = _library.ValueInfo(struct_size=ctypes.sizeof(_library.ValueInfo))
        function(self._handle, index, ctypes.byref(info))
        return ValueInfo(
            info.name.decode(),
            dtypes.of_number(info.dtype).name,
            tuple(info.dims[: info.rank]),
            info.byte_size,
            None if info.aliased_parameter < 0 else info.aliased_parameter,
        )


def _is_path(text: str) -> bool:
    """Whether it can't be a program, or is the name of a file that is there."""
    if not any(mark in text for mark in "={\n"):
        return True
    return "\n" not in text and os.path.isfile(text)


def program_bytes(program) -> bytes:
    """What the library is given of any form that `Executable` takes."""
    if isinstance(program, os.PathLike):
        with open(program, "rb") as file:
            return file.read()
    if isinstance(program, str):
        return program_bytes(pathlib.Path(program)) if _is_path(program) else program.encode()
    if isinstance(program, (bytes, bytearray, memoryview)):
        return bytes(program)
    exported = getattr(program, "mlir_module_serialized", None)
    if exported is not None:
        return bytes(exported)
    raise TypeError(
        f"program: {type(program).__name__} (HLO text, bytes of an artifact, a jax.export.Exported or "
        "a path)"
    )
