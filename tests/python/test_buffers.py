# SPDX-License-Identifier: Apache-2.0
"""Buffers: NumPy and DLPack in both directions, and what of them counts under the limit."""

import gc
import threading
import weakref

import numpy as np
import pytest

import plimsoll

DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
    "complex128"
).split()


def aligned(shape, dtype=np.float32):
    """An array at an address that is a multiple of 64, as borrowing asks for."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    bytes_ = np.zeros(size + 64, np.uint8)
    begin = -bytes_.ctypes.data % 64
    return bytes_[begin : begin + size].view(dtype).reshape(shape)


@pytest.fixture
def context():
    return plimsoll.Context("64MiB")


def used(context):
    gc.collect()
    return context.memory()["used_bytes"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (2, 3, 4)])
def test_numpy_round_trip(context, dtype, shape):
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    buffer = context.buffer(array)
    assert buffer.shape == shape and buffer.dtype == array.dtype and buffer.nbytes == array.nbytes
    back = np.asarray(buffer)
    assert back.dtype == array.dtype and np.array_equal(back, array)


def test_bfloat16_round_trip(context):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([1.5, -2, 3e38], ml_dtypes.bfloat16)
    back = np.asarray(context.buffer(array))
    assert back.dtype == array.dtype and back.tobytes() == array.tobytes()


def test_copies_whatever_the_strides(context):
    array = np.arange(24, dtype=np.int32).reshape(4, 6)
    for view in (array.T, array[::-1, ::2], np.broadcast_to(array[0], (3, 6))):
        assert np.array_equal(np.asarray(context.buffer(view)), view)


def test_a_buffer_is_a_copy_and_a_view_cannot_be_written_to(context):
    array = aligned(4)
    buffer = context.buffer(array)
    array[:] = 1
    view = np.asarray(buffer)
    assert view.tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError):
        view[0] = 1
    assert np.array(buffer).flags.writeable


def test_a_view_keeps_the_memory(context):
    view = np.asarray(context.buffer(np.arange(1000, dtype=np.float64)))
    assert used(context) >= 8000
    assert view[999] == 999
    del view
    assert used(context) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_to_numpy_shares_memory(context, dtype):
    buffer = context.buffer(np.arange(12).astype(dtype).reshape(3, 4))
    taken = np.from_dlpack(buffer)
    assert np.array_equal(taken, np.asarray(buffer))
    assert taken.ctypes.data == np.asarray(buffer).ctypes.data
    del buffer
    assert used(context) > 0
    del taken
    assert used(context) == 0


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0)])
def test_dlpack_capsules_with_and_without_versions(context, max_version):
    class Producer:
        def __init__(self, buffer):
            self.buffer = buffer

        def __dlpack_device__(self):
            return self.buffer.__dlpack_device__()

        def __dlpack__(self, **ignored):
            return self.buffer.__dlpack__(max_version=max_version)

    other = plimsoll.Context()
    buffer = context.buffer(np.arange(6, dtype=np.float32).reshape(2, 3))
    name = '"dltensor_versioned"' if max_version == (1, 0) else '"dltensor"'
    assert name in repr(buffer.__dlpack__(max_version=max_version))
    taken = other.from_dlpack(Producer(buffer))
    assert np.array_equal(np.asarray(taken), np.asarray(buffer))
    assert other.memory()["used_bytes"] > 0
    del buffer, taken
    assert used(context) == 0 and used(other) == 0


def test_a_capsule_that_nobody_takes_lets_go(context):
    buffer = context.buffer(np.ones(8, np.float32))
    capsule = buffer.__dlpack__()
    del buffer
    assert used(context) > 0
    del capsule
    assert used(context) == 0


def test_from_dlpack_borrows_and_gives_back(context):
    array = aligned((16, 16))
    buffer = context.from_dlpack(array)
    array[0, 0] = 5  # the memory itself
    assert np.asarray(buffer)[0, 0] == 5
    assert used(context) == array.nbytes
    lent = weakref.ref(array)
    del array
    assert lent() is not None and np.asarray(buffer)[0, 0] == 5
    del buffer
    assert used(context) == 0 and lent() is None


def test_arrays_are_borrowed_while_a_program_runs():
    context = plimsoll.Context(1 << 20)
    program = context.load(
        "HloModule m\nENTRY main { x = f32[131072] parameter(0) ROOT y = f32[] constant(1) }"
    )
    array = aligned(131072)  # twice its bytes would be the limit
    lent = weakref.ref(array)
    context.reset_peak()
    program(array)
    assert array.nbytes <= context.memory()["peak_bytes"] < 2 * array.nbytes
    del array
    assert used(context) == 0 and lent() is None


def test_from_dlpack_copies_what_is_not_dense(context):
    array = aligned((8, 8))
    array[:] = np.arange(64).reshape(8, 8)
    buffer = context.from_dlpack(array.T)
    assert np.array_equal(np.asarray(buffer), array.T)


def test_a_dlpack_copy_is_written_to_freely(context):
    buffer = context.buffer(np.zeros(4, np.float32))
    copy = np.from_dlpack(_Copying(buffer))
    if not copy.flags.writeable:
        pytest.skip(f"NumPy {np.__version__} writes to nothing that it has by DLPack")
    copy[0] = 1
    assert np.asarray(buffer)[0] == 0


class _Copying:
    def __init__(self, buffer):
        self.buffer = buffer

    def __dlpack_device__(self):
        return self.buffer.__dlpack_device__()

    def __dlpack__(self, **given):
        return self.buffer.__dlpack__(**{**given, "copy": True})


def test_refuses_other_devices_and_types(context):
    buffer = context.buffer(np.zeros(4, np.float32))
    with pytest.raises(BufferError):
        buffer.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError, match="datetime64"):
        context.buffer(np.zeros(3, "datetime64[s]"))
    with pytest.raises(TypeError, match="float32"):
        context.buffer(np.zeros(3, ">f4"))


def test_over_the_limit_is_an_error_with_the_floor():
    context = plimsoll.Context(1 << 20)
    with pytest.raises(plimsoll.Error) as caught:
        context.buffer(np.zeros(1 << 20, np.float32))
    assert caught.value.code == "RESOURCE_EXHAUSTED"
    assert caught.value.limit_bytes == 1 << 20
    assert caught.value.floor_bytes >= 4 << 20
    context.limit_bytes = "8MiB"
    assert context.limit_bytes == 8 << 20
    context.buffer(np.zeros(1 << 20, np.float32))


def test_deleted_buffers_say_so(context):
    buffer = context.buffer(np.zeros(4, np.float32))
    buffer.delete()
    assert buffer.is_deleted and buffer.shape == (4,)
    with pytest.raises(plimsoll.Error) as caught:
        np.asarray(buffer)
    assert caught.value.code == "FAILED_PRECONDITION"


def test_any_thread_makes_and_frees(context):
    def work():
        for i in range(50):
            array = np.full(64, i, np.float32)
            assert np.array_equal(np.from_dlpack(context.buffer(array)), array)
            assert np.array_equal(np.asarray(context.from_dlpack(array)), array)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert used(context) == 0
