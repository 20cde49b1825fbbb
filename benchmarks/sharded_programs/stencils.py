# SPDX-License-Identifier: Apache-2.0
"""Stencils over arrays whose rows are cut: neighbours lie on other devices."""
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from programs import Case, program


@program("x")
def jacobi_roll(ctx):
    def f(u):
        def body(i, u):
            return 0.25 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1))

        return lax.fori_loop(0, 8, body, u)

    return Case(f, (ctx.normal(32, 32),), (P("x"),), results=P("x"))


@program("x")
def jacobi_pad(ctx):
    def f(u):
        def body(i, u):
            q = jnp.pad(u, 1)
            return 0.25 * (q[2:, 1:-1] + q[:-2, 1:-1] + q[1:-1, 2:] + q[1:-1, :-2])

        return lax.fori_loop(0, 8, body, u)

    return Case(f, (ctx.normal(32, 32),), (P("x"),), results=P("x"))


@program("xy")
def jacobi_2d_while(ctx):
    def f(u, g):
        def body(s):
            u, _, i = s
            v = 0.25 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)) * 0.9 + g
            return v, jnp.max(jnp.abs(v - u)), i + 1

        return lax.while_loop(lambda s: (s[1] > 1e-2) & (s[2] < 40), body, (u, jnp.float32(1), 0))

    return Case(f, (ctx.normal(16, 16), ctx.normal(16, 16, scale=0.05)), (P("x", "y"), P("x", "y")),
                results=(P("x", "y"), P(), P()))


@program("x")
def heat_diff_interior(ctx):
    def f(u):
        return lax.fori_loop(0, 6, lambda i, u: u.at[1:-1].add(0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])), u)

    return Case(f, (ctx.normal(32, 8),), (P("x"),), results=P("x"))


@program("x")
def tridiag_diff(ctx):
    return Case(lambda u: jnp.diff(u, axis=0) ** 2, (ctx.normal(32, 8),), (P("x"),))


@program("x")
def life_int(ctx):
    def f(u):
        def body(i, u):
            n = sum(jnp.roll(u, (a, d), (0, 1)) for a in (-1, 0, 1) for d in (-1, 0, 1) if (a, d) != (0, 0))
            return jnp.where((n == 3) | ((u == 1) & (n == 2)), 1, 0).astype(jnp.int32)

        u = lax.fori_loop(0, 5, body, u)
        return u, u.sum()

    return Case(f, (ctx.integers(2, 16, 16),), (P("x"),), results=(P("x"), P()))
