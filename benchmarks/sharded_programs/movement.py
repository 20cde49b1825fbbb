# SPDX-License-Identifier: Apache-2.0
"""Slices, reshapes, look-ups, updates and sorts along what is cut, in loops and outside."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from programs import Case, program


@program("x")
def topk_sort_cut_batch_scan(ctx):
    return Case(lambda x: lax.scan(lambda s, r: (s + lax.top_k(r, 2)[0], jnp.sort(r, -1)), jnp.zeros((8, 2)), x),
                (ctx.normal(4, 8, 16),), (P(None, "x"),))


@program("x")
def loop_dynamic_row_cut(ctx):  # reads and writes rows of an array whose rows are cut
    def f(x):
        def body(i, x):
            r = lax.dynamic_slice_in_dim(x, i, 1, 0)
            n = lax.dynamic_slice_in_dim(x, 15 - i, 1, 0)
            return lax.dynamic_update_slice_in_dim(x, jnp.tanh(r + n), i, 0)

        return lax.fori_loop(0, 16, body, x)

    return Case(f, (ctx.normal(16, 8),), (P("x"),), results=P("x"))


@program("x")
def loop_blocks_cut(ctx):  # blocks that lie over tiles' borders; a start that is clamped
    def f(x):
        def body(i, x):
            return lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i * 5, 0), (6, 8)) * 0.5 + 1, (i * 5 + 1, 0))

        return lax.fori_loop(0, 4, body, x)

    return Case(f, (ctx.normal(16, 8),), (P("x"),), results=P("x"))


@program("x")
def loop_gather_cut(ctx):
    def f(t, i):
        return lax.fori_loop(0, 3, lambda k, s: (s[0] + 0.1 * s[0][s[1]], (s[1] * 3 + 1) % 16), (t, i))

    return Case(f, (ctx.normal(16, 8), ctx.integers(16, 16)), (P("x"), P("x")))


@program("x")
def loop_scatter_cut(ctx):
    def f(t, i, u):
        return lax.fori_loop(0, 3, lambda k, t: t.at[(i + k) % 16].add(u), t)

    return Case(f, (ctx.normal(16, 8), ctx.integers(16, 32), ctx.normal(32, 8)), (P("x"), P("x"), P("x")),
                results=P("x"))


@program("x")
def loop_scatter_set_cut(ctx):
    def f(t, i, u):
        return lax.fori_loop(0, 3, lambda k, t: t.at[(i + k) % 16].set(u * (k + 1)), t)

    return Case(f, (ctx.normal(16, 8), ctx.random.permutation(16)[:8].astype(np.int32), ctx.normal(8, 8)),
                (P("x"), P(), P("x")))


@program("x")
def loop_sort_cumsum_cut(ctx):
    def f(x):
        return lax.fori_loop(0, 2, lambda i, x: jnp.cumsum(jnp.sort(x, 0), 0) * 0.1 - x[::-1], x)

    return Case(f, (ctx.normal(16, 8),), (P("x"),), results=P("x"))


@program("x")
def loop_argmax_cut(ctx):
    def f(x):
        def body(x, _):
            j = jnp.argmax(x, 0)
            return x - jax.nn.one_hot(j, 16, axis=0) * 0.3, (j, x.max(0), lax.top_k(x.sum(1), 3))

        return lax.scan(body, x, None, length=3)

    return Case(f, (ctx.normal(16, 8),), (P("x"),))


@program("x")
def strided_slices_cut(ctx):
    return Case(lambda x: (x[::2], x[3:13:5], x[1:], x[4:8], x[-3:]), (ctx.normal(16, 8),), (P("x"),))


@program("x")
def reshape_cut(ctx):
    def f(x, y):
        return (x.reshape(32, 4), x.reshape(4, 4, 8), x.reshape(2, 64), y.reshape(8, 2, 8), y.reshape(-1),
                x.reshape(16, 2, 4).transpose(1, 0, 2).reshape(8, 16))

    return Case(f, (ctx.normal(16, 8), ctx.normal(2, 8, 8)), (P("x"), P(None, "x")))


@program("x")
def concat_stack_cut(ctx):
    def f(a, b, d):
        return (jnp.concatenate([a, b]), jnp.concatenate([a, d], 1), jnp.stack([a, d]), jnp.tile(a, (2, 1)),
                jnp.repeat(a, 2, 0))

    return Case(f, (ctx.normal(16, 8), ctx.normal(4, 8), ctx.normal(16, 8)), (P("x"), P("x"), P()))
