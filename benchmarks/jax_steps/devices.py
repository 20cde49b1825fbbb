# SPDX-License-Identifier: Apache-2.0
"""Prints how long training steps take on several virtual devices of one machine, and their bytes on each device, on
Plimsoll beside XLA's CPU backend.

    python devices.py --build BUILD [--only WORDS] [--rounds N] [--processes N]

Each side has a process of its own with the same JAX and four devices, or as many processes as are asked for, which share
them (`jax.distributed`), and runs in turns with the other; a third process
runs the same step on one device of Plimsoll. Nothing is said but how arguments are sharded, or, in cases "by hand", what
each device does (`shard_map`). Times are medians of runs, ratios medians of rounds, ours over XLA's, so that below 1 we
are better. Bytes are arguments, results and temporaries without what is donated, of one device."""
import json
import os
import socket
import statistics
import sys
import tempfile

from sides import ask_together, chosen, options_of, plimsoll, start

DEVICES = 4


def gpt_parts(jax, jnp, np):
    vocabulary, width, layers, batch, length, heads = 97, 64, 3, 16, 32, 4
    random = np.random.RandomState(0)

    def matrix(*shape):
        return (random.randn(*shape) * 0.1).astype(np.float32)

    parameters = {"embedding": matrix(vocabulary, width), "out": matrix(width, vocabulary), "layers": [
        {**{name: matrix(width, width) for name in "qkvo"}, "up": matrix(width, 4 * width), "down": matrix(4 * width, width)}
        for _ in range(layers)]}

    def normal(x):
        x = x - x.mean(-1, keepdims=True)
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def loss(parameters, tokens):
        x = parameters["embedding"][tokens]
        mask = jnp.tril(jnp.ones((length, length), bool))
        for layer in parameters["layers"]:
            h = normal(x)
            q, k, v = [(h @ layer[name]).reshape(*h.shape[:2], heads, -1) for name in "qkv"]
            scores = jnp.where(mask, jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width // heads) ** 0.5, -1e9)
            x = x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape) @ layer["o"]
            x = x + jax.nn.gelu(normal(x) @ layer["up"]) @ layer["down"]
        logs = jax.nn.log_softmax((x @ parameters["out"])[:, :-1])
        return -jnp.take_along_axis(logs, tokens[:, 1:, None], -1).mean()

    return parameters, loss, random.randint(0, vocabulary, (batch, length)).astype(np.int32)


def scanned_parts(jax, jnp, np):
    """A GPT whose layers are stacked, and scanned over."""
    vocabulary, width, layers, batch, length, heads = 512, 256, 6, 8, 128, 8
    random = np.random.RandomState(2)

    def matrix(*shape):
        return (random.randn(*shape) * 0.02).astype(np.float32)

    parameters = {"embedding": matrix(vocabulary, width), "qkv": matrix(layers, width, 3 * width),
                  "o": matrix(layers, width, width), "up": matrix(layers, width, 4 * width),
                  "down": matrix(layers, 4 * width, width)}

    def normal(x):
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def layer(x, w):
        q, k, v = [part.reshape(*x.shape[:2], heads, -1) for part in jnp.split(normal(x) @ w["qkv"], 3, -1)]
        x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ w["o"]
        return x + jax.nn.gelu(normal(x) @ w["up"]) @ w["down"], None

    def loss(parameters, tokens):
        parameters = dict(parameters)
        embedding = parameters.pop("embedding")
        x = jax.lax.scan(layer, embedding[tokens[:, :-1]], parameters)[0]
        logs = jax.nn.log_softmax(x @ embedding.T)
        return -jnp.take_along_axis(logs, tokens[:, 1:, None], -1).mean()

    return parameters, loss, random.randint(0, vocabulary, (batch, length + 1)).astype(np.int32)


def perceptron_parts(jax, jnp, np):
    random = np.random.RandomState(1)
    sizes = [64, 512, 512, 16]
    parameters = [(random.randn(a, b) * 0.05).astype(np.float32) for a, b in zip(sizes, sizes[1:])]

    def loss(parameters, data):
        x = data[:, :64]
        for weights in parameters[:-1]:
            x = jnp.tanh(x @ weights)
        return ((x @ parameters[-1] - data[:, 64:]) ** 2).mean()

    return parameters, loss, random.randn(512, 80).astype(np.float32)


def cases():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = jax.make_mesh((len(jax.devices()),), ("d",), axis_types=(AxisType.Auto,))

    def placed(tree, specs):
        return jax.tree.map(lambda leaf, spec: jax.device_put(leaf, NamedSharding(mesh, spec)), tree, specs)

    def everywhere(tree):
        return jax.tree.map(lambda leaf: P(), tree)

    def step_of(gradient):
        def step(parameters, data):
            value, slopes = gradient(parameters, data)
            return jax.tree.map(lambda p, s: p - 0.1 * s, parameters, slopes), value

        return jax.jit(step, donate_argnums=0)

    def by_hand(loss):
        def gradient(parameters, data):
            value, slopes = jax.value_and_grad(loss)(parameters, data)
            return jax.lax.pmean(value, "d"), jax.lax.pmean(slopes, "d")

        return jax.shard_map(gradient, mesh=mesh, in_specs=(P(), P("d")), out_specs=(P(), P()), check_vma=False)

    made = {}
    for name, parts in (("gpt", gpt_parts), ("perceptron", perceptron_parts)):
        parameters, loss, data = parts(jax, jnp, np)
        batch = placed(data, P("d"))
        made[f"{name}, batch cut"] = (step_of(jax.value_and_grad(loss)), placed(parameters, everywhere(parameters)), batch)
        made[f"{name}, batch cut by hand"] = (step_of(by_hand(loss)), placed(parameters, everywhere(parameters)), batch)
    parameters, loss, data = perceptron_parts(jax, jnp, np)
    specs = [P(None, "d"), P("d", None), P()]
    made["perceptron, weights cut"] = (step_of(jax.value_and_grad(loss)), placed(parameters, specs), placed(data, P()))
    parameters, loss, data = scanned_parts(jax, jnp, np)
    batch = placed(data, P("d"))
    stacked = {name: P() if name == "embedding" else P(None, "d", None) for name in parameters}
    step = step_of(jax.value_and_grad(loss))
    made["gpt scanned, batch cut"] = (step, placed(parameters, everywhere(parameters)), batch)
    made["gpt scanned, batch and weights cut"] = (step, placed(parameters, stacked), batch)
    return made


class Side:
    def __init__(self):
        if "DEVICES_RANK" in os.environ:
            import jax

            rank, count, port = (int(os.environ[f"DEVICES_{name}"]) for name in ("RANK", "COUNT", "PORT"))
            jax.distributed.initialize(f"localhost:{port}", count, rank)
        self.made = cases()

    def bytes(self, name):
        step, parameters, data = self.made[name]
        found = step.lower(parameters, data).compile().memory_analysis()
        return (found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes -
                found.alias_size_in_bytes)

    def run(self, name):
        import time

        import jax

        step, parameters, data = self.made[name]
        times = []
        for _ in range(15):
            begin = time.perf_counter()
            parameters, value = jax.block_until_ready(step(parameters, data))
            times.append(time.perf_counter() - begin)
        self.made[name] = (step, parameters, data)
        return {"seconds": statistics.median(times[3:]), "loss": float(value)}


def start_together(count, environment):
    """So many processes that share the devices."""
    if count == 1:
        return [start(__file__, environment)]
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = one.getsockname()[1]
    return [start(__file__, {**environment, "DEVICES_RANK": str(rank), "DEVICES_COUNT": str(count),
                             "DEVICES_PORT": str(port)}) for rank in range(count)]


def main():
    options = options_of(__doc__, Side, rounds=5, processes=True)
    if options is None:
        return
    each = DEVICES // options.processes
    with tempfile.TemporaryDirectory() as cache:
        ours = plimsoll(options.build, cache)
        several = {**ours, "JAX_PJRT_CLIENT_CREATE_OPTIONS": f"num_devices:{each}"}
        xla = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={each}"}
        sides = {"ours": start_together(options.processes, several), "xla": start_together(options.processes, xla),
                 "one": start_together(1, ours)}
        names = ["gpt, batch cut", "gpt, batch cut by hand", "gpt scanned, batch cut", "gpt scanned, batch and weights cut",
                 "perceptron, batch cut", "perceptron, batch cut by hand", "perceptron, weights cut"]
        print(f"| step, {DEVICES} devices | ours | XLA | ours / XLA | one device of ours | bytes, ours | XLA | one |")
        print("|---|---|---|---|---|---|---|---|")
        for name in chosen(options, names):
            rounds = [{side: ask_together(processes, do="run", name=name) for side, processes in sides.items()}
                      for _ in range(options.rounds)]
            held = {side: ask_together(processes, do="bytes", name=name) for side, processes in sides.items()}
            failed = [answer["error"] for one in rounds for answer in one.values() if "error" in answer]
            if failed:
                print(f"| {name} | {failed[0]} |")
                continue
            last = rounds[-1]
            if abs(last["ours"]["loss"] - last["xla"]["loss"]) > 1e-3 * abs(last["xla"]["loss"]):
                sys.exit(f"{name}: the losses are {json.dumps(last)}")
            times = {side: statistics.median(one[side]["seconds"] for one in rounds) for side in sides}
            ratio = statistics.median(one["ours"]["seconds"] / one["xla"]["seconds"] for one in rounds)
            print(f"| {name} | {times['ours'] * 1e3:.2f} ms | {times['xla'] * 1e3:.2f} ms | {ratio:.2f} | "
                  f"{times['one'] * 1e3:.2f} ms | {held['ours']:,} | {held['xla']:,} | {held['one']:,} |", flush=True)
        for processes in sides.values():
            for process in processes:
                process.kill()


if __name__ == "__main__":
    main()
