# SPDX-License-Identifier: Apache-2.0
"""Loops where a partitioner is easily wrong: carries that change places or cuts, unusual conditions and bodies."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from programs import Case, program


@program("x")
def loop_no_rounds(ctx):  # the carry as it came, though the body would cut it otherwise
    def f(n, x, y):
        return lax.fori_loop(0, n, lambda i, s: (ctx.constrain(s[0] + s[1], None, "x"), s[1] * 2), (x, y))

    return Case(f, (np.int32(0), ctx.normal(16, 16), ctx.normal(16, 16)), (P(), P("x"), P()), results=(P("x"), P()))


@program("x")
def loop_rounds_argument(ctx):
    return Case(lambda n, x, w: lax.fori_loop(0, n, lambda i, h: jnp.tanh(h @ w), x),
                (np.int32(3), ctx.normal(16, 16), ctx.weights(16, 16)), (P(), P("x"), P(None, "x")))


@program("x")
def loop_carry_twice(ctx):  # one array is two elements of the carry, and is passed along once
    def f(x):
        return lax.fori_loop(0, 3, lambda i, s: (s[0] * 0.5 + s[1], s[1], s[0].sum()), (x, x, 0.0))

    return Case(f, (ctx.normal(16, 16),), (P("x"),))


@program("x")
def loop_rotate_three(ctx):
    def f(x, y, z):
        return lax.fori_loop(0, 4, lambda i, s: (s[1], s[2] + 1, s[0] * 0.5), (x, y, z))

    return Case(f, (ctx.normal(16, 16), ctx.normal(16, 16), ctx.normal(16, 16)), (P("x"), P(None, "x"), P()))


@program("x")
def loop_cut_in_body(ctx):  # replicated at first, cut by the body, reduced by the condition
    def f(x):
        return lax.while_loop(lambda s: (jnp.max(s[0]) > 0.05) & (s[1] < 20),
                              lambda s: (ctx.constrain(s[0] * 0.7, "x"), s[1] + 1), (x, 0))

    return Case(f, (ctx.normal(16, 16),), (P(),))


@program("x")
def loop_element_pred(ctx):  # the condition reads one element of a cut array
    return Case(lambda x: lax.while_loop(lambda s: s[13, 2] < 5, lambda s: s * 1.3 + 0.1, x),
                (np.abs(ctx.normal(16, 16)),), (P("x"),))


@program("x")
def loop_vmapped_while(ctx):  # each row ends by itself
    def one(v):
        return lax.while_loop(lambda s: jnp.sum(s[0] ** 2) > 0.5, lambda s: (s[0] * 0.8, s[1] + 1), (v, 0))

    return Case(lambda x: jax.vmap(one)(x), (ctx.normal(16, 8, scale=1),), (P("x"),), results=P("x"))


@program("x")
def loop_rng(ctx):
    def f(k, x):
        def body(s, _):
            k, x = s
            k, q = jax.random.split(k)
            m = jax.random.bernoulli(q, 0.7, x.shape)
            i = jax.random.permutation(q, 8)
            return (k, jnp.where(m, x, 0.5 * x) + jax.random.uniform(q, x.shape)[:, i]), None

        return lax.scan(body, (jax.random.wrap_key_data(k), x), None, length=3)[0][1]

    return Case(f, (np.array([3, 4], np.uint32), ctx.normal(16, 8)), (P(), P("x")), results=P("x"))


@program("x")
def loop_barrier_custom_vjp(ctx):
    @jax.custom_vjp
    def act(x):
        return jnp.tanh(x)

    act.defvjp(lambda x: (jnp.tanh(x), x), lambda x, g: (g * (1 - jnp.tanh(x) ** 2),))

    def loss(w, x):
        def layer(h, w):
            return lax.optimization_barrier((act(h @ w), h.mean()))

        return jnp.mean(lax.scan(layer, x, w)[0] ** 2)

    return Case(jax.grad(loss), (ctx.weights(3, 16, 16), ctx.normal(8, 16, scale=1)), (P(None, "x"), P("x")),
                results=P(None, "x"))


@program("x")
def shared_function(ctx):  # one jitted function, of operands that are cut in three ways, in a loop and outside
    @jax.jit
    def g(a, w):
        return jnp.tanh(a @ w)

    def f(a, b, w):
        h = g(a, w)
        q = g(b, w)
        r = g(w, w)
        return lax.fori_loop(0, 2, lambda i, h: g(h, w), h), lax.fori_loop(0, 2, lambda i, h: g(h, w), q), r

    return Case(f, (ctx.normal(16, 16), ctx.normal(16, 16), ctx.weights(16, 16)), (P("x"), P(None, "x"), P()))


@program("xy")
def loop_2d_elements_differ(ctx):
    def f(a, b, d):
        return lax.fori_loop(0, 3, lambda i, s: (jnp.tanh(s[0] @ s[1]), s[1] - 0.1 * s[0].T @ s[2], s[2] + s[0]),
                             (a, b, d))

    return Case(f, (ctx.normal(16, 16), ctx.weights(16, 16), ctx.normal(16, 16)),
                (P("x", "y"), P("y", "x"), P(None, ("x", "y"))))


@program("xy24")
def loop_2d_partial_cut(ctx):  # cut along one axis, the other has copies
    def f(a, w):
        return lax.scan(lambda h, w: (jnp.tanh(h @ w), (h.sum(0), h.mean(1))), a, w)

    return Case(f, (ctx.normal(8, 16), ctx.weights(3, 16, 16)), (P("y"), P(None, "x", None)))


@program("x")
def unreduced_accumulate(ctx):  # sums that are known only after the loop
    def f(w, xs):
        return lax.scan(lambda a, x: (a + x.T @ x, None), w * 0, xs)[0] * 0.1 + w

    return Case(f, (ctx.weights(16, 16), ctx.normal(5, 8, 16)), (P(), P(None, "x")))
