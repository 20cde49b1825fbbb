# SPDX-License-Identifier: Apache-2.0
"""Training steps, with batch, weights or both cut."""
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.sharding import PartitionSpec as P

from layers import (ADAM, adam_specs, adam_zeros, batch_axis, block, block_params, block_specs, convolve, mlp_loss,
                    mlp_params, mlp_specs, sgd)
from programs import Case, program


def gpt_loss(p, tokens, scan, remat, constrain=None):
    constrain = constrain or (lambda h: h)
    h = constrain(p["emb"][tokens[:, :-1]])
    f = lambda h, layer: constrain(block(h, layer))
    if remat:
        f = jax.checkpoint(f)
    if scan:
        h, _ = lax.scan(lambda h, layer: (f(h, layer), None), h, p["layers"])
    else:
        for layer in p["layers"]:
            h = f(h, layer)
    logits = jax.nn.log_softmax(h @ p["emb"].T)
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1).mean()


@program("x", kind="dp", name="mlp_dp")
@program("x", kind="tp", name="mlp_tp")
@program("x", kind="fsdp", name="mlp_fsdp")
@program("xy", kind="2d", name="mlp_2d")
@program("xy24", kind="2d", name="mlp_2d_2x4")
@program("xy", kind="fsdp_tp", name="mlp_fsdp_tp")
@program("x8", kind="fsdp", name="mlp_fsdp_8")
def mlp_step(ctx, kind):
    specs = mlp_specs(kind)

    def f(p, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(p, x, y)
        return sgd(p, grads), loss

    batch = batch_axis(kind)
    return Case(f, (mlp_params(ctx), ctx.normal(16, 32, scale=1), ctx.normal(16, 32, scale=1)),
                (specs, P(batch), P(batch)), results=(specs, P()))


def gpt(ctx, kind, scan=False, remat=False, adam=False, constrain=False, depth=2):
    layer_specs = block_specs(kind, scan)
    specs = dict(emb=P("x") if kind == "fsdp" else P(), layers=layer_specs if scan else [layer_specs] * depth)
    p = dict(emb=ctx.normal(64, 32, scale=0.3),
             layers=block_params(ctx, depth) if scan else [block_params(ctx) for _ in range(depth)])
    tokens = ctx.integers(64, 8, 17)
    batch = batch_axis(kind)
    constrained = (lambda h: ctx.constrain(h, batch)) if constrain else None

    def plain(p, tokens):
        loss, grads = jax.value_and_grad(gpt_loss)(p, tokens, scan, remat, constrain=constrained)
        return sgd(p, grads), loss

    def with_state(p, s, tokens):
        loss, grads = jax.value_and_grad(gpt_loss)(p, tokens, scan, remat, constrain=constrained)
        u, s = ADAM.update(grads, s, p)
        return optax.apply_updates(p, u), s, loss

    if not adam:
        return Case(plain, (p, tokens), (specs, P(batch)), results=(specs, P()))
    state_specs = adam_specs(specs)
    return Case(with_state, (p, adam_zeros(p), tokens), (specs, state_specs, P(batch)),
                results=(specs, state_specs, P()), donated=(0, 1))


for kind, mesh in (("dp", "x"), ("tp", "x"), ("fsdp", "x"), ("2d", "xy24"), ("fsdp_tp", "xy")):
    program(mesh, kind=kind, name=f"gpt_{kind}", adam=(kind != "dp"))(gpt)
    program(mesh, kind=kind, scan=True, name=f"gpt_scan_{kind}")(gpt)
program("x", kind="fsdp", scan=True, remat=True, constrain=True, adam=True, name="gpt_scan_remat_fsdp_adam")(gpt)
program("xy24", kind="2d", scan=True, remat=True, constrain=True, name="gpt_scan_remat_2d")(gpt)
program("xy", kind="fsdp_tp", scan=True, remat=True, constrain=True, adam=True, name="gpt_scan_remat_fsdp_tp_adam")(gpt)
program("x", kind="tp", scan=True, remat=True, name="gpt_scan_remat_tp")(gpt)


@program("x")
def vocab_parallel_lm(ctx):
    def loss(p, t):
        h = jnp.tanh(p["emb"][t[:, :-1]] @ p["w"])
        return -jnp.take_along_axis(jax.nn.log_softmax(h @ p["emb"].T), t[:, 1:, None], -1).mean()

    specs = dict(emb=P("x"), w=P())
    return Case(jax.value_and_grad(loss),
                (dict(emb=ctx.normal(64, 16, scale=0.4), w=ctx.weights(16, 16)), ctx.integers(64, 4, 9)), (specs, P()),
                results=(P(), specs))


@program("xy")
def vocab_parallel_2d(ctx):
    def loss(p, t):
        h = jnp.tanh(p["emb"][t[:, :-1]] @ p["w"])
        logits = h @ p["emb"].T
        return (jax.nn.logsumexp(logits, -1) - (logits * jax.nn.one_hot(t[:, 1:], 64)).sum(-1)).mean()

    specs = dict(emb=P("y"), w=P())
    return Case(jax.value_and_grad(loss),
                (dict(emb=ctx.normal(64, 16, scale=0.4), w=ctx.weights(16, 16)), ctx.integers(64, 4, 9)),
                (specs, P("x")), results=(P(), specs))


@program("x")
def convnet_bn_dp(ctx):
    def loss(p, x, y):
        for k in ("c1", "c2"):
            x = convolve(x, p[k])
            m = x.mean((0, 1, 2))
            v = ((x - m) ** 2).mean((0, 1, 2))
            x = jax.nn.relu((x - m) * lax.rsqrt(v + 1e-3))
            x = lax.reduce_window(x, 0., lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        logits = x.reshape(x.shape[0], -1) @ p["w"]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    def f(p, x, y):
        value, grads = jax.value_and_grad(loss)(p, x, y)
        return sgd(p, grads), value

    p = dict(c1=ctx.normal(3, 3, 3, 8), c2=ctx.normal(3, 3, 8, 8), w=ctx.weights(2 * 2 * 8, 10))
    return Case(f, (p, ctx.normal(8, 8, 8, 3, scale=1), ctx.integers(10, 8)), (P(), P("x"), P("x")), results=(P(), P()))


@program("xyz")
def mesh_3d_train(ctx):
    specs = dict(w1=P("x", "z"), b1=P("z"), w2=P("z", "x"), b2=P())

    def f(p, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(p, x, y)
        return sgd(p, grads), loss

    batch = P(("x", "y"))
    return Case(f, (mlp_params(ctx), ctx.normal(16, 32, scale=1), ctx.normal(16, 32, scale=1)), (specs, batch, batch),
                results=(specs, P()))
