# SPDX-License-Identifier: Apache-2.0
"""Whole training steps: forward, gradient and Adam update, the same in JAX and in PyTorch.

GPT: token and position embedding, pre-norm blocks (causal attention, MLP of 4 x width with tanh GELU), final norm, logits by the
token embedding, mean cross entropy. CNN: the basic residual network on 28 x 28 grey images, batch normalization in training mode,
three stages of 16, 32 and 64 channels. Both take (tokens or images, labels, parameters, first moments, second moments) and return
(loss, parameters, first moments, second moments); parameters and moments are updated in place where the framework can.
"""

import math

import numpy as np

from cases import Case

RATE, B1, B2, EPS = 1e-3, 0.9, 0.999, 1e-8


def _parameters(seed, shapes):
    rng = np.random.default_rng(seed)
    found = []
    for shape in shapes:
        if len(shape) == 1:
            found.append(np.ones(shape, np.float32) if rng.random() < 0.5 else np.zeros(shape, np.float32))
        else:
            fan_in = int(np.prod(shape[:-1]))
            found.append((rng.standard_normal(shape, dtype=np.float32) / math.sqrt(fan_in)).astype(np.float32))
    return found


def _step_case(name, data, shapes, loss_jax, loss_torch):
    import jax
    import jax.numpy as jnp
    import torch

    n = len(shapes)
    parameters = _parameters(1, shapes)
    zeros = [np.zeros(s, np.float32) for s in shapes]

    def update_jax(x, y, *state):
        p, m, v = state[:n], state[n : 2 * n], state[2 * n :]
        loss, grads = jax.value_and_grad(lambda p: loss_jax(p, x, y))(list(p))
        m = [B1 * a + (1 - B1) * g for a, g in zip(m, grads)]
        v = [B2 * a + (1 - B2) * g * g for a, g in zip(v, grads)]
        p = [a - RATE * b / (jnp.sqrt(c) + EPS) for a, b, c in zip(p, m, v)]
        return (loss, *p, *m, *v)

    def update_torch(x, y, *state):
        p, m, v = list(state[:n]), list(state[n : 2 * n]), list(state[2 * n :])
        leaves = [a.detach().requires_grad_() for a in p]
        loss = loss_torch(leaves, x, y.long())
        grads = torch.autograd.grad(loss, leaves)
        with torch.no_grad():
            torch._foreach_mul_(m, B1)
            torch._foreach_add_(m, grads, alpha=1 - B1)
            torch._foreach_mul_(v, B2)
            torch._foreach_addcmul_(v, grads, grads, value=1 - B2)
            root = torch._foreach_add(torch._foreach_sqrt(v), EPS)
            torch._foreach_addcdiv_(p, m, root, value=-RATE)
        return (loss.detach(), *p, *m, *v)

    inputs = data + parameters + zeros + [z.copy() for z in zeros]
    donated = tuple(range(2, 2 + 3 * n))
    # Where a gradient is nothing but rounding, Adam still moves the parameter by a whole step; the
    # first moments say whether the gradients agree.
    compared = ((0,), tuple(range(1 + n, 1 + 2 * n)))
    return Case(name, inputs, update_jax, update_torch, donated=donated, tolerance=1e-3, compared=compared)


def gpt(name, vocabulary, context, width, heads, layers, batch):
    """f32; matrices multiply from the right (inputs x outputs)."""
    import jax
    import jax.numpy as jnp
    import torch
    import torch.nn.functional as F

    shapes = [(vocabulary, width), (context, width)]
    for _ in range(layers):
        shapes += [(width,), (width,), (width, 3 * width), (3 * width,), (width, width), (width,)]
        shapes += [(width,), (width,), (width, 4 * width), (4 * width,), (4 * width, width), (width,)]
    shapes += [(width,), (width,)]
    rng = np.random.default_rng(2)
    data = [rng.integers(0, vocabulary, (batch, context), dtype=np.int32) for _ in range(2)]
    head = width // heads

    def norm_jax(x, g, b):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * g + b

    def loss_jax(p, tokens, labels):
        it = iter(p)
        table, positions = next(it), next(it)
        x = jnp.take(table, tokens, axis=0, mode="clip") + positions
        seen = jnp.tril(jnp.ones((context, context), bool))
        for _ in range(layers):
            y = norm_jax(x, next(it), next(it)) @ next(it) + next(it)
            q, k, v = (t.reshape(batch, context, heads, head).transpose(0, 2, 1, 3) for t in jnp.split(y, 3, -1))
            scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * head**-0.5
            weights = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1)
            mixed = jnp.einsum("bhqk,bhkd->bhqd", weights, v).transpose(0, 2, 1, 3).reshape(batch, context, width)
            x = x + (mixed @ next(it) + next(it))
            y = norm_jax(x, next(it), next(it)) @ next(it) + next(it)
            x = x + (jax.nn.gelu(y, approximate=True) @ next(it) + next(it))
        logits = norm_jax(x, next(it), next(it)) @ table.T
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1, mode="clip")
        return -chosen.mean()

    def loss_torch(p, tokens, labels):
        it = iter(p)
        table, positions = next(it), next(it)
        x = F.embedding(tokens.long(), table) + positions
        for _ in range(layers):
            y = F.layer_norm(x, (width,), next(it), next(it)) @ next(it) + next(it)
            q, k, v = (t.reshape(batch, context, heads, head).transpose(1, 2) for t in y.chunk(3, -1))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + (mixed.transpose(1, 2).reshape(batch, context, width) @ next(it) + next(it))
            y = F.layer_norm(x, (width,), next(it), next(it)) @ next(it) + next(it)
            x = x + (F.gelu(y, approximate="tanh") @ next(it) + next(it))
        logits = F.layer_norm(x, (width,), next(it), next(it)) @ table.T
        return F.cross_entropy(logits.reshape(-1, vocabulary), labels.reshape(-1))

    return _step_case(name, data, shapes, loss_jax, loss_torch)


def cnn(name, batch, blocks):
    """f32, NHWC images, HWIO filters; PyTorch gets the same arrays as channels-last views."""
    import jax
    import jax.numpy as jnp
    import torch
    import torch.nn.functional as F

    plan = [(1, 16, 3, 1)]
    inputs = 16
    for stage, width in enumerate((16, 32, 64)):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            plan += [(inputs, width, 3, stride), (width, width, 3, 1)]
            if stride != 1 or inputs != width:
                plan.append((inputs, width, 1, stride))
            inputs = width
    shapes = []
    for i, o, size, _ in plan:
        shapes += [(size, size, i, o), (o,), (o,)]
    shapes += [(64, 10), (10,)]
    rng = np.random.default_rng(3)
    images = (2 * rng.random((batch, 28, 28, 1), dtype=np.float32) - 1).astype(np.float32)
    data = [images, rng.integers(0, 10, (batch,), dtype=np.int32)]

    def network(p, x, convolve, relu, head):
        it = iter(zip(*(iter(p[:-2]),) * 3))
        layer = iter(plan)

        def next_layer(x):
            _, _, size, stride = next(layer)
            return convolve(x, *next(it), size, stride)

        x = relu(next_layer(x))
        before = 16
        for stage, width in enumerate((16, 32, 64)):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                y = next_layer(relu(next_layer(x)))
                x = relu(y + (next_layer(x) if stride != 1 or before != width else x))
                before = width
        return head(x, *p[-2:])

    def loss_jax(p, x, y):
        def convolve(x, w, g, b, size, stride):
            pad = [(size // 2, size // 2)] * 2
            x = jax.lax.conv_general_dilated(x, w, (stride, stride), pad, dimension_numbers=("NHWC", "HWIO", "NHWC"))
            mean = x.mean((0, 1, 2))
            variance = ((x - mean) ** 2).mean((0, 1, 2))
            return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * g) + b

        logits = network(p, x, convolve, lambda x: jnp.maximum(x, 0), lambda x, w, b: x.mean((1, 2)) @ w + b)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=-1, mode="clip")
        return -chosen.mean()

    def loss_torch(p, x, y):
        def convolve(x, w, g, b, size, stride):
            x = F.conv2d(x, w.permute(3, 2, 0, 1), stride=stride, padding=size // 2)
            return F.batch_norm(x, None, None, g, b, training=True, eps=1e-5)

        logits = network(p, x.permute(0, 3, 1, 2), convolve, F.relu, lambda x, w, b: x.mean((2, 3)) @ w + b)
        return F.cross_entropy(logits, y)

    return _step_case(name, data, shapes, loss_jax, loss_torch)


def networks():
    """All training steps, as a list of cases."""
    return [
        gpt("gpt_small_step", vocabulary=96, context=64, width=96, heads=4, layers=6, batch=16),
        gpt("gpt_step", vocabulary=2000, context=256, width=256, heads=4, layers=6, batch=8),
        cnn("cnn_step", batch=64, blocks=4),
    ]
