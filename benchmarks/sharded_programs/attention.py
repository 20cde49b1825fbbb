# SPDX-License-Identifier: Apache-2.0
"""Attention and mixtures of experts."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from programs import Case, program


def moe(ctx, mode, E=8, d=16, f=32, N=32, capacity=8):
    def layer(p, x):
        g = jax.nn.softmax(x @ p["r"])
        onehot = jax.nn.one_hot(jnp.argmax(g, -1), E)
        place = ((jnp.cumsum(onehot, 0) - 1) * onehot).sum(-1).astype(jnp.int32)
        dispatch = onehot[..., None] * jax.nn.one_hot(place, capacity)[:, None]
        inputs = jnp.einsum("nec,nd->ecd", dispatch, x)
        if mode != "scan":
            inputs = ctx.constrain(inputs, "x")
        h = jax.nn.gelu(jnp.einsum("ecd,edf->ecf", inputs, p["w1"]))
        h = jnp.einsum("ecf,efd->ecd", h, p["w2"])
        return x + jnp.einsum("ecd,nec->nd", h, dispatch * (g * onehot).sum(-1)[:, None, None])

    p = dict(r=ctx.normal(d, E, scale=1), w1=ctx.weights(E, d, f), w2=ctx.weights(E, f, d))
    specs = dict(r=P(), w1=P("x"), w2=P("x"))
    x = ctx.normal(N, d, scale=1)
    if mode == "fwd":
        return Case(layer, (p, x), (specs, P("x")), results=P("x"))
    if mode == "grad":
        return Case(jax.value_and_grad(lambda p, x: jnp.mean(layer(p, x) ** 2)), (p, x), (specs, P("x")),
                    results=(P(), specs))
    p = jax.tree.map(lambda a: np.stack([a, a * 0.9]), p)
    specs = dict(r=P(), w1=P(None, "x"), w2=P(None, "x"))
    return Case(lambda p, x: lax.scan(lambda h, q: (layer(q, h), None), x, p)[0], (p, x), (specs, P("x")),
                results=P("x"))


for mode in ("fwd", "grad", "scan"):
    program("x", mode=mode, name=f"moe_{mode}")(moe)


@program("x")
def gqa_attention_tp(ctx):
    def f(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    return Case(jax.grad(lambda *a: jnp.mean(f(*a) ** 2), argnums=(0, 1, 2)),
                (ctx.normal(2, 8, 8, 4), ctx.normal(2, 8, 4, 4), ctx.normal(2, 8, 4, 4)), (P(None, None, "x"),) * 3)


@program("xy")
def attention_batch_heads_seq(ctx):
    def f(q, k, v):
        return jax.nn.dot_product_attention(ctx.constrain(q, "x", "y"), k, v)

    return Case(f, tuple(ctx.normal(4, 8, 2, 4) for _ in range(3)), (P("x", "y"),) * 3, results=P("x", "y"))


@program("xy")
def moe_2d_grad(ctx):
    def loss(p, x):
        g = jax.nn.softmax(jnp.einsum("gnd,de->gne", x, p["r"]))
        onehot = jax.nn.one_hot(jnp.argmax(g, -1), 4)
        inputs = ctx.constrain(jnp.einsum("gne,gnd->egnd", onehot, x), "y", "x")
        h = jax.nn.relu(jnp.einsum("egnd,edf->egnf", inputs, p["w1"]))
        h = ctx.constrain(jnp.einsum("egnf,efd->egnd", h, p["w2"]), "y", "x")
        return jnp.mean((x + jnp.einsum("egnd,gne->gnd", h, onehot * g)) ** 2)

    specs = dict(r=P(), w1=P("y", None, None), w2=P("y"))
    p = dict(r=ctx.normal(16, 4, scale=1), w1=ctx.weights(4, 16, 32), w2=ctx.weights(4, 32, 16))
    return Case(jax.value_and_grad(loss), (p, ctx.normal(4, 8, 16, scale=1)), (specs, P("x")), results=(P(), specs))
