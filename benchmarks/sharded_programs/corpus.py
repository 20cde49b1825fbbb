# SPDX-License-Identifier: Apache-2.0
"""All programs: the modules that register them, and `chosen`, which says which ones patterns name."""
import fnmatch

import attention
import branches
import carries
import constraints
import convolutions
import explicit
import loops
import movement
import numerics
import operands
import recurrent
import regions
import stencils
import training
import training_loops
import uneven
from programs import PROGRAMS, build

MODULES = (training, training_loops, recurrent, loops, carries, branches, regions, constraints, explicit, attention,
           convolutions, numerics, stencils, operands, movement, uneven)

__all__ = ["MODULES", "PROGRAMS", "build", "chosen"]


def chosen(patterns):
    """The names that one of the comma-separated patterns fits, or all."""
    if not patterns:
        return list(PROGRAMS)
    return [name for name in PROGRAMS if any(fnmatch.fnmatch(name, one) for one in patterns.split(","))]
