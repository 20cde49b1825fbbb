# SPDX-License-Identifier: Apache-2.0
"""torchax's table of ATen operations as JAX functions.

Importing torchax makes "jax" a device of the process, and PyTorch's Dynamo, which asks every device
for its streams, then fails for all backends. The table needs no device, so torchax is imported
without that step here, unless the program has imported it before.
"""

import contextlib
import sys
from unittest import mock

import torch


def _without_device():
    if "torchax" in sys.modules:
        return contextlib.nullcontext()
    silent = contextlib.ExitStack()
    silent.enter_context(mock.patch.object(torch.utils, "rename_privateuse1_backend"))
    silent.enter_context(mock.patch.object(torch, "_register_device_module"))
    return silent


with _without_device():
    import torchax.decompositions
    import torchax.ops.jaten  # noqa: F401, fills the table
    from torchax.ops import mappings, ops_registry

DECOMPOSITIONS = torchax.decompositions.DECOMPOSITIONS
t2j_dtype = mappings.t2j_dtype


def find(target):
    """The entry of an overload, or of the operation it is one of; None where there is none."""
    found = ops_registry.all_aten_ops.get(target)
    return found or ops_registry.all_aten_ops.get(target.overloadpacket)
