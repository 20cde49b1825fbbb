# SPDX-License-Identifier: Apache-2.0
"""Sharding constraints that move arrays: between dimensions, axes and meshes, in loops and outside."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from layers import layer_norm
from programs import Case, program


@program("x")
def wsc_many(ctx):
    def f(x, w1, w2):
        h = ctx.constrain(x, "x")
        h = ctx.constrain(jnp.tanh(h @ w1), None, "x")
        h = ctx.constrain(h @ w2, "x", None)
        g = ctx.constrain(h.sum(0))
        return ctx.constrain(h - g, None, None), g

    return Case(f, (ctx.normal(16, 16), ctx.weights(16, 32), ctx.weights(32, 16)), (P(), P(), P()))


@program("x")
def wsc_cut_replicated(ctx):
    return Case(lambda x: jnp.sin(ctx.constrain(jnp.cos(x) + 1, "x")).sum(1), (ctx.normal(32, 64),), (P(),),
                results=P("x"))


@program("x")
def wsc_back(ctx):
    return Case(lambda x, w: ctx.constrain(jnp.tanh(ctx.constrain(x @ w)), "x") * 2,
                (ctx.normal(32, 16), ctx.weights(16, 16)), (P("x"), P()), results=P("x"))


@program("x")
def wsc_in_scan(ctx):
    def f(ws, x):
        return lax.scan(lambda h, w: (ctx.constrain(jnp.tanh(ctx.constrain(h, "x") @ w), "x"), None), x, ws)[0]

    return Case(f, (ctx.weights(4, 16, 16), ctx.normal(16, 16)), (P(), P()), results=P("x"))


@program("x")
def wsc_change_dim_scan(ctx):  # rows, then columns, in every round
    def f(x):
        def body(h, _):
            h = ctx.constrain(jax.nn.softmax(h, 1), "x")
            h = ctx.constrain(h - h.mean(1, keepdims=True), None, "x")
            return ctx.constrain(h + jnp.cumsum(h, 0), None, "x"), None

        return lax.scan(body, x, None, length=4)[0]

    return Case(f, (ctx.normal(16, 16),), (P(None, "x"),), results=P(None, "x"))


@program("x")
def wsc_fft_pencil(ctx):
    def f(x):
        y = ctx.constrain(jnp.fft.fft(x, axis=1), "x")
        y = ctx.constrain(y, None, "x")
        return jnp.abs(ctx.constrain(jnp.fft.fft(y, axis=0), None, "x"))

    return Case(f, (ctx.normal(16, 16),), (P("x"),), results=P(None, "x"))


@program("x")
def wsc_sequence_parallel(ctx):
    def f(p, h):
        def body(h, p):
            x = ctx.constrain(layer_norm(h, p["g"]), None, "x")
            u = ctx.constrain(jax.nn.gelu(x @ p["w1"]), None, None, "x")
            return h + ctx.constrain(u @ p["w2"], None, "x"), None

        return lax.scan(body, h, p)[0]

    loss = lambda p, h: jnp.mean(f(p, h) ** 2)
    specs = dict(g=P(), w1=P(None, None, "x"), w2=P(None, "x"))
    p = dict(g=np.ones((3, 32), np.float32), w1=ctx.weights(3, 32, 64), w2=ctx.weights(3, 64, 32))
    return Case(jax.value_and_grad(loss), (p, ctx.normal(2, 16, 32, scale=1)), (specs, P(None, "x")),
                results=(P(), specs))


@program("xy")
def wsc_2d_transpose(ctx):
    return Case(lambda x: ctx.constrain(jnp.tanh(ctx.constrain(x, "y", "x")), None, ("x", "y")) + x.T,
                (ctx.normal(16, 16),), (P("x", "y"),))


@program("xy")
def wsc_2d_in_loop(ctx):
    def f(a, b):
        def body(i, h):
            return ctx.constrain(jnp.tanh(ctx.constrain(h, "x") @ ctx.constrain(b, None, "y")), "x", "y")

        return lax.fori_loop(0, 3, body, a)

    return Case(f, (ctx.normal(16, 16), ctx.weights(16, 16)), (P("x", "y"), P("x", "y")))


@program("permuted")
def mesh_permuted(ctx):
    def f(ws, x):
        return lax.scan(lambda h, w: (jnp.tanh(h @ w[0]) @ w[1], h.sum(0)), x, ws)

    return Case(f, ((ctx.weights(3, 16, 32), ctx.weights(3, 32, 16)), ctx.normal(8, 16, scale=1)),
                ((P(None, None, "y"), P(None, "y")), P("x")), results=(P("x"), P()))


@program("xy")
def mesh_two(ctx):  # the same devices as 2 x 2 and as 4
    rows = NamedSharding(Mesh(ctx.mesh.devices.reshape(-1), ("i",), axis_types=(AxisType.Auto,)), P("i"))

    def f(x, w):
        def body(i, h):
            return lax.with_sharding_constraint(h * 2 - h.mean(1, keepdims=True), rows)

        return lax.fori_loop(0, 2, body, lax.with_sharding_constraint(jnp.tanh(x @ w), rows))

    return Case(f, (ctx.normal(16, 16), ctx.weights(16, 16)), (P("x"), P(None, "y")), results=P(("y", "x")))


@program("xy")
def spec_multi_axes(ctx):
    return Case(lambda x, y: lax.fori_loop(0, 3, lambda i, h: jnp.sin(h) + y, x),
                (ctx.normal(16, 16), ctx.normal(16, 16)), (P(("y", "x")), P(("x", "y"))), results=P(("y", "x")))
