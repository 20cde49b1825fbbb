# SPDX-License-Identifier: Apache-2.0
"""Plimsoll: tensor programs under a hard device-memory limit, with the same bits at every limit.

`Context` is a limit and what runs under it, `Buffer` an array in its memory, `Executable` a compiled
program; `plan` says what a JAX function would take before anything runs. Installing the package also
makes JAX find the platform `plimsoll` and `torch.compile` the backend `plimsoll`; importing it imports
neither.

Sizes are bytes everywhere; where a size is given, a text like "512MiB" does as well. Errors of the
library are `plimsoll.Error`.
"""

from ._library import include_path, library_path, version
from .buffer import Buffer
from .context import Context, default_context
from .errors import Error
from .executable import Executable, ValueInfo
from .planning import FrontierPoint, Plan, plan

__version__ = version()

__all__ = [
    "Buffer",
    "Context",
    "Error",
    "Executable",
    "FrontierPoint",
    "Plan",
    "ValueInfo",
    "default_context",
    "include_path",
    "library_path",
    "plan",
]
