# SPDX-License-Identifier: Apache-2.0
"""The GPT that gpu_steps trains (benchmarks/training_steps/workload.h), in PyTorch and in JAX.

Token and position embedding, pre-norm blocks (causal attention, MLP of 4 x width with GELU by erf), final norm, logits by the token
embedding, mean cross entropy. Matrices multiply from the right (inputs x outputs). Sizes: a dict of vocabulary, context, width, heads,
layers, batch.
"""

import numpy as np

LAYER = 12  # arrays


def parameters(sizes):
    rng = np.random.default_rng(1)
    width = sizes["width"]

    def normal(*shape):
        return (0.02 * rng.standard_normal(shape)).astype(np.float32)

    def ones():
        return np.ones(width, np.float32)

    def zeros(n=width):
        return np.zeros(n, np.float32)

    found = [normal(sizes["vocabulary"], width), normal(sizes["context"], width)]
    for _ in range(sizes["layers"]):
        found += [ones(), zeros(), normal(width, 3 * width), zeros(3 * width), normal(width, width), zeros()]
        found += [ones(), zeros(), normal(width, 4 * width), zeros(4 * width), normal(4 * width, width), zeros()]
    return found + [ones(), zeros()]


def data(sizes):
    rng = np.random.default_rng(2)
    shape = (sizes["batch"], sizes["context"])
    return [rng.integers(0, sizes["vocabulary"], shape, dtype=np.int32) for _ in range(2)]


def layers_of(arrays):
    return [tuple(arrays[i : i + LAYER]) for i in range(2, len(arrays) - 2, LAYER)]


def torch_loss(sizes, checkpointed=False):
    """A function of (parameters, tokens, labels)."""
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint

    width, heads = sizes["width"], sizes["heads"]

    def block(x, g1, b1, qkv, qkv_bias, o, o_bias, g2, b2, up, up_bias, down, down_bias):
        batch, context, _ = x.shape
        y = F.layer_norm(x, (width,), g1, b1) @ qkv + qkv_bias
        q, k, v = (t.reshape(batch, context, heads, width // heads).transpose(1, 2) for t in y.chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + (mixed.transpose(1, 2).reshape(batch, context, width) @ o + o_bias)
        y = F.layer_norm(x, (width,), g2, b2) @ up + up_bias
        return x + (F.gelu(y) @ down + down_bias)

    def loss(arrays, tokens, labels):
        x = F.embedding(tokens, arrays[0]) + arrays[1]
        for layer in layers_of(arrays):
            x = checkpoint(block, x, *layer, use_reentrant=False) if checkpointed else block(x, *layer)
        logits = F.layer_norm(x, (width,), arrays[-2], arrays[-1]) @ arrays[0].T
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    return loss


def jax_loss(sizes):
    import jax
    import jax.numpy as jnp

    width, heads, context = sizes["width"], sizes["heads"], sizes["context"]

    def norm(x, g, b):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * g + b

    def block(x, g1, b1, qkv, qkv_bias, o, o_bias, g2, b2, up, up_bias, down, down_bias):
        batch = x.shape[0]
        y = norm(x, g1, b1) @ qkv + qkv_bias
        q, k, v = (t.reshape(batch, context, heads, width // heads) for t in jnp.split(y, 3, -1))
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(batch, context, width)
        x = x + (mixed @ o + o_bias)
        y = norm(x, g2, b2) @ up + up_bias
        return x + (jax.nn.gelu(y, approximate=False) @ down + down_bias)

    def loss(arrays, tokens, labels):
        x = arrays[0][tokens] + arrays[1]
        for layer in layers_of(arrays):
            x = block(x, *layer)
        logits = norm(x, arrays[-2], arrays[-1]) @ arrays[0].T
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1).mean()

    return loss
