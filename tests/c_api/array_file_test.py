# SPDX-License-Identifier: Apache-2.0
"""Files of arrays as Python's safetensors and NumPy have them, both ways, through the C ABI.

    python3 tests/c_api/array_file_test.py LIBRARY

Ends with 77 (skipped) where these can't be imported.
"""
import ctypes
import os
import sys
import tempfile

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
try:
    from safetensors.numpy import load_file, save_file
    from safetensors import safe_open
except ImportError as error:
    print(f"without safetensors: {error}")
    save_file = None

DTYPES = {"?": 0, "i1": 1, "i2": 2, "i4": 3, "i8": 4, "u1": 5, "u2": 6, "u4": 7, "u8": 8, "f2": 9, "f4": 11,
          "f8": 12, "c8": 13}
NAMES = {number: name for name, number in DTYPES.items()}


class Array(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_size_t),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("byte_size", ctypes.c_size_t), ("data", ctypes.c_void_p)]


library = ctypes.CDLL(sys.argv[1])
library.plm_status_message.restype = ctypes.c_char_p
library.plm_status_message.argtypes = [ctypes.c_void_p]
library.plm_array_file_count.restype = ctypes.c_size_t
library.plm_array_file_count.argtypes = [ctypes.c_void_p]
library.plm_array_file_metadata.restype = ctypes.c_char_p
library.plm_array_file_metadata.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
library.plm_array_file_close.argtypes = [ctypes.c_void_p]
library.plm_array_file_get.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Array)]
for function in (library.plm_array_file_open, library.plm_array_file_get, library.plm_write_arrays):
    function.restype = ctypes.c_void_p


def check(status):
    assert not status, library.plm_status_message(status).decode()


def write(path, arrays, metadata=()):
    keep, list_ = [], (Array * len(arrays))()
    for place, (name, array) in zip(list_, arrays.items()):
        array = np.ascontiguousarray(array).reshape(array.shape)
        dims = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        keep += [array, dims]
        place.name, place.dtype, place.rank = name.encode(), DTYPES[array.dtype.str.lstrip("<|").replace("b1", "?")], array.ndim
        place.dims, place.byte_size, place.data = dims, array.nbytes, array.ctypes.data
    keys = (ctypes.c_char_p * max(len(metadata), 1))(*[key.encode() for key in metadata])
    values = (ctypes.c_char_p * max(len(metadata), 1))(*[metadata[key].encode() for key in metadata])
    check(library.plm_write_arrays(path.encode(), list_, ctypes.c_size_t(len(arrays)), keys, values,
                                   ctypes.c_size_t(len(metadata))))


def read(path):
    file = ctypes.c_void_p()
    check(library.plm_array_file_open(path.encode(), ctypes.byref(file)))
    arrays = {}
    for i in range(library.plm_array_file_count(file)):
        one = Array()
        check(library.plm_array_file_get(file, i, ctypes.byref(one)))
        data = ctypes.string_at(one.data, one.byte_size) if one.byte_size else b""
        arrays[one.name.decode()] = np.frombuffer(data, NAMES[one.dtype]).reshape(one.dims[:one.rank])
    note = library.plm_array_file_metadata(file, b"note")
    library.plm_array_file_close(file)
    return arrays, note


def expect_same(left, right):
    assert set(left) == set(right), (set(left), set(right))
    for name in left:
        assert left[name].dtype == right[name].dtype and left[name].shape == right[name].shape, name
        assert left[name].tobytes() == right[name].tobytes(), name


def samples(names):
    random = np.random.default_rng(1)
    arrays = {}
    for name in names:
        for shape in ((3, 4), (), (0, 2)):
            dtype = np.dtype(name)
            data = random.integers(0, 2 if name == "?" else 256, int(np.prod(shape)) * dtype.itemsize, np.uint8)
            arrays[f"{dtype.name}.{len(shape)}.{shape}"] = np.frombuffer(data.tobytes(), dtype).reshape(shape)
    return arrays


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "arrays.npz")
    arrays = samples(DTYPES)
    write(path, arrays)
    with np.load(path) as there:
        expect_same(arrays, dict(there))
    for save in (np.savez, np.savez_compressed):
        save(path, **arrays)
        expect_same(arrays, read(path)[0])
    fortran = {"a": np.asfortranarray(np.arange(12, dtype=">f4").reshape(3, 4))}
    np.savez(path, **fortran)
    assert np.array_equal(read(path)[0]["a"], fortran["a"])
    print("numpy: .npz agrees both ways")
    if save_file is None:
        sys.exit(0)
    path = os.path.join(folder, "arrays.safetensors")
    arrays = samples([name for name in DTYPES if name != "c8"])
    write(path, arrays, {"note": "as written"})
    expect_same(arrays, load_file(path))
    with safe_open(path, "numpy") as file:
        assert file.metadata() == {"note": "as written"}
    save_file(arrays, path, {"note": "theirs"})
    there, note = read(path)
    expect_same(arrays, there)
    assert note == b"theirs"
    print("safetensors agrees both ways")
