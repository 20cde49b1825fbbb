# SPDX-License-Identifier: Apache-2.0
"""Dtypes: the library's numbers, NumPy's types and DLPack's codes for each."""

from typing import NamedTuple

import numpy as np


class DType(NamedTuple):
    """number: `plm_dtype`. name: HLO's spelling. numpy: NumPy's; of "bfloat16" a type that the
    package ml_dtypes adds. dlpack_code, bits: DLPack's type."""

    number: int
    name: str
    numpy: str
    dlpack_code: int
    bits: int


_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6

_ALL = [
    DType(0, "pred", "bool", _BOOL, 8),
    DType(1, "s8", "int8", _INT, 8),
    DType(2, "s16", "int16", _INT, 16),
    DType(3, "s32", "int32", _INT, 32),
    DType(4, "s64", "int64", _INT, 64),
    DType(5, "u8", "uint8", _UINT, 8),
    DType(6, "u16", "uint16", _UINT, 16),
    DType(7, "u32", "uint32", _UINT, 32),
    DType(8, "u64", "uint64", _UINT, 64),
    DType(9, "f16", "float16", _FLOAT, 16),
    DType(10, "bf16", "bfloat16", _BFLOAT, 16),
    DType(11, "f32", "float32", _FLOAT, 32),
    DType(12, "f64", "float64", _FLOAT, 64),
    DType(13, "c64", "complex64", _COMPLEX, 64),
    DType(14, "c128", "complex128", _COMPLEX, 128),
]
_BY_NUMPY = {dtype.numpy: dtype for dtype in _ALL}
_BY_DLPACK = {(dtype.dlpack_code, dtype.bits): dtype for dtype in _ALL}


def of_number(number: int) -> DType:
    return _ALL[number]


def of_numpy(dtype: np.dtype) -> DType:
    """TypeError for one that the library has not."""
    found = _BY_NUMPY.get(dtype.name)
    if found is None or not dtype.isnative:
        raise TypeError(f"dtype: {dtype} (those there are: {', '.join(_BY_NUMPY)})")
    return found


def of_dlpack(code: int, bits: int, lanes: int) -> DType:
    """TypeError for one that the library has not."""
    found = _BY_DLPACK.get((code, bits))
    if found is None or lanes != 1:
        raise TypeError(f"DLPack type: code {code}, {bits} bits, {lanes} lanes (not supported)")
    return found


def to_numpy(dtype: DType) -> np.dtype:
    """ImportError for bfloat16 without the package ml_dtypes."""
    if dtype.name == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype.numpy)
