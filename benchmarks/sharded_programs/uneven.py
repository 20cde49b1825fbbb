# SPDX-License-Identifier: Apache-2.0
"""Tiles of unequal sizes: what lies beyond the array must not be seen."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from layers import convolve
from programs import Case, program


@program("x")
def uneven_rows(ctx):
    def f(x, w):
        h = ctx.constrain(jnp.tanh(ctx.constrain(x, "x") @ w), "x")
        return h, h.sum(0), h.max()

    return Case(f, (ctx.normal(7, 16), ctx.weights(16, 5)), (P(), P()))


@program("x")
def uneven_loop(ctx):
    def f(x, w):
        return lax.fori_loop(0, 4, lambda i, h: ctx.constrain(jnp.tanh(h @ w) - h.mean(0), "x"), ctx.constrain(x, "x"))

    return Case(f, (ctx.normal(7, 16), ctx.weights(16, 16)), (P(), P()), results=P())


@program("x")
def uneven_scan_grad(ctx):
    def loss(w, x):
        layer = lambda h, w: (ctx.constrain(jnp.tanh(h @ w), "x", None), None)
        return jnp.mean(lax.scan(layer, ctx.constrain(x, "x"), w)[0] ** 2)

    return Case(jax.grad(loss), (ctx.weights(3, 10, 10), ctx.normal(7, 10, scale=1)), (P(), P()))


@program("x")
def uneven_hidden_tp(ctx):
    def f(w1, w2, x):
        return ctx.constrain(jnp.tanh(x @ ctx.constrain(w1, None, "x")), None, "x") @ w2

    return Case(f, (ctx.weights(16, 10), ctx.weights(10, 16), ctx.normal(8, 16)), (P(), P(), P()))


@program("x")
def uneven_reduce_kinds(ctx):
    def f(x):
        h = ctx.constrain(x, "x") * 2 - 5  # beyond the array: anything
        return h.sum(0), h.max(0), h.min(0), jnp.prod(h * 0.1, 0), jnp.argmin(h, 0), jnp.all(h < 0, 0), h.mean()

    return Case(f, (ctx.normal(7, 8),), (P(),), results=(P(),) * 7)


@program("x")
def uneven_inf_padding(ctx):  # 1 / 0 beyond the array, then sums and products over it
    def f(x, w):
        h = ctx.constrain(1 / ctx.constrain(x, "x"), "x")
        return h.sum(0), h.T @ ctx.constrain(w, "x"), jax.nn.softmax(h, 0).sum(1), jnp.log(h).sum()

    return Case(f, (np.abs(ctx.normal(7, 8)) + 0.5, ctx.normal(7, 4)), (P(), P()), results=(P(),) * 4)


@program("x")
def uneven_moves(ctx):
    def f(x):
        h = ctx.constrain(x, "x")
        return (h[::-1], jnp.roll(h, 2, 0), jnp.pad(h, ((1, 2), (0, 0))), jnp.concatenate([h, h * 2]), h[1:6:2],
                h.reshape(-1), jnp.sort(h, 0), jnp.cumsum(h, 0), jnp.diff(h, axis=0))

    return Case(f, (ctx.normal(7, 8),), (P(),), results=(P(),) * 9)


@program("x")
def uneven_small(ctx):  # 2 rows among 4: two have nothing
    def f(x, w):
        h = ctx.constrain(jnp.exp(ctx.constrain(x, "x") @ w), "x")
        return h / h.sum(0), h.max(), (h * h).T @ h

    return Case(f, (ctx.normal(2, 8), ctx.normal(8, 8)), (P(), P()), results=(P(),) * 3)


@program("xy24")
def uneven_2d(ctx):
    def f(x, w):
        h = ctx.constrain(jnp.cos(ctx.constrain(x, "x", "y") @ ctx.constrain(w, "y", None)), "x", "y")
        return h, h.sum(0), h.sum(1), h.T @ h

    return Case(f, (ctx.normal(7, 5), ctx.normal(5, 9)), (P(), P()), results=(P(),) * 4)


@program("x")
def uneven_while_pred(ctx):
    def f(x):
        return lax.while_loop(lambda s: jnp.min(s) < 3, lambda s: ctx.constrain(s + 1 / s, "x"), ctx.constrain(x, "x"))

    return Case(f, (np.abs(ctx.normal(7, 8)) + 1,), (P(),), results=P())


@program("x")
def uneven_cond(ctx):
    def f(k, x):
        h = ctx.constrain(x, "x")
        return (lax.cond(k > 0, lambda h: ctx.constrain(h - h.mean(0), "x"), lambda h: h, h) ** 2).sum(0)

    return Case(f, (np.int32(1), ctx.normal(7, 8)), (P(), P()), results=P())


@program("x")
def uneven_batchnorm_scan_grad(ctx):
    def loss(w, x):
        def layer(h, w):
            u = ctx.constrain(h @ w, "x")
            u = (u - u.mean(0)) * lax.rsqrt(u.var(0) + 1e-2)
            return jnp.tanh(u), None

        return jnp.mean(lax.scan(layer, ctx.constrain(x, "x"), w)[0] * x)

    return Case(jax.grad(loss), (ctx.weights(3, 8, 8), ctx.normal(7, 8, scale=1)), (P(), P()), results=P())


@program("x")
def uneven_softmax_classes(ctx):  # 10 classes among 4
    def loss(w, x, y):
        logits = ctx.constrain(x @ ctx.constrain(w, None, "x"), None, "x")
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    return Case(jax.value_and_grad(loss), (ctx.weights(16, 10), ctx.normal(8, 16, scale=1), ctx.integers(10, 8)),
                (P(), P(), P()), results=(P(), P()))


@program("x")
def uneven_conv_window(ctx):
    def f(x, k):
        h = ctx.constrain(x, None, "x") + 1
        return convolve(h, k), lax.reduce_window(h, -jnp.inf, lax.max, (1, 3, 1, 1), (1, 2, 1, 1), "SAME")

    return Case(f, (ctx.normal(2, 7, 6, 3), ctx.normal(3, 3, 3, 4)), (P(), P()), results=(P(), P()))


@program("x")
def uneven_gather_scatter(ctx):
    def f(t, i):
        t = ctx.constrain(t, "x")
        sums = jax.ops.segment_sum(ctx.constrain(t, "x"), jnp.arange(7) % 3, 3)
        return t[i], jnp.zeros((7, 4)).at[i].add(t[i] * 2), sums

    return Case(f, (ctx.normal(7, 4), ctx.integers(7, 11)), (P(), P()), results=(P(),) * 3)


@program("x")
def uneven_to_even(ctx):  # 7 x 8: rows, then columns, then rows again
    return Case(lambda x: ctx.constrain(jnp.sin(ctx.constrain(ctx.constrain(x, "x") * 2, None, "x")) + 1, "x").sum(0),
                (ctx.normal(7, 8),), (P(),), results=P())
