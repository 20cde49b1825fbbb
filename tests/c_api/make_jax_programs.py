#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the programs of jax_programs_test.cc: FOLDER/NAME.mlirbc as jax.export gives it, NAME.hlo and
NAME.pb, the same lowered to HLO as text and as a serialized HloModuleProto, and NAME.results, the
results' bytes one after the other, as JAX computes them on its CPU backend. Of some also
NAME.optimized, what XLA's CPU backend compiles them to (fused and scheduled) as an HloProto.

    JAX_PLATFORMS=cpu python3 make_jax_programs.py FOLDER

Needs jax (written with 0.10.2). Arguments are not stored: both sides fill them by the same rule
(`fill` here, `fill` in the test)."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

# Where in which file an operation was written is of no interest here.
jax.config.update("jax_traceback_in_locations_limit", 0)
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")

PROGRAMS = {}

# Those whose optimized form is stored.
OPTIMIZED = ("attention", "batched_reduction", "branches", "convolution_gradient", "gather_and_scatter",
             "layers_by_scan", "order_statistics", "sorting", "vectorised")


def program(*shapes):
    """Adds the function under its name; `shapes` are of its arguments, 'f32[2,3]'."""

    def add(function):
        PROGRAMS[function.__name__] = (function, shapes)
        return function

    return add


DTYPES = {
    "pred": np.bool_, "s8": np.int8, "s16": np.int16, "s32": np.int32, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "f16": np.float16, "bf16": jnp.bfloat16,
    "f32": np.float32, "c64": np.complex64,
}

# Of at most a byte: ml_dtypes' types, and their bits.
NARROW = {
    "s2": (jnp.int2, 2), "s4": (jnp.int4, 4), "u4": (jnp.uint4, 4), "f8e4m3fn": (jnp.float8_e4m3fn, 8),
    "f8e5m2": (jnp.float8_e5m2, 8), "f8e4m3fnuz": (jnp.float8_e4m3fnuz, 8),
}


def fill_narrow(dtype, i, number):
    """Codes: integers of every value, floats of either sign that are neither tiny nor huge."""
    known_as, bits = NARROW[dtype]
    codes = (i * 7 + number) % 2**bits
    if bits == 8:
        codes = 32 + (i * 37 + number * 11) % 48 + np.where(i % 3 == 0, 128, 0)
    return codes.astype(np.uint8).view(known_as)


def stored(result):
    """The bytes of a result; elements of less than a byte packed, the first in the lowest bits."""
    result = np.asarray(result)
    bits = {str(np.dtype(dtype)): bits for dtype, bits in NARROW.values()}.get(str(result.dtype), 8)
    if bits == 8:
        return result.tobytes()
    codes = result.reshape(-1).view(np.uint8) & (2**bits - 1)
    codes = np.pad(codes, (0, -codes.size % (8 // bits))).reshape(-1, 8 // bits)
    return np.bitwise_or.reduce(codes << (np.arange(8 // bits) * bits), axis=1).astype(np.uint8).tobytes()


def fill(text, number):
    """Argument `number` of this type: small numbers that every dtype holds exactly."""
    dtype, dims = text.rstrip("]").split("[")
    shape = tuple(int(dim) for dim in dims.split(",") if dim)
    is_complex = dtype == "c64"
    count = int(np.prod(shape, dtype=np.int64)) * (2 if is_complex else 1)
    i = np.arange(count)
    if dtype in NARROW:
        return jnp.asarray(fill_narrow(dtype, i, number).reshape(shape))
    if dtype == "pred":
        values = (i * 3 + number) % 2
    elif dtype[0] in "su":
        values = (i * 7 + number) % 5
    else:
        values = ((i * 37 + number * 11) % 101 - 50) / 64
    if is_complex:
        return values.astype(np.float32).view(np.complex64).reshape(shape)
    return jnp.asarray(values.astype(np.float32).astype(DTYPES[dtype])).reshape(shape)


@program("f32[4,8]", "f32[8,16]", "f32[16]", "f32[16,3]", "s32[4]")
def mlp_gradient(x, a, b, c, labels):
    def loss(a, b, c):
        hidden = jax.nn.gelu(x @ a + b)
        logits = jax.nn.log_softmax(hidden @ c)
        return -jnp.mean(jnp.take_along_axis(logits, labels[:, None] % 3, 1))

    return jax.value_and_grad(loss, argnums=(0, 1, 2))(a, b, c)


@program("f32[2,6,8]", "f32[8,24]", "f32[8,8]")
def attention(x, w, o):
    q, k, v = jnp.split(x @ w, 3, -1)
    scores = jnp.einsum("bqd,bkd->bqk", q, k) / np.sqrt(8)
    mask = jnp.tril(jnp.ones((6, 6), bool))
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v) @ o


@program("f32[2,6,8]", "f32[8,24]", "f32[8,8]")
def attention_gradient(x, w, o):
    return jax.grad(lambda x, w, o: jnp.sum(jnp.sin(attention(x, w, o))), (0, 1, 2))(x, w, o)


@program("f32[2,8,8,3]", "f32[3,3,3,4]")
def convolution_gradient(x, k):
    def loss(k):
        y = lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.sum(jax.nn.relu(y) ** 2)

    return jax.value_and_grad(loss)(k)


@program("f32[1,6,6,4]", "f32[3,3,2,8]")
def grouped_dilated_convolution(x, k):
    return lax.conv_general_dilated(x, k, (1, 1), [(2, 1), (1, 2)], lhs_dilation=(2, 1),
                                    rhs_dilation=(1, 2), feature_group_count=2,
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"))


@program("f32[2,8,8,3]")
def pooling(x):
    f = lambda x: jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2)
    return jax.value_and_grad(f)(x), lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")


@program("f32[5,3,4]", "f32[4,4]")
def recurrent_scan(x, w):
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, jnp.sum(h)

    def loss(w):
        last, sums = lax.scan(step, jnp.zeros((3, 4)), x)
        return jnp.sum(last) + jnp.sum(sums)

    return jax.value_and_grad(loss)(w)


@program("f32[3,8,8]", "f32[4,8]")
def layers_by_scan(w, x):
    def loss(w):
        layer = jax.checkpoint(lambda h, w: (jnp.tanh(h @ w) + h, None))
        return jnp.sum(lax.scan(layer, x, w)[0] ** 2)

    return jax.value_and_grad(loss)(w)


@program("f32[6]")
def while_loop(x):
    return lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 1.5 + x), (0, x))


@program("s32[]", "f32[4]")
def branches(i, x):
    y = x + 1
    a = lax.cond(x[0] < 0, lambda v: v * y, lambda v: v - y, x)
    b = lax.switch(i, [lambda v: v, lambda v: v * 2, lambda v: v + y], a)
    return a, b


@program("f32[4,5]", "f32[]")
def loop_that_reads_outer_values(x, s):
    big = jnp.sin(x)
    return lax.fori_loop(0, 4, lambda i, c: c * s + big, x)


@program("f32[4,7]", "s32[4,7]")
def sorting(x, k):
    return jnp.sort(x, 1), jnp.argsort(x, 1), jnp.argsort(k, 1, stable=True), jnp.sort(k, 0, descending=True)


@program("f32[9]")
def order_statistics(x):
    return jnp.median(x), jnp.quantile(x, 0.3), jnp.argmax(x), jnp.argmin(x), jnp.max(x)


@program("f32[3,10]")
def largest(x):
    return lax.top_k(x, 4)


@program("f32[6,4]", "s32[3,2]")
def gather_and_scatter(x, i):
    f = lambda x: jnp.sum(x[i] ** 2)
    return x[i], jax.grad(f)(x), x.at[i[:, 0]].set(0.5), x.at[:, i[0]].multiply(2.0), x.at[i[:, 1]].max(0.1)


@program("f32[4,6]", "s32[]")
def dynamic_slices(x, i):
    y = lax.dynamic_slice(x, (i, i), (2, 3))
    return y, lax.dynamic_update_slice(x, y * 2, (1, i))


@program("f32[4,6]")
def movement(x):
    return (jnp.flip(x, 1), jnp.pad(x, ((1, 2), (0, 1)), constant_values=3.0), x.T.reshape(3, 8),
            lax.pad(x, 0.5, ((0, 0, 1), (-1, 2, 0))), jnp.roll(x, 2, 1), jnp.tile(x, (2, 1)), x[::-2, 1::2])


@program("f32[3,4]", "f32[4]")
def joining(x, y):
    return jnp.concatenate([x, y[None], x * 2], 0), jnp.stack([x, x + 1], 1), jnp.broadcast_to(y, (2, 3, 4))


@program("f32[4,6]")
def cumulative(x):
    return jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 1), lax.cumlogsumexp(x, 0)


@program("u32[2]")
def threefry(key):
    key = jax.random.wrap_key_data(key)
    a, b = jax.random.split(key)
    return jax.random.bits(a, (7,)), jax.random.uniform(b, (5,)), jax.random.randint(a, (6,), 0, 100)


@program("u32[2]")
def random_normal(key):
    key = jax.random.wrap_key_data(key)
    return jax.random.normal(key, (3, 3)), jax.random.permutation(key, 8), jax.random.bernoulli(key, 0.3, (9,))


@program("f32[4,6]")
def elementary(x):
    y = jnp.abs(x) + 0.1
    return (jnp.exp(x), jnp.log(y), jnp.sin(x), jnp.cos(x), jnp.tanh(x), jnp.sqrt(y), lax.rsqrt(y),
            jnp.cbrt(x), jnp.log1p(y), jnp.expm1(x), jax.nn.sigmoid(x), lax.erf(x), jnp.power(y, x), jnp.arctan2(x, y))


@program("f32[4,6]")
def inverse_functions(x):
    return (jnp.arcsin(x), jnp.arccos(x), jnp.arctan(x), jnp.arcsinh(x), jnp.arccosh(x + 2), jnp.arctanh(x),
            jnp.sinh(x), jnp.cosh(x), jnp.tan(x), lax.erf_inv(x), lax.lgamma(x + 1.5), lax.digamma(x + 1.5))


@program("f32[4,6]")
def rounding(x):
    return (jnp.floor(x * 8), jnp.ceil(x * 8), jnp.round(x * 8), jnp.trunc(x * 8), jnp.sign(x), jnp.isfinite(x),
            jnp.clip(x, -0.2, 0.3), jnp.mod(x, 0.3), jnp.nan_to_num(x / 0), lax.reduce_precision(x, 5, 7))


@program("s32[8]", "s32[8]")
def integers(a, b):
    return a // (b + 1), a % (b + 1), a & b, a | b, a ^ b, ~a, a << b, a >> 1, lax.population_count(a), lax.clz(a), -a


@program("u8[8]", "s8[8]", "u16[8]", "s16[8]")
def narrow_integers(a, b, c, d):
    return a + a * 70, b * 60, c.astype(jnp.int8), d * d, a.astype(jnp.float32), (b > 1) & (d < 3)


@program("pred[6]", "pred[6]", "f32[6]")
def truths(a, b, x):
    return a & b, a ^ b, ~a, jnp.where(a, x, -x), jnp.any(a), jnp.all(b), jnp.sum(a), a.astype(jnp.float32)


@program("bf16[4,8]", "bf16[8,4]")
def bfloat16(x, w):
    y = x @ w
    return y, jax.nn.softmax(y), jnp.sum(x, 1), (x * 2).astype(jnp.float32), jnp.dot(x, w, preferred_element_type=jnp.float32)


@program("f16[4,8]", "f16[8,4]")
def float16(x, w):
    return x @ w, jnp.exp(x), x.astype(jnp.float32) + 1


@program("s8[4,8]", "s8[8,4]")
def integer_product(x, w):
    return lax.dot(x, w, preferred_element_type=jnp.int32), jnp.sum(x.astype(jnp.int32), 0)


@program("f32[2,3,4]", "f32[2,4,5]", "f32[3,5]")
def einsums(a, b, c):
    return jnp.einsum("bij,bjk->bik", a, b), jnp.einsum("bij,bjk,ik->b", a, b, c), jnp.tensordot(a, b, ((2,), (1,)))


@program("f32[4,4]")
def constants(x):
    table = jnp.arange(16.0).reshape(4, 4) / 7
    mask = jnp.array([True, False, True, True])
    return x + table, jnp.where(mask, x, 1.0), x + jnp.full((4, 4), 2.5), jnp.eye(4) * 3, jnp.full((9,), True), jnp.array([1, 2, 3], jnp.int8)


@program("f32[8]", "f32[8]", "f32[8]")
def adam(p, m, g):
    m = 0.9 * m + 0.1 * g
    return p - 0.01 * m / (jnp.sqrt(jnp.abs(g)) + 1e-8), m


@program("f32[3,5]")
def vectorised(x):
    return jax.vmap(lambda r: jnp.dot(r, r) * jnp.sort(r))(x), jax.jacfwd(lambda r: jnp.tanh(r) * jnp.sum(r))(x[0])


@program("f32[4]")
def second_derivatives(x):
    return jax.hessian(lambda x: jnp.sum(jnp.sin(x) * x ** 3))(x)


@program("f32[6]")
def custom_derivative(x):
    @jax.custom_jvp
    def f(x):
        return jnp.where(x > 0, x, jnp.expm1(x))

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * jnp.maximum(primals[0], 0.5)))
    return jax.grad(lambda x: jnp.sum(f(x)))(x), jax.nn.silu(x), jax.nn.softplus(x)


@program("f32[4,8]", "f32[8]", "f32[8]")
def layer_norm_gradient(x, scale, bias):
    def f(x, scale, bias):
        mean = jnp.mean(x, -1, keepdims=True)
        var = jnp.var(x, -1, keepdims=True)
        return jnp.sum(jnp.cos((x - mean) * lax.rsqrt(var + 1e-5) * scale + bias))

    return jax.grad(f, (0, 1, 2))(x, scale, bias)


@program("f32[6,4]", "s32[2,3]", "f32[4,6]")
def embedding_gradient(table, ids, out):
    def f(table, out):
        h = table[ids]
        return jnp.mean(jax.nn.logsumexp(h @ out, -1) - h.sum(-1))

    return jax.value_and_grad(f, (0, 1))(table, out)


@program("f32[8,4]", "f32[4,3]", "f32[3,4,6]")
def mixture_of_experts(x, gate, experts):
    weights, index = lax.top_k(jax.nn.softmax(x @ gate), 2)
    picked = jnp.einsum("nd,nkdf->nkf", x, experts[index])
    return jnp.sum(picked * weights[..., None], 1)


@program("f32[1,8,8,2]", "f32[3,3,2,4]", "f32[3,3,4,4]", "f32[3,3,8,2]")
def u_net(x, a, b, c):
    conv = lambda x, k, s=1: lax.conv_general_dilated(x, k, (s, s), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    up = jax.nn.relu(conv(x, a))
    down = jax.nn.relu(conv(up, b, 2))
    back = jnp.repeat(jnp.repeat(down, 2, 1), 2, 2)
    return conv(jnp.concatenate([up, back], -1), c)


@program("f32[3,4]")
def nested_loops(x):
    inner = lambda c, r: (c + jnp.sum(r), c * r)
    outer = lambda c, _: (c + 1, lax.scan(inner, c, x))
    return lax.scan(outer, jnp.float32(0), None, length=3)


@program("f32[5]")
def associative_scan(x):
    return lax.associative_scan(lambda a, b: a * 0.5 + b, x)


@program("f32[16]")
def functions_in_functions(x):
    f = jax.jit(lambda v: jnp.sin(v) + 1)
    g = jax.jit(lambda v: f(v) * f(v * 2))
    return g(x), f(g(x))


@program("f32[4,4]")
def barriers(x):
    a, b = lax.optimization_barrier((x + 1, x * 2))
    return a @ b, lax.optimization_barrier(x)


@program("c64[3,4]", "c64[3,4]")
def complex_arithmetic(a, b):
    return a + b, a * b, a / (b + 2), -a, jnp.conj(a), jnp.abs(a), a.real, b.imag, a == b, jnp.sum(a), jnp.prod(a, 0)


@program("c64[3,4]")
def complex_functions(a):
    return jnp.exp(a), jnp.log(a), jnp.sqrt(a), jnp.sin(a), jnp.tanh(a), jnp.log1p(a), jnp.expm1(a), jnp.power(a, 2.5), jnp.angle(a)


@program("c64[3,4]", "c64[4,3]", "f32[4,2]")
def complex_products(a, b, c):
    return a @ b, a @ c, jnp.einsum("ij,kj->ik", a, a), jax.grad(lambda a: jnp.abs(jnp.sum(a * a)))(a)


@program("c64[4,3]", "s32[2]")
def complex_movement(a, i):
    return a[i], a.at[i].add(2j), a.at[1].set(1.0), a.T, jnp.sort(a, 0), jnp.where(a.real > 0, a, 1j), jnp.stack([a, a * 2])


@program("c64[4]")
def complex_loops(a):
    s = lax.fori_loop(0, 3, lambda i, c: c * a + 1j, a)
    return s, lax.scan(lambda c, x: (c * x, c + x), s[0], a), lax.cond(a[0].real > 0, lambda v: v * 1j, lambda v: v, a)


@program("f32[2,3]", "f32[2,3]")
def to_complex(a, b):
    return lax.complex(a, b), a.astype(jnp.complex64), lax.complex(a, b) * jnp.array([1 + 2j, 3, 4j])


@program("f32[3,2,2]")
def batched_reduction(x):
    return jnp.max(x, (0, 2)), jnp.min(x, 1), jnp.prod(x, 0), jnp.mean(x), jnp.std(x, 1), jnp.argmax(x, 2)


@program("f32[4,3]")
def bit_patterns(x):
    bits = lax.bitcast_convert_type(x, jnp.uint32)
    return bits, lax.bitcast_convert_type(bits & 0x7FFFFFFF, jnp.float32), lax.bitcast_convert_type(x, jnp.uint8)


@program("f32[]", "f32[0,3]")
def scalars_and_nothing(x, empty):
    return x * 2, jnp.sum(empty), empty + 1, jnp.zeros((2, 0))


@program("f32[3,4]", "f32[4]")
def unused_and_repeated(x, unused):
    return x, x, jnp.float32(3), x + 0


@program("f32[20]", "f32[5]")
def signal(x, k):
    return jnp.convolve(x, k), jnp.correlate(x, k, "same"), jnp.interp(x, jnp.linspace(-1, 1, 5), k)


@program("f32[3,3]", "f32[3]")
def statistics(x, y):
    return jnp.cov(x), jnp.histogram(x, 4, (-1, 1))[0], jnp.unique(x, size=4), jnp.searchsorted(jnp.sort(y), x)


@program("f32[6,6]")
def image_resize(x):
    return jax.image.resize(x, (9, 4), "linear"), jax.image.resize(x, (3, 12), "nearest")


@program("f32[2,5,5]", "f32[2,5,3]")
def linear_systems(a, b):
    positive = a @ jnp.swapaxes(a, -1, -2) + 2 * jnp.eye(5)
    factor = jnp.linalg.cholesky(positive)
    upper = jnp.linalg.cholesky(positive, upper=True)
    well = a + 3 * jnp.eye(5)
    lower = jax.scipy.linalg.solve_triangular(factor[0], b[0], lower=True)
    transposed = jax.scipy.linalg.solve_triangular(upper[1], b[1], trans=1)
    unit = lax.linalg.triangular_solve(
        well, jnp.swapaxes(b, -1, -2), left_side=False, lower=True, unit_diagonal=True
    )
    not_positive = jnp.linalg.cholesky(jnp.stack([-positive[0], positive[1]]))
    return (factor, upper, lower, transposed, unit, not_positive, jnp.linalg.solve(well, b),
            jnp.linalg.inv(well), jnp.linalg.det(well), jnp.linalg.slogdet(well)[1])


@program("f32[6,4]", "f32[4,6]")
def factorizations(a, b):
    a = a + jnp.eye(6, 4)
    b = b + jnp.eye(4, 6)
    q, r = jnp.linalg.qr(a)
    full, _ = jnp.linalg.qr(a, mode="complete")
    _, wide = jnp.linalg.qr(b)
    lu, pivots, permutation = lax.linalg.lu(a)
    hessenberg, taus = lax.linalg.hessenberg(a[:4])
    return (q @ r, jnp.abs(r), jnp.abs(full.T @ full), jnp.abs(wide), lu, pivots, permutation,
            jnp.abs(hessenberg), taus)


@program("f32[5,5]", "f32[2,3,4]")
def spectra(a, b):
    values, vectors = jnp.linalg.eigh(a + a.T)
    u, s, vt = jnp.linalg.svd(b, full_matrices=False)
    full_u, _, full_vt = jnp.linalg.svd(b)
    form, q = jax.scipy.linalg.schur(a)
    general = jnp.linalg.eigvals(a)
    wide, right = jnp.linalg.eig(a)
    return (values, vectors @ jnp.diag(values) @ vectors.T, s, (u * s[:, None]) @ vt,
            jnp.abs(full_u @ jnp.swapaxes(full_u, 1, 2)), full_vt @ jnp.swapaxes(full_vt, 1, 2),
            jnp.linalg.svd(b, compute_uv=False), q @ form @ q.T, jnp.sort(jnp.abs(general)),
            jnp.abs(a.astype(jnp.complex64) @ right - right * wide),
            jax.scipy.linalg.expm(a / 4))


@program("c64[4,4]", "c64[4,2]")
def complex_linear_algebra(a, b):
    hermitian = a + a.conj().T
    positive = a @ a.conj().T + 2 * jnp.eye(4)
    values, vectors = jnp.linalg.eigh(hermitian)
    q, r = jnp.linalg.qr(a)
    u, s, vt = jnp.linalg.svd(a)
    factor = jnp.linalg.cholesky(positive)
    return (values, (vectors * values) @ vectors.conj().T, q @ r, (u * s) @ vt, factor,
            jnp.linalg.solve(a + 3 * jnp.eye(4), b), jnp.sort(jnp.abs(jnp.linalg.eigvals(a))),
            lax.linalg.triangular_solve(factor, b, left_side=True, lower=True, transpose_a=True,
                                        conjugate_a=True))


@program("f32[2,6]", "f32[6,2]")
def tridiagonal_systems(diagonals, b):
    lower, upper = diagonals.at[0, 0].set(0).at[1, 5].set(0)
    return lax.linalg.tridiagonal_solve(lower, upper * 0 + 3, upper, b)


@program("f32[3,12]", "c64[7]", "f32[67]", "f32[2,4,6]", "f32[]")
def fourier(a, b, c, d, e):
    spectrum = jnp.fft.rfftn(d, axes=(1, 2))
    return (jnp.fft.fft(a), jnp.fft.ifft(b), jnp.fft.fft(b), jnp.fft.rfft(c), jnp.fft.fft(c),
            jnp.fft.irfft(jnp.fft.rfft(a) * 2), jnp.fft.irfft(b, 11), spectrum,
            jnp.fft.irfftn(spectrum, s=(4, 6), axes=(1, 2)), jnp.fft.fft2(d), jnp.fft.ifftn(d),
            jnp.fft.rfft(e[None]), jnp.fft.fftfreq(5) * e)


@program("f32[5]")
def polynomial(x):
    return jnp.polyval(jnp.array([1.0, -2, 3]), x), jnp.vander(x, 3), jnp.outer(x, x), jnp.kron(x, x[:2]), jnp.trace(jnp.outer(x, x))


@program("f8e4m3fn[4,8]", "f8e5m2[8,4]", "f32[4,8]")
def float8(x, w, y):
    product = lax.dot(x, w, preferred_element_type=jnp.float32)
    return (product, x + x, x * x, x < x[::-1], jnp.maximum(x, x[::-1]), x.T, w.astype(jnp.float8_e4m3fn), w.astype(jnp.float32),
            y.astype(jnp.float8_e4m3fn), (y * 1e5).astype(jnp.float8_e5m2), (y * 50).astype(jnp.float8_e4m3b11fnuz),
            (y / 300).astype(jnp.float8_e4m3fnuz), jnp.where(y > 0, x, jnp.float8_e4m3fn(0.75)), x[1:3, ::2], -x, jnp.abs(x))


@program("f32[4,6]", "f8e4m3fnuz[6]")
def float8_formats(x, y):
    narrow = (jnp.float8_e3m4, jnp.float8_e4m3, jnp.float8_e4m3fn, jnp.float8_e4m3b11fnuz, jnp.float8_e4m3fnuz,
              jnp.float8_e5m2, jnp.float8_e5m2fnuz, jnp.float8_e8m0fnu)
    return [(x * s).astype(t) for t in narrow for s in (1e-3, 1.0, 1e3)] + [y.astype(t).astype(jnp.float32) for t in narrow]


@program("s4[4,8]", "u4[8,5]", "s4[8,3]", "s32[7]", "f32[7]")
def int4(x, u, w, k, y):
    product = lax.dot(x.astype(jnp.int8), w.astype(jnp.int8), preferred_element_type=jnp.int32)
    return (product, x + x, x * x, -x, x < 3, jnp.maximum(x, x[::-1]), x.astype(jnp.int32), u.astype(jnp.float32), u - 3,
            x.T, u.reshape(5, 8), k.astype(jnp.int4), (y * 30).astype(jnp.int4), (y * 30).astype(jnp.uint4),
            jnp.where(x > 0, x, 1), x[1:3, 1::2], x.astype(jnp.uint4))


def field(number, value):
    """A message of one field, `value`."""
    size, length = [], len(value)
    while length >= 128:
        size.append(length % 128 + 128)
        length //= 128
    return bytes([number * 8 + 2, *size, length]) + value


def write_kept_on_host(folder):
    """A step whose momentum is in host memory before and after, as JAX writes it for platforms that
    have such memory. What it computes is not stored."""
    host, device = jax.memory.Space.Host, jax.memory.Space.Device

    def step(w, m):
        m = 0.5 * jax.device_put(m, device) + w
        squares = jax.device_put(jax.device_put(m * m, host), device)
        return w - squares, jax.device_put(m, host)

    w = jnp.asarray(fill("f32[8,8]", 0))
    jitted = jax.jit(step, donate_argnums=1)
    exported = export.export(jitted, platforms=["tpu"])(w, jax.device_put(w, host))
    with open(f"{folder}/kept_on_host.mlirbc", "wb") as file:
        file.write(exported.mlir_module_serialized)


def main():
    folder = sys.argv[1]
    write_kept_on_host(folder)
    for name, (function, shapes) in PROGRAMS.items():
        arguments = [fill(shape, i) for i, shape in enumerate(shapes)]
        jitted = jax.jit(function, keep_unused=True)
        exported = export.export(jitted, platforms=["cpu"])(*arguments)
        results = jax.tree.leaves(jitted(*arguments))
        with open(f"{folder}/{name}.mlirbc", "wb") as file:
            file.write(exported.mlir_module_serialized)
        lowered = jitted.lower(*arguments)
        with open(f"{folder}/{name}.hlo", "w") as file:
            file.write(lowered.as_text("hlo"))
        with open(f"{folder}/{name}.pb", "wb") as file:
            file.write(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
        if name in OPTIMIZED:
            module = lowered.compile().runtime_executable().hlo_modules()[0]
            with open(f"{folder}/{name}.optimized", "wb") as file:
                file.write(field(1, module.as_serialized_hlo_module_proto()))
        with open(f"{folder}/{name}.results", "wb") as file:
            for result in results:
                file.write(stored(result))


main()
