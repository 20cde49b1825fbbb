# SPDX-License-Identifier: Apache-2.0
"""Convolutions and windows, with batch, channels or rows cut."""
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from layers import convolve
from programs import Case, program


@program("xy")
def convnet_2d_channels(ctx):
    def loss(p, x):
        return jnp.mean(convolve(jax.nn.relu(convolve(x, p["c1"])), p["c2"]) ** 2)

    specs = dict(c1=P(None, None, None, "y"), c2=P(None, None, "y"))
    return Case(jax.value_and_grad(loss),
                (dict(c1=ctx.normal(3, 3, 4, 8), c2=ctx.normal(3, 3, 8, 4)), ctx.normal(4, 8, 8, 4, scale=1)),
                (specs, P("x")), results=(P(), specs))


@program("x")
def conv_scan_blocks(ctx):
    def loss(ks, x):
        return jnp.mean(lax.scan(lambda h, k: (h + 0.3 * jnp.tanh(convolve(h, k)), None), x, ks)[0] ** 2)

    return Case(jax.grad(loss), (ctx.normal(3, 3, 3, 4, 4), ctx.normal(8, 8, 8, 4, scale=1)), (P(), P("x")))


@program("x")
def conv_spatial_cut(ctx):
    return Case(lambda x, k: convolve(jax.nn.relu(convolve(x, k)), k),
                (ctx.normal(1, 16, 8, 4), ctx.normal(3, 3, 4, 4)), (P(None, "x"), P()), results=P(None, "x"))


@program("x")
def reduce_window_cut(ctx):
    def f(x):
        sums = lax.reduce_window(x, 0., lax.add, (3, 1), (1, 1), "SAME")
        largest = lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID")
        return sums, largest, lax.cummax(x, 0), lax.cumlogsumexp(x, 0)

    return Case(f, (ctx.normal(16, 8),), (P("x"),))


@program("x")
def conv_strided_grad_spatial(ctx):
    def loss(k, x):
        return jnp.mean(convolve(x, k, strides=(2, 2)) ** 2)

    return Case(jax.grad(loss, argnums=(0, 1)), (ctx.normal(3, 3, 3, 4), ctx.normal(2, 16, 8, 3)), (P(), P(None, "x")),
                results=(P(), P(None, "x")))


@program("x")
def grouped_conv_cut(ctx):
    convolved = lambda x, k: convolve(x, k, feature_group_count=8)
    return Case(jax.grad(lambda k, x: jnp.mean(convolved(x, k) ** 2), argnums=(0, 1)),
                (ctx.normal(3, 3, 1, 8), ctx.normal(2, 6, 6, 8)), (P(None, None, None, "x"), P(None, None, None, "x")))
