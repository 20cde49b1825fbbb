# SPDX-License-Identifier: Apache-2.0
"""Kernels that memory limits: pointwise chains, rows, columns, losses and their gradients."""

import numpy as np

from cases import BOTH, Adder, draw


def cases():
    import jax
    import jax.numpy as jnp
    import torch
    import torch.nn.functional as F

    n = 1 << 24
    found = Adder()
    add = found.add
    (flat,) = draw(2, (n,), scale=3)
    rows = draw(3, (16384, 1024), scale=4)
    (slopes,) = draw(5, (16384, 1024))
    scale, shift = draw(4, (1024,), (1024,))

    add("silu", [flat], jax.nn.silu, F.silu, n, BOTH)
    add(
        "gelu_of_tanh",
        [flat],
        lambda x: jax.nn.gelu(x, approximate=True),
        lambda x: F.gelu(x, approximate="tanh"),
        n,
        BOTH,
    )

    def gelu_back_jax(x, d):
        return jax.vjp(lambda x: jax.nn.gelu(x, approximate=False), x)[1](d)[0]

    add(
        "gelu_backward",
        [flat, slopes.reshape(-1)],
        gelu_back_jax,
        lambda x, d: torch.ops.aten.gelu_backward(d, x),
        n,
        BOTH,
    )
    add(
        "softmax_backward",
        [np.abs(rows[0]) / 4096, slopes],
        lambda y, d: y * (d - (y * d).sum(-1, keepdims=True)),
        lambda y, d: torch.ops.aten._softmax_backward_data(d, y, -1, y.dtype),
        n,
        BOTH,
        tolerance=1e-4,
    )

    def rms_norm_jax(x, g):
        f = x.astype(jnp.float32)
        return (f * jax.lax.rsqrt((f * f).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * g

    def rms_norm_torch(x, g):
        return F.rms_norm(x, (1024,), g, 1e-6)

    add("rms_norm", rows + [scale], rms_norm_jax, rms_norm_torch, n, BOTH)

    def pulled_back(function):
        def run(*arguments):
            *inputs, slopes = (a.detach() for a in arguments)
            inputs = [a.requires_grad_() for a in inputs]
            return torch.autograd.grad(function(*inputs), inputs, slopes)

        return run

    # PyTorch's users compile the forward function, and get its gradients from autograd.
    add(
        "rms_norm_backward",
        rows + [scale, slopes],
        lambda x, g, d: jax.vjp(rms_norm_jax, x, g)[1](d),
        pulled_back(rms_norm_torch),
        n,
        tolerance=2e-2,
        compiled_torch=lambda: pulled_back(torch.compile(rms_norm_torch, dynamic=False)),
    )

    def residual_norm_jax(x, y, g, b):
        z = x + y
        mean = z.mean(-1, keepdims=True)
        centred = z - mean
        return z, centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * g + b

    def residual_norm_torch(x, y, g, b):
        z = x + y
        return z, F.layer_norm(z, (1024,), g, b)

    add("residual_and_norm", rows + [slopes, scale, shift], residual_norm_jax, residual_norm_torch, 2 * n)

    angles = np.arange(1024)[:, None] / 10000 ** (np.arange(32) / 32)
    cosines, sines = (f(angles).astype(np.float32) for f in (np.cos, np.sin))
    (heads,) = draw(7, (16, 16, 1024, 64))

    def rotate(concatenate):
        def run(x, cosines, sines):
            a, b = x[..., :32], x[..., 32:]
            return concatenate([a * cosines - b * sines, b * cosines + a * sines], -1)

        return run

    add("rope", [heads, cosines, sines], rotate(jnp.concatenate), rotate(torch.cat), n, BOTH)

    # 1,024 tokens, a vocabulary of 32,000: the mean loss, and its gradient by the logits.
    logits = draw(20, (1024, 32000), scale=4)
    labels = np.random.default_rng(21).integers(0, 32000, 1024, dtype=np.int32)

    def loss_jax(x, labels):
        chosen = jnp.take_along_axis(x, labels[:, None], axis=-1, mode="clip")[:, 0]
        return (jax.nn.logsumexp(x, axis=-1) - chosen).mean()

    def loss_torch(x, labels):
        return F.cross_entropy(x, labels.long())

    def loss_and_slopes(loss):
        def run(x, labels):
            x = x.detach().requires_grad_()
            value = loss(x, labels)
            return value.detach(), torch.autograd.grad(value, x)[0]

        return run

    add("cross_entropy", logits + [labels], loss_jax, loss_torch, 1)
    add(
        "cross_entropy_and_backward",
        logits + [labels],
        lambda x, labels: jax.value_and_grad(loss_jax)(x, labels),
        loss_and_slopes(loss_torch),
        logits[0].size,
        tolerance=1e-4,
        compiled_torch=lambda: loss_and_slopes(torch.compile(loss_torch, dynamic=False)),
    )

    add("row_maximum", rows, lambda x: x.max(-1), lambda x: x.amax(-1), 16384, BOTH)
    add("row_argmax", rows, lambda x: jnp.argmax(x, -1).astype(jnp.int32), lambda x: x.argmax(-1).int(), 16384)
    add("running_sum", rows, lambda x: jnp.cumsum(x, -1), lambda x: x.cumsum(-1), n, tolerance=1e-4)

    images = draw(22, (32, 64, 56, 56))
    weights, biases = draw(23, (64,), (64,))

    def batch_norm_jax(x, g, b):
        mean = x.mean((0, 2, 3), keepdims=True)
        variance = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * g[None, :, None, None] + b[None, :, None, None]

    def batch_norm_torch(x, g, b):
        return F.batch_norm(x, None, None, g, b, training=True, eps=1e-5)

    add(
        "batch_norm", images + [weights, biases], batch_norm_jax, batch_norm_torch, images[0].size, tolerance=1e-4
    )
    add(
        "batch_norm_backward",
        images + [weights, biases] + draw(24, images[0].shape),
        lambda x, g, b, d: jax.vjp(batch_norm_jax, x, g, b)[1](d),
        pulled_back(batch_norm_torch),
        images[0].size,
        tolerance=1e-2,
        compiled_torch=lambda: pulled_back(torch.compile(batch_norm_torch, dynamic=False)),
    )
    add(
        "max_pool",
        images,
        lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
        lambda x: F.max_pool2d(x, 2),
        images[0].size // 4,
    )

    # An embedding's gradient: rows are added where their numbers say.
    ids = np.random.default_rng(17).integers(0, 32000, 8192, dtype=np.int32)
    add(
        "embedding_backward",
        draw(25, (8192, 512)) + [ids],
        lambda d, i: jnp.zeros((32000, 512), d.dtype).at[i].add(d, mode="promise_in_bounds"),
        lambda d, i: torch.zeros(32000, 512, dtype=d.dtype).index_add_(0, i.long(), d),
        32000 * 512,
    )
    return found.cases
