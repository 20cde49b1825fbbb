# SPDX-License-Identifier: Apache-2.0
"""Python functions that programs call while they run: `jax.debug.print`, `jax.debug.callback`,
`jax.pure_callback`, `io_callback`. A call is a custom call with the number of its function; the
library calls `_call`, from any thread, which finds the function and passes it NumPy arrays."""

import contextlib
import ctypes
import dataclasses
import itertools
import math
import re
import secrets
import threading
import traceback
import weakref

import jax
import jax.ffi
import jax._src.callback as jax_callback
import numpy as np
from jax._src import core, dispatch

TARGET = "plimsoll_python_callback"  # by which the plugin knows programs that call Python
_INTERNAL, _NOT_FOUND = 13, 5  # plm_status_code


class _Array(ctypes.Structure):
    """plm_call_array"""

    _fields_ = [
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_size_t),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("byte_size", ctypes.c_size_t),
    ]


class _Arguments(ctypes.Structure):
    """plm_call_arguments"""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("inputs", ctypes.POINTER(ctypes.c_void_p)),
        ("input_arrays", ctypes.POINTER(_Array)),
        ("input_count", ctypes.c_size_t),
        ("outputs", ctypes.POINTER(ctypes.c_void_p)),
        ("output_arrays", ctypes.POINTER(_Array)),
        ("output_count", ctypes.c_size_t),
        ("config", ctypes.c_char_p),
    ]


class _Type:
    """Of an array: what its bytes are."""

    def __init__(self, aval):
        physical = core.physical_aval(aval)
        self.shape, self.dtype = tuple(physical.shape), np.dtype(physical.dtype)
        self.size = math.prod(self.shape) * self.dtype.itemsize

    def __str__(self):
        return f"{self.dtype.name}{list(self.shape)}"

    def check(self, what, i, array):
        if array.byte_size != self.size:
            raise NotImplementedError(
                f"{what} {i} of a Python function is {self}, of which the device has "
                f"{array.byte_size} bytes: convert it to a type of whole bytes"
            )


class _Callback:
    """A function and what it takes and gives. Lives as long as the program that calls it."""

    def __init__(self, function, operands, results, has_token):
        self.function, self.has_token = function, has_token
        self.operands = [_Type(aval) for aval in operands]
        self.results = [_Type(aval) for aval in results]

    def run(self, given):
        first = int(self.has_token)
        operands = []
        for i, wanted in enumerate(self.operands):
            wanted.check("argument", i, given.input_arrays[first + i])
            data = ctypes.string_at(given.inputs[first + i], wanted.size) if wanted.size else b""
            operands.append(np.frombuffer(data, wanted.dtype).reshape(wanted.shape))
        with _on_cpu():
            results = tuple(np.asarray(result) for result in self.function(*operands))
        if len(results) != len(self.results):
            raise ValueError(
                f"the function returned {len(results)} results, {len(self.results)} were announced"
            )
        for i, (wanted, result) in enumerate(zip(self.results, results)):
            # Python's numbers have 64 bits, which JAX narrows unless it is told otherwise.
            result = result.astype(jax.dtypes.canonicalize_dtype(result.dtype), copy=False)
            if result.shape != wanted.shape or result.dtype != wanted.dtype:
                raise ValueError(
                    f"result {i} of the function is {result.dtype.name}{list(result.shape)}, "
                    f"{wanted} was announced"
                )
            wanted.check("result", i, given.output_arrays[first + i])
            if wanted.size:
                result = np.ascontiguousarray(result)
                ctypes.memmove(given.outputs[first + i], result.ctypes.data, wanted.size)


@contextlib.contextmanager
def _on_cpu():
    """What functions compute with JAX runs on the CPU's backend, where there is one: this device
    is busy with the program that called."""
    try:
        cpu = jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        yield
        return
    with jax.default_device(cpu):
        yield


# Numbers don't repeat from process to process: a program that another one has cached finds no
# function here, never a wrong one.
_numbers = itertools.count(secrets.randbits(40) << 20)
_callbacks: "weakref.WeakValueDictionary[int, _Callback]" = weakref.WeakValueDictionary()
_lock = threading.Lock()
_registered = []  # the C function, which must live as long as the process


def _register(library_path):
    with _lock:
        if _registered:
            return
        library = ctypes.CDLL(library_path)
        library.plm_status_create.restype = ctypes.c_void_p
        library.plm_status_create.argtypes = [ctypes.c_int, ctypes.c_char_p]
        library.plm_status_message.restype = ctypes.c_char_p
        library.plm_status_message.argtypes = [ctypes.c_void_p]
        library.plm_register_custom_call.restype = ctypes.c_void_p

        def call(_, arguments):
            try:
                given = arguments.contents
                number = int(re.search(rb"number = (\d+)", given.config)[1])
                callback = _callbacks.get(number)
                if callback is None:
                    return library.plm_status_create(
                        _NOT_FOUND, b"the Python function that this program calls is gone"
                    )
                callback.run(given)
                return None
            except BaseException:  # nothing may pass through the library
                text = "the Python function failed:\n" + traceback.format_exc()
                return library.plm_status_create(_INTERNAL, text.encode())

        function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(_Arguments))(
            call
        )
        failed = library.plm_register_custom_call(TARGET.encode(), function, None)
        if failed:
            raise RuntimeError(library.plm_status_message(failed).decode())
        _registered.append(function)


def _raise_once():
    """Has a failed effect raise from one wait for effects, where JAX keeps its token and raises from
    every later one. May be called again. Does nothing where this version of JAX is another."""
    tokens = getattr(dispatch, "RuntimeTokenSet", None)
    original = getattr(tokens, "block_until_ready", None)
    if original is None or hasattr(original, "plimsoll") or not hasattr(tokens, "clear"):
        return

    def block_until_ready(self):
        try:
            original(self)
        except Exception:
            for kept in (self.current_tokens, self.output_runtime_tokens):
                for token in list(kept.values()):
                    with contextlib.suppress(Exception):
                        token.block_until_ready()
            self.clear()
            raise

    block_until_ready.plimsoll = True
    tokens.block_until_ready = block_until_ready


def install(platform, library_path):
    """Has JAX emit calls of Python functions for `platform` as calls that the library at
    `library_path()` knows. May be called again. Does nothing where this version of JAX is another."""
    _raise_once()
    original = getattr(jax_callback, "emit_python_callback", None)
    if original is None or hasattr(original, "plimsoll"):
        return

    def emit(
        ctx, callback, token, operands, operand_avals, result_avals, *, has_side_effect, **options
    ):
        if list(ctx.module_context.platforms) != [platform]:
            return original(
                ctx,
                callback,
                token,
                operands,
                operand_avals,
                result_avals,
                has_side_effect=has_side_effect,
                **options,
            )
        _register(library_path())
        one = _Callback(callback, operand_avals, result_avals, token is not None)
        number = next(_numbers)
        _callbacks[number] = one
        ctx.module_context.add_keepalive(one)
        first = [] if token is None else [core.abstract_token]
        ctx = dataclasses.replace(
            ctx, avals_in=[*first, *operand_avals], avals_out=[*first, *result_avals]
        )
        operands = operands if token is None else [token, *operands]
        lower = jax.ffi.ffi_lowering(TARGET, has_side_effect=has_side_effect)
        results = list(lower(ctx, *operands, number=np.uint64(number)))
        if token is not None:
            token = results.pop(0)
        return results, token, one

    emit.plimsoll = True
    jax_callback.emit_python_callback = emit
    public = getattr(jax.interpreters, "mlir", None)
    if public is not None and hasattr(public, "emit_python_callback"):
        public.emit_python_callback = emit
