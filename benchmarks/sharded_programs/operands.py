# SPDX-License-Identifier: Apache-2.0
"""Products and elementwise operations of operands that are cut differently."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from layers import layer_norm
from programs import Case, program


@program("x")
def int8_matmul(ctx):
    return Case(lambda a, b, s: lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32) * s,
                (ctx.integers(100, 16, 32).astype(np.int8), ctx.integers(100, 32, 16).astype(np.int8), np.float32(0.5)),
                (P(None, "x"), P("x"), P()))


@program("x")
def rep_in_cut_out(ctx):
    return Case(lambda x, w: jnp.tanh(x @ w) @ w.T, (ctx.normal(32, 16), ctx.weights(16, 16)), (P(), P()),
                results=P("x"))


@program("x")
def operands_differ(ctx):  # elementwise of differently cut operands
    return Case(lambda a, b, r: (a + b, a * b.sum(0), (a @ b) + r),
                (ctx.normal(16, 16), ctx.normal(16, 16), ctx.normal(16, 16)), (P("x"), P(None, "x"), P()))


@program("x")
def outer_products(ctx):
    return Case(lambda a, b: (jnp.outer(a, b), a[:, None] + b), (ctx.normal(32), ctx.normal(32)), (P("x"), P("x")))


@program("x")
def dots_all_ways(ctx):
    def f(a, b, d):
        return a @ b, a.T @ b, a @ d, d @ b, (a @ d) @ b

    return Case(f, (ctx.normal(16, 16), ctx.normal(16, 16), ctx.normal(16, 16)), (P("x"), P("x"), P(None, "x")))


@program("xy")
def dots_2d(ctx):
    return Case(lambda a, b, d: (a @ b, a @ b.T, (a @ d) @ b),
                (ctx.normal(16, 16), ctx.normal(16, 16), ctx.normal(16, 16)), (P("x", "y"), P("x", "y"), P("y", "x")))


@program("x")
def layernorm_grad_features_cut(ctx):
    return Case(jax.grad(lambda g, x: jnp.mean(jnp.sin(layer_norm(x, g)))),
                (np.ones(32, np.float32), ctx.normal(16, 32, scale=1)), (P("x"), P(None, "x")))
