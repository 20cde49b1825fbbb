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
from .errors import Error

try:
    from .buffer import Buffer
    from .context import Context, default_context
    from .executable import Executable, ValueInfo
    from .planning import FrontierPoint, Plan, plan
except ModuleNotFoundError as error:
    # The command `plimsoll` does without.
    if error.name != "numpy":
        raise

    def __getattr__(name):
        if name in __all__:
            raise ModuleNotFoundError(
                f"plimsoll.{name}: NumPy is not installed (pip install numpy)", name="numpy"
            )
        raise AttributeError(f"module 'plimsoll' has no attribute '{name}'")


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
