# SPDX-License-Identifier: Apache-2.0
"""Solvers, simulations, clustering and sampling."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from programs import Case, program


@program("x")
def cg(ctx):
    def f(A, b):
        def body(i, s):
            x, r, p, rs = s
            Ap = A @ p
            alpha = rs / (p @ Ap)
            x = x + alpha * p
            r = r - alpha * Ap
            n = r @ r
            return x, r, p * (n / rs) + r, n

        return lax.fori_loop(0, 6, body, (jnp.zeros_like(b), b, b, b @ b))[0]

    a = ctx.normal(32, 32, scale=0.1)
    A = (a @ a.T + 2 * np.eye(32)).astype(np.float32)
    return Case(f, (A, ctx.normal(32, scale=1)), (P("x"), P("x")))


@program("x")
def cg_while(ctx):
    def f(A, b):
        def body(s):
            x, r, p, rs, i = s
            Ap = A @ p
            alpha = rs / (p @ Ap)
            x = x + alpha * p
            r = r - alpha * Ap
            n = r @ r
            return x, r, p * (n / rs) + r, n, i + 1

        return lax.while_loop(lambda s: (s[3] > 1e-5) & (s[4] < 32), body, (jnp.zeros_like(b), b, b, b @ b, 0))[0]

    a = ctx.normal(32, 32, scale=0.1)
    A = (a @ a.T + 2 * np.eye(32)).astype(np.float32)
    return Case(f, (A, ctx.normal(32, scale=1)), (P("x"), P()))


@program("x")
def kmeans(ctx):
    def f(x, m):
        def body(m, _):
            d = ((x[:, None] - m[None]) ** 2).sum(-1)
            onehot = jax.nn.one_hot(jnp.argmin(d, 1), m.shape[0])
            return (onehot.T @ x) / (onehot.sum(0)[:, None] + 1e-6), d.min(1).mean()

        return lax.scan(body, m, None, length=5)

    x = ctx.normal(64, 4, scale=0.1) + np.repeat(np.eye(4, dtype=np.float32) * 3, 16, 0)
    return Case(f, (x.astype(np.float32), (np.eye(4) * 2).astype(np.float32)), (P("x"), P()))


@program("x")
def kmeans_segment(ctx):
    def f(x, m):
        def body(i, m):
            a = jnp.argmin(((x[:, None] - m[None]) ** 2).sum(-1), 1)
            return jax.ops.segment_sum(x, a, 4) / (jax.ops.segment_sum(jnp.ones(x.shape[0]), a, 4)[:, None] + 1e-6)

        return lax.fori_loop(0, 4, body, m)

    x = ctx.normal(64, 4, scale=0.1) + np.repeat(np.eye(4, dtype=np.float32) * 3, 16, 0)
    return Case(f, (x.astype(np.float32), (np.eye(4) * 2).astype(np.float32)), (P("x"), P()))


@program("x")
def diffusion_sampler(ctx):
    def f(p, k, x):
        k = jax.random.wrap_key_data(k)

        def step(carry, t):
            x, k = carry
            k, s = jax.random.split(k)
            e = jnp.tanh(x @ p["w1"] + t * p["t"]) @ p["w2"]
            return (0.95 * x - 0.1 * e + 0.05 * jax.random.normal(s, x.shape), k), None

        return lax.scan(step, (x, k), jnp.linspace(1., 0., 5))[0][0]

    p = dict(w1=ctx.weights(16, 32), t=ctx.normal(32), w2=ctx.weights(32, 16))
    return Case(f, (p, np.array([0, 7], np.uint32), ctx.normal(16, 16, scale=1)), (P(), P(), P("x")), results=P("x"))


@program("x")
def power_iteration(ctx):
    def f(A, v):
        def body(i, v):
            u = A @ v
            return u / jnp.linalg.norm(u)

        v = lax.fori_loop(0, 6, body, v)
        return v, v @ A @ v

    a = ctx.normal(32, 32)
    A = (a @ a.T + np.eye(32)).astype(np.float32)
    return Case(f, (A, ctx.normal(32, scale=1)), (P(None, "x"), P("x")))


@program("x")
def batched_cholesky_loop(ctx):
    def f(A, b):
        def body(i, x):
            L = jnp.linalg.cholesky(A + i * jnp.eye(4))
            y = lax.linalg.triangular_solve(L, b + x, left_side=True, lower=True)
            return lax.linalg.triangular_solve(L, y, left_side=True, lower=True, transpose_a=True)

        return lax.fori_loop(0, 3, body, b)

    a = ctx.normal(8, 4, 4, scale=0.3)
    A = (a @ a.transpose(0, 2, 1) + np.eye(4)).astype(np.float32)
    return Case(f, (A, ctx.normal(8, 4, 2)), (P("x"), P("x")), results=P("x"))


@program("x")
def batched_solve_scan(ctx):
    def f(A, b):
        return lax.scan(lambda x, _: (jnp.linalg.solve(A, x), jnp.abs(x).max()), b, None, length=3)

    return Case(f, ((np.eye(4) * 2 + ctx.normal(8, 4, 4, scale=0.2)).astype(np.float32), ctx.normal(8, 4, 1)),
                (P("x"), P("x")), results=(P("x"), P()))


@program("x")
def newton_schulz(ctx):
    def f(g):
        x = g / jnp.linalg.norm(g)

        def body(i, x):
            a = x @ x.T
            return 1.5 * x - 0.5 * a @ x

        return lax.fori_loop(0, 5, body, x)

    return Case(f, (ctx.normal(16, 32),), (P(None, "x"),), results=P(None, "x"))


@program("x")
def hmc_chains(ctx):
    def f(q, p, A):
        U = lambda q: 0.5 * jnp.einsum("nd,de,ne->", q, A, q)

        def leap(i, s):
            q, p = s
            p = p - 0.05 * jax.grad(U)(q)
            q = q + 0.1 * p
            return q, p - 0.05 * jax.grad(U)(q)

        return lax.fori_loop(0, 5, leap, (q, p))

    return Case(f, (ctx.normal(16, 8, scale=1), ctx.normal(16, 8, scale=1), np.eye(8, dtype=np.float32) + 0.1),
                (P("x"), P("x"), P()))


@program("x")
def sinkhorn(ctx):  # rows cut; sums over rows and columns in turn
    def f(K):
        def body(s, _):
            u, v = s
            u = 1 / (K @ v)
            v = 1 / (K.T @ u)
            return (u, v), None

        (u, v), _ = lax.scan(body, (jnp.ones(K.shape[0]), jnp.ones(K.shape[1])), None, length=5)
        return u[:, None] * K * v

    return Case(f, (np.exp(ctx.normal(16, 16)),), (P("x"),), results=P("x"))
