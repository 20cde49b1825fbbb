# SPDX-License-Identifier: Apache-2.0
"""More training steps in JAX, of kinds that steps.py has none of: generators, reinforcement learning, solvers, speech,
scientific models and transformers of today. Made up for this purpose; `steps()` is as there.
"""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from steps import KEY, attention, block, block_params, conv, cross_entropy, gpt, norm, normal, step_of


# -- transformers of today


def rope(x):
    """x: [batch, heads, length, size]."""
    length, size = x.shape[-2:]
    angle = jnp.arange(length)[:, None] * 10000.0 ** (-jnp.arange(0, size, 2) / size)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    even, odd = x[..., ::2], x[..., 1::2]
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def rms_norm(x, gain):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain


def llama_block(x, p, heads, groups, window=None):
    batch, length, width = x.shape
    size = width // heads
    z = rms_norm(x, p["g1"])
    q = (z @ p["q"]).reshape(batch, length, heads, size).transpose(0, 2, 1, 3)
    k = (z @ p["k"]).reshape(batch, length, groups, size).transpose(0, 2, 1, 3)
    v = (z @ p["v"]).reshape(batch, length, groups, size).transpose(0, 2, 1, 3)
    q, k = rope(q), rope(k)
    k, v = (jnp.repeat(a, heads // groups, 1) for a in (k, v))
    seen = jnp.tril(jnp.ones((length, length), bool))
    if window is not None:
        seen &= ~jnp.tril(seen, -window)
    scores = jnp.where(seen, jnp.einsum("bhqd,bhkd->bhqk", q, k) / size**0.5, -1e9)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)
    x = x + mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ p["o"]
    z = rms_norm(x, p["g2"])
    return x + (jax.nn.silu(z @ p["gate"]) * (z @ p["up"])) @ p["down"]


def llama(layers, width, vocabulary, batch, length, heads, groups, policy=None, window=None, dtype=None, scan=True):
    hidden = width * 8 // 3 // 8 * 8
    lead = (layers,)
    side = width // heads * groups
    params = dict(emb=normal(vocabulary, width), g=jnp.ones(width), out=normal(width, vocabulary),
                  layers=dict(g1=jnp.ones((*lead, width)), g2=jnp.ones((*lead, width)), q=normal(*lead, width, width),
                              k=normal(*lead, width, side), v=normal(*lead, width, side), o=normal(*lead, width, width),
                              gate=normal(*lead, width, hidden), up=normal(*lead, width, hidden),
                              down=normal(*lead, hidden, width)))

    def loss(p, tokens):
        if dtype is not None:
            p = jax.tree.map(lambda a: a.astype(dtype), p)
        body = lambda x, layer: (llama_block(x, layer, heads, groups, window), None)
        if policy is not None:
            body = jax.checkpoint(body, policy=getattr(jax.checkpoint_policies, policy))
        x = p["emb"][tokens[:, :-1]]
        if scan:
            x, _ = lax.scan(body, x, p["layers"])
        else:
            for i in range(layers):
                x, _ = body(x, jax.tree.map(lambda a: a[i], p["layers"]))
        logits = rms_norm(x, p["g"]) @ p["out"]
        return cross_entropy(logits.astype(jnp.float32), tokens[:, 1:])

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    return step_of(loss, params, jnp.zeros((batch, length + 1), jnp.int32), optimizer=optimizer)


def lora(layers, width, batch, length, heads, rank):
    base = dict(layers=block_params(width, layers), emb=normal(256, width))
    adapters = dict(a=normal(layers, width, rank), b=jnp.zeros((layers, rank, 3 * width)))

    def loss(adapters, base, tokens):
        def body(x, layer):
            weights, a, b = layer
            return block(x, weights | {"qkv": weights["qkv"] + a @ b}, heads), None

        x, _ = lax.scan(body, base["emb"][tokens[:, :-1]], (base["layers"], adapters["a"], adapters["b"]))
        return cross_entropy(x @ base["emb"].T, tokens[:, 1:])

    return step_of(loss, adapters, base, jnp.zeros((batch, length + 1), jnp.int32))


def lora_on_bytes(layers, width, hidden, batch, rank):
    """Adapters of weights of 8 bits with scales, layer after layer."""
    shapes = [(width, hidden), (hidden, width)] * layers
    random = np.random.default_rng(0)
    base = [(random.integers(-127, 128, shape, np.int8), np.full(shape[1], 2e-4, np.float32)) for shape in shapes]
    adapters = [(normal(a, rank), jnp.zeros((rank, b))) for a, b in shapes]

    def loss(adapters, base, x):
        for i in range(0, 2 * layers, 2):
            h = x
            for (a, b), (weights, scales) in zip(adapters[i:i + 2], base[i:i + 2]):
                h = jax.nn.silu(h @ (weights.astype(jnp.float32) * scales) + h @ a @ b)
            x = x + h
        return jnp.mean(jnp.square(x))

    return step_of(loss, adapters, base, normal(batch, width))


def preferences(layers, width, batch, length, heads):
    """Direct preference optimization: two sequences, the model and a frozen one."""
    make = lambda: dict(emb=normal(256, width), layers=block_params(width, layers))

    def likelihood(p, tokens):
        x, _ = lax.scan(lambda x, layer: (block(x, layer, heads), None), p["emb"][tokens[:, :-1]], p["layers"])
        each = jnp.take_along_axis(jax.nn.log_softmax(x @ p["emb"].T), tokens[:, 1:, None], -1)
        return each.sum((1, 2))

    def loss(p, frozen, chosen, rejected):
        of = lambda q: likelihood(q, chosen) - likelihood(q, rejected)
        return -jax.nn.log_sigmoid(0.1 * (of(p) - lax.stop_gradient(of(frozen)))).mean()

    tokens = jnp.zeros((batch, length + 1), jnp.int32)
    return step_of(loss, make(), make(), tokens, tokens)


def encoder_decoder(layers, width, batch, length, heads):
    params = dict(emb=normal(512, width), enc=block_params(width, layers), dec=block_params(width, layers),
                  cross=dict(g=jnp.ones((layers, width)), q=normal(layers, width, width),
                             kv=normal(layers, width, 2 * width), o=normal(layers, width, width)))

    def look(x, memory, p):
        split = lambda z: z.reshape(batch, length, heads, width // heads)
        k, v = jnp.split(memory @ p["kv"], 2, -1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", split(norm(x, p["g"]) @ p["q"]), split(k)) / (width / heads) ** 0.5
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), split(v))
        return x + mixed.reshape(x.shape) @ p["o"]

    def loss(p, source, target):
        memory, _ = lax.scan(lambda x, l: (block(x, l, heads, causal=False), None), p["emb"][source], p["enc"])
        body = lambda x, l: (block(look(x, memory, l[1]), l[0], heads), None)
        x, _ = lax.scan(body, p["emb"][target[:, :-1]], (p["dec"], p["cross"]))
        return cross_entropy(x @ p["emb"].T, target[:, 1:])

    return step_of(loss, params, jnp.zeros((batch, length), jnp.int32), jnp.zeros((batch, length + 1), jnp.int32))


def accumulated_gpt(parts, layers, width, batch, length, heads):
    """Scans over slices of the batch around a scan over layers."""
    params = dict(emb=normal(256, width), layers=block_params(width, layers))
    optimizer = optax.adam(1e-3)

    def loss(p, tokens):
        body = jax.checkpoint(lambda x, layer: (block(x, layer, heads), None))
        x, _ = lax.scan(body, p["emb"][tokens[:, :-1]], p["layers"])
        return cross_entropy(x @ p["emb"].T, tokens[:, 1:])

    def step(p, state, tokens):
        def one(carry, part):
            total, gradients = carry
            value, new = jax.value_and_grad(loss)(p, part)
            return (total + value, jax.tree.map(jnp.add, gradients, new)), None

        start = (0.0, jax.tree.map(jnp.zeros_like, p))
        (total, gradients), _ = lax.scan(one, start, tokens.reshape(parts, -1, length + 1))
        updates, state = optimizer.update(jax.tree.map(lambda g: g / parts, gradients), state, p)
        return optax.apply_updates(p, updates), state, total / parts

    return step, (params, optimizer.init(params), jnp.zeros((batch, length + 1), jnp.int32)), (0, 1)


def chunked_loss(width, vocabulary, batch, length, chunks):
    """A large vocabulary whose logits exist a chunk at a time."""
    params = dict(w=normal(width, width), out=normal(width, vocabulary))

    def loss(p, x, labels):
        x = jax.nn.gelu(x @ p["w"]).reshape(chunks, -1, width)

        @jax.checkpoint
        def one(total, part):
            x, labels = part
            return total + optax.softmax_cross_entropy_with_integer_labels(x @ p["out"], labels).sum(), None

        total, _ = lax.scan(one, 0.0, (x, labels.reshape(chunks, -1)))
        return total / labels.size

    return step_of(loss, params, jnp.zeros((batch * length, width)), jnp.zeros(batch * length, jnp.int32))


def linear_attention(layers, width, batch, length, heads, chunk):
    params = dict(emb=normal(256, width), layers=block_params(width, layers))
    size = width // heads

    def mix(x, p):
        q, k, v = (z.reshape(batch, length // chunk, chunk, heads, size).transpose(1, 0, 3, 2, 4)
                   for z in jnp.split(x @ p["qkv"], 3, -1))
        mask = jnp.tril(jnp.ones((chunk, chunk)))

        def one(state, part):
            q, k, v = part
            inside = (jnp.einsum("bhqd,bhkd->bhqk", q, k) * mask) @ v
            return state + jnp.einsum("bhkd,bhke->bhde", k, v), inside + q @ state

        _, out = lax.scan(one, jnp.zeros((batch, heads, size, size)), (jax.nn.elu(q) + 1, jax.nn.elu(k) + 1, v))
        return out.transpose(1, 0, 3, 2, 4).reshape(batch, length, width) @ p["o"]

    def body(x, p):
        x = x + mix(norm(x, p["g1"]), p)
        return x + jax.nn.gelu(norm(x, p["g2"]) @ p["w1"]) @ p["w2"], None

    def loss(p, tokens):
        x, _ = lax.scan(body, p["emb"][tokens[:, :-1]], p["layers"])
        return cross_entropy(x @ p["emb"].T, tokens[:, 1:])

    return step_of(loss, params, jnp.zeros((batch, length + 1), jnp.int32))


def selective_scan(layers, width, batch, length, states):
    """A state-space layer computed by an associative scan."""
    make = lambda: dict(g=jnp.ones(width), inside=normal(width, 2 * width), dt=normal(width, width), a=normal(width, states),
                        b=normal(width, states), c=normal(width, states), out=normal(width, width))
    params = dict(emb=normal(256, width), layers=[make() for _ in range(layers)])

    def layer(x, p):
        z, gate = jnp.split(norm(x, p["g"]) @ p["inside"], 2, -1)
        dt = jax.nn.softplus(z @ p["dt"])
        decay = jnp.exp(-dt[..., None] * jnp.exp(p["a"]))
        drive = (dt * z)[..., None] * (z @ p["b"])[:, :, None, :]
        joined = lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1])
        _, h = lax.associative_scan(joined, (decay, drive), axis=1)
        y = jnp.einsum("blds,bls->bld", h, z @ p["c"])
        return x + (y * jax.nn.silu(gate)) @ p["out"]

    def loss(p, tokens):
        x = p["emb"][tokens[:, :-1]]
        for q in p["layers"]:
            x = layer(x, q)
        return cross_entropy(x @ p["emb"].T, tokens[:, 1:])

    return step_of(loss, params, jnp.zeros((batch, length + 1), jnp.int32))


def routed(width, experts, tokens, capacity):
    """A switch layer: tokens go to places of their expert by a scatter, what is over is dropped."""
    params = dict(gate=normal(width, experts), w1=normal(experts, width, 4 * width), w2=normal(experts, 4 * width, width))

    def loss(p, x, y):
        chances = jax.nn.softmax(x @ p["gate"])
        chosen = chances.argmax(-1)
        place = (jnp.cumsum(jax.nn.one_hot(chosen, experts, dtype=jnp.int32), 0) - 1)[jnp.arange(tokens), chosen]
        sent = jnp.zeros((experts, capacity, width)).at[chosen, place].set(x, mode="drop")
        h = jnp.einsum("ecd,edh->ech", sent, p["w1"])
        h = jnp.einsum("ech,ehd->ecd", jax.nn.gelu(h), p["w2"])
        got = h.at[chosen, place].get(mode="fill", fill_value=0) * chances.max(-1)[:, None]
        balance = (jax.nn.one_hot(chosen, experts).mean(0) * chances.mean(0)).sum() * experts
        return ((x + got - y) ** 2).mean() + 0.01 * balance

    return step_of(loss, params, jnp.zeros((tokens, width)), jnp.zeros((tokens, width)))


# -- images and generators


def group_norm(x, gain, groups=8):
    batch, height, width, channels = x.shape
    z = x.reshape(batch, height * width, groups, channels // groups)
    z = (z - z.mean((1, 3), keepdims=True)) * lax.rsqrt(z.var((1, 3), keepdims=True) + 1e-5)
    return z.reshape(x.shape) * gain


def diffusion(batch, side, widths, heads=4):
    """A U-Net with time embeddings and attention in the middle; loss of a denoiser."""
    params, last = dict(first=normal(3, 3, 3, widths[0]), time=normal(64, 128), down=[], up=[]), widths[0]
    res = lambda i, o: dict(a=normal(3, 3, i, o), b=normal(3, 3, o, o), g1=jnp.ones(i), g2=jnp.ones(o), t=normal(128, o),
                            skip=normal(1, 1, i, o))
    for width in widths:
        params["down"].append(res(last, width))
        last = width
    params["middle"] = dict(g1=jnp.ones(last), qkv=normal(last, 3 * last), o=normal(last, last))
    for width in reversed(widths):
        params["up"].append(res(last + width, width))
        last = width
    params["last"] = normal(3, 3, last, 3)

    def apply(x, p, time):
        h = conv(jax.nn.silu(group_norm(x, p["g1"])), p["a"]) + (time @ p["t"])[:, None, None]
        return conv(x, p["skip"]) + conv(jax.nn.silu(group_norm(h, p["g2"])), p["b"])

    def model(p, x, time):
        angles = time[:, None] * jnp.exp(-jnp.arange(32) / 4.0)
        time = jax.nn.silu(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1) @ p["time"])
        x = conv(x, p["first"])
        kept = []
        for q in p["down"]:
            x = apply(x, q, time)
            kept.append(x)
            x = x.reshape(batch, x.shape[1] // 2, 2, x.shape[2] // 2, 2, -1).mean((2, 4))
        flat = x.reshape(batch, -1, x.shape[-1])
        x = x + attention(norm(flat, p["middle"]["g1"]), p["middle"], heads, causal=False).reshape(x.shape)
        for q in p["up"]:
            x = x.repeat(2, 1).repeat(2, 2)
            x = apply(jnp.concatenate([x, kept.pop()], -1), q, time)
        return conv(jax.nn.silu(x), p["last"])

    def loss(p, images, key):
        a, b = jax.random.split(key)
        time = jax.random.uniform(a, (batch,))
        noise = jax.random.normal(b, images.shape)
        mixed = jnp.sqrt(1 - time)[:, None, None, None] * images + jnp.sqrt(time)[:, None, None, None] * noise
        return ((model(p, mixed, time) - noise) ** 2).mean()

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-4), optax.ema(0.99))
    return step_of(loss, params, jnp.zeros((batch, side, side, 3)), KEY, optimizer=optimizer)


def sampler(batch, side, width, rounds):
    """Not a training step: a diffusion model's sampling loop."""
    params = dict(a=normal(3, 3, 3, width), b=normal(3, 3, width, width), c=normal(3, 3, width, 3))

    def sample(p, key):
        def body(i, x):
            h = jax.nn.silu(conv(x, p["a"]))
            h = h + jax.nn.silu(conv(h, p["b"]))
            return x - 0.1 * conv(h, p["c"]) + 0.01 * jax.random.normal(jax.random.fold_in(key, i), x.shape)

        return lax.fori_loop(0, rounds, body, jax.random.normal(key, (batch, side, side, 3)))

    return sample, (params, KEY), ()


def gan(batch, latent, side, width):
    gen = dict(w=normal(latent, side * side // 16 * width), a=normal(4, 4, width, width), b=normal(4, 4, width, 1))
    dis = dict(a=normal(4, 4, 1, width), b=normal(4, 4, width, width), w=normal(side * side // 16 * width, 1))
    up = lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def generate(p, z):
        x = jax.nn.relu(z @ p["w"]).reshape(-1, side // 4, side // 4, width)
        return jnp.tanh(up(jax.nn.relu(up(x, p["a"])), p["b"]))

    def judge(p, x):
        x = jax.nn.leaky_relu(conv(x, p["a"], 2))
        return jax.nn.leaky_relu(conv(x, p["b"], 2)).reshape(x.shape[0], -1) @ p["w"]

    optimizer = optax.adam(2e-4)

    def step(gen, dis, gen_state, dis_state, images, key):
        z = jax.random.normal(key, (batch, latent))
        fake = generate(gen, z)

        def of_judge(d):
            mixed = 0.5 * (images + fake)
            slope = jax.grad(lambda x: judge(d, x).sum())(mixed)
            penalty = ((jnp.sqrt((slope**2).sum((1, 2, 3)) + 1e-6) - 1) ** 2).mean()
            return judge(d, fake).mean() - judge(d, images).mean() + 10 * penalty

        updates, dis_state = optimizer.update(jax.grad(of_judge)(dis), dis_state)
        dis = optax.apply_updates(dis, updates)
        value, grads = jax.value_and_grad(lambda g: -judge(dis, generate(g, z)).mean())(gen)
        updates, gen_state = optimizer.update(grads, gen_state)
        return optax.apply_updates(gen, updates), dis, gen_state, dis_state, value

    arguments = (gen, dis, optimizer.init(gen), optimizer.init(dis), jnp.zeros((batch, side, side, 1)), KEY)
    return step, arguments, (0, 1, 2, 3)


def flow(couplings, batch, width, hidden):
    params = dict(a=normal(couplings, width // 2, hidden), b=normal(couplings, hidden, hidden), c=normal(couplings, hidden, width))

    def loss(p, x):
        def one(carry, q):
            x, total = carry
            left, right = jnp.split(x, 2, -1)
            h = jax.nn.relu(jax.nn.relu(left @ q["a"]) @ q["b"]) @ q["c"]
            shift, scale = jnp.split(h, 2, -1)
            scale = jnp.tanh(scale)
            return (jnp.concatenate([right * jnp.exp(scale) + shift, left], -1), total + scale.sum(-1)), None

        (z, total), _ = lax.scan(one, (x, jnp.zeros(x.shape[0])), p)
        return (0.5 * (z**2).sum(-1) - total).mean()

    return step_of(loss, params, jnp.zeros((batch, width)))


def mobile(batch, side, widths):
    """Depthwise separable convolutions with squeeze and excitation, mixed precision."""
    params, last = dict(first=normal(3, 3, 3, widths[0]), blocks=[], out=normal(widths[-1], 10)), widths[0]
    for width in widths:
        params["blocks"].append(dict(up=normal(1, 1, last, 4 * last), dw=normal(3, 3, 1, 4 * last), s1=normal(4 * last, last),
                                     s2=normal(last, 4 * last), down=normal(1, 1, 4 * last, width), g=jnp.ones(width)))
        last = width

    def apply(x, p):
        h = jax.nn.hard_swish(conv(x, p["up"]))
        h = lax.conv_general_dilated(h, p["dw"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                     feature_group_count=h.shape[-1])
        h = jax.nn.hard_swish(h)
        h = h * jax.nn.sigmoid(jax.nn.relu(h.mean((1, 2)) @ p["s1"]) @ p["s2"])[:, None, None]
        h = norm(conv(h, p["down"]), p["g"])
        return x + h if x.shape == h.shape else h

    def loss(p, images, labels):
        p = jax.tree.map(lambda a: a.astype(jnp.bfloat16), p)
        x = conv(images.astype(jnp.bfloat16), p["first"], 2)
        for q in p["blocks"]:
            x = apply(x, q)
        return cross_entropy((x.mean((1, 2)) @ p["out"]).astype(jnp.float32), labels)

    return step_of(loss, params, jnp.zeros((batch, side, side, 3)), jnp.zeros(batch, jnp.int32),
                   optimizer=optax.sgd(0.1, momentum=0.9))


def segmentation(batch, side, channels, heads):
    """Overlapping losses at several scales, an interpolation between them."""
    params = dict(a=normal(3, 3, 3, channels), b=normal(3, 3, channels, channels), c=normal(3, 3, channels, channels),
                  heads=[normal(1, 1, channels, 5) for _ in range(heads)])

    def loss(p, images, labels):
        x = jax.nn.relu(conv(images, p["a"]))
        total = 0.0
        for head in p["heads"]:
            x = jax.nn.relu(conv(x, p["b"], 2))
            x = x + jax.nn.relu(conv(x, p["c"]))
            logits = jax.image.resize(conv(x, head), (batch, side, side, 5), "bilinear")
            total = total + cross_entropy(logits, labels)
        return total

    return step_of(loss, params, jnp.zeros((batch, side, side, 3)), jnp.zeros((batch, side, side), jnp.int32))


def self_supervised(batch, side, width):
    """A student learns a teacher that follows it; two views of each image."""
    make = lambda: dict(a=normal(3, 3, 3, width), b=normal(3, 3, width, width), w=normal(width, 64))

    def embed(p, x):
        x = jax.nn.relu(conv(jax.nn.relu(conv(x, p["a"])), p["b"], 2))
        return x.mean((1, 2)) @ p["w"]

    optimizer = optax.lars(0.1)

    def step(student, teacher, state, one, two):
        def loss(p):
            of = lambda x, y: -(jax.nn.softmax(embed(teacher, x) / 0.04) * jax.nn.log_softmax(embed(p, y) / 0.1)).sum(-1).mean()
            return of(one, two) + of(two, one)

        value, grads = jax.value_and_grad(loss)(student)
        updates, state = optimizer.update(grads, state, student)
        student = optax.apply_updates(student, updates)
        return student, jax.tree.map(lambda t, s: 0.99 * t + 0.01 * s, teacher, student), state, value

    student = make()
    images = jnp.zeros((batch, side, side, 3))
    return step, (student, make(), optimizer.init(student), images, images), (0, 1, 2)


# -- sequences and speech


def ctc(batch, length, width, classes):
    params = dict(a=normal(5, 40, width), b=normal(5, width, width), w=normal(width, classes))

    def loss(p, sound, labels):
        c = lambda x, w: jax.nn.gelu(lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")))
        logits = c(c(sound, p["a"]), p["b"]) @ p["w"]
        none = jnp.zeros(logits.shape[:2])
        return optax.ctc_loss(logits, none, labels, jnp.zeros(labels.shape)).mean()

    return step_of(loss, params, jnp.zeros((batch, length, 40)), jnp.ones((batch, length // 8), jnp.int32))


def conv_lstm(batch, frames, side, channels):
    params = dict(w=normal(3, 3, 1 + channels, 4 * channels), out=normal(1, 1, channels, 1))

    def loss(p, video):
        def cell(carry, frame):
            h, c = carry
            i, f, g, o = jnp.split(conv(jnp.concatenate([frame, h], -1), p["w"]), 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), conv(h, p["out"])

        start = jnp.zeros((batch, side, side, channels))
        _, seen = lax.scan(cell, (start, start), video[:-1])
        return ((seen - video[1:]) ** 2).mean()

    return step_of(loss, params, jnp.zeros((frames + 1, batch, side, side, 1)))


def wavenet(batch, length, channels, layers):
    params = [dict(f=normal(2, channels, channels), g=normal(2, channels, channels), r=normal(channels, channels),
                   s=normal(channels, channels)) for _ in range(layers)]

    def loss(p, x, y):
        total = 0
        for i, q in enumerate(p):
            hole = 2**i
            c = lambda w: lax.conv_general_dilated(x, w, (1,), [(hole, 0)], rhs_dilation=(hole,),
                                                   dimension_numbers=("NWC", "WIO", "NWC"))
            h = jnp.tanh(c(q["f"])) * jax.nn.sigmoid(c(q["g"]))
            total = total + h @ q["s"]
            x = x + h @ q["r"]
        return cross_entropy(jax.nn.relu(total), y)

    return step_of(loss, params, jnp.zeros((batch, length, channels)), jnp.zeros((batch, length), jnp.int32))


def spectral(batch, side, width, modes, layers):
    """A Fourier neural operator."""
    params = dict(lift=normal(1, width), down=normal(width, 1),
                  layers=[dict(re=normal(modes, modes, width, width), im=normal(modes, modes, width, width),
                               w=normal(width, width)) for _ in range(layers)])

    def loss(p, x, y):
        h = x @ p["lift"]
        for q in p["layers"]:
            f = jnp.fft.rfft2(h, axes=(1, 2))
            low = jnp.einsum("bxyi,xyio->bxyo", f[:, :modes, :modes], q["re"] + 1j * q["im"])
            f = jnp.zeros_like(f).at[:, :modes, :modes].set(low)
            h = jax.nn.gelu(jnp.fft.irfft2(f, s=(side, side), axes=(1, 2)) + h @ q["w"])
        return ((h @ p["down"] - y) ** 2).mean()

    return step_of(loss, params, jnp.zeros((batch, side, side, 1)), jnp.zeros((batch, side, side, 1)))


# -- reinforcement learning and control


def ppo(steps_, workers, observed, width, actions, epochs, parts):
    params = dict(a=normal(observed, width), b=normal(width, width), pi=normal(width, actions), v=normal(width, 1))
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4))

    def model(p, x):
        h = jnp.tanh(jnp.tanh(x @ p["a"]) @ p["b"])
        return jax.nn.log_softmax(h @ p["pi"]), (h @ p["v"])[..., 0]

    def loss(p, x, action, old, advantage, target):
        log, value = model(p, x)
        ratio = jnp.exp(jnp.take_along_axis(log, action[:, None], 1)[:, 0] - old)
        gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 0.8, 1.2) * advantage)
        return -gain.mean() + 0.5 * ((value - target) ** 2).mean() + 0.01 * (jnp.exp(log) * log).sum(-1).mean()

    def step(p, state, x, action, reward, done, key):
        log, value = model(p, x)
        old = jnp.take_along_axis(log, action[..., None], -1)[..., 0]

        def back(carry, at):
            advantage, following = carry
            value, reward, done = at
            delta = reward + 0.99 * following * (1 - done) - value
            advantage = delta + 0.95 * 0.99 * (1 - done) * advantage
            return (advantage, value), advantage

        _, advantage = lax.scan(back, (jnp.zeros(workers), value[-1]), (value, reward, done), reverse=True)
        flat = lambda a: a.reshape(steps_ * workers, *a.shape[2:])
        data = (flat(x), flat(action), flat(old), flat(advantage), flat(advantage + value))

        def epoch(carry, key):
            order = jax.random.permutation(key, steps_ * workers).reshape(parts, -1)

            def part(carry, chosen):
                p, state = carry
                value, grads = jax.value_and_grad(loss)(p, *(a[chosen] for a in data))
                updates, state = optimizer.update(grads, state, p)
                return (optax.apply_updates(p, updates), state), value

            return lax.scan(part, carry, order)

        (p, state), values = lax.scan(epoch, (p, state), jax.random.split(key, epochs))
        return p, state, values.mean()

    shape = (steps_, workers)
    arguments = (params, optimizer.init(params), jnp.zeros((*shape, observed)), jnp.zeros(shape, jnp.int32),
                 jnp.zeros(shape), jnp.zeros(shape), KEY)
    return step, arguments, (0, 1)


def q_learning(batch, side, width, actions):
    make = lambda: dict(a=normal(8, 8, 4, width), b=normal(4, 4, width, width), w=normal((side // 8) ** 2 * width, 256),
                        out=normal(256, actions))

    def model(p, frames):
        x = frames.astype(jnp.float32) / 255
        x = jax.nn.relu(conv(jax.nn.relu(conv(x, p["a"], 4)), p["b"], 2)).reshape(frames.shape[0], -1)
        return jax.nn.relu(x @ p["w"]) @ p["out"]

    def loss(p, target, frames, action, reward, following, done):
        best = model(target, following).max(-1)
        wanted = lax.stop_gradient(reward + 0.99 * best * (1 - done))
        return optax.huber_loss(jnp.take_along_axis(model(p, frames), action[:, None], 1)[:, 0], wanted).mean()

    frames = jnp.zeros((batch, side, side, 4), jnp.uint8)
    return step_of(loss, make(), make(), frames, jnp.zeros(batch, jnp.int32), jnp.zeros(batch), frames, jnp.zeros(batch))


def learned_simulator(rounds, batch, width, hidden):
    """A policy learned through a simulation of many rounds."""
    params = dict(a=normal(width, hidden), b=normal(hidden, width // 2))

    def loss(p, start):
        def one(x, _):
            force = jnp.tanh(jnp.tanh(x @ p["a"]) @ p["b"])
            place, speed = jnp.split(x, 2, -1)
            speed = 0.99 * speed + 0.05 * force - 0.05 * jnp.sin(place)
            place = place + 0.05 * speed
            return jnp.concatenate([place, speed], -1), (place**2).mean() + 1e-3 * (force**2).mean()

        _, costs = lax.scan(one, start, None, length=rounds)
        return costs.mean()

    return step_of(loss, params, jnp.zeros((batch, width)))


# -- science and statistics


def gaussian_process(points, inputs):
    params = dict(scale=jnp.zeros(inputs), noise=jnp.float32(-2), height=jnp.float32(0))

    def loss(p, x, y):
        z = x * jnp.exp(p["scale"])
        distance = ((z[:, None] - z[None]) ** 2).sum(-1)
        kernel = jnp.exp(p["height"] - 0.5 * distance) + (jnp.exp(p["noise"]) + 1e-2) * jnp.eye(points)
        factor = jnp.linalg.cholesky(kernel)
        z = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        return 0.5 * (z @ z) + jnp.log(jnp.diagonal(factor)).sum()

    return step_of(loss, params, normal(points, inputs, scale=1.0), normal(points))


def transport(points, width, rounds):
    """An embedding learned through the rounds of a Sinkhorn solver."""
    params = dict(w=normal(width, width))

    def loss(p, x, y):
        a, b = jnp.tanh(x @ p["w"]), jnp.tanh(y @ p["w"])
        cost = ((a[:, None] - b[None]) ** 2).sum(-1)

        def one(carry, _):
            f, g = carry
            f = -0.1 * jax.nn.logsumexp((g[None] - cost) / 0.1, 1)
            g = -0.1 * jax.nn.logsumexp((f[:, None] - cost) / 0.1, 0)
            return (f, g), None

        (f, g), _ = lax.scan(one, (jnp.zeros(points), jnp.zeros(points)), None, length=rounds)
        return (jnp.exp((f[:, None] + g[None] - cost) / 0.1) * cost).sum()

    return step_of(loss, params, jnp.zeros((points, width)), jnp.zeros((points, width)))


def equilibrium(batch, width, rounds):
    """A deep equilibrium model: a fixed point, and its gradient by another."""
    params = dict(w=normal(width, width), u=normal(width, width), out=normal(width, 10))

    @jax.custom_vjp
    def solve(p, x):
        return lax.fori_loop(0, rounds, lambda i, z: jnp.tanh(z @ p["w"] + x @ p["u"]), jnp.zeros_like(x))

    def forward(p, x):
        z = solve(p, x)
        return z, (p, x, z)

    def backward(kept, slope):
        p, x, z = kept
        _, pull = jax.vjp(lambda z: jnp.tanh(z @ p["w"] + x @ p["u"]), z)
        total = lax.fori_loop(0, rounds, lambda i, g: slope + pull(g)[0], slope)
        return jax.vjp(lambda p, x: jnp.tanh(z @ p["w"] + x @ p["u"]), p, x)[1](total)

    solve.defvjp(forward, backward)

    def loss(p, x, labels):
        return cross_entropy(solve(p, x) @ p["out"], labels)

    return step_of(loss, params, jnp.zeros((batch, width)), jnp.zeros(batch, jnp.int32))


def radiance(rays, samples, width):
    make = lambda i, o: normal(i, o)
    params = dict(a=make(63, width), b=make(width, width), c=make(width, width), d=make(width, 1), e=make(width, 3))

    def loss(p, origin, direction, colour):
        depth = jnp.linspace(2.0, 6.0, samples)
        points = origin[:, None] + direction[:, None] * depth[:, None]
        angles = (points[..., None, :] * 2.0 ** jnp.arange(10)[:, None]).reshape(*points.shape[:2], 30)
        h = jnp.concatenate([points, jnp.sin(angles), jnp.cos(angles)], -1)
        for name in "abc":
            h = jax.nn.relu(h @ p[name])
        density, light = jax.nn.softplus((h @ p["d"])[..., 0]), jax.nn.sigmoid(h @ p["e"])
        opaque = 1 - jnp.exp(-density * (4.0 / samples))
        through = jnp.cumprod(jnp.concatenate([jnp.ones((rays, 1)), 1 - opaque[:, :-1] + 1e-10], 1), 1)
        return ((((opaque * through)[..., None] * light).sum(1) - colour) ** 2).mean()

    return step_of(loss, params, *(jnp.zeros((rays, 3)) for _ in range(3)))


def molecules(atoms, neighbours, width, layers):
    """Forces as gradients of an energy, and a loss on them."""
    params = [dict(f=normal(16, width), a=normal(width, width), b=normal(width, width)) for _ in range(layers)]

    def energy(p, places, near):
        h = jnp.ones((atoms, width))
        apart = jnp.sqrt(((places[:, None] - places[near]) ** 2).sum(-1) + 1e-6)
        basis = jnp.exp(-((apart[..., None] - jnp.linspace(0, 5, 16)) ** 2))
        for q in p:
            h = h + jax.nn.silu((h[near] * (basis @ q["f"])).sum(1) @ q["a"]) @ q["b"]
        return h.sum()

    def loss(p, places, near, forces):
        return ((-jax.grad(energy, 1)(p, places, near) - forces) ** 2).mean()

    return step_of(loss, params, normal(atoms, 3), jnp.zeros((atoms, neighbours), jnp.int32), jnp.zeros((atoms, 3)))


def meta_learning(tasks, points, width, inner):
    params = dict(a=normal(1, width), b=normal(width, width), c=normal(width, 1))
    model = lambda p, x: jnp.tanh(jnp.tanh(x @ p["a"]) @ p["b"]) @ p["c"]

    def loss(p, x, y, x2, y2):
        def task(x, y, x2, y2):
            fit = lambda q: ((model(q, x) - y) ** 2).mean()
            q = p
            for _ in range(inner):
                q = jax.tree.map(lambda a, g: a - 0.01 * g, q, jax.grad(fit)(q))
            return ((model(q, x2) - y2) ** 2).mean()

        return jax.vmap(task)(x, y, x2, y2).mean()

    return step_of(loss, params, *(jnp.zeros((tasks, points, 1)) for _ in range(4)))


def second_order(batch, width):
    """Hessian-vector products and a conjugate gradient step."""
    params = dict(a=normal(width, width), b=normal(width, width), c=normal(width, 10))

    def loss(p, x, labels):
        return cross_entropy(jnp.tanh(jnp.tanh(x @ p["a"]) @ p["b"]) @ p["c"], labels)

    def step(p, x, labels):
        value, grads = jax.value_and_grad(loss)(p, x, labels)
        product = lambda v: jax.tree.map(lambda h, u: h + 1e-2 * u,
                                         jax.jvp(lambda q: jax.grad(loss)(q, x, labels), (p,), (v,))[1], v)
        move, _ = jax.scipy.sparse.linalg.cg(product, grads, maxiter=5)
        return jax.tree.map(lambda a, m: a - m, p, move), value

    return step, (params, jnp.zeros((batch, width)), jnp.zeros(batch, jnp.int32)), (0,)


def stencil(side, rounds, every):
    """The coefficients of a heat equation found through its rounds, kept every so often."""
    params = dict(k=jnp.ones((side, side)))

    def loss(p, start, wanted):
        def one(x, _):
            around = sum(jnp.roll(x, s, a) for s in (1, -1) for a in (0, 1)) - 4 * x
            return x + 0.1 * p["k"] * around, None

        several = jax.checkpoint(lambda x, _: lax.scan(one, x, None, length=every))
        x, _ = lax.scan(several, start, None, length=rounds // every)
        return ((x - wanted) ** 2).mean()

    return step_of(loss, params, jnp.zeros((side, side)), jnp.zeros((side, side)))


def factorization(users, items, width, batch):
    params = dict(u=normal(users, width), v=normal(items, width), bu=jnp.zeros(users), bv=jnp.zeros(items))

    def loss(p, user, item, rating):
        seen = (p["u"][user] * p["v"][item]).sum(-1) + p["bu"][user] + p["bv"][item]
        return ((seen - rating) ** 2).mean()

    index = jnp.zeros(batch, jnp.int32)
    return step_of(loss, params, index, index, jnp.zeros(batch), optimizer=optax.adagrad(0.1))


# -- convolutions whose gradients are no plain ones


def volumes(side, widths):
    """An autoencoder of volumes: strided convolutions down, transposed ones up."""
    sizes = (1, *widths)
    numbers = ("NDHWC", "DHWIO", "NDHWC")
    params = dict(down=[normal(3, 3, 3, a, b) for a, b in zip(sizes, widths)],
                  up=[normal(2, 2, 2, b, a) for a, b in zip(sizes, widths)])

    def loss(p, x):
        z = x
        for w in p["down"]:
            z = jax.nn.silu(lax.conv_general_dilated(z, w, (2, 2, 2), "SAME", dimension_numbers=numbers))
        for i, w in reversed(list(enumerate(p["up"]))):
            z = lax.conv_transpose(z, w, (2, 2, 2), "SAME", dimension_numbers=numbers)
            z = jax.nn.silu(z) if i else z
        return ((z - x) ** 2).mean()

    return step_of(loss, params, jnp.zeros((2, side, side, side, 1)))


def private(batch, side, channels):
    """Gradients of every example by itself, clipped and summed, as differentially private training takes them."""
    params = dict(a=normal(8, 8, 1, channels), b=normal(4, 4, channels, 2 * channels), c=normal(2 * channels, 10))
    optimizer = optax.sgd(0.1)

    def loss(p, x, label):
        z = jax.nn.relu(conv(x[None], p["a"], 2))
        z = jax.nn.relu(conv(z, p["b"], 2)).mean((0, 1, 2))
        return cross_entropy((z @ p["c"])[None], label[None])

    def step(p, state, x, labels):
        grads = jax.vmap(jax.grad(loss), (None, 0, 0))(p, x, labels)
        norms = jax.vmap(optax.global_norm)(grads)
        scale = 1 / jnp.maximum(norms, 1)
        mean = jax.tree.map(lambda g: jnp.tensordot(scale, g, 1) / batch, grads)
        moves, state = optimizer.update(mean, state, p)
        return optax.apply_updates(p, moves), state

    return step, (params, optimizer.init(params), jnp.zeros((batch, side, side, 1)), jnp.zeros(batch, jnp.int32)), (0, 1)


def steps():
    """Yields (name, maker); a maker returns (function, arguments, donated argument numbers)."""
    yield "llama scanned 6x128", lambda: llama(6, 128, 512, 4, 128, 8, 2)
    yield "llama scanned, dots kept", lambda: llama(6, 128, 512, 4, 128, 8, 2, policy="dots_saveable")
    yield "llama scanned, nothing kept", lambda: llama(12, 128, 512, 4, 128, 8, 2, policy="nothing_saveable")
    yield "llama unrolled bf16", lambda: llama(4, 128, 512, 4, 128, 8, 8, dtype=jnp.bfloat16, scan=False)
    yield "llama sliding window", lambda: llama(4, 128, 512, 2, 256, 4, 1, window=64)
    yield "lora scanned", lambda: lora(8, 128, 8, 128, 4, 8)
    yield "lora on 8 bits", lambda: lora_on_bytes(3, 1024, 8192, 64, 8)
    yield "preferences", lambda: preferences(4, 96, 8, 96, 4)
    yield "encoder and decoder", lambda: encoder_decoder(4, 96, 8, 96, 4)
    yield "gpt accumulated, checkpointed", lambda: accumulated_gpt(4, 6, 96, 16, 128, 4)
    yield "chunked loss", lambda: chunked_loss(128, 4096, 8, 128, 8)
    yield "linear attention", lambda: linear_attention(4, 128, 4, 512, 4, 64)
    yield "selective scan", lambda: selective_scan(3, 64, 4, 256, 8)
    yield "experts routed", lambda: routed(128, 8, 2048, 320)
    yield "gpt unrolled 4x192 lion", lambda: gpt(4, 192, 512, 4, 128, 6, scan=False, optimizer=optax.lion(1e-4))
    yield "diffusion unet", lambda: diffusion(8, 32, (32, 64, 64))
    yield "diffusion sampling", lambda: sampler(8, 32, 64, 20)
    yield "gan with penalty", lambda: gan(64, 64, 28, 32)
    yield "normalizing flow", lambda: flow(16, 1024, 64, 128)
    yield "mobile net bf16", lambda: mobile(16, 64, (16, 16, 24, 24, 32))
    yield "segmentation", lambda: segmentation(4, 64, 32, 3)
    yield "self-supervised", lambda: self_supervised(32, 32, 48)
    yield "ctc", lambda: ctc(8, 256, 128, 40)
    yield "convolutional lstm", lambda: conv_lstm(4, 16, 32, 16)
    yield "wavenet", lambda: wavenet(4, 1024, 32, 8)
    yield "fourier operator", lambda: spectral(8, 64, 24, 12, 4)
    yield "policy gradient ppo", lambda: ppo(128, 32, 32, 128, 6, 4, 4)
    yield "q learning", lambda: q_learning(64, 80, 32, 6)
    yield "policy through a simulator", lambda: learned_simulator(200, 256, 32, 128)
    yield "gaussian process", lambda: gaussian_process(256, 8)
    yield "optimal transport", lambda: transport(256, 32, 30)
    yield "equilibrium", lambda: equilibrium(512, 128, 30)
    yield "radiance field", lambda: radiance(256, 64, 128)
    yield "molecular forces", lambda: molecules(512, 16, 64, 3)
    yield "meta learning", lambda: meta_learning(32, 64, 64, 3)
    yield "second order", lambda: second_order(512, 128)
    yield "heat equation, kept every 10", lambda: stencil(256, 100, 10)
    yield "matrix factorization", lambda: factorization(20000, 10000, 32, 4096)
    yield "volumes, transposed", lambda: volumes(32, (16, 32))
    yield "private gradients", lambda: private(96, 28, 16)
