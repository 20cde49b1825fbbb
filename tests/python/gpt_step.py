# SPDX-License-Identifier: Apache-2.0
"""A GPT of two layers in plain JAX, trained for a few steps with momentum. As a program it prints
one JSON object: the losses, the SHA-256 of the weights and the device's memory statistics."""

import functools
import hashlib
import json
import math

import jax
import jax.numpy as jnp
import numpy as np

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, BATCH = 64, 64, 64, 4, 2, 8


def initial_weights():
    rng = np.random.default_rng(0)

    def matrix(rows, columns):
        return (rng.standard_normal((rows, columns)) / math.sqrt(rows)).astype(np.float32)

    layer = lambda: {  # noqa: E731
        "attention": matrix(WIDTH, 3 * WIDTH),
        "projection": matrix(WIDTH, WIDTH),
        "up": matrix(WIDTH, 4 * WIDTH),
        "down": matrix(4 * WIDTH, WIDTH),
    }
    return {
        "tokens": matrix(VOCABULARY, WIDTH),
        "places": matrix(LENGTH, WIDTH),
        "layers": [layer() for _ in range(LAYERS)],
    }


def batch(step):
    tokens = np.random.default_rng(step).integers(0, 8, (BATCH, LENGTH + 1)).cumsum(1) % VOCABULARY
    return tokens.astype(np.int32)


def normalized(x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def attention(x, layer):
    def heads(y):
        return y.reshape(BATCH, LENGTH, HEADS, -1).transpose(0, 2, 1, 3)

    query, key, value = map(heads, jnp.split(normalized(x) @ layer["attention"], 3, -1))
    scores = query @ key.swapaxes(2, 3) / math.sqrt(WIDTH / HEADS)
    seen = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9), -1)
    return (weights @ value).transpose(0, 2, 1, 3).reshape(x.shape) @ layer["projection"]


def loss(weights, tokens):
    x = weights["tokens"][tokens[:, :-1]] + weights["places"]
    for layer in weights["layers"]:
        x = x + attention(x, layer)
        x = x + jax.nn.gelu(normalized(x) @ layer["up"]) @ layer["down"]
    logits = normalized(x) @ weights["tokens"].T
    chances = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(chances, tokens[:, 1:, None], -1).mean()


@functools.partial(jax.jit, donate_argnums=0)
def train_step(state, tokens):
    weights, momentum = state
    value, gradients = jax.value_and_grad(loss)(weights, tokens)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    weights = jax.tree.map(lambda w, m: w - 0.01 * m, weights, momentum)
    return (weights, momentum), value


def initial_state():
    weights = initial_weights()
    return weights, jax.tree.map(np.zeros_like, weights)


def main(steps=5):
    state = jax.tree.map(jnp.array, initial_state())
    losses = []
    for step in range(steps):
        state, value = train_step(state, batch(step))
        losses.append(float(value))
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(state):
        digest.update(np.asarray(leaf).tobytes())
    device = jax.devices()[0]
    print(
        json.dumps(
            {
                "platform": device.platform,
                "losses": losses,
                "sha256": digest.hexdigest(),
                "memory": device.memory_stats(),
            }
        )
    )


if __name__ == "__main__":
    main()
