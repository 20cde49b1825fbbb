# SPDX-License-Identifier: Apache-2.0
"""Prints how JAX's programs run on Plimsoll beside XLA's CPU backend: run time, first call, peak bytes.

    python beside_xla.py --build BUILD [--operations] [--only WORDS] [--rounds N]

`--operations`: single operations and small loops, of which there are some 270, instead of programs; without a limit alone.

Each side has a process of its own, with the same JAX, the same programs and two threads, and runs in turns with the
other. Ratios are ours over XLA's, so that below 1 we are better. A first call traces, lowers, compiles and runs, with
an empty kernel cache. Bytes are what JAX's own `memory_analysis()` says on both sides: arguments, results and
temporaries, without those that share a place."""
import json
import math
import statistics
import sys
import tempfile

from sides import ask, chosen, options_of, plimsoll, start


# ----- a side


def one_liners():
    import jax
    import jax.numpy as jnp

    def normal(*shape):
        return jax.random.normal(jax.random.key(0), shape)

    def places(count, extent):
        return jax.random.randint(jax.random.key(1), (count,), 0, extent)

    return [
        ("add", lambda: (lambda x, y: x + y, (normal(1024, 1024), normal(1024, 1024)), ())),
        ("chain", lambda: (lambda x: jnp.tanh(x * 2 + 1) * jax.nn.sigmoid(x), (normal(1024, 1024),), ())),
        ("sum of rows", lambda: (lambda x: x.sum(1), (normal(2048, 1024),), ())),
        ("softmax", lambda: (lambda x: jax.nn.softmax(x), (normal(1024, 1024),), ())),
        ("layer norm", lambda: (lambda x: (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5),
                                (normal(1024, 1024),), ())),
        ("matmul", lambda: (lambda x, y: x @ y, (normal(512, 512), normal(512, 512)), ())),
        ("batched einsum", lambda: (lambda x, y: jnp.einsum("bij,bjk->bik", x, y),
                                    (normal(32, 64, 128), normal(32, 128, 64)), ())),
        ("transpose", lambda: (lambda x: x.T + 1, (normal(1024, 1024),), ())),
        ("sort", lambda: (lambda x: jnp.sort(x), (normal(256, 1024),), ())),
        ("cumulative sum", lambda: (lambda x: jnp.cumsum(x, 1), (normal(256, 1024),), ())),
        ("take rows", lambda: (lambda x, i: x[i], (normal(8192, 64), jnp.arange(4096) * 7 % 8192), ())),
        ("take elements", lambda: (lambda x, i: x[i], (normal(100000), places(100000, 100000)), ())),
        ("scatter, counts", lambda: (lambda i: jnp.bincount(i, length=1000), (places(1000000, 1000),), ())),
        ("scatter, segment sums", lambda: (lambda x, i: jax.ops.segment_sum(x, i, 100000),
                                           (normal(100000), places(100000, 100000)), ())),
        ("scatter, elements set", lambda: (lambda x, i, y: x.at[i].set(y),
                                           (normal(100000), places(100000, 100000), normal(100000)), ())),
        ("scatter, maxima", lambda: (lambda x, i, y: x.at[i].max(y),
                                     (normal(100000), places(100000, 100000), normal(100000)), ())),
        ("scatter, elements of a matrix", lambda: (lambda x, i, j, y: x.at[i, j].add(y), (
            normal(1000, 1000), places(100000, 1000), places(100000, 1000)[::-1], normal(100000)), ())),
        ("scatter, rows of 4", lambda: (lambda x, i, y: x.at[i].add(y),
                                        (normal(100000, 4), places(100000, 100000), normal(100000, 4)), ())),
        ("scatter, rows of 256", lambda: (lambda x, i, y: x.at[i].add(y),
                                          (normal(10000, 256), places(8192, 10000), normal(8192, 256)), ())),
        ("random normal", lambda: (lambda k: jax.random.normal(k, (512, 1024)), (jax.random.key(1),), ())),
        ("solve", lambda: (lambda a, b: jnp.linalg.solve(a, b),
                           (normal(128, 128) + 20 * jnp.eye(128), normal(128, 16)), ())),
        ("fft", lambda: (lambda x: jnp.abs(jnp.fft.rfft(x)), (normal(256, 1024),), ())),
    ]


def cases():
    import steps

    small = {"gpt scanned 6x64", "gpt unrolled 6x128", "bert 2x64", "vit 6x64", "moe 8 experts", "mixer adafactor",
             "lstm scan 64", "gru scan", "state space", "conv scan", "resnet small", "unet", "mlp deep", "vae",
             "embeddings", "graph net", "physics"}
    return one_liners() + [step for step in steps.steps() if step[0] in small]


def single_operations():
    from loops import LOOPS
    from operations import OPERATIONS, WIDE_OPERATIONS

    return OPERATIONS + LOOPS + WIDE_OPERATIONS


class Side:
    def __init__(self):
        import jax

        self.jax = jax
        from operations import WIDE_OPERATIONS

        self.made = dict(cases() + single_operations())
        self.wide = {name for name, _ in WIDE_OPERATIONS}

    def prepare(self, name, limit=None):
        import time

        jax = self.jax
        jax.clear_caches()
        jax.config.update("jax_enable_x64", name in self.wide)
        function, arguments, _ = self.made[name]()
        arguments = jax.block_until_ready(jax.tree.map(jax.numpy.asarray, arguments))
        options = None if limit is None else {"plimsoll_memory_limit": str(limit)}
        start = time.perf_counter()
        jitted = jax.jit(function, compiler_options=options)
        jax.block_until_ready(jitted(*arguments))
        first = time.perf_counter() - start
        memory = jitted.lower(*arguments).compile().memory_analysis()
        self.run_now = lambda: jax.block_until_ready(jitted(*arguments))
        return {"first": first,
                "bytes": memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
                         - memory.alias_size_in_bytes}

    def run(self):
        import time

        seconds = []
        end = time.perf_counter() + 0.25
        while len(seconds) < 3 or time.perf_counter() < end and len(seconds) < 200:
            start = time.perf_counter()
            self.run_now()
            seconds.append(time.perf_counter() - start)
        return {"seconds": statistics.median(seconds)}


# ----- the table


def measure(name, ours, xla, rounds, with_half):
    row = {"name": name}
    first = {"ours": ask(ours, do="prepare", name=name), "xla": ask(xla, do="prepare", name=name)}
    for side, answer in first.items():
        if "error" in answer:
            row["error"] = f"{side}: {answer['error'].splitlines()[0][:200]}"
            return row
    times = {"ours": [], "xla": []}
    for i in range(rounds):
        sides = [("ours", ours), ("xla", xla)]
        for key, side in sides if i % 2 == 0 else reversed(sides):
            times[key].append(ask(side, do="run")["seconds"])
    if with_half:
        row["half"] = None
    if with_half and "error" not in ask(ours, do="prepare", name=name, limit=first["xla"]["bytes"] // 2):
        row["half"] = statistics.median(ask(ours, do="run")["seconds"] / ask(xla, do="run")["seconds"]
                                        for _ in range(rounds))
    row["xla_ms"] = 1e3 * statistics.median(times["xla"])
    row["run"] = statistics.median(a / b for a, b in zip(times["ours"], times["xla"]))
    row["first"] = first["ours"]["first"] / first["xla"]["first"]
    row["xla_first"] = first["xla"]["first"]
    row["xla_mib"] = first["xla"]["bytes"] / 2**20
    row["bytes"] = first["ours"]["bytes"] / first["xla"]["bytes"]
    return row


def mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def show(rows):
    good = [row for row in rows if "error" not in row]
    with_half = any("half" in row for row in good)
    print("| program | XLA, ms | run | XLA's first call, s | first call | XLA, MiB | bytes |"
          + " time at half of XLA's bytes |" * with_half)
    print("|---|---|---|---|---|---|---|" + "---|" * with_half)
    for row in sorted(good, key=lambda row: -row["run"]):
        half = ""
        if with_half:
            half = " refused |" if row["half"] is None else f" {row['half']:.2f} |"
        print(f"| {row['name']} | {row['xla_ms']:.3g} | {row['run']:.2f} | {row['xla_first']:.2f} | {row['first']:.2f} "
              f"| {row['xla_mib']:.2f} | {row['bytes']:.2f} |{half}")
    for row in rows:
        if "error" in row:
            print(f"| {row['name']} | {row['error']} | | | | | | |")
    if good:
        halves = [row["half"] for row in good if row.get("half") is not None]
        print(f"\ngeometric means of {len(good)}: run {mean([r['run'] for r in good]):.2f}, first call "
              f"{mean([r['first'] for r in good]):.2f}, bytes {mean([r['bytes'] for r in good]):.2f}"
              + (f"; at half of XLA's bytes {len(halves)} run, time {mean(halves):.2f}" if halves else ""))


def main():
    options = options_of(__doc__, Side, rounds=5, operations=True)
    if options is None:
        return
    with tempfile.TemporaryDirectory() as cache:
        ours = start(__file__, plimsoll(options.build, cache))
        xla = start(__file__, {"JAX_PLATFORMS": "cpu"})
        rows = []
        for name in chosen(options, (name for name, _ in (single_operations() if options.operations else cases()))):
            rows.append(measure(name, ours, xla, options.rounds, not options.operations))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    show(rows)


main()
