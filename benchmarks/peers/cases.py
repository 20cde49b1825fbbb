# SPDX-License-Identifier: Apache-2.0
"""Single kernels: each case is one function in JAX and the same one in PyTorch, on the same inputs."""

import dataclasses
from typing import Callable

import numpy as np


@dataclasses.dataclass
class Case:
    """`jax` and `torch` take and return the same arrays. `bytes` is what must move at least (each
    input read and each output written once); 0 where work, not memory, is the limit. `donated`
    inputs are overwritten by outputs in order. `compared`: groups of outputs, each compared by the
    largest magnitude in the group; none: every output by its own. `compiled_torch` returns what
    PyTorch's users would call where that is not `torch` compiled as a whole."""

    name: str
    inputs: list
    jax: Callable
    torch: Callable
    bytes: int = 0
    dtype: str = "f32"
    donated: tuple = ()
    tolerance: float = 1e-5
    compared: tuple = ()
    compiled_torch: Callable = None


def _draw(seed, *shapes, scale=1.0):
    rng = np.random.default_rng(seed)
    return [(scale * (2 * rng.random(shape, dtype=np.float32) - 1)) for shape in shapes]


def _moved(arrays, outputs, itemsize):
    return itemsize * (sum(a.size for a in arrays) + outputs)


def _attention(np_like, q, k, v, softmax, mask):
    scores = np_like.einsum("bhqd,bhkd->bhqk", q, k) * (q.shape[-1] ** -0.5)
    return np_like.einsum("bhqk,bhkd->bhqd", softmax(mask(scores)), v)


def cases():
    """All cases, as a list. JAX and PyTorch are imported here, not at the module's import."""
    import jax
    import jax.numpy as jnp
    import torch
    import torch.nn.functional as F

    n = 1 << 24
    found = []

    def add(name, inputs, of_jax, of_torch, outputs, dtypes=("f32",), tolerance=1e-5):
        for dtype in dtypes:
            item = 4 if dtype == "f32" else 2
            moved = _moved(inputs, outputs, item)
            within = tolerance if dtype == "f32" else max(tolerance, 4e-2)
            found.append(Case(f"{name}_{dtype}", inputs, of_jax, of_torch, moved, dtype, tolerance=within))

    both = ("f32", "bf16")

    def chain(x, y):
        a = x * y + x
        b = a - y
        return b * y + a * 0.5

    add("chain", _draw(1, (n,), (n,)), chain, chain, n, both)

    def gelu_jax(x):
        return 0.5 * x * (1 + jax.lax.erf(x * np.float32(0.70710678)))

    add("gelu", _draw(2, (n,), scale=3), gelu_jax, lambda x: F.gelu(x), n, both)

    rows = _draw(3, (16384, 1024), scale=4)
    add("softmax", rows, lambda x: jax.nn.softmax(x, axis=-1), lambda x: torch.softmax(x, -1), n, both)

    def norm_jax(x, g, b):
        f = x.astype(jnp.float32)
        mean = f.mean(-1, keepdims=True)
        variance = ((f - mean) ** 2).mean(-1, keepdims=True)
        y = (f - mean) * jax.lax.rsqrt(variance + 1e-5)
        return (y * g.astype(jnp.float32) + b.astype(jnp.float32)).astype(x.dtype)

    norm_inputs = rows + _draw(4, (1024,), (1024,))
    add("layer_norm", norm_inputs, norm_jax, lambda x, g, b: F.layer_norm(x, (1024,), g, b), n, both)

    def norm_grad_jax(x, g, b, d):
        return jax.vjp(norm_jax, x, g, b)[1](d)

    def norm_grad_torch(x, g, b, d):
        y, mean, rstd = torch.native_layer_norm(x, (1024,), g, b, 1e-5)
        return torch.ops.aten.native_layer_norm_backward(d, x, (1024,), mean, rstd, g, b, (True, True, True))

    add(
        "layer_norm_backward",
        norm_inputs + _draw(5, (16384, 1024)),
        norm_grad_jax,
        norm_grad_torch,
        n,
        tolerance=2e-2,
    )
    add("row_sum", rows, lambda x: x.sum(-1), lambda x: x.sum(-1), 16384, tolerance=1e-3)
    add("column_sum", rows, lambda x: x.sum(0), lambda x: x.sum(0), 1024, tolerance=1e-2)
    add("whole_sum", rows, lambda x: x.sum(), lambda x: x.sum(), 1, tolerance=10)
    add("transpose", _draw(6, (4096, 4096)), lambda x: x.T + 1, lambda x: (x.T + 1).contiguous(), n, both)
    add(
        "heads",
        _draw(7, (16, 1024, 16, 64)),
        lambda x: jnp.transpose(x, (0, 2, 1, 3)) * 2,
        lambda x: (x.permute(0, 2, 1, 3) * 2).contiguous(),
        n,
    )

    def adam(xp_sqrt, p, g, m, v):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        return p - 0.001 * m / (xp_sqrt(v) + 1e-8), m, v

    one = _draw(8, (1 << 22,), (1 << 22,), (1 << 22,)) + [np.abs(_draw(9, (1 << 22,))[0])]
    found.append(
        Case(
            "adam_f32",
            one,
            lambda p, g, m, v: adam(jnp.sqrt, p, g, m, v),
            lambda p, g, m, v: adam(torch.sqrt, p, g, m, v),
            4 * 7 * (1 << 22),
            donated=(0, 2, 3),
        )
    )

    sizes = [(10,), (64,), (256,), (64, 64), (3, 3, 16, 32), (128, 96), (256, 256), (1000,)]
    many = [sizes[i % len(sizes)] for i in range(200)]
    count = sum(int(np.prod(s)) for s in many)
    flat = _draw(10, *many) + _draw(11, *many) + _draw(12, *many) + [np.abs(a) for a in _draw(13, *many)]

    def adam_many(sqrt):
        def step(*a):
            parts = [adam(sqrt, a[i], a[200 + i], a[400 + i], a[600 + i]) for i in range(200)]
            return tuple(p[j] for j in range(3) for p in parts)

        return step

    def adam_torch(*a):
        p, g, m, v = (list(a[i : i + 200]) for i in (0, 200, 400, 600))
        m = torch._foreach_add(torch._foreach_mul(m, 0.9), g, alpha=0.1)
        v = torch._foreach_addcmul(torch._foreach_mul(v, 0.999), g, g, value=0.001)
        root = torch._foreach_add(torch._foreach_sqrt(v), 1e-8)
        p = torch._foreach_addcdiv(p, m, root, value=-0.001)
        return tuple(p) + tuple(m) + tuple(v)

    found.append(
        Case(
            "adam_200_f32",
            flat,
            adam_many(jnp.sqrt),
            adam_torch,
            4 * 7 * count,
            donated=tuple(range(200)) + tuple(range(400, 800)),
        )
    )

    def attention_jax(causal):
        def run(q, k, v):
            t = q.shape[2]
            seen = jnp.tril(jnp.ones((t, t), bool)) if causal else None
            mask = (lambda s: jnp.where(seen, s, -1e9)) if causal else (lambda s: s)
            return _attention(jnp, q, k, v, lambda s: jax.nn.softmax(s, axis=-1), mask)

        return run

    def attention_torch(causal):
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    for t in (256, 1024):
        qkv = _draw(14, *[(4, 4, t, 64)] * 3)
        for causal in (False, True):
            name = f"attention_{t}" + ("_causal" if causal else "")
            found.append(Case(name, qkv, attention_jax(causal), attention_torch(causal), tolerance=1e-4))

        def both_ways_jax(q, k, v, d, forward=attention_jax(True)):
            out, back = jax.vjp(forward, q, k, v)
            return (out,) + back(d)

        def both_ways_torch(forward):
            def run(q, k, v, d):
                q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
                out = forward(q, k, v)
                return (out.detach(),) + torch.autograd.grad(out, (q, k, v), d)

            return run

        inputs = qkv + _draw(15, (4, 4, t, 64))
        found.append(
            Case(
                f"attention_{t}_causal_backward",
                inputs,
                both_ways_jax,
                both_ways_torch(attention_torch(True)),
                tolerance=1e-4,
                compiled_torch=lambda: both_ways_torch(torch.compile(attention_torch(True), dynamic=False)),
            )
        )

    # A layer's forward product, and its gradients by the inputs and by the weights.
    x, w, d = _draw(18, (2048, 256), (256, 1024), (2048, 1024))
    found.append(Case("matmul_f32", [x, w], lambda x, w: x @ w, lambda x, w: x @ w, tolerance=1e-4))
    found.append(Case("matmul_by_inputs_f32", [d, w], lambda d, w: d @ w.T, lambda d, w: d @ w.T, tolerance=1e-4))
    found.append(Case("matmul_by_weights_f32", [x, d], lambda x, d: x.T @ d, lambda x, d: x.T @ d, tolerance=1e-4))

    table, ids = _draw(16, (32000, 512))[0], np.random.default_rng(17).integers(0, 32000, 8192, dtype=np.int32)
    found.append(
        Case(
            "embedding_f32",
            [table, ids],
            lambda t, i: jnp.take(t, i, axis=0, mode="clip") * 2.0,
            lambda t, i: t[i.long()] * 2.0,
            2 * 4 * 8192 * 512,
        )
    )
    return found
