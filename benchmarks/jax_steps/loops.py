# SPDX-License-Identifier: Apache-2.0
"""Loops of little work a round, and over layers, as JAX's users write them: each a function and its arguments."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from operations import KEY, floats, key_of, operation, whole


def levenshtein(a, b):
    def row(state, letter):
        number, above = state

        def place(left, beside):
            up, diagonal, other = beside
            least = jnp.minimum(jnp.minimum(up + 1, left + 1), diagonal + (letter != other))
            return least, least

        _, rest = lax.scan(place, number + 1, (above[1:], above[:-1], b))
        return (number + 1, jnp.concatenate([jnp.array([number + 1]), rest])), None

    first = jnp.arange(b.shape[0] + 1, dtype=jnp.int32)
    return lax.scan(row, (jnp.int32(0), first), a)[0][1][-1]


def pendulum(state):
    def slope(y):
        return jnp.stack([y[1], -jnp.sin(y[0]) - 0.1 * y[1]])

    def step(y, _):
        a = slope(y)
        b = slope(y + 0.005 * a)
        c = slope(y + 0.005 * b)
        y = y + 0.01 / 6 * (a + 2 * b + 2 * c + slope(y + 0.01 * c))
        return y, y

    return lax.scan(step, state, None, length=5000)[1]


def metropolis(words):
    def step(state, key):
        x, log = state
        proposes, accepts = jax.random.split(key)
        moved = x + 0.5 * jax.random.normal(proposes)
        there = -0.5 * moved * moved
        takes = jnp.log(jax.random.uniform(accepts)) < there - log
        x = jnp.where(takes, moved, x)
        return (x, jnp.where(takes, there, log)), x

    start = (jnp.float32(0), jnp.float32(0))
    return lax.scan(step, start, jax.random.split(key_of(words), 2000))[1]


def kalman(observed):
    moves, sees = jnp.eye(4) * 0.9, jnp.ones((2, 4)) * 0.3

    def step(state, y):
        mean, spread = state
        mean, spread = moves @ mean, moves @ spread @ moves.T + 0.1 * jnp.eye(4)
        of_y = sees @ spread @ sees.T + jnp.eye(2)
        size = of_y[0, 0] * of_y[1, 1] - of_y[0, 1] * of_y[1, 0]
        inverse = jnp.array([[of_y[1, 1], -of_y[0, 1]], [-of_y[1, 0], of_y[0, 0]]]) / size
        gain = spread @ sees.T @ inverse
        mean = mean + gain @ (y - sees @ mean)
        return (mean, spread - gain @ sees @ spread), mean

    return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), observed)[1]


def newton(x):
    def step(state):
        y, count = state
        return y - (y * y - 2) / (2 * y + 1e-3) * 0.5, count + 1

    return lax.while_loop(lambda state: state[1] < 20000, step, (x, 0))[0]


def layers(x, up, down):
    return lax.scan(lambda h, w: (jnp.tanh(jnp.tanh(h @ w[0]) @ w[1]), None), x, (up, down))[0]


def decoding(tokens, qkv, out, up, down, table):
    """64 tokens by six layers one by one, whose parameters and caches are parts of stacked arrays."""
    count, width = qkv.shape[:2]
    batch, heads, length = tokens.shape[0], 8, 256

    def norm(x):
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def step(state, i):
        keys, values, token = state
        x = table[token]
        for layer in range(count):
            q, k, v = jnp.split(norm(x) @ qkv[layer], 3, -1)
            keys = keys.at[layer, :, i].set(k.reshape(batch, heads, -1))
            values = values.at[layer, :, i].set(v.reshape(batch, heads, -1))
            scores = jnp.einsum("bhd,bthd->bht", q.reshape(batch, heads, -1), keys[layer])
            scores = jnp.where(jnp.arange(length) <= i, scores * (width // heads) ** -0.5, -jnp.inf)
            seen = jnp.einsum("bht,bthd->bhd", jax.nn.softmax(scores), values[layer])
            x = x + seen.reshape(batch, width) @ out[layer]
            x = x + jax.nn.gelu(norm(x) @ up[layer]) @ down[layer]
        token = jnp.argmax(norm(x) @ table.T, -1)
        return (keys, values, token), token

    cache = jnp.zeros((count, batch, length, heads, width // heads))
    return lax.scan(step, (cache, cache, tokens), jnp.arange(64))[1]


def changed_in_place(weights, momenta, squares, inputs, gradients):
    """Adam's step of one layer after the other, each a slice of stacked arrays."""

    def layer(i, state):
        g = inputs[i].T @ gradients[i]
        w, m, v = (array[i] for array in state)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        w = w - 1e-3 * m / (jnp.sqrt(v) + 1e-8)
        return tuple(array.at[i].set(new) for array, new in zip(state, (w, m, v)))

    return lax.fori_loop(0, weights.shape[0], layer, (weights, momenta, squares))


def updated_or_not(is_fine, values, momenta, gradients):
    return lax.cond(
        is_fine,
        lambda p, m, g: (p - 0.1 * g, 0.9 * m + g),
        lambda p, m, g: (p, m),
        values,
        momenta,
        gradients,
    )


LOOPS = [
    operation("loop, levenshtein 200 x 200", levenshtein, lambda: (whole(4, 200), whole(3, 200))),
    operation("loop, pendulum 5000", pendulum, lambda: (np.array([1, 0], np.float32),)),
    operation("loop, metropolis 2000", metropolis, lambda: (KEY,)),
    operation("loop, kalman 500", kalman, lambda: (floats(500, 2),)),
    operation("loop, newton 20000", newton, lambda: (np.float32(3),)),
    operation(
        "loop, scalar 100000",
        lambda x: lax.fori_loop(0, 100000, lambda _, c: c * 1.0001 + 0.5, x),
        lambda: (np.float32(1),),
    ),
    operation(
        "loop, scan of scalars 20000", lambda x: lax.scan(lambda h, t: (0.9 * h + t, h), 0.0, x)[1], lambda: (floats(20000),)
    ),
    operation(
        "loop, elements set one by one 20000",
        lambda v: lax.fori_loop(1, 20000, lambda i, y: y.at[i].set(0.5 * y[i - 1] + y[i]), v),
        lambda: (floats(20000),),
    ),
    operation(
        "loop, 12 layers of one row", layers, lambda: (floats(1, 256), floats(12, 256, 1024), floats(12, 1024, 256))
    ),
    operation(
        "loop, decoding by 6 layers",
        decoding,
        lambda: (
            whole(9, 1),
            0.05 * floats(6, 256, 768),
            0.05 * floats(6, 256, 256),
            0.05 * floats(6, 256, 1024),
            0.05 * floats(6, 1024, 256),
            floats(1024, 256),
        ),
    ),
    operation(
        "loop, 16 layers changed in place",
        changed_in_place,
        lambda: (
            floats(16, 512, 512),
            floats(16, 512, 512),
            np.abs(floats(16, 512, 512)),
            floats(16, 64, 512),
            floats(16, 64, 512),
        ),
    ),
    operation(
        "cond, updated or not",
        updated_or_not,
        lambda: (np.array(True), floats(512, 512), floats(512, 512), floats(512, 512)),
    ),
]
