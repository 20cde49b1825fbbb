# SPDX-License-Identifier: Apache-2.0
"""What a program would take, before anything runs."""

import functools
import json
import os
import subprocess
import tempfile
from typing import NamedTuple

from ._library import command_path
from .errors import Error
from .executable import program_bytes


class FrontierPoint(NamedTuple):
    """The plan at one limit. Bytes and seconds; `lower_bound_seconds`: no plan of the program's form
    at that limit is faster."""

    limit_bytes: int
    peak_bytes: int
    predicted_seconds: float
    lower_bound_seconds: float


class Plan:
    """A program's plan under a limit. Immutable; holds no device memory.

    limit_bytes: None where there is none. floor_bytes: the smallest limit that would do.
    peak_bytes, predicted_seconds: of this plan; unlimited_peak_bytes, unlimited_seconds: of the one
    that nothing limits. Arguments, constants, results and temporaries count.
    recomputed_bytes: computed more than once a run. frontier: `FrontierPoint`s from the floor to the
    peak without a limit. fields: all that `plimsoll plan --json --frontier` says, as a dict.
    """

    def __init__(self, artifact: bytes, memory_limit):
        self._artifact = artifact
        self._memory_limit = memory_limit
        self.fields = json.loads(self._command("--json", "--frontier"))
        self.limit_bytes = self.fields["limit_bytes"]
        self.floor_bytes = self.fields["floor_bytes"]
        self.peak_bytes = self.fields["peak_bytes"]
        self.unlimited_peak_bytes = self.fields["unlimited_peak_bytes"]
        self.predicted_seconds = self.fields["predicted_seconds"]
        self.unlimited_seconds = self.fields["unlimited_seconds"]
        self.recomputed_bytes = self.fields["recomputed_bytes"]
        self.frontier = [
            FrontierPoint(*(point.get(field) for field in FrontierPoint._fields))
            for point in self.fields["frontier"]
        ]

    @functools.cached_property
    def report(self) -> str:
        """The plan in words, as `plimsoll plan --frontier` prints it; made when first asked for."""
        return self._command("--frontier")

    def write_report(self, path) -> None:
        """Writes the page of `plimsoll plan --report`: memory over time with every value at its
        address, the frontier, what is live at the peak."""
        self._command("--frontier", "--report", os.fspath(path))

    def explain(self, value: str) -> dict:
        """Why a value, by its name in the program, is kept, recomputed, compressed or swapped:
        `explain` of `plimsoll plan --explain`."""
        return json.loads(self._command("--json", "--explain", value))["explain"]

    def __repr__(self) -> str:
        limit = "none" if self.limit_bytes is None else self.limit_bytes
        return (
            f"plimsoll.Plan(limit {limit}, floor {self.floor_bytes}, peak {self.peak_bytes}, "
            f"unlimited peak {self.unlimited_peak_bytes}, {self.predicted_seconds:.3g} s)"
        )

    def _command(self, *flags) -> str:
        with tempfile.NamedTemporaryFile(suffix=".mlirbc") as file:
            file.write(self._artifact)
            file.flush()
            call = [command_path(), "plan", file.name, *flags]
            if self._memory_limit is not None:
                call += ["--memory-limit", str(self._memory_limit)]
            done = subprocess.run(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise _error_of(done, file.name)
        return done.stdout


# The command's flags as this module calls them.
_PARAMETERS = {"--memory-limit": "memory_limit", "--explain": "explain", "--report": "write_report"}


def _error_of(done, path) -> Error:
    def in_python(message):
        for flag, parameter in _PARAMETERS.items():
            message = message.replace(flag, parameter)
        return message.replace(path, "program")

    try:
        error = json.loads(done.stdout)["error"]
    except (ValueError, KeyError):
        # plimsoll: CODE: message
        _, code, message = [*done.stderr.strip().split(": ", 2), "", ""][:3]
        if code.isupper():
            return Error(code, in_python(message))
        return Error("UNKNOWN", in_python(done.stderr.strip()))
    return Error(
        error["code"],
        in_python(error["message"]),
        error.get("limit_bytes", 0),
        error.get("floor_bytes", 0),
        error.get("culprit", ""),
    )


def plan(f, *args, memory_limit=None, **kwargs) -> Plan:
    """The plan of `f(*args, **kwargs)` under a limit, without running it.

    f: a JAX function, jitted or not (then it is jitted whole); arguments are arrays or
    `jax.ShapeDtypeStruct`s. Or, without arguments, any program that `Executable` takes, or a path as
    a text.
    memory_limit: bytes, or a text: "512MiB", "50%peak" of the unlimited peak; None:
    PLIMSOLL_MEMORY_LIMIT, else none.

    Donated arguments (`donate_argnums`) are planned as donated. Raises `Error` RESOURCE_EXHAUSTED,
    with the floor, where no plan fits. Compiles the program's kernels, in another process, which
    leaves them in the kernel cache.
    """
    if not callable(f):
        return Plan(program_bytes(f), memory_limit)
    try:
        from .jax_programs import export
    except ModuleNotFoundError as error:
        if error.name not in ("jax", "jaxlib"):
            raise
        raise ModuleNotFoundError(
            "plan of a Python function: JAX is not installed (pip install 'plimsoll[jax]'; HLO text "
            "and files need none)",
            name=error.name,
        ) from error
    return Plan(program_bytes(export(f, *args, **kwargs)), memory_limit)
