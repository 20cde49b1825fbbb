# SPDX-License-Identifier: Apache-2.0
"""Programs on meshes with explicit axes, whose types carry the shardings."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from layers import mlp_loss, mlp_params
from programs import Case, program


@program("x", explicit=True)
def explicit_mlp_dp(ctx):
    def f(p, x, y):
        return jax.value_and_grad(mlp_loss)(p, x, y)

    return Case(f, (mlp_params(ctx), ctx.normal(16, 32, scale=1), ctx.normal(16, 32, scale=1)), (P(), P("x"), P("x")))


@program("x", explicit=True)
def explicit_tp_scan(ctx):
    def f(ws, x):
        def layer(h, w):
            return h + jnp.einsum("bf,fd->bd", jnp.tanh(h @ w[0]), w[1], out_sharding=P()), None

        return lax.scan(layer, x, ws)[0]

    return Case(f, ((ctx.weights(4, 16, 32), ctx.weights(4, 32, 16)), ctx.normal(8, 16)),
                ((P(None, None, "x"), P(None, "x")), P()))


@program("xy", explicit=True)
def explicit_2d_scan_grad(ctx):
    def f(ws, x):
        def layer(h, w):
            return h + jnp.einsum("bf,fd->bd", jnp.tanh(h @ w[0]), w[1], out_sharding=P("x")), None

        return jnp.mean(lax.scan(layer, x, ws)[0] ** 2)

    return Case(jax.value_and_grad(f), ((ctx.weights(4, 16, 32), ctx.weights(4, 32, 16)), ctx.normal(8, 16, scale=1)),
                ((P(None, None, "y"), P(None, "y")), P("x")))


@program("x", explicit=True)
def explicit_reshard_loop(ctx):
    def f(x):
        def body(h, _):
            h = jax.nn.softmax(h, 1)
            h = jax.sharding.reshard(h, P(None, "x"))
            h = h + jnp.cumsum(h, 0)
            return jax.sharding.reshard(h, P("x")), h.sum()

        return lax.scan(body, x, None, length=3)

    return Case(f, (ctx.normal(16, 16),), (P("x"),))


@program("x", explicit=True)
def explicit_cond(ctx):
    return Case(lambda k, x, w: lax.cond(k > 0, lambda: jnp.tanh(x @ w), lambda: x * 2),
                (np.int32(1), ctx.normal(16, 16), ctx.weights(16, 16)), (P(), P("x"), P()))


@program("x", explicit=True)
def explicit_fsdp_loop(ctx):
    def f(p, xs):
        def step(p, x):
            def loss(p):
                w1, w2 = (jax.sharding.reshard(a, P()) for a in p)
                return jnp.mean((jnp.tanh(x @ w1) @ w2 - x) ** 2)

            value, grads = jax.value_and_grad(loss)(p)
            return jax.tree.map(lambda a, b: a - 0.1 * b, p, grads), value

        return lax.scan(step, p, xs)

    return Case(f, ((ctx.weights(16, 32), ctx.weights(32, 16)), ctx.normal(3, 16, 16, scale=1)),
                ((P("x"), P("x")), P(None, "x")))
