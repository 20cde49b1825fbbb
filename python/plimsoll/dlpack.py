# SPDX-License-Identifier: Apache-2.0
"""DLPack in both directions, versioned capsules and those without a version: host memory, and that of
GPUs."""

import ctypes
from ctypes import CFUNCTYPE, PYFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_void_p, py_object

from . import dtypes

CPU = (1, 0)
_GPU = 2
_HOST_KINDS = (1, 3)  # the CPU's, and pinned memory of a GPU's driver
_VERSION = (1, 0)
_READ_ONLY, _COPIED = 1, 2
_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_USED = {_PLAIN: b"used_dltensor", _VERSIONED: b"used_dltensor_versioned"}


class _Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("type_bits", ctypes.c_uint8),
        ("type_lanes", ctypes.c_uint16),
        ("shape", POINTER(ctypes.c_int64)),
        ("strides", POINTER(ctypes.c_int64)),  # in elements; NULL: dense
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = CFUNCTYPE(None, c_void_p)


class _Managed(Structure):
    _fields_ = [("tensor", _Tensor), ("manager", c_void_p), ("deleter", _Deleter)]


class _ManagedVersioned(Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_python = ctypes.pythonapi
_Destructor = PYFUNCTYPE(None, c_void_p)
_new_capsule = PYFUNCTYPE(py_object, c_void_p, c_char_p, _Destructor)(("PyCapsule_New", _python))
_is_valid = PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _python))
_pointer_in = PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _python))
_rename = PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_SetName", _python))

# What is exported, by the address of its struct, until the consumer's or the capsule's deleter call.
_exported = {}


@_Deleter
def _forget(address):
    _exported.pop(address, None)


@_Destructor
def _forget_unused(capsule):
    for name in (_PLAIN, _VERSIONED):
        if _is_valid(capsule, name):
            _exported.pop(_pointer_in(capsule, name), None)


def device_of(context) -> tuple:
    """Where a context's arrays are. BufferError where DLPack has no word for it."""
    if context.is_host_memory:
        return CPU
    kind, _, number = context.device.partition(":")
    if kind != "cuda":
        raise BufferError(f"device {context.device} (host memory and GPUs' are exported)")
    return (_GPU, int(number))


def capsule_of(held, dtype: dtypes.DType, shape, versioned: bool, copied: bool, device=CPU):
    """A capsule of dense memory at `held.address`; `held` is kept until the consumer is done."""
    managed = (_ManagedVersioned if versioned else _Managed)()
    rank = len(shape)
    dims = (ctypes.c_int64 * max(rank, 1))(*shape)
    strides = (ctypes.c_int64 * max(rank, 1))()
    stride = 1
    for dim in reversed(range(rank)):
        strides[dim] = stride
        stride *= max(shape[dim], 1)
    tensor = managed.tensor
    tensor.data = held.address
    tensor.device_kind, tensor.device_number = device
    tensor.rank = rank
    tensor.type_code, tensor.type_bits, tensor.type_lanes = dtype.dlpack_code, dtype.bits, 1
    tensor.shape = ctypes.cast(dims, POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(strides, POINTER(ctypes.c_int64))
    managed.deleter = _forget
    if versioned:
        managed.major, managed.minor = _VERSION
        managed.flags = _COPIED if copied else _READ_ONLY
    address = ctypes.addressof(managed)
    _exported[address] = (managed, dims, strides, held)
    return _new_capsule(address, _VERSIONED if versioned else _PLAIN, _forget_unused)


class Imported:
    """An array that a producer exported: its memory, until `release()`, which is to be called once,
    on any thread. byte_strides: None where it is dense and row-major."""

    def __init__(self, managed, address: int):
        self._managed = managed
        self._managed_address = address
        tensor = managed.tensor
        self.is_on_host = tensor.device_kind in _HOST_KINDS
        self.shape = tuple(tensor.shape[i] for i in range(tensor.rank))
        self.dtype = dtypes.of_dlpack(tensor.type_code, tensor.type_bits, tensor.type_lanes)
        self.address = (tensor.data or 0) + tensor.byte_offset
        size = self.dtype.bits // 8
        self.nbytes = size
        for dim in self.shape:
            self.nbytes *= dim
        self.byte_strides = None
        if tensor.strides:
            strides = tuple(tensor.strides[i] for i in range(tensor.rank))
            if not _is_dense(self.shape, strides):
                self.byte_strides = tuple(stride * size for stride in strides)

    def release(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(self._managed_address)


def _is_dense(shape, strides) -> bool:
    expected = 1
    for dim, stride in zip(reversed(shape), reversed(strides)):
        if dim == 0:
            return True
        if dim != 1 and stride != expected:
            return False
        expected *= dim
    return True


def import_of(source, context) -> Imported:
    """Takes over what `source.__dlpack__` exports. BufferError where it is neither in host memory nor
    in the context's."""
    device = tuple(int(part) for part in source.__dlpack_device__())
    if device[0] not in _HOST_KINDS and device != device_of(context):
        raise BufferError(
            f"DLPack device: {device} (host memory and that of {context.device} are taken)"
        )
    try:
        capsule = source.__dlpack__(max_version=_VERSION)
    except TypeError:  # from before DLPack had versions
        capsule = source.__dlpack__()
    for name, kind in ((_VERSIONED, _ManagedVersioned), (_PLAIN, _Managed)):
        if not _is_valid(id(capsule), name):
            continue
        address = _pointer_in(id(capsule), name)
        managed = kind.from_address(address)
        if name == _VERSIONED and managed.major > _VERSION[0]:
            raise BufferError(f"DLPack version: {managed.major}.{managed.minor} (at most 1)")
        imported = Imported(managed, address)
        _rename(capsule, _USED[name])
        return imported
    raise TypeError(f"{type(source).__name__}.__dlpack__ gave {capsule!r} (a capsule is needed)")
