# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks, layers in a scan, associative scans and decoding with a cache."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from layers import WEIGHT_AXES, batch_axis
from programs import Case, program


def scan_mlp(ctx, kind, mode, depth=4, d=32, f=64):
    outer, inner = WEIGHT_AXES[kind]
    lead = "x" if kind == "layers" else None
    specs = (P(lead, outer, inner), P(lead, inner, outer))
    batch = batch_axis(kind)

    def layer(h, w):
        return h + jnp.tanh(h @ w[0]) @ w[1]

    if mode == "remat":
        layer = jax.checkpoint(layer)
    forward = lambda ws, x: lax.scan(lambda h, w: (layer(h, w), None), x, ws)[0]
    args = ((ctx.weights(depth, d, f), ctx.weights(depth, f, d)), ctx.normal(16, d, scale=1))
    if mode == "fwd":
        return Case(forward, args, (specs, P(batch)))
    return Case(jax.grad(lambda ws, x: jnp.mean(forward(ws, x) ** 2)), args, (specs, P(batch)), results=specs)


for kind, mesh in (("dp", "x"), ("tp", "x"), ("fsdp", "x"), ("2d", "xy"), ("layers", "x")):
    program(mesh, kind=kind, mode="fwd", name=f"scan_layers_fwd_{kind}")(scan_mlp)
    program(mesh, kind=kind, mode="grad", name=f"scan_layers_grad_{kind}")(scan_mlp)
for kind, mesh in (("fsdp", "x"), ("2d", "xy24")):
    program(mesh, kind=kind, mode="remat", name=f"scan_layers_remat_{kind}")(scan_mlp)


def rnn(ctx, kind, grad, T=16, B=8, d=32):
    specs = {"batch": (P(), P(), P(None, "x")), "features": (P(None, "x"), P(None, "x"), P()),
             "in": (P("x"), P(), P(None, None, "x"))}[kind]

    def forward(w, u, x):
        h, ys = lax.scan(lambda h, r: (jnp.tanh(h @ u + r @ w),) * 2, jnp.zeros((B, d)), x)
        return h, ys

    def loss(w, u, x):
        h, ys = forward(w, u, x)
        return jnp.mean(h ** 2) + jnp.mean(ys)

    return Case(jax.grad(loss, argnums=(0, 1)) if grad else forward,
                (ctx.weights(d, d), ctx.weights(d, d), ctx.normal(T, B, d, scale=1)), specs)


for kind in ("batch", "features", "in"):
    program("x", kind=kind, grad=False, name=f"rnn_{kind}")(rnn)
    program("x", kind=kind, grad=True, name=f"rnn_{kind}_grad")(rnn)


def lstm(ctx, kind, T=12, B=8, d=16):
    specs = {"batch": (P(), P(), P("x")), "features": (P(None, None, "x"), P(None, "x"), P()),
             "2d": (P(None, None, "y"), P(None, "y"), P("x"))}[kind]

    def loss(w, b, x):
        def cell(state, r):
            h, m = state
            g = jnp.einsum("bd,dgk->gbk", jnp.concatenate([h, r], -1), w) + b[:, None]
            m = jax.nn.sigmoid(g[0] + 1) * m + jax.nn.sigmoid(g[1]) * jnp.tanh(g[2])
            h = jax.nn.sigmoid(g[3]) * jnp.tanh(m)
            return (h, m), h

        z = jnp.zeros((B, d))
        _, ys = lax.scan(cell, (z, z), x.swapaxes(0, 1))
        return jnp.mean(ys ** 2)

    return Case(jax.value_and_grad(loss, argnums=(0, 1)),
                (ctx.normal(2 * d, 4, d), ctx.normal(4, d), ctx.normal(B, T, d, scale=1)), specs)


program("x", kind="batch", name="lstm_batch_grad")(lstm)
program("x", kind="features", name="lstm_features_grad")(lstm)
program("xy", kind="2d", name="lstm_2d_grad")(lstm)


@program("x")
def gae(ctx):  # advantages, reversed scan over time, environments cut
    def f(r, v):
        def step(a, t):
            a = t[0] + 0.99 * t[2] - t[1] + 0.95 * 0.99 * a
            return a, a

        nv = jnp.concatenate([v[1:], jnp.zeros_like(v[:1])])
        _, adv = lax.scan(step, jnp.zeros_like(r[0]), (r, v, nv), reverse=True)
        return (adv - adv.mean()) / (adv.std() + 1e-3)

    return Case(f, (ctx.normal(20, 16, scale=1), ctx.normal(20, 16, scale=1)), (P(None, "x"), P(None, "x")),
                results=P(None, "x"))


@program("x")
def assoc_scan_uncut(ctx):
    op = lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1])
    return Case(lambda a, b: lax.associative_scan(op, (jax.nn.sigmoid(a), b), axis=1),
                (ctx.normal(8, 16, 8), ctx.normal(8, 16, 8)), (P("x"), P("x")))


@program("x")
def assoc_scan_cut(ctx):
    return Case(lambda x: lax.associative_scan(jnp.add, x, axis=0), (ctx.normal(16, 8),), (P("x"),))


@program("x")
def ssm_grad(ctx):
    def loss(p, x):
        a = jax.nn.sigmoid(x @ p["a"])
        b = x @ p["b"]
        _, h = lax.associative_scan(lambda u, v: (u[0] * v[0], v[0] * u[1] + v[1]), (a, b), axis=1)
        return jnp.mean((h @ p["o"]) ** 2)

    p = dict(a=ctx.weights(16, 32), b=ctx.weights(16, 32), o=ctx.weights(32, 16))
    specs = dict(a=P(None, "x"), b=P(None, "x"), o=P("x"))
    return Case(jax.grad(loss), (p, ctx.normal(4, 16, 16, scale=1)), (specs, P()), results=specs)


def decode(ctx, kind, B=4, T=12, d=32, H=4, V=64):
    k = d // H

    def f(p, kc, vc, tokens):
        def step(carry, i):
            kc, vc, t = carry
            x = p["emb"][t]
            q, kk, vv = (jnp.einsum("bd,dhk->bhk", x, p[n]) for n in "qkv")
            kc = lax.dynamic_update_slice(kc, kk[:, None], (0, i, 0, 0))
            vc = lax.dynamic_update_slice(vc, vv[:, None], (0, i, 0, 0))
            s = jnp.einsum("bhk,bthk->bht", q, kc) * k ** -0.5
            s = jax.nn.softmax(jnp.where(jnp.arange(T) <= i, s, -1e9), -1)
            o = jnp.einsum("bht,bthk->bhk", s, vc)
            logits = (x + jnp.einsum("bhk,hkd->bd", o, p["o"])) @ p["head"]
            t = jnp.argmax(logits, -1).astype(jnp.int32)
            return (kc, vc, t), (t, logits.max(-1))

        (kc, vc, _), (ts, m) = lax.scan(step, (kc, vc, tokens), jnp.arange(8))
        return ts, m, kc

    specs, cache, first = P(), P("x"), P("x")
    if kind == "heads":
        cut = P(None, "x")
        specs, cache, first = dict(emb=P(), q=cut, k=cut, v=cut, o=P("x"), head=cut), P(None, None, "x"), P()
    p = dict(emb=ctx.normal(V, d, scale=1), o=ctx.normal(H, k, d), head=ctx.weights(d, V))
    p |= {name: ctx.normal(d, H, k) for name in "qkv"}
    z = np.zeros((B, T, H, k), np.float32)
    return Case(f, (p, z, z, ctx.integers(V, B)), (specs, cache, cache, first), results=(P(), P(), cache),
                donated=(1, 2))


program("x", kind="heads", name="decode_heads")(decode)
program("x", kind="batch", name="decode_batch")(decode)


@program("x")
def sample_while(ctx):  # decoding until all have an end token
    def f(w, t):
        def cond(s):
            return jnp.logical_and(jnp.any(s[1] != 0), s[0] < 10)

        def body(s):
            i, t, out = s
            n = jnp.argmax(w[t], -1).astype(jnp.int32)
            n = jnp.where(t == 0, 0, n)
            return i + 1, n, lax.dynamic_update_slice(out, n[:, None], (0, i))

        return lax.while_loop(cond, body, (0, t, jnp.zeros((t.shape[0], 10), jnp.int32)))

    return Case(f, (ctx.normal(16, 16, scale=1), ctx.integers(16, 8) + 1 - 1), (P(), P("x")))


@program("x")
def scan_stacked_residual_mixed(ctx):
    def loss(p, x, m):
        def layer(h, q):
            w, b = q
            u = h @ w + b
            return jnp.where(m, jax.nn.relu(u), h) + jnp.mean(u, 0), u.max()

        h, mx = lax.scan(layer, x, p)
        return jnp.mean(h ** 2) + mx.sum()

    p = (ctx.weights(3, 16, 16), ctx.normal(3, 16))
    return Case(jax.grad(loss), (p, ctx.normal(8, 16, scale=1), ctx.random.random((8, 16)) < .5),
                ((P(None, None, "x"), P(None, "x")), P("x"), P("x")))


@program("x")
def scan_hessian_vector(ctx):
    def loss(w, x):
        return jnp.mean(lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, w)[0] ** 2)

    return Case(lambda w, v, x: jax.jvp(jax.grad(lambda w: loss(w, x)), (w,), (v,))[1],
                (ctx.weights(3, 16, 16), ctx.weights(3, 16, 16), ctx.normal(8, 16, scale=1)), (P(), P(), P("x")))


@program("x")
def scan_vmap_ensemble(ctx):  # members cut
    def train(w, x):
        return lax.scan(lambda w, x: (w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), jnp.sum(w)), w, x)

    return Case(jax.vmap(train, in_axes=(0, None)), (ctx.normal(8, 16, 4), ctx.normal(4, 8, 16)), (P("x"), P()),
                results=(P("x"), P("x")))
