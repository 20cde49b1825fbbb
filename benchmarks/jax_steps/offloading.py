# SPDX-License-Identifier: Apache-2.0
"""Prints the bytes and times, on Plimsoll and on XLA's CPU backend, of programs whose authors found them too large.

    python offloading.py --build BUILD [--only WORDS] [--rounds N]

- "layers": the gradients of ten pairs of products, with the shapes of JAX's tutorial on host offloading; scanned as
  there, or one by one from a list; with arguments that stay, or that are donated.
- "pair counts": how often each pair of values occurs in each pair of columns, in the spirit of openxla/xla#35719.

A row is a process: XLA's, ours without a limit, at shares of that peak, and at the floor, the smallest limit that is
not refused. Bytes are what JAX's own `memory_analysis()` says on both sides (arguments, results and temporaries, less
what shares a place); "measured" is the process's peak by `memory_stats()` after its first run. Times are medians of
rounds in which the processes take turns, over those without a limit. Fails where results differ in one bit between
limits, differ from XLA's by more than rounding, or a byte less than the floor is accepted."""
import hashlib
import json
import pathlib
import re
import statistics
import sys
import tempfile

from sides import ask, chosen, options_of, plimsoll, start

SHARES = (0.9, 0.8, 0.7, 0.6, 0.5)
MIB = 2**20


# ----- programs: a function, its arguments and which of them are donated


def layer_weights(seed):
    import numpy

    generator = numpy.random.default_rng(seed)
    return [(generator.normal(0, 0.05, (256, 1024)).astype("float32"),
             generator.normal(0, 0.05, (1024, 256)).astype("float32")) for _ in range(10)]


def layer_input():
    import numpy

    return numpy.random.default_rng(1).normal(0, 1, (256, 256)).astype("float32")


def scanned(donated):
    import jax
    import numpy

    def loss(weights, x):
        return jax.lax.scan(lambda x, pair: ((x @ pair[0]) @ pair[1], None), x, weights)[0].sum()

    first, second = zip(*layer_weights(0))
    return jax.grad(loss), ((numpy.stack(first), numpy.stack(second)), layer_input()), donated


def listed(donated):
    import jax

    def loss(weights, x):
        for first, second in weights:
            x = (x @ first) @ second
        return x.sum()

    return jax.grad(loss), (layer_weights(0), layer_input()), donated


def pair_counts():
    import jax.numpy as jnp
    import numpy

    kinds = [8 + 3 * i for i in range(6)]
    generator = numpy.random.default_rng(0)
    columns = [generator.integers(0, k, 1_000_000, dtype=numpy.int32) for k in kinds]

    def count(columns):
        tables = []
        for rows, row in zip(kinds, columns):
            for others, other in zip(kinds, columns):
                cell = jnp.ravel_multi_index((row, other), (rows, others), mode="clip")
                tables.append(jnp.bincount(cell, length=rows * others).reshape(rows, others))
        return tables

    return count, (columns,), ()


PROGRAMS = {
    "layers scanned": lambda: scanned(()),
    "layers scanned, donated": lambda: scanned((0,)),
    "layers listed": lambda: listed(()),
    "layers listed, donated": lambda: listed((0,)),
    "pair counts": pair_counts,
}


# ----- a side: a program under a limit


class Side:
    def prepare(self, name, limit, results):
        import jax
        import numpy

        function, arguments, donated = PROGRAMS[name]()
        options = None if limit is None else {"plimsoll_memory_limit": str(limit)}
        jitted = jax.jit(function, donate_argnums=donated, compiler_options=options)
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), arguments)
        memory = jitted.lower(*shapes).compile().memory_analysis()
        # Copies are JAX's own: what NumPy holds, too, would not be given away.
        self.arguments = lambda: jax.block_until_ready(jax.tree.map(lambda x: jax.numpy.array(x, copy=True), arguments))
        self.kept = None if donated else self.arguments()
        self.call = lambda given: jax.block_until_ready(jitted(*given))
        values = self.call(self.kept or self.arguments())
        stats = jax.local_devices()[0].memory_stats()
        values = [numpy.asarray(value) for value in jax.tree.leaves(values)]
        digest = hashlib.sha256(b"".join(value.tobytes() for value in values)).hexdigest()
        if results:
            numpy.savez(results, *values)
        return {"arguments": memory.argument_size_in_bytes, "results": memory.output_size_in_bytes,
                "temporaries": memory.temp_size_in_bytes, "shared": memory.alias_size_in_bytes,
                "measured": stats["peak_bytes_in_use"] if stats else None, "digest": digest}

    def run(self):
        import time

        seconds = []
        for _ in range(5):
            given = self.kept or self.arguments()
            start = time.perf_counter()
            self.call(given)
            seconds.append(time.perf_counter() - start)
        return {"seconds": statistics.median(seconds)}


# ----- the table


def total(answer):
    return answer["arguments"] + answer["results"] + answer["temporaries"] - answer["shared"]


def floor_of(error):
    found = re.search(r"the smallest that would do is (\d+)", error)
    if not found:
        raise RuntimeError(error)
    return int(found.group(1))


def difference(ours, theirs):
    """The largest difference over the largest value, of all results."""
    import numpy

    with numpy.load(ours) as a, numpy.load(theirs) as b:
        return max(float(numpy.max(numpy.abs(a[key].astype("f8") - b[key])) / max(1e-30, numpy.max(numpy.abs(b[key]))))
                   for key in a.files)


def measure(name, build, folder, rounds):
    cache = folder / "cache"

    def ours(limit, results=None):
        side = start(__file__, plimsoll(build, cache))
        return side, ask(side, do="prepare", name=name, limit=limit, results=results)

    rows = []

    def add(label, side, answer):
        if "error" in answer:
            raise RuntimeError(f"{name}, {label}: {answer['error']}")
        rows.append({"label": label, "side": side, **answer})

    xla = start(__file__, {"JAX_PLATFORMS": "cpu"})
    add("XLA", xla, ask(xla, do="prepare", name=name, limit=None, results=str(folder / "xla.npz")))
    add("no limit", *ours(None, str(folder / "ours.npz")))
    peak = total(rows[1])
    refused = ours(1)
    floor = floor_of(refused[1]["error"])
    for share in SHARES:
        if share * peak > floor:
            add(f"{share} of the peak", *ours(int(share * peak)))
    add("floor", *ours(floor))
    less = ours(floor - 1)
    for side in (refused[0], less[0]):
        side.stdin.close()
    if "error" not in less[1]:
        raise RuntimeError(f"{name}: {floor - 1} bytes are accepted, less than the floor")
    for row in rows[2:]:
        if row["digest"] != rows[1]["digest"]:
            raise RuntimeError(f"{name}: other bits at {row['label']}")
    off = difference(folder / "ours.npz", folder / "xla.npz")
    if off > 1e-5:
        raise RuntimeError(f"{name}: results differ from XLA's by {off}")
    times = [[] for _ in rows]
    for i in range(rounds):
        for at in range(len(rows)) if i % 2 == 0 else reversed(range(len(rows))):
            times[at].append(ask(rows[at]["side"], do="run")["seconds"])
    for row, seconds in zip(rows, times):
        row["seconds"] = statistics.median(seconds)
        row["time"] = statistics.median(a / b for a, b in zip(seconds, times[1]))
        row.pop("side").stdin.close()
    return {"name": name, "rows": rows, "difference": off}


def show(measured):
    def mib(count):
        return "" if count is None else f"{count / MIB:.2f}"

    print("| program | | arguments | results | shared | temporaries | all, MiB | measured | time |")
    print("|---|---|---|---|---|---|---|---|---|")
    for program in measured:
        for i, row in enumerate(program["rows"]):
            print(f"| {program['name'] if i == 0 else ''} | {row['label']} | {mib(row['arguments'])} "
                  f"| {mib(row['results'])} | {mib(row['shared'])} | {mib(row['temporaries'])} | {mib(total(row))} "
                  f"| {mib(row['measured'])} | {row['time']:.2f} |")
    print()
    for program in measured:
        print(f"{program['name']}: the same bits at all limits, {program['difference']:.1e} from XLA's; "
              f"{1e3 * program['rows'][1]['seconds']:.1f} ms without a limit")


def main():
    options = options_of(__doc__, Side, rounds=5)
    if options is None:
        return
    measured = []
    for name in chosen(options, PROGRAMS):
        with tempfile.TemporaryDirectory() as folder:
            measured.append(measure(name, options.build, pathlib.Path(folder), options.rounds))
        print(json.dumps(measured[-1]), flush=True, file=sys.stderr)
    show(measured)


main()
