# SPDX-License-Identifier: Apache-2.0
"""Manual regions (`jax.shard_map`), alone, in loops and conditionals and around loops."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from layers import mlp_loss, mlp_params
from programs import Case, program


def manual(ctx, f, in_specs, out_specs, **kw):
    return jax.shard_map(f, mesh=ctx.mesh, in_specs=in_specs, out_specs=out_specs, **kw)


@program("x")
def sm_in_scan(ctx):
    g = lambda h, w: lax.psum(jnp.tanh(h @ w[0]) @ w[1], "x")

    def f(ws, x):
        m = manual(ctx, g, (P(), (P(None, "x"), P("x"))), P())
        return lax.scan(lambda h, w: (h + m(h, w), h.mean()), x, ws)

    return Case(f, ((ctx.weights(4, 16, 32), ctx.weights(4, 32, 16)), ctx.normal(8, 16)),
                ((P(None, None, "x"), P(None, "x")), P()))


@program("x")
def scan_in_sm(ctx):
    def f(w, x):
        def g(w, x):
            def step(h, r):
                h = jnp.tanh(h @ w + r)
                return h, lax.psum(h.sum(), "x")

            return lax.scan(step, lax.pcast(jnp.zeros((x.shape[1], 16)), ("x",), to="varying"), x)

        h, ys = manual(ctx, g, (P(), P(None, "x")), (P("x"), P()))(w, x)
        return h @ w, ys

    return Case(f, (ctx.weights(16, 16), ctx.normal(6, 8, 16)), (P(), P(None, "x")))


@program("x")
def sm_in_cond(ctx):
    def f(k, x):
        m = manual(ctx, lambda a: a - lax.pmean(a.mean(0), "x"), P("x"), P("x"))
        return lax.cond(k > 0, lambda x: m(x) * 2, lambda x: x, jnp.sin(x)) + 1

    return Case(f, (np.int32(1), ctx.normal(16, 8)), (P(), P("x")))


@program("x")
def sm_mixed(ctx):
    def f(x, w):
        h = jnp.tanh(x @ w)
        r = manual(ctx, lambda a: lax.psum(a.sum(0), "x"), P("x"), P())(h)
        h2 = manual(ctx, lambda a: lax.all_to_all(a, "x", 1, 0, tiled=True), P("x"), P(None, "x"))(h)
        return (h2 - r / 32) @ w, h.sum()

    return Case(f, (ctx.normal(32, 16), ctx.weights(16, 16)), (P("x"), P()))


@program("x")
def sm_ring_attention(ctx):
    def f(q, k, v):
        n = ctx.mesh.shape["x"]

        def g(q, k, v):
            def step(carry, _):
                k, v, m, l, o = carry
                s = jnp.einsum("bqhd,bkhd->bhqk", q, k)
                m2 = jnp.maximum(m, s.max(-1))
                e = jnp.exp(s - m2[..., None])
                a = jnp.exp(m - m2)
                l = l * a + e.sum(-1)
                o = o * a[..., None] + jnp.einsum("bhqk,bkhd->bhqd", e, v)
                pm = [(i, (i + 1) % n) for i in range(n)]
                return (lax.ppermute(k, "x", pm), lax.ppermute(v, "x", pm), m2, l, o), None

            b, t, h, d = q.shape
            z = lambda *s: lax.pcast(jnp.zeros(s), ("x",), to="varying")
            (_, _, _, l, o), _ = lax.scan(step, (k, v, z(b, h, t) - 1e9, z(b, h, t), z(b, h, t, d)), None, length=n)
            return (o / l[..., None]).swapaxes(1, 2)

        s = P(None, "x")
        return manual(ctx, g, (s, s, s), s)(q, k, v)

    return Case(f, tuple(ctx.normal(2, 16, 2, 8, scale=0.7) for _ in range(3)), (P(None, "x"),) * 3)


@program("xy")
def sm_2d_batch(ctx):
    def f(x, w):
        m = manual(ctx, lambda a, w: lax.psum(a @ w, "y"), (P("x", "y"), P("y")), P("x"))
        return lax.fori_loop(0, 3, lambda i, h: jnp.tanh(m(h, w)), x) @ w

    return Case(f, (ctx.normal(16, 16, scale=1), ctx.weights(16, 16)), (P("x", "y"), P("y")))


@program("xy")
def sm_partial_auto(ctx):  # manual along x alone
    def f(x, w):
        m = manual(ctx, lambda a, w: lax.psum((jnp.tanh(a @ w)).sum(0), "x"), (P("x"), P()), P(), axis_names={"x"})
        return m(x, w) + x.sum()

    return Case(f, (ctx.normal(16, 16, scale=1), ctx.weights(16, 32)), (P("x"), P(None, "y")))


@program("x")
def sm_grad_dp(ctx):
    def f(p, x, y):
        loss = lambda p, x, y: lax.pmean(mlp_loss(p, x, y), "x")
        return jax.value_and_grad(lambda p: manual(ctx, loss, (P(), P("x"), P("x")), P())(p, x, y))(p)

    return Case(f, (mlp_params(ctx), ctx.normal(16, 32, scale=1), ctx.normal(16, 32, scale=1)), (P(), P("x"), P("x")))
