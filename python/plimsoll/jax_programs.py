# SPDX-License-Identifier: Apache-2.0
"""JAX's functions as programs that `Executable` takes."""

import jax
import jax.export
from jax_plugins import plimsoll as plugin


def export(f, *args, **kwargs) -> jax.export.Exported:
    """`f(*args, **kwargs)` as one program whose parameters and results are the array leaves in
    order. f: jitted or not. Arguments are arrays or `jax.ShapeDtypeStruct`s; nothing is computed.
    """
    plugin.prepare_lowering()
    jitted = f if hasattr(f, "lower") else jax.jit(f)
    return jax.export.export(jitted, platforms=[plugin.PLATFORM])(*args, **kwargs)
