# SPDX-License-Identifier: Apache-2.0
"""Loops of training steps: optimizer states, accumulated gradients, clipping, pipelines."""
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.sharding import PartitionSpec as P

from layers import ADAM, adam_specs, adam_zeros, batch_axis, mlp_loss, mlp_params, mlp_specs, sgd
from programs import Case, program


def train_loop(ctx, kind, adam=True, steps=4):
    specs = mlp_specs(kind)
    batch = batch_axis(kind)
    p = mlp_params(ctx)
    xs, ys = ctx.normal(steps, 16, 32, scale=1), ctx.normal(steps, 16, 32, scale=1)

    def plain(p, xs, ys):
        def step(p, b):
            loss, grads = jax.value_and_grad(mlp_loss)(p, *b)
            return sgd(p, grads), loss

        return lax.scan(step, p, (xs, ys))

    def with_state(p, s, xs, ys):
        def step(carry, b):
            p, s = carry
            loss, grads = jax.value_and_grad(mlp_loss)(p, *b)
            u, s = ADAM.update(grads, s, p)
            return (optax.apply_updates(p, u), s), loss

        return lax.scan(step, (p, s), (xs, ys))

    if not adam:
        return Case(plain, (p, xs, ys), (specs, P(None, batch), P(None, batch)), results=(specs, P()))
    state_specs = adam_specs(specs)
    return Case(with_state, (p, adam_zeros(p), xs, ys), (specs, state_specs, P(None, batch), P(None, batch)),
                results=((specs, state_specs), P()), donated=(0, 1))


program("x", kind="dp", adam=False, name="train_loop_dp")(train_loop)
program("x", kind="fsdp", name="train_loop_fsdp_adam")(train_loop)
program("x", kind="tp", name="train_loop_tp_adam")(train_loop)
program("xy24", kind="2d", name="train_loop_2d_adam")(train_loop)


def grad_accum(ctx, kind, n=4):
    dp = "x" if kind == "fsdp" else None
    specs = dict(w1=P(dp), b1=P(), w2=P(None, dp), b2=P())

    def f(p, xs, ys):
        constrain = lambda g: jax.tree.map(lambda a, s: ctx.constrain(a, *s), g, specs) if kind == "fsdp" else g

        def step(acc, b):
            loss, g = jax.value_and_grad(mlp_loss)(p, *b)
            return constrain(jax.tree.map(jnp.add, acc, constrain(g))), loss

        acc, losses = lax.scan(step, jax.tree.map(jnp.zeros_like, p), (xs, ys))
        return sgd(p, acc, 0.1 / n), losses.mean()

    return Case(f, (mlp_params(ctx), ctx.normal(n, 16, 32, scale=1), ctx.normal(n, 16, 32, scale=1)),
                (specs, P(None, "x"), P(None, "x")), results=(specs, P()))


program("x", kind="fsdp", name="grad_accum_fsdp")(grad_accum)
program("x", kind="dp", name="grad_accum_dp")(grad_accum)


@program("x")
def grad_accum_reshape(ctx):
    specs = dict(w1=P(), b1=P(), w2=P(), b2=P())

    def f(p, x, y):  # the batch is cut, and split into microbatches here
        xs, ys = (ctx.constrain(a.reshape(4, 8, 32), None, "x") for a in (x, y))

        def step(acc, b):
            return jax.tree.map(jnp.add, acc, jax.grad(mlp_loss)(p, *b)), None

        return lax.scan(step, jax.tree.map(jnp.zeros_like, p), (xs, ys))[0]

    return Case(f, (mlp_params(ctx), ctx.normal(32, 32, scale=1), ctx.normal(32, 32, scale=1)), (specs, P("x"), P("x")))


@program("x")
def cond_skip_update_in_scan(ctx):  # a step is left out where the norm is too large
    def f(p, xs, ys):
        def step(p, b):
            grads = jax.grad(mlp_loss)(p, *b)
            n = optax.global_norm(grads)
            return lax.cond(n < 1.0, lambda: sgd(p, grads), lambda: p), n

        return lax.scan(step, p, (xs, ys))

    specs = dict(w1=P("x"), b1=P(), w2=P(None, "x"), b2=P())
    return Case(f, (mlp_params(ctx), ctx.normal(4, 16, 32, scale=1), ctx.normal(4, 16, 32, scale=1)),
                (specs, P(None, "x"), P(None, "x")), results=(specs, P()))


@program("x")
def wsc_grad_carry(ctx):
    def f(p, x, y):
        def step(p, _):
            grads = jax.grad(mlp_loss)(p, x, y)
            grads = jax.tree.map(lambda a: ctx.constrain(a, "x"), grads)
            return jax.tree.map(lambda a, b: ctx.constrain(a - 0.1 * b), p, grads), None

        return lax.scan(step, p, None, length=3)[0]

    return Case(f, (mlp_params(ctx), ctx.normal(16, 32, scale=1), ctx.normal(16, 32, scale=1)), (P(), P("x"), P("x")),
                results=P())


@program("x")
def bf16_train_loop(ctx):
    def f(p, xs, ys):
        def step(p, b):
            q = jax.tree.map(lambda a: a.astype(jnp.bfloat16), p)
            loss, grads = jax.value_and_grad(mlp_loss)(q, b[0].astype(jnp.bfloat16), b[1].astype(jnp.bfloat16))
            return sgd(p, grads), loss.astype(jnp.float32)

        return lax.scan(step, p, (xs, ys))

    specs = dict(w1=P(None, "x"), b1=P("x"), w2=P("x"), b2=P())
    return Case(f, (mlp_params(ctx), ctx.normal(3, 16, 32, scale=1), ctx.normal(3, 16, 32, scale=1)), (specs, P(), P()),
                results=(specs, P()), tolerance=3e-2)


@program("x")
def donated_loop(ctx):
    def f(s, x):
        return jax.tree.map(lambda a: lax.fori_loop(0, 3, lambda i, a: 0.9 * a + x, a), s)

    return Case(f, (dict(a=ctx.normal(16, 16), b=ctx.normal(16, 16)), ctx.normal(16, 16)),
                (dict(a=P("x"), b=P(None, "x")), P("x")), results=dict(a=P("x"), b=P(None, "x")), donated=(0,))


@program("x")
def q_learning(ctx):  # a cut replay buffer, looked up in; a conditional updates the target
    def f(p, buf, idx):
        def step(s, ii):
            p, t, n = s
            b = buf[ii]

            def loss(p):
                target = lax.stop_gradient(0.9 * (b[:, 8:] @ t).max(-1, keepdims=True))
                return jnp.mean((b[:, :8] @ p - target) ** 2)

            p = p - 0.1 * jax.grad(loss)(p)
            t = lax.cond(n % 2 == 1, lambda: p, lambda: t)
            return (p, t, n + 1), loss(p)

        return lax.scan(step, (p, p, 0), idx)

    return Case(f, (ctx.normal(8, 4), ctx.normal(64, 16, scale=1), ctx.integers(64, 4, 16)),
                (P(), P("x"), P(None, "x")))


@program("x")
def pipeline_stages(ctx):  # stages cut, activations rolled from one to the next, in a scan
    def f(w, xs):
        n = 4

        def step(s, x):
            s = jnp.roll(s, 1, 0).at[0].set(x)
            s = ctx.constrain(jnp.tanh(jnp.einsum("sbd,sde->sbe", s, w)), "x")
            return s, s[-1]

        return lax.scan(step, jnp.zeros((n, 4, 16)), jnp.concatenate([xs, jnp.zeros((n - 1, 4, 16))]))[1][n - 1:]

    return Case(f, (ctx.weights(4, 16, 16), ctx.normal(6, 4, 16, scale=1)), (P("x"), P()))


@program("xy")
def fsdp_tp_train_loop_clip(ctx):
    specs = dict(w1=P("x", "y"), b1=P("y"), w2=P("y", "x"), b2=P())

    def f(p, xs, ys):
        def step(p, b):
            loss, grads = jax.value_and_grad(mlp_loss)(p, *b)
            n = optax.global_norm(grads)
            return sgd(p, jax.tree.map(lambda a: a / jnp.maximum(1.0, n), grads)), (loss, n)

        return lax.scan(step, p, (xs, ys))

    return Case(f, (mlp_params(ctx), ctx.normal(4, 16, 32, scale=1), ctx.normal(4, 16, 32, scale=1)),
                (specs, P(None, "x"), P(None, "x")), results=(specs, P()), donated=(0,))


@program("x")
def zero1_adam_loop(ctx):  # the parameters are replicated, the optimizer's state is cut
    specs = dict(w1=P(), b1=P(), w2=P(), b2=P())
    moment_specs = dict(w1=P("x"), b1=P("x"), w2=P("x"), b2=P("x"))
    state_specs = adam_specs(moment_specs)

    def f(p, s, xs, ys):
        def step(carry, b):
            p, s = carry
            grads = jax.grad(mlp_loss)(p, *b)
            grads = jax.tree.map(lambda a: ctx.constrain(a, "x"), grads)
            u, s = ADAM.update(grads, s, p)
            u = jax.tree.map(lambda a: ctx.constrain(a), u)
            return (optax.apply_updates(p, u), s), None

        return lax.scan(step, (p, s), (xs, ys))[0]

    p = mlp_params(ctx)
    return Case(f, (p, adam_zeros(p), ctx.normal(3, 16, 32, scale=1), ctx.normal(3, 16, 32, scale=1)),
                (specs, state_specs, P(None, "x"), P(None, "x")), results=(specs, state_specs))
