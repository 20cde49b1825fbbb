# SPDX-License-Identifier: Apache-2.0
"""Single kernels: each case is one function in JAX and the same one in PyTorch, on the same inputs. More of them are in
`row_cases.py` and `product_cases.py`."""

import dataclasses
from typing import Callable

import numpy as np


@dataclasses.dataclass
class Case:
    """`jax` and `torch` take and return the same arrays. `bytes` is what must move at least (each
    input read and each output written once); 0 where work, not memory, is the limit, which is `flops` then. `donated`
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
    flops: int = 0


BOTH = ("f32", "bf16")


def draw(seed, *shapes, scale=1.0):
    rng = np.random.default_rng(seed)
    return [(scale * (2 * rng.random(shape, dtype=np.float32) - 1)) for shape in shapes]


class Adder:
    """Collects cases that memory limits."""

    def __init__(self):
        self.cases = []

    def add(self, name, inputs, of_jax, of_torch, outputs, dtypes=("f32",), tolerance=1e-5, compiled_torch=None):
        """`outputs`: elements of all results."""
        for dtype in dtypes:
            moved = (4 if dtype == "f32" else 2) * (sum(a.size for a in inputs) + outputs)
            within = tolerance if dtype == "f32" else max(tolerance, 4e-2)
            self.cases.append(
                Case(
                    f"{name}_{dtype}",
                    inputs,
                    of_jax,
                    of_torch,
                    moved,
                    dtype,
                    tolerance=within,
                    compiled_torch=compiled_torch,
                )
            )


def cases():
    """All cases, as a list. JAX and PyTorch are imported here, not at the module's import."""
    import jax
    import jax.numpy as jnp
    import torch
    import torch.nn.functional as F

    n = 1 << 24
    adder = Adder()
    add, found = adder.add, adder.cases

    def chain(x, y):
        a = x * y + x
        b = a - y
        return b * y + a * 0.5

    add("chain", draw(1, (n,), (n,)), chain, chain, n, BOTH)

    def gelu_jax(x):
        return 0.5 * x * (1 + jax.lax.erf(x * np.float32(0.70710678)))

    add("gelu", draw(2, (n,), scale=3), gelu_jax, lambda x: F.gelu(x), n, BOTH)

    rows = draw(3, (16384, 1024), scale=4)
    add("softmax", rows, lambda x: jax.nn.softmax(x, axis=-1), lambda x: torch.softmax(x, -1), n, BOTH)

    def norm_jax(x, g, b):
        f = x.astype(jnp.float32)
        mean = f.mean(-1, keepdims=True)
        variance = ((f - mean) ** 2).mean(-1, keepdims=True)
        y = (f - mean) * jax.lax.rsqrt(variance + 1e-5)
        return (y * g.astype(jnp.float32) + b.astype(jnp.float32)).astype(x.dtype)

    norm_inputs = rows + draw(4, (1024,), (1024,))
    add("layer_norm", norm_inputs, norm_jax, lambda x, g, b: F.layer_norm(x, (1024,), g, b), n, BOTH)

    def norm_grad_jax(x, g, b, d):
        return jax.vjp(norm_jax, x, g, b)[1](d)

    def norm_grad_torch(x, g, b, d):
        y, mean, rstd = torch.native_layer_norm(x, (1024,), g, b, 1e-5)
        return torch.ops.aten.native_layer_norm_backward(d, x, (1024,), mean, rstd, g, b, (True, True, True))

    add(
        "layer_norm_backward",
        norm_inputs + draw(5, (16384, 1024)),
        norm_grad_jax,
        norm_grad_torch,
        n,
        tolerance=2e-2,
    )
    add("row_sum", rows, lambda x: x.sum(-1), lambda x: x.sum(-1), 16384, tolerance=1e-3)
    add("column_sum", rows, lambda x: x.sum(0), lambda x: x.sum(0), 1024, tolerance=1e-2)
    add("whole_sum", rows, lambda x: x.sum(), lambda x: x.sum(), 1, tolerance=10)
    add("transpose", draw(6, (4096, 4096)), lambda x: x.T + 1, lambda x: (x.T + 1).contiguous(), n, BOTH)
    add(
        "heads",
        draw(7, (16, 1024, 16, 64)),
        lambda x: jnp.transpose(x, (0, 2, 1, 3)) * 2,
        lambda x: (x.permute(0, 2, 1, 3) * 2).contiguous(),
        n,
    )

    def adam(xp_sqrt, p, g, m, v):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        return p - 0.001 * m / (xp_sqrt(v) + 1e-8), m, v

    one = draw(8, (1 << 22,), (1 << 22,), (1 << 22,)) + [np.abs(draw(9, (1 << 22,))[0])]
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
    flat = draw(10, *many) + draw(11, *many) + draw(12, *many) + [np.abs(a) for a in draw(13, *many)]

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

    table, ids = draw(16, (32000, 512))[0], np.random.default_rng(17).integers(0, 32000, 8192, dtype=np.int32)
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
