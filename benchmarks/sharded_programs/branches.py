# SPDX-License-Identifier: Apache-2.0
"""Conditionals and selections, alone, in loops and around loops."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from programs import Case, program


@program("x")
def cond_cut(ctx):
    return Case(lambda p, x: lax.cond(p > 0, jnp.sin, jnp.cos, x), (np.float32(1), ctx.normal(32, 64)), (P(), P("x")))


@program("x")
def switch_cut(ctx):
    return Case(lambda i, x, w: lax.switch(i, [lambda x: x @ w, lambda x: jnp.tanh(x) - x.mean(0), lambda x: x * 2], x),
                (np.int32(1), ctx.normal(32, 16), ctx.weights(16, 16)), (P(), P("x"), P()))


@program("x")
def switch_closed_differ(ctx):  # branches read arrays that are cut differently
    return Case(lambda i, x, y, z: lax.switch(i, [lambda: x + 1, lambda: y * 2, lambda: z]),
                (np.int32(2), ctx.normal(16, 16), ctx.normal(16, 16), ctx.normal(16, 16)),
                (P(), P("x"), P(None, "x"), P()), results=P("x"))


@program("x")
def cond_pred_cut(ctx):
    return Case(lambda x, w: lax.cond(jnp.sum(x) > 0, lambda: x @ w, lambda: (x - x.mean(0)) @ w),
                (ctx.normal(32, 16), ctx.weights(16, 16)), (P("x"), P(None, "x")))


@program("x")
def cond_grad(ctx):
    def f(w, x, k):
        return jnp.mean(lax.cond(k > 0, lambda: jnp.tanh(x @ w), lambda: x @ (w * 2)) ** 2)

    return Case(jax.grad(f), (ctx.weights(16, 16), ctx.normal(32, 16), np.int32(1)), (P(), P("x"), P()))


@program("x")
def cond_in_scan(ctx):
    def f(w, x):
        def body(h, i):
            h = lax.cond(i % 2 == 0, lambda h: jnp.tanh(h @ w), lambda h: h - 0.1 * h.mean(0), h)
            return h, jnp.sum(h)

        return lax.scan(body, x, jnp.arange(6))

    return Case(f, (ctx.weights(16, 16), ctx.normal(32, 16, scale=1)), (P(), P("x")))


@program("x")
def scan_in_cond(ctx):
    def f(p, w, x):
        return lax.cond(p, lambda: lax.scan(lambda h, u: (jnp.tanh(h @ u), None), x, w)[0], lambda: x)

    return Case(f, (np.bool_(True), ctx.weights(3, 16, 16), ctx.normal(32, 16)), (P(), P(None, "x"), P("x")))


@program("x")
def while_in_cond_in_scan(ctx):
    def f(x):
        def body(h, i):
            shrunk = lambda h: lax.while_loop(lambda s: jnp.sum(s ** 2) > 8, lambda s: s * 0.7, h)
            h = lax.cond(i > 1, shrunk, lambda h: h * 1.5, h)
            return h, h.max()

        return lax.scan(body, x, jnp.arange(4))

    return Case(f, (ctx.normal(32, 16, scale=0.5),), (P("x"),))


@program("x")
def cond_identity_or_cut(ctx):
    return Case(lambda k, x, y: lax.cond(k > 0, lambda: (x, y), lambda: (y, x)),
                (np.int32(0), ctx.normal(16, 16), ctx.normal(16, 16)), (P(), P("x"), P()))


@program("x")
def cond_constants(ctx):
    return Case(lambda k, x: lax.cond(k > 0, lambda: (jnp.zeros((16, 16)), 0.0), lambda: (x, x.sum())),
                (np.int32(0), ctx.normal(16, 16)), (P(), P("x")), results=(P("x"), P()))


@program("x")
def cond_nested(ctx):
    def f(k, x):
        inner = lambda x: lax.cond(x.sum() > 1e3, lambda x: x * 2, lambda x: x - x.max(1, keepdims=True), x)
        return lax.cond(k > 0, inner, lambda x: x @ x, x)

    return Case(f, (np.int32(1), ctx.normal(16, 16)), (P(), P(None, "x")))


@program("x")
def cond_element_pred(ctx):  # a cut vector's element chooses, in every round
    def f(m, x):
        def body(i, h):
            return lax.cond(m[i] > 0, lambda h: h * 1.1 + h.mean(), lambda h: h - 0.1, h)

        return lax.fori_loop(0, 16, body, x)

    return Case(f, (ctx.normal(16), ctx.normal(16, 8)), (P("x"), P("x")))


@program("xy")
def cond_branches_2d(ctx):
    def f(k, a, b):
        moved = lambda: ctx.constrain(a.T + b, "y", "x") * 2
        gathered = lambda: ctx.constrain(b, None, None) - 1
        return lax.switch(k, [lambda: a @ b, moved, gathered])

    return Case(f, (np.int32(1), ctx.normal(16, 16), ctx.normal(16, 16)), (P(), P("x", "y"), P("y", "x")),
                results=P("x"))


@program("x")
def cond_collective_one_branch(ctx):  # only one branch meets
    def f(k, x):
        def body(i, h):
            return lax.cond((i + k) % 2 == 0, lambda h: jnp.roll(h, 1, 0), lambda h: h * 0.9, h)

        return lax.fori_loop(0, 4, body, x)

    return Case(f, (np.int32(1), ctx.normal(16, 8)), (P(), P("x")), results=P("x"))


@program("x")
def select_n_cut(ctx):
    return Case(lambda p, a, b: (jnp.where(p, a, b), jnp.where(p[:, :1], a, 0), lax.select(p.any(), a, b)),
                (ctx.random.random((16, 16)) < .5, ctx.normal(16, 16), ctx.normal(16, 16)), (P("x"), P(None, "x"), P()))
