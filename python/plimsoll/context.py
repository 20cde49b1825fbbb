# SPDX-License-Identifier: Apache-2.0
"""A memory limit and what runs under it."""

import ctypes
import functools
from ctypes import c_void_p

from . import buffer as buffers
from ._library import NO_LIMIT, ContextOptions, MemoryStatistics, bytes_of, library


class Context:
    """A device-memory limit: buffers, and runs of executables, all count under it.

    memory_limit: bytes, or a text: "512MiB", "80%" of the device's memory; `float("inf")` for none;
    None for PLIMSOLL_MEMORY_LIMIT, else none. host_limit, spill_dir, spill_limit: other memory that
    values may be swapped to. remedies, planner, planning, planning_seconds, min_size: as in the
    environment variables of these names, which count where nothing is given.

    Any thread may use it. Its memory goes when neither it nor anything made of it is left.
    """

    def __init__(
        self,
        memory_limit=None,
        *,
        host_limit=None,
        spill_dir=None,
        spill_limit=None,
        min_size=None,
        remedies=None,
        planner=None,
        planning=None,
        planning_seconds: float = 0.0,
    ):
        options = ContextOptions(
            struct_size=ctypes.sizeof(ContextOptions),
            memory_limit_bytes=_limit_bytes(memory_limit),
            host_limit_bytes=bytes_of(host_limit, "host_limit"),
            spill_limit_bytes=bytes_of(spill_limit, "spill_limit"),
            min_size_bytes=bytes_of(min_size, "min_size"),
            planning_seconds=planning_seconds,
            planner=_text(planner),
            planning=_text(planning),
            remedies=_text(remedies),
            spill_dir=_text(spill_dir),
        )
        handle = c_void_p()
        library().plm_context_create(ctypes.byref(options), ctypes.byref(handle))
        self._handle = handle.value

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            library().plm_context_destroy(handle)

    @property
    def limit_bytes(self):
        """The limit in bytes; None where there is none. May be set at any time: what runs already
        ends as it was planned."""
        limit = library().plm_context_limit(self._handle)
        return None if limit == NO_LIMIT else limit

    @limit_bytes.setter
    def limit_bytes(self, limit):
        library().plm_context_set_limit(self._handle, _limit_bytes(limit) or NO_LIMIT)

    @property
    def device(self) -> str:
        """ "cpu", for example."""
        return library().plm_context_device(self._handle).decode()

    @property
    def is_host_memory(self) -> bool:
        """Whether the device's memory is the host's, so that arrays can be looked at in place."""
        return bool(library().plm_context_is_host_memory(self._handle))

    def memory(self) -> dict:
        """What is in use, at most was, and for what, in bytes, as `plm_memory_statistics` says:
        `used_bytes`, `peak_bytes`, `limit_bytes` (None: no limit) and so on."""
        statistics = MemoryStatistics(struct_size=ctypes.sizeof(MemoryStatistics))
        library().plm_context_memory(self._handle, ctypes.byref(statistics))
        values = {
            name: getattr(statistics, name)
            for name, *_ in MemoryStatistics._fields_
            if name != "struct_size"
        }
        if values["limit_bytes"] == NO_LIMIT:
            values["limit_bytes"] = None
        return values

    def reset_peak(self) -> None:
        """Lets `peak_bytes` begin again from what is in use."""
        library().plm_context_reset_peak(self._handle)

    def buffer(self, array) -> buffers.Buffer:
        """A copy of an array in this context's memory: of a NumPy array, of what DLPack exports, of
        what NumPy makes arrays from."""
        return buffers.from_any(self, array, borrow=False)

    def from_dlpack(self, array) -> buffers.Buffer:
        """An array of another library in place: its memory counts under this context's limit, and
        must not be written to, while the buffer or a run uses it. Arrays that are not dense, or not
        at an address that is a multiple of 64, are copied."""
        return buffers.from_dlpack(self, array, borrow=True)

    def load(self, program, **options):
        """`Executable(self, program, **options)`."""
        from .executable import Executable

        return Executable(self, program, **options)


@functools.lru_cache(maxsize=None)
def default_context() -> Context:
    """The process's own context, under PLIMSOLL_MEMORY_LIMIT; what `torch.compile` makes runs in
    it."""
    return Context()


def _limit_bytes(limit) -> int:
    if isinstance(limit, float) and limit == float("inf"):
        return NO_LIMIT
    return bytes_of(limit, "memory_limit")


def _text(value):
    return None if value is None else str(value).encode()
