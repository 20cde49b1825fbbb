# SPDX-License-Identifier: Apache-2.0
"""Pieces that several programs are made of: a perceptron, a transformer's block, a convolution, optimizers."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import PartitionSpec as P

# Epsilon is large, so that parts whose gradients are about zero move alike wherever they are summed.
ADAM = optax.adam(1e-2, eps=1e-2)

# Of a weight that goes from the model's features to the hidden ones: the axes along which each of the two is cut.
WEIGHT_AXES = {
    "dp": (None, None),
    "tp": (None, "x"),
    "fsdp": ("x", None),
    "2d": (None, "y"),
    "fsdp_tp": ("x", "y"),
    "layers": (None, None),
}


def batch_axis(kind):
    return None if kind in ("tp", "layers") else "x"


def sgd(p, g, rate=0.1):
    return jax.tree.map(lambda a, b: a - rate * b.astype(a.dtype), p, g)


def adam_zeros(p):
    return jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), jax.eval_shape(ADAM.init, p))


def adam_specs(specs):
    return (optax.ScaleByAdamState(count=P(), mu=specs, nu=specs), optax.EmptyState())


def mlp_loss(p, x, y):
    h = jax.nn.gelu(x @ p["w1"] + p["b1"])
    return jnp.mean((h @ p["w2"] + p["b2"] - y) ** 2)


def mlp_params(ctx, width=32, hidden=64):
    return dict(w1=ctx.weights(width, hidden), b1=ctx.normal(hidden), w2=ctx.weights(hidden, width),
                b2=ctx.normal(width))


def mlp_specs(kind):
    outer, inner = WEIGHT_AXES[kind]
    return dict(w1=P(outer, inner), b1=P(inner), w2=P(inner, outer), b2=P())


def layer_norm(x, gain):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * gain


def block(h, p):
    length = h.shape[1]
    x = layer_norm(h, p["g1"])
    q, k, v = (jnp.einsum("btd,dhk->bthk", x, p[name]) for name in ("wq", "wk", "wv"))
    scores = jnp.einsum("bqhk,bshk->bhqs", q, k) * q.shape[-1] ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqs,bshk->bqhk", jax.nn.softmax(scores, -1), v)
    h = h + jnp.einsum("bqhk,hkd->bqd", mixed, p["wo"])
    return h + jax.nn.gelu(layer_norm(h, p["g2"]) @ p["w1"]) @ p["w2"]


def block_params(ctx, layers=None, width=32, heads=4, hidden=64):
    lead = () if layers is None else (layers,)
    each = width // heads
    projection = lambda: ctx.normal(*lead, width, heads, each, scale=width ** -0.5)
    return dict(g1=np.ones((*lead, width), np.float32), g2=np.ones((*lead, width), np.float32), wq=projection(),
                wk=projection(), wv=projection(), wo=ctx.normal(*lead, heads, each, width, scale=width ** -0.5),
                w1=ctx.weights(*lead, width, hidden), w2=ctx.weights(*lead, hidden, width))


def block_specs(kind, scan):
    outer, inner = WEIGHT_AXES[kind]
    lead = (None,) if scan else ()
    projection = P(*lead, outer, inner, None)
    return dict(g1=P(), g2=P(), wq=projection, wk=projection, wv=projection, wo=P(*lead, inner, None, outer),
                w1=P(*lead, outer, inner), w2=P(*lead, inner, outer))


def convolve(x, kernel, strides=(1, 1), **options):
    return lax.conv_general_dilated(x, kernel, strides, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)
