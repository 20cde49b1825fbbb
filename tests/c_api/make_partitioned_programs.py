#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the programs of partitioned_programs_test.cc, which run on four partitions:
FOLDER/NAME.mlirbc as jax.export gives it, and NAME.results, the results' bytes as JAX computes them
on four devices of its CPU backend: of each partition in turn, one result after the other.

    python3 make_partitioned_programs.py FOLDER

Needs jax (written with 0.10.2). Arguments are not stored: both sides fill what each partition has of
them by the same rule (`fill` here, `fill` in the test)."""

import os
import sys
from functools import partial

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

jax.config.update("jax_traceback_in_locations_limit", 0)
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")

MESH = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
# Shardings of values are types here, `unreduced` ones among them.
TYPED = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)
PROGRAMS = {}


def program(shapes, specs, results, mesh=MESH):
    """Adds the function under its name, with the shapes and specs of its arguments and the specs of
    its results (None: what the function makes them)."""

    def add(function):
        PROGRAMS[function.__name__] = (function, shapes, specs, results, mesh)
        return function

    return add


def shard_map(**options):
    return partial(jax.shard_map, mesh=MESH, **options)


def fill(shape, partition, number):
    """Multiples of 1/64 below 1, other ones for each argument and partition."""
    i = np.arange(int(np.prod(shape)))
    return (((i * 37 + number * 11 + partition * 29) % 127 - 63) / 64).astype(np.float32).reshape(shape)


@program([(8, 6), (6, 4)], [P("a", "b"), P("b", None)], [P("a", None)])
@shard_map(in_specs=(P("a", "b"), P("b", None)), out_specs=P("a", None))
def product_by_both_axes(x, w):
    return lax.psum(x @ w, "b")


@program([(8, 3)], [P(("a", "b"), None)], [P(("a", "b"), None)])
@shard_map(in_specs=P(("a", "b")), out_specs=P(("a", "b")))
def ring(x):
    return x + lax.ppermute(x, ("a", "b"), [(i, (i + 1) % 4) for i in range(4)])


@program([(8, 4)], [P("a", "b")], [P("a", "b")])
@shard_map(in_specs=P("a", "b"), out_specs=P("a", "b"), check_vma=False)
def pieces_moved(x):
    return lax.all_to_all(x, "b", 0, 1, tiled=True).reshape(4, 2) * lax.axis_index("a")


@program([(16, 3)], [P(("b", "a"), None)], [P(("b", "a"), None)])
@shard_map(in_specs=P(("b", "a")), out_specs=P(("b", "a")))
def gathered_and_scattered(x):
    return lax.psum_scatter(lax.all_gather(x, "a", tiled=True) ** 2, "a", tiled=True)


# Rows of x that participant i sends participant j (from which on, how many, to which row), by i, j.
FROM = np.array([[0, 0, 1, 9], [1, 0, 0, 0], [0, 1, 0, 1], [1, 9, 0, 0]], np.int32)
ROWS = np.array([[1, 2, 1, 0], [1, 0, 2, 1], [2, 1, 0, 1], [1, 0, 1, 2]], np.int32)
TO = np.array([[4, 0, 0, 9], [3, 7, 2, 3], [1, 2, 9, 0], [0, 9, 4, 1]], np.int32)


@program([(8, 3), (20, 3)], [P(("a", "b"), None)] * 2, [P(("a", "b"), None)])
@shard_map(in_specs=(P(("a", "b")), P(("a", "b"))), out_specs=P(("a", "b")), check_vma=False)
def rows_to_others(x, y):
    mine = lax.axis_index(("a", "b"))
    numbers = [jnp.asarray(table)[mine] for table in (FROM, ROWS, TO, ROWS.T)]
    return 2 * lax.ragged_all_to_all(x, y, *numbers, axis_name=("a", "b"))


def rows_to_others_by_hand(x, y):
    """What XLA's CPU backend has no code for. Of all partitions' arrays, one under the other."""
    made = y.copy()
    for i, j in np.ndindex(4, 4):
        first, count, place = FROM[i, j], ROWS[i, j], TO[i, j]
        made[5 * j + place : 5 * j + place + count] = x[2 * i + first : 2 * i + first + count]
    return 2 * made


BY_HAND = {"rows_to_others": rows_to_others_by_hand}


@program([(4, 6), (6,)], [P("a", None), P()], [P("a", None), P(None)])
@shard_map(in_specs=(P("a"), P()), out_specs=(P("a"), P()), axis_names={"a"})
def only_one_axis_by_hand(x, w):
    return jnp.tanh(x) * w.sum(), lax.pmax(w, "a")


@program([(4, 4)], [P("a", None)], [P("a", None)])
@shard_map(in_specs=P("a"), out_specs=P("a"), check_vma=False)
def loop_of_sums(x):
    return lax.fori_loop(0, 4, lambda i, c: jnp.tanh(c + 0.1 * lax.psum(c, "a")), x)


@program([(6, 8), (8, 8), (8, 6)], [P(None, None), P(None, None), P("a", None)], [P(None, None), P(None, None)])
def data_parallel_step(w, u, x):
    def loss(parameters, x):
        h = jnp.tanh(x @ parameters[0])
        return ((jnp.tanh(h @ parameters[1]) - 0.25) ** 2).mean()

    gradients = jax.grad(loss)((w, u), x)
    return w - 0.1 * gradients[0], u - 0.1 * gradients[1]


@program([(8, 8), (8, 4)], [P("a", "b"), P("b", None)], [P("a", "b"), P()])
def no_region(x, w):
    y = jnp.sin(x @ w)
    return x * jnp.sum(y), jnp.max(y)


@program([(8, 4), (4, 4)], [P(("a", "b"), None), P()], [P(None, None)])
def gradient_of_a_region(x, w):
    @shard_map(in_specs=(P(("a", "b")), P()), out_specs=P())
    def loss(x, w):
        return lax.pmean(jnp.sum(jnp.tanh(x @ w) ** 2), ("a", "b"))

    return jax.grad(loss, argnums=1)(x, w)


@program([(8, 4)], [P("a", None)], [P("b", None), P()])
def whole_and_by_hand(x):
    y = shard_map(in_specs=P("a", "b"), out_specs=P("a", "b"))(lambda t: t * (1 + lax.axis_index("b")))(x * 2)
    z = jnp.cumsum(y, axis=0)
    return z, shard_map(in_specs=P("b"), out_specs=P())(lambda t: lax.psum(t.sum(), "b"))(z)


@program([(8, 6), (8, 6)], [P("a", None), P(None, "b")], [P(None, None)])
def one_result_whole(x, y):
    return x + y


@program([(8, 6)], [P("a", None)], None)
def last_a_constraint(x):
    return lax.with_sharding_constraint(jnp.cumsum(x, axis=0), NamedSharding(MESH, P("a", "b")))


@program([(8, 6)], [P("a", None)], [P(None, "b")])
def cut_otherwise_than_constrained(x):
    return lax.with_sharding_constraint(jnp.tanh(x), NamedSharding(MESH, P("a", "b")))


# 7 columns among 4, and 5 among 2.
@program([(8, 7), (7, 5)], [P("a", None), P()], [P("a", None)])
def constrained_to_uneven_tiles(x, w):
    h = lax.with_sharding_constraint(jnp.tanh(x), NamedSharding(MESH, P(None, ("a", "b"))))
    y = lax.with_sharding_constraint(h @ w, NamedSharding(MESH, P("a", "b")))
    return y * 2


UNREDUCED = P("a", None, unreduced={"b"})


@program([(8, 6), (6, 4)], [P("a", "b"), P("b", None)], [UNREDUCED, P("a", "b"), P()], TYPED)
def sums_left_open(x, w):
    y = jnp.einsum("xy,yz->xz", x, w, out_sharding=UNREDUCED)
    return y + y, jax.sharding.reshard(y, P("a", "b")), jax.sharding.reshard(y, P()).sum()


@program([(4, 6), (4, 6)], [UNREDUCED, UNREDUCED], [UNREDUCED, P("a", None), P(None, None)], TYPED)
def sums_given(x, y):
    both = x + y
    turned = jnp.transpose(jnp.concatenate([both, x[:, :2]], axis=1))
    return both, jnp.tanh(jax.sharding.reshard(y, P("a", None))), jax.sharding.reshard(turned, P(None, None))


@program([(4, 6), (4, 6), ()], [P("a", None), P("a", "b"), P()], [UNREDUCED] * 2 + [P(None, None, unreduced={"a"}), P(unreduced={"a", "b"})], TYPED)
def summands_of_what_is_there(x, y, s):
    open_along_a = jax.sharding.reshard(x, P(None, None, unreduced={"a"}))
    opened = [jax.sharding.reshard(one, UNREDUCED) for one in (x, y)]
    return *opened, open_along_a, jax.sharding.reshard(s, P(unreduced={"a", "b"}))


@program([(8, 6), (8, 6)], [P("a", "b"), P("a", None, unreduced={"b"})], [UNREDUCED, P("a", "b")], TYPED)
def summands_of_a_region(x, y):
    opened = jax.shard_map(mesh=TYPED, in_specs=P("a", "b"), out_specs=UNREDUCED)
    added = jax.shard_map(mesh=TYPED, in_specs=UNREDUCED, out_specs=P("a", "b"))
    return (
        opened(lambda t: lax.pcast(t * 2, "b", to="unreduced"))(x),
        added(lambda t: lax.psum_scatter(t, "b", scatter_dimension=1, tiled=True))(y),
    )


def summand_of(device, sharding):
    """Which summand of a tile it has."""
    place = np.argwhere(sharding.mesh.devices == device)[0]
    axes = sharding.mesh.axis_names
    return [int(place[axes.index(axis)]) for axis in sorted(sharding.spec.unreduced)]


def main(folder):
    devices = jax.devices()
    for name, (function, shapes, specs, results, mesh) in PROGRAMS.items():
        given = [NamedSharding(mesh, spec) for spec in specs]
        options = {"in_shardings": tuple(given)}
        if results is not None:
            made = tuple(NamedSharding(mesh, spec) for spec in results)
            options["out_shardings"] = made if len(made) > 1 else made[0]
        jitted = jax.jit(function, **options)
        arguments = []
        for number, (shape, sharding) in enumerate(zip(shapes, given)):
            # What is the same for several partitions is filled as for the first of them.
            indices = NamedSharding(mesh, P(*sharding.spec.partitions)).devices_indices_map(shape)
            first = {}
            tiles = []
            for partition, device in enumerate(devices):
                key = str((indices[device], summand_of(device, sharding)))
                first.setdefault(key, partition)
                tile = fill(sharding.shard_shape(shape), first[key], number)
                tiles.append(jax.device_put(tile, device))
            arguments.append(jax.make_array_from_single_device_arrays(shape, sharding, tiles))
        unchecked = [export.DisabledSafetyCheck.custom_call("ragged_all_to_all")]
        with jax.set_mesh(mesh):
            exported = export.export(jitted, disabled_checks=unchecked)(*arguments)
        with open(f"{folder}/{name}.mlirbc", "wb") as file:
            file.write(exported.mlir_module_serialized)
        if name in BY_HAND:
            whole = BY_HAND[name](*map(np.asarray, arguments))
            outputs = [jax.device_put(whole, made[0])]
        else:
            with jax.set_mesh(mesh):
                outputs = jax.tree.leaves(jitted(*arguments))
        with open(f"{folder}/{name}.results", "wb") as file:
            for device in devices:
                for output in outputs:
                    shard = [s for s in output.addressable_shards if s.device == device]
                    file.write(np.asarray(shard[0].data).tobytes())


if __name__ == "__main__":
    main(sys.argv[1])
