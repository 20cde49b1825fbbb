# SPDX-License-Identifier: Apache-2.0
"""Kernels that work limits: products, convolutions and attention."""

from cases import BOTH, Case, draw


def cases():
    import jax
    import jax.numpy as jnp
    import torch
    import torch.nn.functional as F

    found = []

    def add(name, inputs, of_jax, of_torch, flops, dtypes=("f32",), tolerance=1e-4, compiled_torch=None):
        for dtype in dtypes:
            within = tolerance if dtype == "f32" else 4e-2
            found.append(
                Case(
                    f"{name}_{dtype}",
                    inputs,
                    of_jax,
                    of_torch,
                    dtype=dtype,
                    tolerance=within,
                    compiled_torch=compiled_torch,
                    flops=flops,
                )
            )

    def product(name, m, k, n, dtypes=("f32",)):
        add(name, draw(30, (m, k), (k, n)), lambda a, b: a @ b, lambda a, b: a @ b, 2 * m * k * n, dtypes)

    product("matmul_1024", 1024, 1024, 1024, BOTH)
    product("matmul_512", 512, 512, 512)
    product("matmul_2048", 2048, 2048, 2048)
    product("matmul_8_rows", 8, 4096, 4096, BOTH)
    product("vector_by_matrix", 1, 4096, 4096)
    a, b = draw(31, (64, 128, 256), (64, 256, 128))
    batched = lambda a, b: a @ b
    add("matmul_batched", [a, b], batched, batched, 2 * 64 * 128 * 256 * 128, BOTH)

    # A layer's forward product, and its gradients by the inputs and by the weights.
    x, w, d = draw(18, (2048, 256), (256, 1024), (2048, 1024))
    work = 2 * 2048 * 256 * 1024
    add("matmul", [x, w], lambda x, w: x @ w, lambda x, w: x @ w, work, BOTH)
    add("matmul_by_inputs", [d, w], lambda d, w: d @ w.T, lambda d, w: d @ w.T, work, BOTH)
    add("matmul_by_weights", [x, d], lambda x, d: x.T @ d, lambda x, d: x.T @ d, work, BOTH)

    # A transformer's second half: two products, a bias and a GELU between, the residual.
    first, second, bias = draw(32, (256, 1024), (1024, 256), (1024,), scale=0.1)

    def layers_jax(x, first, bias, second):
        return x + jax.nn.gelu(x @ first + bias, approximate=True) @ second

    def layers_torch(x, first, bias, second):
        return x + F.gelu(x @ first + bias, approximate="tanh") @ second

    add("two_layers", [x, first, bias, second], layers_jax, layers_torch, 2 * work, BOTH)

    def convolution(name, images, filters, **options):
        groups = options.get("groups", 1)
        padding = filters[2] // 2
        x, w = draw(33, images, filters)

        def of_jax(x, w):
            return jax.lax.conv_general_dilated(
                x, w, (1, 1), [(padding, padding)] * 2, feature_group_count=groups
            )

        def of_torch(x, w):
            return F.conv2d(x, w, padding=padding, groups=groups)

        work = 2 * images[0] * images[2] * images[3] * filters[0] * filters[1] * filters[2] * filters[3]
        add(name, [x, w], of_jax, of_torch, work)
        if groups > 1:
            return

        def back_torch(forward):
            def run(x, w, d):
                x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
                return torch.autograd.grad(forward(x, w), (x, w), d)

            return run

        add(
            f"{name}_backward",
            [x, w] + draw(34, (images[0], filters[0], images[2], images[3])),
            lambda x, w, d: jax.vjp(of_jax, x, w)[1](d),
            back_torch(of_torch),
            2 * work,
            compiled_torch=lambda: back_torch(torch.compile(of_torch, dynamic=False)),
        )

    convolution("convolution_3x3", (16, 64, 56, 56), (64, 64, 3, 3))
    convolution("convolution_1x1", (16, 256, 28, 28), (128, 256, 1, 1))
    convolution("convolution_by_channel", (16, 128, 56, 56), (128, 1, 3, 3), groups=128)

    def attention_jax(mask):
        def run(q, k, v):
            scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (q.shape[-1] ** -0.5)
            return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(mask(scores), axis=-1), v)

        return run

    def causal(scores):
        t = scores.shape[-1]
        return jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)

    def attention_torch(is_causal):
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    for t in (256, 1024):
        qkv = draw(14, *[(4, 4, t, 64)] * 3)
        work = 4 * 16 * t * t * 64
        add(f"attention_{t}", qkv, attention_jax(lambda s: s), attention_torch(False), work)
        add(f"attention_{t}_causal", qkv, attention_jax(causal), attention_torch(True), work // 2, BOTH)

        def both_ways_jax(q, k, v, d):
            out, back = jax.vjp(attention_jax(causal), q, k, v)
            return (out,) + back(d)

        def both_ways_torch(forward):
            def run(q, k, v, d):
                q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
                out = forward(q, k, v)
                return (out.detach(),) + torch.autograd.grad(out, (q, k, v), d)

            return run

        add(
            f"attention_{t}_causal_backward",
            qkv + draw(15, (4, 4, t, 64)),
            both_ways_jax,
            both_ways_torch(attention_torch(True)),
            7 * work // 4,
            compiled_torch=lambda: both_ways_torch(torch.compile(attention_torch(True), dynamic=False)),
        )
    # One token of each of eight sequences, 1,024 keys each.
    add(
        "attention_decode",
        draw(35, (8, 8, 1, 64), (8, 8, 1024, 64), (8, 8, 1024, 64)),
        attention_jax(lambda s: s),
        attention_torch(False),
        4 * 64 * 1024 * 64,
    )
    return found
