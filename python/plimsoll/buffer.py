# SPDX-License-Identifier: Apache-2.0
"""Arrays in device memory."""

import ctypes
from ctypes import c_int64, c_void_p

import numpy as np

from . import dlpack, dtypes
from ._library import BUFFER_ALIGNMENT, ReleaseFunction, library


class Buffer:
    """An array in the memory of a `Context`, its bytes counted under that context's limit.

    Made by `Context.buffer`, `Context.from_dlpack` and `Executable`. Nobody writes to one: a program
    that it is donated to takes its memory over, after which it `is_deleted`. Any thread may use it.
    `np.asarray(buffer)` and DLPack's consumers see the memory itself, on devices whose memory is the
    host's, and keep it alive.
    """

    def __init__(self, handle: int, context):
        """Takes over one reference. For the package alone."""
        self._handle = handle
        self._context = context

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            library().plm_buffer_release(handle)

    @property
    def context(self):
        """The `Context` whose memory this is."""
        return self._context

    @property
    def shape(self) -> tuple:
        lib = library()
        dims = lib.plm_buffer_dims(self._handle)
        return tuple(dims[i] for i in range(lib.plm_buffer_rank(self._handle)))

    @property
    def ndim(self) -> int:
        return library().plm_buffer_rank(self._handle)

    @property
    def dtype(self) -> np.dtype:
        """NumPy's; of bfloat16 that of the package ml_dtypes."""
        return dtypes.to_numpy(self._dtype())

    @property
    def nbytes(self) -> int:
        return library().plm_buffer_byte_size(self._handle)

    @property
    def is_deleted(self) -> bool:
        """Whether its bytes were given away."""
        return bool(library().plm_buffer_is_deleted(self._handle))

    @property
    def is_ready(self) -> bool:
        """Whether the run that makes it has ended."""
        return bool(library().plm_buffer_is_ready(self._handle))

    def wait(self) -> "Buffer":
        """Blocks until it is ready; raises what its making failed with."""
        library().plm_buffer_wait(self._handle)
        return self

    def delete(self) -> None:
        """Gives the bytes up, now or when the runs and the views that use them have ended."""
        library().plm_buffer_delete(self._handle)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dims")
        return self.shape[0]

    def __repr__(self) -> str:
        dims = ",".join(str(dim) for dim in self.shape)
        return f"plimsoll.Buffer({self._dtype().name}[{dims}])"

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        """A view that can't be written to where the device's memory is the host's, else a copy.
        Waits."""
        view = self._view() if self._context.is_host_memory else self._read()
        if dtype is not None and np.dtype(dtype) != view.dtype:
            if copy is False:
                raise ValueError(f"a view of {view.dtype} as {dtype} (needs a copy)")
            return view.astype(dtype)
        return view.copy() if copy else view

    def __float__(self) -> float:
        return float(self._read().item())

    def __int__(self) -> int:
        return int(self._read().item())

    def __dlpack_device__(self) -> tuple:
        return dlpack.device_of(self._context)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule that shares the memory and keeps it: versioned where `max_version` allows it,
        and then marked as read only. Waits, so that no stream has to. Of a GPU's memory there is a
        copy in host memory for who asks for `dl_device` (1, 0). BufferError for any other device."""
        own = dlpack.device_of(self._context)
        versioned = max_version is not None and max_version[0] >= 1
        if dl_device == dlpack.CPU != own and copy is not False:
            held = _HeldArray(self._read())
            return dlpack.capsule_of(held, self._dtype(), self.shape, versioned, True)
        if dl_device not in (None, own) or (stream is not None and own == dlpack.CPU):
            raise BufferError(f"stream {stream}, device {dl_device} (the memory is that of {own})")
        source = self._context.buffer(self._read()) if copy else self
        return dlpack.capsule_of(
            _Held(source), source._dtype(), source.shape, versioned, bool(copy), own
        )

    def _dtype(self) -> dtypes.DType:
        return dtypes.of_number(library().plm_buffer_dtype(self._handle))

    def _read(self) -> np.ndarray:
        array = np.empty(self.shape, self.dtype)
        library().plm_buffer_read(self._handle, array.ctypes.data, array.nbytes)
        return array

    def _view(self) -> np.ndarray:
        if self.nbytes == 0:
            return self._read()
        held = _Held(self)
        bytes_ = np.asarray(_Interface(held, self.nbytes))
        return bytes_.view(self.dtype).reshape(self.shape)


class _HeldArray:
    """Keeps a NumPy array. `address`: its first byte's."""

    def __init__(self, array: np.ndarray):
        self.address = array.ctypes.data
        self._array = array


class _Held:
    """Keeps a ready buffer and its bytes where they are. `address`: in the device's memory."""

    def __init__(self, buffer: Buffer):
        address, hold = c_void_p(), c_void_p()
        library().plm_buffer_hold(buffer._handle, ctypes.byref(address), ctypes.byref(hold))
        self.address = address.value or 0
        self._hold = hold.value
        self._buffer = buffer

    def __del__(self):
        hold, self._hold = getattr(self, "_hold", None), None
        if hold:
            library().plm_hold_release(hold)


class _Interface:
    """What NumPy makes a view of `size` held bytes from, and keeps."""

    def __init__(self, held: _Held, size: int):
        self._held = held
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (held.address, True),
        }


# What borrowed memory belongs to, by the number that the library hands back once it is done with it.
_owners = {}


@ReleaseFunction
def _release_owner(key):
    owner = _owners.pop(key or 0, None)
    if owner is not None and hasattr(owner, "release"):
        owner.release()


def make_buffer(context, dtype: dtypes.DType, shape, address: int, byte_strides, owner) -> Buffer:
    """A buffer of memory at `address`. `owner` None: a copy. Else the memory itself, dense and
    row-major, where the device can work on it and it is aligned, and `owner` is kept (and its
    `release()`, where it has one, called) until nothing uses it any more. `byte_strides` None:
    dense."""
    lib = library()
    rank = len(shape)
    dims = (c_int64 * max(rank, 1))(*shape)
    handle = c_void_p()
    if owner is None:
        strides = None if byte_strides is None else (c_int64 * max(rank, 1))(*byte_strides)
        lib.plm_buffer_from_host(
            context._handle, dtype.number, dims, rank, address, strides, ctypes.byref(handle)
        )
        return Buffer(handle.value, context)
    key = id(owner)
    _owners[key] = owner
    try:
        lib.plm_buffer_borrow(
            context._handle,
            dtype.number,
            dims,
            rank,
            address,
            _release_owner,
            key,
            ctypes.byref(handle),
        )
    except BaseException:
        del _owners[key]
        raise
    return Buffer(handle.value, context)


def _borrow_device(context, tensor: dlpack.Imported) -> Buffer:
    """A buffer of a tensor in the device's memory; it is given back when nothing uses it any more."""
    rank = len(tensor.shape)
    dims = (c_int64 * max(rank, 1))(*tensor.shape)
    strides = tensor.byte_strides and (c_int64 * max(rank, 1))(*tensor.byte_strides)
    handle = c_void_p()
    key = id(tensor)
    _owners[key] = tensor
    try:
        library().plm_buffer_borrow_device(
            context._handle,
            tensor.dtype.number,
            dims,
            rank,
            tensor.address,
            strides,
            _release_owner,
            key,
            ctypes.byref(handle),
        )
    except BaseException:
        del _owners[key]
        tensor.release()
        raise
    return Buffer(handle.value, context)


class _ArrayOwner:
    """Keeps an array; one object a loan, as one array may be lent more than once."""

    def __init__(self, array: np.ndarray):
        self._array = array


def from_array(context, array: np.ndarray, borrow: bool) -> Buffer:
    """A buffer of a NumPy array's values: a copy, or the memory itself where that can be."""
    dtype = dtypes.of_numpy(array.dtype)
    lend = (
        borrow
        and array.flags.c_contiguous
        and array.nbytes > 0
        and array.ctypes.data % BUFFER_ALIGNMENT == 0
    )
    strides = None if array.flags.c_contiguous else array.strides
    owner = _ArrayOwner(array) if lend else None
    return make_buffer(context, dtype, array.shape, array.ctypes.data, strides, owner)


def from_any(context, array, borrow: bool) -> Buffer:
    """A buffer of what DLPack exports, or else of what NumPy makes an array of."""
    if not isinstance(array, np.ndarray) and hasattr(array, "__dlpack__"):
        try:
            return from_dlpack(context, array, borrow)
        except BufferError:  # elsewhere, as far as DLPack tells
            pass
    return from_array(context, np.asarray(array), borrow)


def from_dlpack(context, source, borrow: bool) -> Buffer:
    """A buffer of what a DLPack producer exports: a copy, or the memory itself where that can be."""
    tensor = dlpack.import_of(source, context)
    if not tensor.is_on_host:
        lent = _borrow_device(context, tensor)
        return lent if borrow else from_array(context, lent._read(), borrow=False)
    lend = (
        borrow
        and tensor.byte_strides is None
        and tensor.nbytes > 0
        and tensor.address % BUFFER_ALIGNMENT == 0
    )
    lent = False
    try:
        buffer = make_buffer(
            context,
            tensor.dtype,
            tensor.shape,
            tensor.address,
            tensor.byte_strides,
            tensor if lend else None,
        )
        lent = lend
        return buffer
    finally:
        if not lent:
            tensor.release()
