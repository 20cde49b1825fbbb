# SPDX-License-Identifier: Apache-2.0
"""Training steps in JAX, as people write them: `steps()` yields (name, function, arguments, donated argument numbers).

All are made up for this purpose. Sizes are small enough for two cores, with activations that outweigh the parameters
in most.
"""
import jax
import jax.numpy as jnp
import optax
from jax import lax

KEY = jax.random.PRNGKey(0)


def normal(*shape, scale=0.05):
    return jax.random.normal(jax.random.fold_in(KEY, sum(shape) + len(shape)), shape) * scale


def norm(x, gain):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * gain


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def train(loss, optimizer):
    def step(params, state, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return step


def step_of(loss, params, *batch, optimizer=None):
    optimizer = optimizer or optax.adam(1e-3)
    return train(loss, optimizer), (params, optimizer.init(params), *batch), (0, 1)


# -- transformers


def attention(x, p, heads, causal=True):
    batch, length, width = x.shape
    q, k, v = jnp.split(x @ p["qkv"], 3, -1)
    split = lambda z: z.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)
    q, k, v = split(q), split(k), split(v)
    scores = q @ k.transpose(0, 1, 3, 2) / jnp.sqrt(width / heads)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    return (jax.nn.softmax(scores, -1) @ v).transpose(0, 2, 1, 3).reshape(batch, length, width) @ p["o"]


def block(x, p, heads, causal=True):
    x = x + attention(norm(x, p["g1"]), p, heads, causal)
    return x + jax.nn.gelu(norm(x, p["g2"]) @ p["w1"]) @ p["w2"]


def block_params(width, layers=None):
    lead = () if layers is None else (layers,)
    return dict(g1=jnp.ones((*lead, width)), g2=jnp.ones((*lead, width)), qkv=normal(*lead, width, 3 * width),
                o=normal(*lead, width, width), w1=normal(*lead, width, 4 * width), w2=normal(*lead, 4 * width, width))


def gpt(layers, width, vocabulary, batch, length, heads, scan=True, remat=False, optimizer=None, dtype=None):
    params = dict(emb=normal(vocabulary, width), g=jnp.ones(width),
                  layers=block_params(width, layers) if scan else [block_params(width) for _ in range(layers)])

    def loss(p, tokens):
        if dtype is not None:
            p = jax.tree.map(lambda a: a.astype(dtype), p)
        x = p["emb"][tokens[:, :-1]]
        if scan:
            body = lambda x, layer: (block(x, layer, heads), None)
            x, _ = lax.scan(jax.checkpoint(body) if remat else body, x, p["layers"])
        else:
            for layer in p["layers"]:
                x = (jax.checkpoint(block, static_argnums=2) if remat else block)(x, layer, heads)
        return cross_entropy((norm(x, p["g"]) @ p["emb"].T).astype(jnp.float32), tokens[:, 1:])

    return step_of(loss, params, jnp.zeros((batch, length + 1), jnp.int32), optimizer=optimizer)


def bert(layers, width, vocabulary, batch, length, heads):
    params = dict(emb=normal(vocabulary, width), pos=normal(length, width), out=normal(width, vocabulary),
                  layers=[block_params(width) for _ in range(layers)])

    def loss(p, tokens, labels, mask, key):
        x = p["emb"][tokens] + p["pos"]
        for layer in p["layers"]:
            key, sub = jax.random.split(key)
            x = block(x, layer, heads, causal=False)
            x = jnp.where(jax.random.bernoulli(sub, 0.9, x.shape), x / 0.9, 0)
        each = optax.softmax_cross_entropy_with_integer_labels(x @ p["out"], labels)
        return (each * mask).sum() / jnp.maximum(mask.sum(), 1)

    tokens = jnp.zeros((batch, length), jnp.int32)
    return step_of(loss, params, tokens, tokens, jnp.ones((batch, length)), KEY)


def vit(layers, width, batch, side, patch, heads):
    count = (side // patch) ** 2
    params = dict(w=normal(patch * patch * 3, width), pos=normal(count, width), out=normal(width, 10),
                  layers=block_params(width, layers))

    def loss(p, images, labels):
        n = side // patch
        x = images.reshape(batch, n, patch, n, patch, 3).transpose(0, 1, 3, 2, 4, 5).reshape(batch, count, -1)
        x = x @ p["w"] + p["pos"]
        x, _ = lax.scan(lambda x, layer: (block(x, layer, heads, causal=False), None), x, p["layers"])
        return cross_entropy(x.mean(1) @ p["out"], labels)

    return step_of(loss, params, jnp.zeros((batch, side, side, 3)), jnp.zeros(batch, jnp.int32))


def moe(width, experts, tokens):
    params = dict(gate=normal(width, experts), w1=normal(experts, width, 2 * width), w2=normal(experts, 2 * width, width))

    def loss(p, x, y):
        weights, chosen = lax.top_k(jax.nn.softmax(x @ p["gate"]), 2)
        mask = (jax.nn.one_hot(chosen, experts) * weights[..., None]).sum(1)
        h = jax.nn.relu(jnp.einsum("td,edh->eth", x, p["w1"]))
        return ((jnp.einsum("eth,ehd,te->td", h, p["w2"], mask) - y) ** 2).mean()

    return step_of(loss, params, jnp.zeros((tokens, width)), jnp.zeros((tokens, width)))


def mixer(layers, width, batch, count):
    make = lambda: dict(g1=jnp.ones(width), g2=jnp.ones(width), a=normal(count, 2 * count), b=normal(2 * count, count),
                        c=normal(width, 4 * width), d=normal(4 * width, width))
    params = [make() for _ in range(layers)]

    def loss(p, x, y):
        for q in p:
            z = norm(x, q["g1"]).transpose(0, 2, 1)
            x = x + (jax.nn.gelu(z @ q["a"]) @ q["b"]).transpose(0, 2, 1)
            x = x + jax.nn.gelu(norm(x, q["g2"]) @ q["c"]) @ q["d"]
        return ((x - y) ** 2).mean()

    x = jnp.zeros((batch, count, width))
    return step_of(loss, params, x, x, optimizer=optax.adafactor(1e-3))


# -- recurrent nets


def lstm(length, batch, inputs, width, unrolled=False, layers=1):
    make = lambda i: dict(wx=normal(i, 4 * width), wh=normal(width, 4 * width), b=jnp.zeros(4 * width))
    params = dict(cells=[make(inputs if i == 0 else width) for i in range(layers)], out=normal(width, inputs))

    def loss(p, xs):
        hs = xs
        for cell in p["cells"]:
            def step(carry, x):
                h, c = carry
                i, f, g, o = jnp.split(x @ cell["wx"] + h @ cell["wh"] + cell["b"], 4, -1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h

            zero = jnp.zeros((batch, width))
            _, hs = lax.scan(step, (zero, zero), hs, unroll=length if unrolled else 1)
        return ((hs[:-1] @ p["out"] - xs[1:]) ** 2).mean()

    return step_of(loss, params, jnp.zeros((length, batch, inputs)))


def gru(length, batch, width, reverse=False):
    params = dict(w=normal(2 * width, 3 * width), out=normal(width, width))

    def loss(p, xs):
        def step(h, x):
            r, z = jnp.split(jax.nn.sigmoid(jnp.concatenate([x, h], -1) @ p["w"][:, :2 * width]), 2, -1)
            n = jnp.tanh(jnp.concatenate([x, r * h], -1) @ p["w"][:, 2 * width:])
            h = (1 - z) * n + z * h
            return h, h

        _, hs = lax.scan(step, jnp.zeros((batch, width)), xs, reverse=reverse)
        return ((hs @ p["out"] - xs) ** 2).mean()

    return step_of(loss, params, jnp.zeros((length, batch, width)))


def stacked_rnn(layers, length, batch, width):
    params = dict(w=normal(layers, width, width), u=normal(layers, width, width))

    def loss(p, x):
        def layer(x, q):
            def cell(h, xt):
                h = jnp.tanh(xt @ q["w"] + h @ q["u"])
                return h, h

            _, y = lax.scan(cell, jnp.zeros((batch, width)), x)
            return x + y, None

        x, _ = lax.scan(layer, x, p)
        return (x ** 2).mean()

    return step_of(loss, params, jnp.zeros((length, batch, width)), optimizer=optax.sgd(1e-2))


def state_space(length, batch, width, states):
    params = dict(a=normal(width, states), b=normal(width, states), c=normal(width, states), d=normal(width, width))

    def loss(p, x, y):
        decay = jnp.exp(-jax.nn.softplus(p["a"]))
        u = x[..., None] * p["b"]
        combine = lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1])
        _, h = lax.associative_scan(combine, (jnp.broadcast_to(decay, u.shape), u), axis=0)
        return (((h * p["c"]).sum(-1) @ p["d"] - y) ** 2).mean()

    x = jnp.zeros((length, batch, width))
    return step_of(loss, params, x, x)


# -- convolutions


def conv(x, w, stride=1, dilation=1):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", rhs_dilation=(dilation, dilation),
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(x, gain):
    mean = x.mean((0, 1, 2))
    variance = ((x - mean) ** 2).mean((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * gain


def scan_conv(layers, batch, side, channels):
    params = dict(w=normal(layers, 3, 3, channels, channels), g=jnp.ones((layers, channels)), out=normal(channels, 10))

    def loss(p, x, y):
        body = lambda x, q: (x + jax.nn.relu(batch_norm(conv(x, q["w"]), q["g"])), None)
        x, _ = lax.scan(body, x, dict(w=p["w"], g=p["g"]))
        return cross_entropy(x.mean((1, 2)) @ p["out"], y)

    return step_of(loss, params, jnp.zeros((batch, side, side, channels)), jnp.zeros(batch, jnp.int32),
                   optimizer=optax.sgd(1e-2))


def resnet(batch, side, widths, blocks):
    params, last = dict(stem=normal(3, 3, 3, widths[0]), out=normal(widths[-1], 10), blocks=[]), widths[0]
    for width in widths:
        for i in range(blocks):
            params["blocks"].append(dict(a=normal(3, 3, last, width), b=normal(3, 3, width, width), g=jnp.ones(width),
                                         h=jnp.ones(width), skip=normal(1, 1, last, width)))
            last = width

    def loss(p, x, y):
        x = conv(x, p["stem"])
        for i, q in enumerate(p["blocks"]):
            stride = 2 if i % blocks == 0 and i > 0 else 1
            z = jax.nn.relu(batch_norm(conv(x, q["a"], stride), q["g"]))
            x = jax.nn.relu(batch_norm(conv(z, q["b"]), q["h"]) + conv(x, q["skip"], stride))
        return cross_entropy(x.mean((1, 2)) @ p["out"], y)

    return step_of(loss, params, jnp.zeros((batch, side, side, 3)), jnp.zeros(batch, jnp.int32),
                   optimizer=optax.sgd(1e-2, momentum=0.9))


def unet(batch, side, widths):
    down = [dict(a=normal(3, 3, i, o), b=normal(3, 3, o, o)) for i, o in zip([3, *widths[:-1]], widths)]
    up = [dict(a=normal(3, 3, i + o, o), b=normal(3, 3, o, o)) for i, o in zip(widths[:0:-1], widths[-2::-1])]
    params = dict(down=down, up=up, out=normal(1, 1, widths[0], 3))

    def loss(p, x, y):
        skips = []
        for q in p["down"]:
            x = jax.nn.silu(conv(jax.nn.silu(conv(x, q["a"])), q["b"]))
            skips.append(x)
            x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
        skips.pop()
        for q in p["up"]:
            x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
            x = jnp.concatenate([x, skips.pop()], -1)
            x = jax.nn.silu(conv(jax.nn.silu(conv(x, q["a"])), q["b"]))
        return ((conv(x, p["out"]) - y) ** 2).mean()

    x = jnp.zeros((batch, side, side, 3))
    return step_of(loss, params, x, x)


def dilated(batch, side, channels, layers):
    params = [dict(w=normal(3, 3, channels, channels), v=normal(3, 3, channels, channels)) for _ in range(layers)]

    def loss(p, x):
        total = 0
        for i, q in enumerate(p):
            z = jnp.tanh(conv(x, q["w"], dilation=2 ** (i % 4))) * jax.nn.sigmoid(conv(x, q["v"], dilation=2 ** (i % 4)))
            total = total + z
            x = x + z
        return (total ** 2).mean()

    return step_of(loss, params, jnp.zeros((batch, side, side, channels)))


# -- others


def mlp(widths, batch, activation=jax.nn.relu, optimizer=None, checkpoint=False):
    params = [dict(w=normal(i, o), b=jnp.zeros(o)) for i, o in zip(widths, widths[1:])]

    def loss(p, x, y):
        for q in p:
            layer = lambda x, q: activation(x @ q["w"] + q["b"])
            x = (jax.checkpoint(layer) if checkpoint else layer)(x, q)
        return ((x - y) ** 2).mean()

    return step_of(loss, params, jnp.zeros((batch, widths[0])), jnp.zeros((batch, widths[-1])), optimizer=optimizer)


def accumulation(parts, batch, width):
    params = dict(a=normal(width, 2 * width), b=normal(2 * width, 2 * width), c=normal(2 * width, 1))
    optimizer = optax.adam(1e-3)

    def loss(p, x, y):
        return ((jnp.tanh(jnp.tanh(x @ p["a"]) @ p["b"]) @ p["c"] - y) ** 2).mean()

    def step(p, state, xs, ys):
        def body(grads, part):
            value, more = jax.value_and_grad(loss)(p, *part)
            return jax.tree.map(jnp.add, grads, more), value

        grads, values = lax.scan(body, jax.tree.map(jnp.zeros_like, p), (xs, ys))
        updates, state = optimizer.update(grads, state, p)
        return optax.apply_updates(p, updates), state, values.mean()

    return step, (params, optimizer.init(params), jnp.zeros((parts, batch, width)), jnp.zeros((parts, batch, 1))), (0, 1)


def vae(batch, inputs, width, latent):
    params = dict(e=normal(inputs, width), m=normal(width, latent), s=normal(width, latent), d=normal(latent, width),
                  o=normal(width, inputs))

    def loss(p, x, key):
        h = jax.nn.relu(x @ p["e"])
        mean, log_variance = h @ p["m"], h @ p["s"]
        z = mean + jnp.exp(log_variance / 2) * jax.random.normal(key, mean.shape)
        y = jax.nn.sigmoid(jax.nn.relu(z @ p["d"]) @ p["o"])
        return ((y - x) ** 2).sum(-1).mean() + (jnp.exp(log_variance) + mean ** 2 - 1 - log_variance).mean()

    return step_of(loss, params, jnp.zeros((batch, inputs)), KEY)


def embeddings(rows, width, batch, fields):
    params = dict(table=normal(rows, width), a=normal(fields * width, 64), b=normal(64, 1))

    def loss(p, indices, y):
        x = p["table"][indices].reshape(batch, -1)
        return ((jax.nn.relu(x @ p["a"]) @ p["b"] - y) ** 2).mean()

    return step_of(loss, params, jnp.zeros((batch, fields), jnp.int32), jnp.zeros((batch, 1)), optimizer=optax.sgd(1e-2))


def graph_net(nodes, edges, width, layers):
    params = [dict(m=normal(2 * width, width), u=normal(2 * width, width)) for _ in range(layers)]

    def loss(p, x, senders, receivers):
        for q in p:
            messages = jax.nn.relu(jnp.concatenate([x[senders], x[receivers]], -1) @ q["m"])
            summed = jax.ops.segment_sum(messages, receivers, nodes)
            x = jax.nn.relu(jnp.concatenate([x, summed], -1) @ q["u"])
        return (x ** 2).mean()

    ends = jnp.zeros(edges, jnp.int32)
    return step_of(loss, params, jnp.zeros((nodes, width)), ends, ends)


def contrastive(batch, inputs, width):
    params = dict(a=normal(inputs, width), b=normal(inputs, width))

    def loss(p, x, y):
        unit = lambda z: z / jnp.linalg.norm(z + 1e-6, axis=-1, keepdims=True)
        logits = unit(jax.nn.relu(x @ p["a"])) @ unit(jax.nn.relu(y @ p["b"])).T * 10
        labels = jnp.arange(batch)
        return cross_entropy(logits, labels) + cross_entropy(logits.T, labels)

    x = jnp.ones((batch, inputs))
    return step_of(loss, params, x, x)


def physics(points, width, layers):
    params = [dict(w=normal(i, o, scale=0.5), b=jnp.zeros(o))
              for i, o in zip([2] + [width] * layers, [width] * layers + [1])]

    def field(p, x):
        for q in p[:-1]:
            x = jnp.tanh(x @ q["w"] + q["b"])
        return (x @ p[-1]["w"] + p[-1]["b"])[0]

    def loss(p, points_):
        second = jax.vmap(lambda x: jnp.trace(jax.hessian(lambda z: field(p, z))(x)))(points_)
        return (second ** 2).mean()

    return step_of(loss, params, jnp.zeros((points, 2)))


def ode(steps_, batch, width):
    params = dict(a=normal(width, 2 * width), b=normal(2 * width, width))

    def loss(p, x, y):
        f = lambda x: jnp.tanh(x @ p["a"]) @ p["b"]

        def rk4(x, _):
            k1 = f(x)
            k2 = f(x + 0.05 * k1)
            k3 = f(x + 0.05 * k2)
            k4 = f(x + 0.1 * k3)
            return x + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        x, _ = lax.scan(rk4, x, None, length=steps_)
        return ((x - y) ** 2).mean()

    x = jnp.zeros((batch, width))
    return step_of(loss, params, x, x)


def steps():
    """Yields (name, maker); a maker returns (function, arguments, donated argument numbers)."""
    sgd = optax.sgd(1e-2)
    return [
        ("gpt scanned 6x64", lambda: gpt(6, 64, 256, 4, 64, 4)),
        ("gpt scanned 6x256", lambda: gpt(6, 256, 1024, 8, 128, 8)),
        ("gpt scanned 12x128 sgd", lambda: gpt(12, 128, 512, 8, 128, 4, optimizer=sgd)),
        ("gpt scanned 24x64", lambda: gpt(24, 64, 256, 8, 64, 4)),
        ("gpt scanned, checkpointed", lambda: gpt(6, 256, 1024, 8, 128, 8, remat=True)),
        ("gpt scanned bf16", lambda: gpt(6, 128, 512, 8, 128, 4, dtype=jnp.bfloat16)),
        ("gpt scanned adafactor", lambda: gpt(6, 128, 512, 8, 128, 4, optimizer=optax.adafactor(1e-3))),
        ("gpt unrolled 6x128", lambda: gpt(6, 128, 512, 8, 128, 4, scan=False)),
        ("gpt unrolled, checkpointed", lambda: gpt(6, 128, 512, 8, 128, 4, scan=False, remat=True)),
        ("gpt unrolled 12x64 sgd", lambda: gpt(12, 64, 256, 8, 64, 4, scan=False, optimizer=sgd)),
        ("bert 4x128", lambda: bert(4, 128, 1024, 8, 128, 4)),
        ("bert 2x64", lambda: bert(2, 64, 512, 8, 64, 4)),
        ("vit 6x64", lambda: vit(6, 64, 16, 32, 4, 4)),
        ("moe 8 experts", lambda: moe(64, 8, 1024)),
        ("moe 4 experts", lambda: moe(128, 4, 512)),
        ("mixer adafactor", lambda: mixer(4, 64, 16, 64)),
        ("lstm scan 64", lambda: lstm(64, 32, 32, 64)),
        ("lstm scan 128 wide", lambda: lstm(128, 64, 64, 256)),
        ("lstm scan two layers", lambda: lstm(64, 32, 32, 64, layers=2)),
        ("lstm unrolled 32", lambda: lstm(32, 32, 32, 64, unrolled=True)),
        ("gru scan", lambda: gru(64, 32, 64)),
        ("gru scan reversed", lambda: gru(64, 32, 64, reverse=True)),
        ("rnn scanned in layers", lambda: stacked_rnn(4, 32, 32, 64)),
        ("state space", lambda: state_space(64, 16, 32, 8)),
        ("ode by scan", lambda: ode(32, 128, 64)),
        ("conv scan", lambda: scan_conv(8, 8, 16, 32)),
        ("resnet small", lambda: resnet(16, 32, [16, 32, 64], 2)),
        ("resnet wide", lambda: resnet(8, 32, [32, 64], 3)),
        ("unet", lambda: unet(4, 32, [16, 32, 64])),
        ("unet deep", lambda: unet(2, 64, [16, 32, 64, 128])),
        ("dilated convolutions", lambda: dilated(4, 32, 16, 8)),
        ("mlp deep", lambda: mlp([64] * 24, 1024)),
        ("mlp deep, checkpointed", lambda: mlp([64] * 24, 1024, checkpoint=True)),
        ("mlp wide tanh sgd", lambda: mlp([256, 1024, 1024, 256], 256, jnp.tanh, sgd)),
        ("mlp gelu momentum", lambda: mlp([128] * 12, 512, jax.nn.gelu, optax.sgd(1e-2, momentum=0.9))),
        ("gradient accumulation", lambda: accumulation(8, 64, 128)),
        ("gradient accumulation large", lambda: accumulation(4, 1024, 128)),
        ("vae", lambda: vae(256, 784, 256, 32)),
        ("embeddings", lambda: embeddings(20000, 16, 512, 8)),
        ("graph net", lambda: graph_net(512, 4096, 32, 4)),
        ("contrastive", lambda: contrastive(512, 128, 64)),
        ("physics", lambda: physics(256, 32, 4)),
    ]
