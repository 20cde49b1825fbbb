# SPDX-License-Identifier: Apache-2.0
"""Prints how long JAX's operations take that are called eagerly, on Plimsoll beside XLA's CPU backend.

    python dispatch.py --build BUILD [--only WORDS] [--rounds N]

Each side has a process of its own with the same JAX, and runs in turns with the other. Arrays have a thousand elements,
so that most of a call is what it takes to get a program started. "waiting" is a call until its result is there, "ahead"
a call out of a hundred that do not wait for each other. A round is the median of many calls; ratios are medians of
rounds, ours over XLA's, so that below 1 we are better."""
import json
import math
import statistics
import sys
import tempfile

from sides import ask, chosen, options_of, plimsoll, start


def cases():
    import jax
    import jax.numpy as jnp

    x = jax.random.normal(jax.random.key(0), (1000,))
    y = x + 1
    square = jax.random.normal(jax.random.key(1), (32, 32))
    places = jnp.arange(100) * 7
    tiny = jax.jit(lambda x: x + 1)
    larger = jax.jit(lambda x, y: jnp.tanh(x * y + 1).sum())
    pairs = jax.jit(lambda tree: jax.tree.map(lambda leaf: leaf + 1, tree))
    tree = [x + i for i in range(20)]
    return {
        "add": lambda: x + y,
        "add a number": lambda: x + 1.5,
        "multiply": lambda: x * y,
        "tanh": lambda: jnp.tanh(x),
        "matmul 32 x 32": lambda: square @ square,
        "sum": lambda: x.sum(),
        "reshape": lambda: x.reshape(10, 100),
        "transpose": lambda: square.T,
        "compare": lambda: x > y,
        "where": lambda: jnp.where(x > 0, x, y),
        "concatenate": lambda: jnp.concatenate([x, y]),
        "one element": lambda: x[3],
        "a slice": lambda: x[10:500],
        "a row": lambda: square[3],
        "take 100": lambda: x[places],
        "set a slice": lambda: x.at[10:20].set(0),
        "zeros": lambda: jnp.zeros(1000),
        "jit, one operation": lambda: tiny(x),
        "jit, four operations": lambda: larger(x, y),
        "jit, 20 arrays": lambda: pairs(tree),
    }


class Side:
    def __init__(self):
        self.made = cases()

    def run(self, name):
        import time

        import jax

        call = self.made[name]
        for _ in range(5):
            jax.block_until_ready(call())
        waiting = []
        end = time.perf_counter() + 0.1
        while len(waiting) < 20 or time.perf_counter() < end and len(waiting) < 1000:
            start = time.perf_counter()
            jax.block_until_ready(call())
            waiting.append(time.perf_counter() - start)
        ahead = []
        for _ in range(5):
            start = time.perf_counter()
            results = [call() for _ in range(100)]
            ahead.append((time.perf_counter() - start) / 100)
            jax.block_until_ready(results)
        return {"waiting": statistics.median(waiting), "ahead": statistics.median(ahead)}


def measure(name, ours, xla, rounds):
    answers = {"ours": [], "xla": []}
    for i in range(rounds):
        sides = [("ours", ours), ("xla", xla)]
        for key, side in sides if i % 2 == 0 else reversed(sides):
            answer = ask(side, do="run", name=name)
            if "error" in answer:
                raise RuntimeError(f"{name}, {key}: {answer['error']}")
            answers[key].append(answer)
    row = {"name": name}
    for how in ("waiting", "ahead"):
        row[f"{how}_us"] = 1e6 * statistics.median(answer[how] for answer in answers["xla"])
        row[how] = statistics.median(a[how] / b[how] for a, b in zip(answers["ours"], answers["xla"]))
    return row


def show(rows):
    print("| call | XLA waiting, µs | ratio | XLA ahead, µs | ratio |")
    print("|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['name']} | {row['waiting_us']:.1f} | {row['waiting']:.2f} | {row['ahead_us']:.1f} "
              f"| {row['ahead']:.2f} |")
    means = [math.exp(statistics.mean(math.log(row[how]) for row in rows)) for how in ("waiting", "ahead")]
    print(f"\ngeometric means of {len(rows)}: waiting {means[0]:.2f}, ahead {means[1]:.2f}")


def main():
    options = options_of(__doc__, Side, rounds=9)
    if options is None:
        return
    with tempfile.TemporaryDirectory() as cache:
        ours = start(__file__, plimsoll(options.build, cache))
        xla = start(__file__, {"JAX_PLATFORMS": "cpu"})
        rows = []
        for name in chosen(options, cases()):
            rows.append(measure(name, ours, xla, options.rounds))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    show(rows)


main()
