# SPDX-License-Identifier: Apache-2.0
"""What a sharded program of the corpus is, the registry that `@program` fills, and `build`, which makes one to call.

A program is made for a mesh by its name. With one device all axes have size 1, which makes the reference: programs
give the same values whatever the mesh.
"""
import contextlib
import functools
import math
import zlib

import jax
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

PROGRAMS = {}

# The devices' order in "permuted" is none that counting along the axes gives.
MESHES = {
    "x": ((4,), ("x",)),
    "x8": ((8,), ("x",)),
    "xy": ((2, 2), ("x", "y")),
    "xy24": ((2, 4), ("x", "y")),
    "permuted": ((2, 2), ("x", "y")),
    "xyz": ((2, 2, 2), ("x", "y", "z")),
}
PERMUTATION = (0, 2, 3, 1)
DEVICES = 8


class Case:
    """A function, its arguments as host arrays and how they are cut: a tree of PartitionSpecs that is a prefix of
    the arguments' tree. `results` says the same of the results, where the program does; `donated` are numbers of
    arguments."""

    def __init__(self, function, arguments, specs, results=None, donated=(), tolerance=1e-4):
        self.function = function
        self.arguments = tuple(arguments)
        self.specs = tuple(specs)
        self.results = results
        self.donated = donated
        self.tolerance = tolerance


class Context:
    """The mesh a program is made for, and its random numbers, which its name alone decides."""

    def __init__(self, name, mesh, explicit, devices):
        shape, axes = MESHES[mesh]
        if len(devices) == 1:
            shape = (1,) * len(shape)
        elif mesh == "permuted":
            devices = [devices[place] for place in PERMUTATION]
        types = (AxisType.Explicit if explicit else AxisType.Auto,) * len(axes)
        self.mesh = Mesh(np.array(devices[:math.prod(shape)]).reshape(shape), axes, axis_types=types)
        self.random = np.random.default_rng(zlib.crc32(name.encode()))

    def sharding(self, spec):
        return NamedSharding(self.mesh, spec)

    def constrain(self, x, *spec):
        return lax.with_sharding_constraint(x, self.sharding(P(*spec)))

    def normal(self, *shape, scale=0.2):
        return (scale * self.random.standard_normal(shape)).astype(np.float32)

    def weights(self, *shape):
        return self.normal(*shape, scale=shape[-2] ** -0.5)

    def integers(self, end, *shape):
        return self.random.integers(0, end, shape).astype(np.int32)


class Built:
    """A case on a mesh: `jitted` is to be called with `arguments` that lie as `shardings` say, within `scope()`."""

    def __init__(self, case, context, explicit):
        self.case = case
        self.mesh = context.mesh
        self.explicit = explicit
        self.arguments = case.arguments
        self.shardings = tuple(over_leaves(jax.tree.map(context.sharding, spec, is_leaf=is_spec), argument)
                               for spec, argument in zip(case.specs, case.arguments, strict=True))
        self.result_shardings = None
        if case.results is not None:
            self.result_shardings = jax.tree.map(context.sharding, case.results, is_leaf=is_spec)
        self.jitted = jax.jit(case.function, donate_argnums=case.donated, **result_option(self.result_shardings))

    def scope(self):
        return jax.set_mesh(self.mesh) if self.explicit else contextlib.nullcontext()


def is_spec(node):
    return isinstance(node, P)


def over_leaves(prefix, tree):
    """The prefix tree's shardings, one for each leaf of the tree."""
    spread = lambda sharding, subtree: jax.tree.map(lambda _: sharding, subtree)
    return jax.tree.map(spread, prefix, tree, is_leaf=lambda node: isinstance(node, jax.sharding.Sharding))


def result_option(shardings):
    return {} if shardings is None else {"out_shardings": shardings}


def program(mesh, explicit=False, name=None, **options):
    """Registers a function that makes a Case of a context and the options; its name is the function's by default."""

    def register(make):
        key = name or make.__name__
        if key in PROGRAMS:
            raise ValueError(f"two programs are called {key}")
        PROGRAMS[key] = (functools.partial(make, **options), mesh, explicit)
        return make

    return register


def build(name, devices):
    make, mesh, explicit = PROGRAMS[name]
    context = Context(name, mesh, explicit, devices)
    return Built(make(context), context, explicit)
