# SPDX-License-Identifier: Apache-2.0
"""Single operations as JAX's users call them: one function each, and its arguments, which are made when asked for."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

KEY = np.array([1, 2], np.uint32)


def key_of(words):
    return jax.random.wrap_key_data(words)


def generator():
    return np.random.default_rng(0)


def doubles(*shape):
    return generator().standard_normal(shape)


def floats(*shape):
    return doubles(*shape).astype(np.float32)


def bfloats(*shape):
    return doubles(*shape).astype(ml_dtypes.bfloat16)


def halves(*shape):
    return doubles(*shape).astype(np.float16)


def whole(end, *shape, dtype=np.int32):
    return generator().integers(0, end, shape).astype(dtype)


def square(turned):
    made = floats(2048, 2048)
    return np.ascontiguousarray(made.T) if turned else made


def wide_square(turned):
    made = doubles(1024, 1024)
    return np.ascontiguousarray(made.T) if turned else made


def by_nibbles(x, bytes_, scales):
    """A row by weights of 4 bits, in blocks of 32 with a scale each."""
    halves = jnp.stack([bytes_ & 15, bytes_ >> 4], 1).astype(jnp.int8) - 8
    blocks = halves.reshape(scales.shape[0], -1, scales.shape[1]).astype(jnp.float32)
    return x @ (blocks * scales[:, None]).reshape(x.shape[1], -1)


def operation(name, function, arguments):
    return "operation, " + name, lambda: (function, arguments(), ())


OPERATIONS = [
    operation("cumsum rows", lambda x: jnp.cumsum(x, 1), lambda: (square(0),)),
    operation("cumsum cols", lambda x: jnp.cumsum(x, 0), lambda: (square(0),)),
    operation("cumprod", lambda x: jnp.cumprod(x, 1), lambda: (square(0),)),
    operation("cummax", lambda x: lax.cummax(x, 1), lambda: (square(0),)),
    operation("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), lambda: (square(0),)),
    operation("sort rows", lambda x: jnp.sort(x, 1), lambda: (square(0),)),
    operation("sort cols", lambda x: jnp.sort(x, 0), lambda: (square(0),)),
    operation("argsort", lambda x: jnp.argsort(x, 1), lambda: (square(0),)),
    operation("sort 1d", lambda x: jnp.sort(x), lambda: (floats(1 << 20),)),
    operation("sort int", lambda x: jnp.sort(x), lambda: (whole(1 << 30, 1 << 20),)),
    operation("top k", lambda x: lax.top_k(x, 8), lambda: (square(0),)),
    operation("top k large", lambda x: lax.top_k(x, 64), lambda: (floats(64, 50000),)),
    operation("median", lambda x: jnp.median(x, 1), lambda: (floats(512, 1024),)),
    operation("quantile", lambda x: jnp.quantile(x, jnp.array([0.1, 0.9]), axis=1), lambda: (floats(512, 1024),)),
    operation("argmax cols", lambda x: jnp.argmax(x, 0), lambda: (square(0),)),
    operation("argmin rows", lambda x: jnp.argmin(x, 1), lambda: (square(0),)),
    operation("one hot", lambda k: jax.nn.one_hot(k, 1000), lambda: (whole(1000, 4096),)),
    operation(
        "one hot product", lambda k, w: jax.nn.one_hot(k, 1000) @ w, lambda: (whole(1000, 4096), floats(1000, 256))
    ),
    operation("take rows", lambda x, k: x[k], lambda: (floats(50000, 256), whole(50000, 4096))),
    operation("take along", lambda x, k: jnp.take_along_axis(x, k, 1), lambda: (square(0), whole(2048, 2048, 64))),
    operation("take cols", lambda x, k: x[:, k], lambda: (square(0), whole(2048, 1024))),
    operation("gather nd", lambda x, a, b: x[a, b], lambda: (square(0), whole(2048, 100000), whole(2048, 100000))),
    operation(
        "scatter add rows",
        lambda x, k, u: x.at[k].add(u),
        lambda: (floats(50000, 64), whole(50000, 4096), floats(4096, 64)),
    ),
    operation(
        "scatter add elems",
        lambda x, k, u: x.at[k].add(u),
        lambda: (floats(100000), whole(100000, 1000000), floats(1000000)),
    ),
    operation(
        "scatter set", lambda x, k, u: x.at[k].set(u), lambda: (floats(50000, 64), whole(50000, 4096), floats(4096, 64))
    ),
    operation(
        "scatter max", lambda x, k, u: x.at[k].max(u), lambda: (floats(50000, 64), whole(50000, 4096), floats(4096, 64))
    ),
    operation(
        "segment sum",
        lambda u, k: jax.ops.segment_sum(u, k, 1000),
        lambda: (floats(100000, 32), np.sort(whole(1000, 100000))),
    ),
    operation(
        "segment max", lambda u, k: jax.ops.segment_max(u, k, 1000), lambda: (floats(100000, 32), whole(1000, 100000))
    ),
    operation("bincount", lambda k: jnp.bincount(k, length=256), lambda: (whole(256, 1000000),)),
    operation("histogram", lambda x: jnp.histogram(x, bins=64, range=(-4, 4))[0], lambda: (floats(1000000),)),
    operation("searchsorted", lambda a, x: jnp.searchsorted(a, x), lambda: (np.sort(floats(10000)), floats(200000))),
    operation(
        "digitize", lambda x, b: jnp.digitize(x, b), lambda: (floats(500000), np.linspace(-3, 3, 32).astype(np.float32))
    ),
    operation(
        "convolution of lines",
        lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
        lambda: (floats(16, 1024, 64), floats(5, 64, 128)),
    ),
    operation(
        "convolution of lines ncw",
        lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NCW", "OIW", "NCW")),
        lambda: (floats(16, 64, 1024), floats(128, 64, 5)),
    ),
    operation(
        "convolution of lines causal dilated",
        lambda x, w: lax.conv_general_dilated(
            x, w, (1,), [(16, 0)], rhs_dilation=(8,), dimension_numbers=("NWC", "WIO", "NWC")
        ),
        lambda: (floats(16, 1024, 64), floats(3, 64, 64)),
    ),
    operation(
        "convolution of lines depthwise",
        lambda x, w: lax.conv_general_dilated(
            x, w, (1,), [(3, 0)], dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=512
        ),
        lambda: (floats(8, 1024, 512), floats(4, 1, 512)),
    ),
    operation(
        "convolution nhwc",
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        lambda: (floats(8, 56, 56, 64), floats(3, 3, 64, 64)),
    ),
    operation(
        "convolution stride2",
        lambda x, w: lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        lambda: (floats(8, 112, 112, 3), floats(7, 7, 3, 64)),
    ),
    operation(
        "convolution group",
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=8
        ),
        lambda: (floats(8, 56, 56, 64), floats(3, 3, 8, 64)),
    ),
    operation(
        "convolution depthwise nhwc",
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=128
        ),
        lambda: (floats(8, 56, 56, 128), floats(3, 3, 1, 128)),
    ),
    operation(
        "convolution depthwise grad",
        lambda x, w: jax.grad(
            lambda x, w: (
                lax.conv_general_dilated(
                    x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=128
                )
                ** 2
            ).sum(),
            (0, 1),
        )(x, w),
        lambda: (floats(8, 56, 56, 128), floats(3, 3, 1, 128)),
    ),
    operation(
        "convolution group grad",
        lambda x, w: jax.grad(
            lambda x, w: (
                lax.conv_general_dilated(
                    x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=8
                )
                ** 2
            ).sum(),
            (0, 1),
        )(x, w),
        lambda: (floats(8, 56, 56, 64), floats(3, 3, 8, 64)),
    ),
    operation(
        "convolution transpose",
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
        lambda: (floats(8, 28, 28, 64), floats(4, 4, 64, 32)),
    ),
    operation(
        "convolution of volumes",
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")),
        lambda: (floats(2, 16, 32, 32, 16), floats(3, 3, 3, 16, 32)),
    ),
    operation(
        "convolution of volumes grad",
        lambda x, w: jax.grad(
            lambda x, w: (
                lax.conv_general_dilated(x, w, (1, 1, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")) ** 2
            ).sum(),
            (0, 1),
        )(x, w),
        lambda: (floats(2, 16, 32, 32, 16), floats(3, 3, 3, 16, 32)),
    ),
    operation(
        "convolution of f16",
        lambda x, w: lax.conv_general_dilated(
            x.astype(jnp.float16), w.astype(jnp.float16), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        lambda: (floats(4, 28, 28, 64), floats(3, 3, 64, 64)),
    ),
    operation(
        "convolution dilated2d",
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", rhs_dilation=(2, 2), dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        lambda: (floats(4, 56, 56, 64), floats(3, 3, 64, 64)),
    ),
    operation(
        "avg pool",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        lambda: (floats(16, 112, 112, 64),),
    ),
    operation(
        "max pool grad",
        lambda x: jax.grad(
            lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") ** 2).sum()
        )(x),
        lambda: (floats(8, 56, 56, 64),),
    ),
    operation(
        "max pool s1",
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 5, 5, 1), (1, 1, 1, 1), "SAME"),
        lambda: (floats(4, 56, 56, 64),),
    ),
    operation(
        "avg pool grad",
        lambda x: jax.grad(
            lambda x: (lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum()
        )(x),
        lambda: (floats(16, 56, 56, 64),),
    ),
    operation(
        "sliding mean",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 64), (1, 1), "SAME"),
        lambda: (floats(64, 8192),),
    ),
    operation(
        "resize bilinear",
        lambda x: jax.image.resize(x, (8, 112, 112, 64), "bilinear"),
        lambda: (floats(8, 56, 56, 64),),
    ),
    operation(
        "resize nearest", lambda x: jax.image.resize(x, (8, 112, 112, 64), "nearest"), lambda: (floats(8, 56, 56, 64),)
    ),
    operation("upsample repeat", lambda x: jnp.repeat(jnp.repeat(x, 2, 1), 2, 2), lambda: (floats(8, 56, 56, 64),)),
    operation(
        "pixel shuffle",
        lambda x: x.reshape(8, 56, 56, 2, 2, 16).transpose(0, 1, 3, 2, 4, 5).reshape(8, 112, 112, 16),
        lambda: (floats(8, 56, 56, 64),),
    ),
    operation(
        "map coordinates",
        lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c[0], c[1]], 1),
        lambda: (floats(512, 512), np.abs(floats(2, 256, 256)) * 100),
    ),
    operation(
        "pad reflect",
        lambda x: jnp.pad(x, ((0, 0), (3, 3), (3, 3), (0, 0)), mode="reflect"),
        lambda: (floats(8, 112, 112, 32),),
    ),
    operation("pad const", lambda x: jnp.pad(x, ((1, 1), (3, 3))) * 2, lambda: (square(0),)),
    operation("roll", lambda x: jnp.roll(x, 5, 1) + jnp.roll(x, -7, 0), lambda: (square(0),)),
    operation("flip", lambda x: x[::-1, ::-1] * 2, lambda: (square(0),)),
    operation("tril", lambda x: jnp.tril(x), lambda: (square(0),)),
    operation("transpose 021", lambda x: x.transpose(0, 2, 1), lambda: (floats(64, 256, 256),)),
    operation("transpose 210", lambda x: x.transpose(2, 1, 0), lambda: (floats(128, 128, 256),)),
    operation("transpose 1032", lambda x: x.transpose(0, 2, 1, 3) + 1, lambda: (floats(8, 512, 8, 64),)),
    operation("nhwc nchw", lambda x: x.transpose(0, 3, 1, 2), lambda: (floats(16, 56, 56, 64),)),
    operation("strided slice", lambda x: x[::2, ::3] * 2, lambda: (square(0),)),
    operation("interleave", lambda a, b: jnp.stack([a, b], -1).reshape(2048, -1), lambda: (square(0), square(1))),
    operation("concat cols", lambda a, b: jnp.concatenate([a, b], 1) + 1, lambda: (square(0), square(1))),
    operation("split gate", lambda x: jax.nn.sigmoid(x[:, :1024]) * x[:, 1024:], lambda: (square(0),)),
    operation("glu grad", lambda x: jax.grad(lambda x: (jax.nn.glu(x) ** 2).sum())(x), lambda: (square(0),)),
    operation(
        "group norm",
        lambda x, g: (
            lambda h: (
                (h - h.mean((1, 2, 4), keepdims=True)) * lax.rsqrt(h.var((1, 2, 4), keepdims=True) + 1e-5)
            ).reshape(x.shape)
            * g
        )(x.reshape(8, 56, 56, 8, 8)),
        lambda: (floats(8, 56, 56, 64), floats(64)),
    ),
    operation(
        "group norm grad",
        lambda x, g: jax.grad(
            lambda x, g: (
                (
                    (
                        lambda h: (
                            (h - h.mean((1, 2, 4), keepdims=True)) * lax.rsqrt(h.var((1, 2, 4), keepdims=True) + 1e-5)
                        ).reshape(x.shape)
                        * g
                    )(x.reshape(8, 56, 56, 8, 8))
                )
                ** 3
            ).sum(),
            (0, 1),
        )(x, g),
        lambda: (floats(8, 56, 56, 64), floats(64)),
    ),
    operation(
        "instance norm",
        lambda x: (x - x.mean((1, 2), keepdims=True)) * lax.rsqrt(x.var((1, 2), keepdims=True) + 1e-5),
        lambda: (floats(8, 56, 56, 64),),
    ),
    operation(
        "instance norm nchw",
        lambda x: (x - x.mean((2, 3), keepdims=True)) * lax.rsqrt(x.var((2, 3), keepdims=True) + 1e-5),
        lambda: (floats(8, 64, 56, 56),),
    ),
    operation(
        "weight norm", lambda v, g: g * v / jnp.linalg.norm(v, axis=0, keepdims=True), lambda: (square(0), floats(2048))
    ),
    operation(
        "l2 normalize",
        lambda x: x / jnp.maximum(jnp.linalg.norm(x, axis=1, keepdims=True), 1e-12),
        lambda: (square(0),),
    ),
    operation("log softmax", lambda x: jax.nn.log_softmax(x), lambda: (floats(4096, 1000),)),
    operation("logsumexp mid", lambda x: jax.nn.logsumexp(x, 1), lambda: (floats(64, 256, 256),)),
    operation("softmax mid", lambda x: jax.nn.softmax(x, 1), lambda: (floats(64, 256, 256),)),
    operation("var axis0", lambda x: x.var(0), lambda: (square(0),)),
    operation("std all", lambda x: x.std(), lambda: (square(0),)),
    operation("mean mid", lambda x: x.mean(1), lambda: (floats(64, 256, 256),)),
    operation("sum 12", lambda x: x.sum((0, 2)), lambda: (floats(64, 256, 256),)),
    operation("prod rows", lambda x: jnp.prod(x, 1), lambda: (square(0),)),
    operation("any rows", lambda x: (x > 3).any(1), lambda: (square(0),)),
    operation("count nonzero", lambda x: jnp.count_nonzero(x > 0), lambda: (square(0),)),
    operation(
        "dropout threefry",
        lambda x, k: jnp.where(jax.random.bernoulli(key_of(k), 0.9, x.shape), x / 0.9, 0),
        lambda: (square(0), KEY),
    ),
    operation("normal random", lambda k: jax.random.normal(key_of(k), (1024, 1024)), lambda: (KEY,)),
    operation("uniform random", lambda k: jax.random.uniform(key_of(k), (1024, 1024)), lambda: (KEY,)),
    operation("categorical", lambda k, x: jax.random.categorical(key_of(k), x), lambda: (KEY, floats(256, 5000))),
    operation("permutation", lambda k: jax.random.permutation(key_of(k), 100000), lambda: (KEY,)),
    operation("gumbel", lambda k: jax.random.gumbel(key_of(k), (512, 1024)), lambda: (KEY,)),
    operation(
        "int arith", lambda a, b: (a * b + 3) // 7 % 11, lambda: (whole(1000, 2048, 2048), whole(1000, 2048, 2048))
    ),
    operation("int bits", lambda a: (a ^ (a >> 3)) & 0xFF | (a << 2), lambda: (whole(1 << 30, 2048, 2048),)),
    operation(
        "u8 blend",
        lambda a, b: ((a.astype(jnp.uint16) * 3 + b) >> 2).astype(jnp.uint8),
        lambda: (whole(255, 2048, 2048, dtype=np.uint8), whole(255, 2048, 2048, dtype=np.uint8)),
    ),
    operation(
        "u8 to float", lambda a: (a.astype(jnp.float32) - 127) / 128, lambda: (whole(255, 2048, 2048, dtype=np.uint8),)
    ),
    operation("popcount", lambda a: lax.population_count(a).sum(), lambda: (whole(1 << 30, 2048, 2048),)),
    operation(
        "product s8",
        lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32),
        lambda: (whole(100, 512, 512, dtype=np.int8), whole(100, 512, 512, dtype=np.int8)),
    ),
    operation("product s32", lambda a, b: a @ b, lambda: (whole(100, 512, 512), whole(100, 512, 512))),
    operation(
        "product f16",
        lambda a, b: a @ b,
        lambda: (floats(512, 512).astype(np.float16), floats(512, 512).astype(np.float16)),
    ),
    operation(
        "product c64",
        lambda a, b: a @ b,
        lambda: (
            (floats(512, 512) + 1j * floats(512, 512)).astype(np.complex64),
            (floats(512, 512) + 1j * floats(512, 512)).astype(np.complex64),
        ),
    ),
    operation(
        "complex mul",
        lambda a, b: a * b + a,
        lambda: (
            (floats(1024, 1024) + 1j * floats(1024, 1024)).astype(np.complex64),
            (floats(1024, 1024) + 1j * floats(1024, 1024)).astype(np.complex64),
        ),
    ),
    operation("complex exp abs", lambda a: jnp.abs(jnp.exp(1j * a)), lambda: (floats(1024, 1024),)),
    operation("fft", lambda a: jnp.fft.rfft(a).real, lambda: (floats(512, 1024),)),
    operation("fft2", lambda a: jnp.abs(jnp.fft.fft2(a)), lambda: (floats(16, 128, 128),)),
    operation(
        "einsum bhqk",
        lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k),
        lambda: (floats(4, 256, 8, 64), floats(4, 256, 8, 64)),
    ),
    operation(
        "einsum bilinear",
        lambda a, w, b: jnp.einsum("bi,ijk,bk->bj", a, w, b),
        lambda: (floats(256, 128), floats(128, 128, 128), floats(256, 128)),
    ),
    operation(
        "einsum outer", lambda a, b: jnp.einsum("bi,bj->bij", a, b), lambda: (floats(256, 128), floats(256, 128))
    ),
    operation(
        "batched products, matvec",
        lambda a, b: jnp.einsum("bij,bj->bi", a, b),
        lambda: (floats(1024, 64, 64), floats(1024, 64)),
    ),
    operation("batched products, small", lambda a, b: a @ b, lambda: (floats(10000, 8, 8), floats(10000, 8, 8))),
    operation("batched products, 4x4", lambda a, b: a @ b, lambda: (floats(100000, 4, 4), floats(100000, 4, 4))),
    operation(
        "batched products, 3x3 vec",
        lambda a, b: jnp.einsum("bij,bj->bi", a, b),
        lambda: (floats(100000, 3, 3), floats(100000, 3)),
    ),
    operation(
        "pairwise dist",
        lambda a, b: jnp.sqrt(((a[:, None] - b[None]) ** 2).sum(-1)),
        lambda: (floats(1024, 32), floats(1024, 32)),
    ),
    operation(
        "pairwise dist mm",
        lambda a, b: jnp.sqrt(jnp.maximum((a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T, 0)),
        lambda: (floats(2048, 64), floats(2048, 64)),
    ),
    operation("gram", lambda a: a @ a.T, lambda: (floats(1024, 512),)),
    operation("matvec", lambda a, b: a @ b, lambda: (square(0), floats(2048))),
    operation("vecmat", lambda a, b: b @ a, lambda: (square(0), floats(2048))),
    operation("thin mm", lambda a, b: a @ b, lambda: (floats(100000, 16), floats(16, 16))),
    *(
        operation(
            f"rows by bytes, {rows}", lambda x, w, s: x @ (w.astype(jnp.float32) * s), lambda rows=rows: (
                floats(rows, 2048), whole(100, 2048, 8192, dtype=np.int8), floats(8192)
            )
        )
        for rows in (1, 4, 16)
    ),
    *(
        operation(
            f"rows by bf16, {rows}", lambda x, w: x @ w.astype(jnp.float32), lambda rows=rows: (floats(rows, 2048), bfloats(2048, 8192))
        )
        for rows in (1, 4)
    ),
    operation("rows by f16, 1", lambda x, w: x @ w, lambda: (floats(1, 2048).astype(np.float16), floats(2048, 8192).astype(np.float16))),
    operation(
        "rows by bytes in bf16, 1",
        lambda x, w, s: x @ (w.astype(jnp.bfloat16) * s),
        lambda: (bfloats(1, 2048), whole(100, 2048, 8192, dtype=np.int8), bfloats(8192)),
    ),
    operation("rows by nibbles, 1", by_nibbles, lambda: (floats(1, 2048), whole(256, 1024, 8192, dtype=np.uint8), floats(64, 8192))),
    operation("product k small", lambda a, b: a @ b, lambda: (floats(2048, 8), floats(8, 2048))),
    operation("product odd", lambda a, b: a @ b, lambda: (floats(333, 777), floats(777, 555))),
    operation("product atb", lambda a, b: a.T @ b, lambda: (floats(4096, 256), floats(4096, 256))),
    operation(
        "scan rnn",
        lambda x, w: lax.scan(lambda h, t: (jnp.tanh(h @ w + t),) * 2, jnp.zeros((32, 128)), x)[1],
        lambda: (floats(128, 32, 128), floats(128, 128) * 0.05),
    ),
    operation(
        "scan elementwise",
        lambda x: lax.scan(lambda h, t: (0.9 * h + t, h), jnp.zeros((4096,)), x)[1],
        lambda: (floats(512, 4096),),
    ),
    operation(
        "assoc scan",
        lambda a, b: lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b))[1],
        lambda: (np.abs(floats(1024, 1024)) * 0.5, floats(1024, 1024)),
    ),
    operation(
        "while newton",
        lambda x: lax.fori_loop(0, 50, lambda _, v: v - (v * v - x) / (2 * v), x + 1),
        lambda: (np.abs(floats(256, 1024)) + 1,),
    ),
    operation(
        "vmap while",
        lambda x: jax.vmap(
            lambda v: lax.while_loop(lambda s: s[1] < 50, lambda s: (jnp.cos(s[0]), s[1] + 1), (v, 0))[0]
        )(x),
        lambda: (floats(65536),),
    ),
    operation(
        "cond switch", lambda k, x: lax.switch(k[0], [jnp.sin, jnp.cos, jnp.tanh], x), lambda: (whole(3, 1), square(0))
    ),
    operation(
        "mandelbrot",
        lambda c: lax.fori_loop(
            0,
            50,
            lambda _, s: (jnp.where(jnp.abs(s[0]) < 2, s[0] * s[0] + c, s[0]), s[1] + (jnp.abs(s[0]) < 2)),
            (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32)),
        )[1],
        lambda: ((floats(256, 256) + 1j * floats(256, 256)).astype(np.complex64),),
    ),
    operation("sin cos", lambda x: jnp.sin(x) * jnp.cos(x), lambda: (square(0),)),
    operation("pow", lambda x: jnp.abs(x) ** 1.7, lambda: (square(0),)),
    operation("erfinv", lambda x: lax.erf_inv(jnp.tanh(x)), lambda: (floats(1024, 1024),)),
    operation("digamma", lambda x: jax.scipy.special.digamma(jnp.abs(x) + 0.1), lambda: (floats(512, 512),)),
    operation("lgamma", lambda x: lax.lgamma(jnp.abs(x) + 0.1), lambda: (floats(1024, 1024),)),
    operation("bessel", lambda x: jax.scipy.special.i0(x), lambda: (floats(1024, 1024),)),
    operation("mod floor", lambda x, y: jnp.mod(x, jnp.abs(y) + 0.1) + jnp.floor(x), lambda: (square(0), square(1))),
    operation("clip round", lambda x: jnp.clip(jnp.round(x * 7), -3, 3), lambda: (square(0),)),
    operation("where chain", lambda x: jnp.where(x > 1, x * 2, jnp.where(x < -1, -x, x * x)), lambda: (square(0),)),
    operation("mish", lambda x: x * jnp.tanh(jax.nn.softplus(x)), lambda: (square(0),)),
    operation(
        "mish grad", lambda x: jax.grad(lambda x: (x * jnp.tanh(jax.nn.softplus(x))).sum())(x), lambda: (square(0),)
    ),
    operation("elu selu", lambda x: jax.nn.selu(x) + jax.nn.elu(x), lambda: (square(0),)),
    operation(
        "huber",
        lambda x, y: jnp.where(jnp.abs(x - y) < 1, 0.5 * (x - y) ** 2, jnp.abs(x - y) - 0.5).mean(),
        lambda: (square(0), square(1)),
    ),
    operation(
        "bce logits",
        lambda x, y: (jnp.maximum(x, 0) - x * y + jnp.log1p(jnp.exp(-jnp.abs(x)))).mean(),
        lambda: (square(0), square(1)),
    ),
    operation(
        "focal grad",
        lambda x, y: jax.grad(lambda x: (((1 - jax.nn.sigmoid(x)) ** 2) * jax.nn.log_sigmoid(x) * y).sum())(x),
        lambda: (square(0), square(1)),
    ),
    operation(
        "kl div",
        lambda p, q: (jnp.exp(jax.nn.log_softmax(p)) * (jax.nn.log_softmax(p) - jax.nn.log_softmax(q))).sum(-1),
        lambda: (floats(4096, 512), floats(4096, 512)),
    ),
    operation(
        "cosine sim",
        lambda a, b: (a * b).sum(1) / jnp.sqrt((a * a).sum(1) * (b * b).sum(1)),
        lambda: (square(0), square(1)),
    ),
    operation(
        "adamw tree",
        lambda p, g, m, v: (
            lambda m, v: (p - 0.001 * (m / (1 - 0.9) / (jnp.sqrt(v / (1 - 0.999)) + 1e-8) + 0.01 * p), m, v)
        )(0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g),
        lambda: (square(0), square(1), square(0), np.abs(square(1))),
    ),
    operation(
        "lion",
        lambda p, g, m: (p - 0.001 * (jnp.sign(0.9 * m + 0.1 * g) + 0.1 * p), 0.99 * m + 0.01 * g),
        lambda: (square(0), square(1), square(1)),
    ),
    operation(
        "adafactor",
        lambda p, g: (lambda r, c: p - 0.01 * g * lax.rsqrt(r[:, None] * c[None] / r.mean()))(
            (g * g).mean(1), (g * g).mean(0)
        ),
        lambda: (square(0), square(1)),
    ),
    operation(
        "global norm clip",
        lambda a, b: [t * jnp.minimum(1, 1 / jnp.sqrt((a * a).sum() + (b * b).sum())) for t in (a, b)],
        lambda: (square(0), square(1)),
    ),
    operation("ema", lambda a, b: 0.999 * a + 0.001 * b, lambda: (square(0), square(1))),
    operation(
        "alibi attention",
        lambda q, k, v: jax.nn.softmax(
            jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8 - jnp.abs(jnp.arange(256)[:, None] - jnp.arange(256)) * 0.1, -1
        )
        @ v,
        lambda: (floats(4, 8, 256, 64), floats(4, 8, 256, 64), floats(4, 8, 256, 64)),
    ),
    operation(
        "local attention",
        lambda q, k, v: jnp.where(
            (lambda d: (d >= 0) & (d < 64))(jnp.arange(512)[:, None] - jnp.arange(512)),
            jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8,
            -1e9,
        ),
        lambda: (floats(2, 8, 512, 64), floats(2, 8, 512, 64), floats(2, 8, 512, 64)),
    ),
    operation(
        "cross attention bf16",
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v),
        lambda: (
            floats(4, 256, 8, 64).astype(ml_dtypes.bfloat16),
            floats(4, 77, 8, 64).astype(ml_dtypes.bfloat16),
            floats(4, 77, 8, 64).astype(ml_dtypes.bfloat16),
        ),
    ),
    operation("relpos gather", lambda t, k: t[k], lambda: (floats(63, 16), whole(63, 256, 256))),
    operation(
        "window partition",
        lambda x: x.reshape(8, 8, 7, 8, 7, 96).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 49, 96),
        lambda: (floats(8, 56, 56, 96),),
    ),
    operation(
        "im2col",
        lambda x: lax.conv_general_dilated_patches(
            x, (3, 3), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        lambda: (floats(4, 56, 56, 32),),
    ),
    operation(
        "moe dispatch",
        lambda x, l: (lambda g: jnp.einsum("te,td->ed", jax.nn.one_hot(g, 8), x))(jnp.argmax(l, -1)),
        lambda: (floats(4096, 256), floats(4096, 8)),
    ),
    operation(
        "ctc like",
        lambda x: lax.scan(lambda a, t: (jnp.logaddexp(a, jnp.roll(a, 1, -1)) + t, None), jnp.zeros((16, 64)), x)[0],
        lambda: (floats(200, 16, 64),),
    ),
    operation(
        "viterbi",
        lambda t, e: lax.scan(
            lambda a, x: ((a[:, :, None] + t).max(1) + x, jnp.argmax(a[:, :, None] + t, 1)), jnp.zeros((16, 48)), e
        )[1],
        lambda: (floats(48, 48), floats(100, 16, 48)),
    ),
    operation(
        "cholesky batch",
        lambda a: jnp.linalg.cholesky(a @ a.transpose(0, 2, 1) + 8 * jnp.eye(16)),
        lambda: (floats(512, 16, 16),),
    ),
    operation("solve batch", lambda a, b: jnp.linalg.solve(a, b), lambda: (floats(512, 16, 16), floats(512, 16, 1))),
    operation("inv batch", lambda a: jnp.linalg.inv(a), lambda: (floats(512, 16, 16),)),
    operation("svd small", lambda a: jnp.linalg.svd(a, compute_uv=False), lambda: (floats(64, 32, 32),)),
    operation("eigh", lambda a: jnp.linalg.eigvalsh(a @ a.T), lambda: (floats(256, 256),)),
    operation("qr", lambda a: jnp.abs(jnp.linalg.qr(a)[1]), lambda: (floats(512, 128),)),
    operation(
        "tri solve",
        lambda a, b: jax.scipy.linalg.solve_triangular(jnp.tril(a) + 64 * jnp.eye(512), b, lower=True),
        lambda: (floats(512, 512), floats(512, 256)),
    ),
    operation("expm", lambda a: jax.scipy.linalg.expm(a * 0.05), lambda: (floats(128, 128),)),
    operation("polyval", lambda x: jnp.polyval(jnp.array([1.0, 2, 3, 4, 5, 6]), x), lambda: (square(0),)),
    operation(
        "interp", lambda x, a, b: jnp.interp(x, a, b), lambda: (floats(200000), np.sort(floats(1000)), floats(1000))
    ),
    operation("convolve1d", lambda x, k: jnp.convolve(x, k, mode="same"), lambda: (floats(100000), floats(65))),
    operation("outer sum", lambda a, b: (a[:, None] * b[None]).sum(0), lambda: (floats(4096), floats(4096))),
    operation("meshgrid", lambda a: jnp.stack(jnp.meshgrid(a, a), -1), lambda: (floats(1024),)),
    operation("unique counts", lambda k: jnp.unique(k, size=256, return_counts=True)[1], lambda: (whole(256, 100000),)),
    operation("nonzero", lambda x: jnp.nonzero(x > 1, size=50000)[0], lambda: (floats(512, 512),)),
    operation(
        "boolean mask sum", lambda x, m: jnp.where(m, x, 0).sum(1) / m.sum(1), lambda: (square(0), square(0) > 0)
    ),
    operation(
        "lerp f16",
        lambda a, b: a + (b - a) * jnp.float16(0.3),
        lambda: (square(0).astype(np.float16), square(1).astype(np.float16)),
    ),
    operation("softmax f16", lambda a: jax.nn.softmax(a), lambda: (square(0).astype(np.float16),)),
    operation("gelu f16", lambda a: jax.nn.gelu(a), lambda: (square(0).astype(np.float16),)),
    operation(
        "layernorm f16",
        lambda a: (a - a.mean(1, keepdims=True)) * lax.rsqrt(a.var(1, keepdims=True) + 1e-3),
        lambda: (square(0).astype(np.float16),),
    ),
    operation("cast f16 f32", lambda a: a.astype(jnp.float16), lambda: (square(0),)),
    operation("cast bf16 f32", lambda a: a.astype(jnp.float32), lambda: (square(0).astype(ml_dtypes.bfloat16),)),
    operation("fp8 roundtrip", lambda a: a.astype(jnp.float8_e4m3fn).astype(jnp.float32), lambda: (square(0),)),
    operation(
        "quantize s8",
        lambda a: (lambda s: jnp.clip(jnp.round(a / s), -127, 127).astype(jnp.int8))(
            jnp.abs(a).max(1, keepdims=True) / 127
        ),
        lambda: (square(0),),
    ),
    operation(
        "dequant mm",
        lambda a, w, s: a @ (w.astype(jnp.float32) * s),
        lambda: (floats(64, 1024), whole(100, 1024, 1024, dtype=np.int8), floats(1024)),
    ),
    operation("turned, pairs", lambda x: jnp.transpose(x, (1, 0, 2)) + 1, lambda: (floats(1024, 1024, 2),)),
    operation("turned, rows of 16", lambda x: jnp.transpose(x, (1, 0, 2)) + 1, lambda: (floats(256, 256, 16),)),
    operation("turned, an image", lambda x: jnp.transpose(x, (1, 0, 2)) + 1, lambda: (floats(512, 512, 3),)),
    operation(
        "turned, complex",
        lambda x: x.T + 1,
        lambda: ((floats(1024, 1024) + 1j * floats(1024, 1024)).astype(np.complex64),),
    ),
]

# With 64-bit types, and of narrower ones.
WIDE_OPERATIONS = [
    operation("f64 chain", lambda x: jnp.tanh(x * 2 + 1) * x, lambda: (wide_square(0),)),
    operation("f64 exp", lambda x: jnp.exp(x), lambda: (wide_square(0),)),
    operation("f64 sin", lambda x: jnp.sin(x), lambda: (wide_square(0),)),
    operation("f64 log", lambda x: jnp.log(jnp.abs(x)), lambda: (wide_square(0),)),
    operation("f64 pow", lambda x: jnp.abs(x) ** 1.5, lambda: (wide_square(0),)),
    operation("f64 sum rows", lambda x: x.sum(1), lambda: (wide_square(0),)),
    operation("f64 sum cols", lambda x: x.sum(0), lambda: (wide_square(0),)),
    operation("f64 softmax", lambda x: jax.nn.softmax(x), lambda: (wide_square(0),)),
    operation("f64 product", lambda x, y: x @ y, lambda: (wide_square(0), wide_square(1))),
    operation("f64 product nt", lambda x, y: x @ y.T, lambda: (wide_square(0), wide_square(1))),
    operation("f64 matvec", lambda x, y: x @ y, lambda: (wide_square(0), doubles(1024))),
    operation("f64 vecmat", lambda x, y: y @ x, lambda: (wide_square(0), doubles(1024))),
    operation("f64 batched products", lambda x, y: x @ y, lambda: (doubles(64, 64, 64), doubles(64, 64, 64))),
    operation(
        "f64 conv",
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        lambda: (doubles(4, 28, 28, 32), doubles(3, 3, 32, 32)),
    ),
    operation(
        "f64 convolution of lines", lambda x, k: jnp.convolve(x, k, mode="same"), lambda: (doubles(100000), doubles(65))
    ),
    operation("f64 cumsum", lambda x: jnp.cumsum(x, 1), lambda: (wide_square(0),)),
    operation("f64 sort", lambda x: jnp.sort(x, 1), lambda: (wide_square(0),)),
    operation("f64 solve", lambda a, b: jnp.linalg.solve(a, b), lambda: (doubles(256, 256), doubles(256, 8))),
    operation(
        "f64 cholesky", lambda a: jnp.linalg.cholesky(a @ a.T + 300 * jnp.eye(256)), lambda: (doubles(256, 256),)
    ),
    operation("f64 eigh", lambda a: jnp.linalg.eigvalsh(a + a.T), lambda: (doubles(256, 256),)),
    operation("f64 svd", lambda a: jnp.linalg.svd(a, compute_uv=False), lambda: (doubles(256, 128),)),
    operation("f64 qr", lambda a: jnp.abs(jnp.linalg.qr(a)[1]), lambda: (doubles(512, 128),)),
    operation("f64 fft", lambda a: jnp.abs(jnp.fft.fft(a)), lambda: (doubles(512, 1024),)),
    operation(
        "f64 ode rk4",
        lambda y: lax.fori_loop(
            0,
            100,
            lambda _, y: (
                lambda k1: (
                    lambda k2: (lambda k3: y + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 - jnp.sin(y + 0.01 * k3)))(
                        -jnp.sin(y + 0.005 * k2)
                    )
                )(-jnp.sin(y + 0.005 * k1))
            )(-jnp.sin(y)),
            y,
        ),
        lambda: (doubles(10000),),
    ),
    operation(
        "f64 bodies",
        lambda p: (lambda r: (r / ((r**2).sum(-1) + 0.01)[..., None] ** 1.5).sum(1))(p[None] - p[:, None]),
        lambda: (doubles(512, 3),),
    ),
    operation(
        "f64 laplace",
        lambda x: x[1:-1, 1:-1] * 4 - x[2:, 1:-1] - x[:-2, 1:-1] - x[1:-1, 2:] - x[1:-1, :-2],
        lambda: (wide_square(0),),
    ),
    operation("f64 random", lambda k: jax.random.normal(key_of(k), (512, 1024), dtype=jnp.float64), lambda: (KEY,)),
    operation(
        "f64 segment sum",
        lambda u, k: jax.ops.segment_sum(u, k, 1000),
        lambda: (doubles(100000, 8), whole(1000, 100000)),
    ),
    operation("f64 where", lambda x: jnp.where(x > 0, x, 0.0), lambda: (wide_square(0),)),
    operation("f64 transpose", lambda x: x.T + 1, lambda: (wide_square(0),)),
    operation("f64 gather", lambda x, k: x[k], lambda: (doubles(50000, 64), whole(50000, 4096))),
    operation(
        "s64 arith",
        lambda a, b: (a * b + 3) // 7 % 11,
        lambda: (whole(1000, 1024, 1024, dtype=np.int64), whole(1000, 1024, 1024, dtype=np.int64)),
    ),
    operation("s64 sum", lambda a: a.sum(1), lambda: (whole(1000, 1024, 1024, dtype=np.int64),)),
    operation("s64 cumsum", lambda a: jnp.cumsum(a), lambda: (whole(1000, 1000000, dtype=np.int64),)),
    operation(
        "s64 product",
        lambda a, b: a @ b,
        lambda: (whole(100, 256, 256, dtype=np.int64), whole(100, 256, 256, dtype=np.int64)),
    ),
    operation("s64 sort", lambda a: jnp.sort(a), lambda: (whole(1 << 40, 200000, dtype=np.int64),)),
    operation("s64 bincount", lambda a: jnp.bincount(a, length=100), lambda: (whole(100, 200000, dtype=np.int64),)),
    operation(
        "s64 unique",
        lambda k: jnp.unique(k, size=256, return_counts=True)[1],
        lambda: (whole(256, 100000, dtype=np.int64),),
    ),
    operation("lexsort", lambda a, b: jnp.lexsort((a, b)), lambda: (floats(50000), whole(100, 50000))),
    operation(
        "argsort two", lambda a, b: lax.sort((a, b), num_keys=2)[0], lambda: (whole(100, 100000), floats(100000))
    ),
    operation("bf16 product", lambda a, b: a @ b, lambda: (bfloats(512, 512), bfloats(512, 512))),
    operation(
        "bf16 product f32",
        lambda a, b: lax.dot(a, b, preferred_element_type=jnp.float32),
        lambda: (bfloats(512, 512), bfloats(512, 512)),
    ),
    operation(
        "bf16 batched products, nt",
        lambda a, b: jnp.einsum("bqhd,bkhd->bhqk", a, b),
        lambda: (bfloats(4, 256, 8, 64), bfloats(4, 256, 8, 64)),
    ),
    operation("bf16 small batched products", lambda a, b: a @ b, lambda: (bfloats(10000, 8, 8), bfloats(10000, 8, 8))),
    operation("bf16 matvec", lambda a, b: a @ b, lambda: (bfloats(4096, 4096), bfloats(4096))),
    operation(
        "bf16 conv",
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        lambda: (bfloats(8, 56, 56, 64), bfloats(3, 3, 64, 64)),
    ),
    operation(
        "bf16 convolution by channel",
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=64
        ),
        lambda: (bfloats(8, 56, 56, 64), bfloats(3, 3, 1, 64)),
    ),
    operation("bf16 sum rows", lambda x: x.sum(1), lambda: (bfloats(2048, 2048),)),
    operation("bf16 sum cols", lambda x: x.sum(0), lambda: (bfloats(2048, 2048),)),
    operation("bf16 mean var", lambda x: (x.mean(1), x.var(1)), lambda: (bfloats(2048, 2048),)),
    operation(
        "bf16 layernorm",
        lambda x: (
            (x.astype(jnp.float32) - x.astype(jnp.float32).mean(1, keepdims=True))
            * lax.rsqrt(x.astype(jnp.float32).var(1, keepdims=True) + 1e-5)
        ).astype(jnp.bfloat16),
        lambda: (bfloats(2048, 2048),),
    ),
    operation("bf16 swiglu", lambda x, y: jax.nn.silu(x) * y, lambda: (bfloats(2048, 2048), bfloats(2048, 2048))),
    operation("bf16 argmax", lambda x: jnp.argmax(x, 1), lambda: (bfloats(2048, 2048),)),
    operation("bf16 cumsum", lambda x: jnp.cumsum(x, 1), lambda: (bfloats(1024, 1024),)),
    operation(
        "bf16 max pool",
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        lambda: (bfloats(16, 56, 56, 64),),
    ),
    operation(
        "bf16 avg pool",
        lambda x: lax.reduce_window(x, jnp.bfloat16(0), lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        lambda: (bfloats(16, 56, 56, 64),),
    ),
    operation("bf16 gather", lambda x, k: x[k], lambda: (bfloats(50000, 256), whole(50000, 4096))),
    operation(
        "bf16 scatter",
        lambda x, k, u: x.at[k].add(u),
        lambda: (bfloats(50000, 64), whole(50000, 4096), bfloats(4096, 64)),
    ),
    operation("bf16 sort", lambda x: jnp.sort(x, 1), lambda: (bfloats(1024, 1024),)),
    operation("bf16 transpose", lambda x: x.T + 1, lambda: (bfloats(2048, 2048),)),
    operation(
        "bf16 concat", lambda a, b: jnp.concatenate([a, b], 1) * 2, lambda: (bfloats(2048, 512), bfloats(2048, 512))
    ),
    operation(
        "bf16 scan rnn",
        lambda x, w: lax.scan(lambda h, t: (jnp.tanh(h @ w + t),) * 2, jnp.zeros((32, 128), jnp.bfloat16), x)[1],
        lambda: (bfloats(128, 32, 128), bfloats(128, 128)),
    ),
    operation("f16 product nt", lambda a, b: a @ b.T, lambda: (halves(512, 512), halves(512, 512))),
    operation(
        "f16 conv",
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        lambda: (halves(8, 56, 56, 64), halves(3, 3, 64, 64)),
    ),
    operation("f16 sum rows", lambda x: x.sum(1), lambda: (halves(2048, 2048),)),
    operation("f16 small batched products", lambda a, b: a @ b, lambda: (halves(10000, 8, 8), halves(10000, 8, 8))),
    operation(
        "s8 conv",
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), preferred_element_type=jnp.int32
        ),
        lambda: (whole(100, 4, 28, 28, 64, dtype=np.int8), whole(100, 3, 3, 64, 64, dtype=np.int8)),
    ),
    operation(
        "s8 matvec",
        lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32),
        lambda: (whole(100, 4096, 4096, dtype=np.int8), whole(100, 4096, dtype=np.int8)),
    ),
    operation("s16 arith", lambda a: (a * 3 + 1) >> 2, lambda: (whole(1000, 2048, 2048, dtype=np.int16),)),
    operation("u8 sum", lambda a: a.sum(1, dtype=jnp.int32), lambda: (whole(255, 2048, 2048, dtype=np.uint8),)),
    operation("u8 max", lambda a: a.max(1), lambda: (whole(255, 2048, 2048, dtype=np.uint8),)),
    operation(
        "u8 hist", lambda a: jnp.bincount(a.reshape(-1), length=256), lambda: (whole(255, 512, 512, dtype=np.uint8),)
    ),
    operation("pred and", lambda a, b: (a & b).sum(), lambda: (wide_square(0) > 0, wide_square(1) > 0)),
    operation("packbits", lambda a: jnp.packbits(a, axis=1), lambda: (wide_square(0) > 0,)),
    operation(
        "c64 fft filter",
        lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.exp(-jnp.arange(513.0) / 100)),
        lambda: (floats(256, 1024),),
    ),
    operation(
        "stft",
        lambda x: jnp.abs(
            jnp.fft.rfft(jnp.stack([x[:, k * 128 : k * 128 + 256] for k in range(60)], 1) * jnp.hanning(256))
        ),
        lambda: (floats(8, 8192),),
    ),
    operation(
        "mel",
        lambda s, m: jnp.log(jnp.maximum(s**2 @ m, 1e-6)),
        lambda: (np.abs(floats(8, 400, 129)), np.abs(floats(129, 80))),
    ),
]
