# SPDX-License-Identifier: Apache-2.0
"""Loops whose carries are cut: while, for, scan and map, one within another."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from programs import Case, program


@program("x")
def while_norm(ctx):
    return Case(lambda x: lax.while_loop(lambda s: jnp.sum(s * s) > 1e-3, lambda s: s * 0.5, x), (ctx.normal(32, 64),),
                (P("x"),))


@program("x")
def while_norm_out_cut(ctx):
    return Case(lambda x: lax.while_loop(lambda s: jnp.max(jnp.abs(s)) > 1e-2, lambda s: s * 0.5, x),
                (ctx.normal(32, 64),), (P("x"),), results=P(None, "x"))


@program("x")
def while_newton_batch(ctx):
    def f(a):
        def cond(s):
            return jnp.logical_and(jnp.any(jnp.abs(s[1] ** 3 - a) > 1e-3), s[0] < 50)

        def body(s):
            return s[0] + 1, s[1] - (s[1] ** 3 - a) / (3 * s[1] ** 2)

        return lax.while_loop(cond, body, (0, jnp.ones_like(a) + a))

    return Case(f, (np.abs(ctx.normal(64, scale=1)) + 0.5,), (P("x"),))


@program("x")
def fori_cut(ctx):
    return Case(lambda x: lax.fori_loop(0, 5, lambda i, s: jnp.sin(s) + i, x), (ctx.normal(32, 64),), (P("x"),))


@program("x")
def fori_two_cuts(ctx):
    def f(x, y):
        return lax.fori_loop(0, 5, lambda i, s: (jnp.tanh(s[0] + 0.1 * s[1].T), s[1] + 0.1 * s[0].T), (x, y))

    return Case(f, (ctx.normal(32, 32), ctx.normal(32, 32)), (P("x"), P(None, "x")))


@program("x")
def fori_mixed_carry(ctx):  # a cut array, a replicated one and a scalar sum
    def f(x, w):
        def body(i, s):
            a, w, t = s
            a = jnp.tanh(a @ w)
            g = a.T @ a / a.shape[0]
            return a, w - 0.1 * g, t + jnp.sum(a)

        return lax.fori_loop(0, 6, body, (x, w, 0.0))

    return Case(f, (ctx.normal(32, 16, scale=1), ctx.weights(16, 16)), (P("x"), P()))


@program("x")
def loop_swap(ctx):  # the carry changes places
    def f(x, y):
        return lax.fori_loop(0, 3, lambda i, s: (s[1] + 1, s[0] * 0.5), (x, y))

    return Case(f, (ctx.normal(32, 16), ctx.normal(32, 16)), (P("x"), P()))


@program("x")
def nested_scan(ctx):
    def f(w, xs):
        def outer(h, x):
            def inner(h, r):
                return jnp.tanh(h @ w + r), jnp.sum(h)

            h, s = lax.scan(inner, h, x)
            return h, s

        return lax.scan(outer, jnp.zeros((8, 16)), xs)

    return Case(f, (ctx.weights(16, 16), ctx.normal(3, 4, 8, 16)), (P(), P(None, None, "x")))


@program("xy")
def nested_scan_2d_grad(ctx):
    def f(w, xs):
        def outer(h, x):
            def inner(h, r):
                return jnp.tanh(h @ w[0]) @ w[1] + r, None

            return lax.scan(inner, h, x)[0], jnp.mean(h ** 2)

        h, l = lax.scan(jax.checkpoint(outer), jnp.zeros((8, 16)), xs)
        return l.sum() + jnp.mean(h ** 2)

    return Case(jax.value_and_grad(f), ((ctx.weights(16, 32), ctx.weights(32, 16)), ctx.normal(3, 4, 8, 16)),
                ((P(None, "y"), P("y")), P(None, None, "x")))


@program("x")
def scan_xs_cut_time(ctx):  # cut along what the scan goes over
    return Case(lambda x: lax.scan(lambda s, r: (0.9 * s + r, s.sum()), jnp.zeros((16,)), x), (ctx.normal(16, 16),),
                (P("x"),))


@program("x")
def scan_ys_cut(ctx):
    return Case(lambda w, x: lax.scan(lambda h, r: (jnp.tanh(h @ w + r),) * 2, jnp.zeros((8, 16)), x)[1],
                (ctx.weights(16, 16), ctx.normal(12, 8, 16)), (P(), P(None, "x")), results=P(None, "x"))


@program("x")
def scan_ys_cut_time(ctx):
    return Case(lambda w, x: lax.scan(lambda h, r: (jnp.tanh(h @ w + r),) * 2, jnp.zeros((8, 16)), x)[1],
                (ctx.weights(16, 16), ctx.normal(12, 8, 16)), (P(), P()), results=P("x"))


@program("x")
def scan_zero_carry_cut_late(ctx):  # zeros become cut by what is added
    def f(xs, w):
        return lax.scan(lambda g, x: (g + x.T @ (x @ w), None), jnp.zeros((32, 16)), xs)[0]

    return Case(f, (ctx.normal(4, 16, 32), ctx.weights(32, 16)), (P(None, "x"), P()), results=P("x"))


@program("x")
def scan_reverse_unroll(ctx):
    return Case(lambda x, a: lax.scan(lambda s, r: (a * s + r, s), jnp.zeros((8, 16)), x, reverse=True, unroll=2),
                (ctx.normal(12, 8, 16), np.float32(0.9)), (P(None, "x"), P()))


@program("x")
def map_rows(ctx):
    return Case(lambda x, w: lax.map(lambda r: jax.nn.softmax(r @ w), x), (ctx.normal(8, 16, 16), ctx.weights(16, 16)),
                (P(None, "x"), P()))


@program("x")
def map_cut_rows(ctx):
    return Case(lambda x, w: lax.map(lambda r: jax.nn.softmax(r @ w), x), (ctx.normal(8, 16, 16), ctx.weights(16, 16)),
                (P("x"), P()))


@program("x")
def int_counts_while(ctx):
    def f(x):
        return lax.while_loop(lambda s: jnp.sum(s[0]) > 0, lambda s: (s[0] >> 1, s[1] + (s[0] & 1).sum(0)),
                              (x, jnp.zeros(8, jnp.int32)))

    return Case(f, (ctx.integers(200, 16, 8),), (P("x"),))


@program("x")
def bool_reach(ctx):  # reachability: a fixed point over booleans
    def f(a, s):
        step = lambda s: s | jnp.any(a & s[:, None], 0)
        return lax.while_loop(lambda t: jnp.any(t[0] != t[1]), lambda t: (t[1], step(t[1])), (s, step(s)))[0]

    return Case(f, (ctx.random.random((16, 16)) < 0.12, np.arange(16) < 2), (P("x"), P()))


@program("x")
def rep_in_cut_out_scan(ctx):
    return Case(lambda x, ws: lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, ws)[0],
                (ctx.normal(32, 16), ctx.weights(4, 16, 16)), (P(), P()), results=P("x"))


@program("x")
def cut_in_rep_out_scan(ctx):
    return Case(lambda x, ws: lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, ws)[0],
                (ctx.normal(32, 16), ctx.weights(4, 16, 16)), (P("x"), P()), results=P())
