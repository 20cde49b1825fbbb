# SPDX-License-Identifier: Apache-2.0
"""Prints what sharded programs cost after Plimsoll's partitioner and after XLA's, the worst ratio first.

compare_with_xla.py [--build BUILD] [--only NAMES] [--by bytes|flops|largest|count] [--json FILE] [--keep FOLDER].
A row has the bytes that a participant receives in collectives, the FLOPs of products and convolutions, the largest
array, and the collectives that are written and run, of ours and of XLA's. Collectives of XLA's are those of its
compiled program; its FLOPs and largest array are those behind its partitioner, since compiled programs for CPUs hide
products in calls. Loops of unknown length count as ten rounds; the row ends in `?` then. The status is 1 where a
program fails.
"""
import itertools
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import workers

MEASURES = ("bytes", "flops", "largest", "count")
# What is added to bytes before they are divided, so that a few bytes beside none do not outweigh all else.
OFFSET = 256
PLIMSOLL_LIMIT = 60
SHORT = {"all-gather": "ag", "all-reduce": "ar", "reduce-scatter": "rs", "all-to-all": "aa", "collective-permute": "cp",
         "collective-broadcast": "cb", "ragged-all-to-all": "raa"}


def xla_texts(built, arguments, folder):
    """The compiled program, and the program behind XLA's partitioner."""
    options = {"xla_dump_to": str(folder), "xla_dump_hlo_as_text": True, "xla_dump_hlo_pass_re": "spmd-partitioning"}
    compiled = built.jitted.lower(*arguments).compile(compiler_options=options).as_text()
    dumped = sorted(folder.glob("*.after_spmd-partitioning*"))
    return compiled, dumped[-1].read_text() if dumped else compiled


def exported(built, arguments):
    """The program before any partitioner, of flat arguments and results, which serialize whatever the trees are."""
    import jax
    from jax import export

    import programs

    flat, tree = jax.tree.flatten(arguments)
    ends = list(itertools.accumulate(len(jax.tree.leaves(argument)) for argument in arguments))
    donated = [leaf for number in built.case.donated for leaf in range(ends[number - 1] if number else 0, ends[number])]
    function = built.case.function
    shardings = None
    if built.result_shardings is not None:
        results = jax.eval_shape(function, *arguments)
        shardings = jax.tree.leaves(programs.over_leaves(built.result_shardings, results))
    flat_function = jax.jit(lambda *leaves: jax.tree.leaves(function(*jax.tree.unflatten(tree, leaves))),
                            donate_argnums=donated, **programs.result_option(shardings))
    return export.export(flat_function)(*flat).serialize()


def partitioned(program, build):
    command = [str(build / "bin/plimsoll"), "opt", str(program), "--passes", "partition"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PLIMSOLL_LIMIT)
    if done.returncode != 0:
        raise RuntimeError(f"plimsoll has ended with {done.returncode}: {done.stderr}")
    return done.stdout


def measure(name, options):
    import jax

    import corpus
    import hlo_text

    built = corpus.build(name, jax.devices())
    shaped = lambda array, sharding: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with built.scope():
            arguments = jax.tree.map(shaped, built.arguments, built.shardings)
            compiled, behind_partitioner = xla_texts(built, arguments, folder)
            program = exported(built, arguments)
        (folder / "program.mlirbc").write_bytes(program)
        ours = partitioned(folder / "program.mlirbc", options.build)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / f"{name}.mlirbc").write_bytes(program)
        for side, text in {"ours": ours, "xla": compiled, "xla_partitioned": behind_partitioner}.items():
            (options.keep / f"{name}.{side}.hlo").write_text(text)
    xla = vars(hlo_text.cost(compiled))
    products = vars(hlo_text.cost(behind_partitioner))
    xla |= {key: products[key] for key in ("flops", "largest", "largest_shape")}
    return {"ours": vars(hlo_text.cost(ours)), "xla": xla}


def ratio(row, measure):
    ours, xla = row["ours"][measure], row["xla"][measure]
    if ours == xla:
        return 1.0
    return ours / xla if xla else math.inf


def ratio_with_offset(row, measure, offset=OFFSET):
    return (row["ours"][measure] + offset) / (row["xla"][measure] + offset)


def order(row, by):
    if "error" in row:
        return (0,)
    return (1, -ratio_with_offset(row, by, OFFSET if by == "bytes" else 1), -ratio(row, "flops"))


def short(number):
    if number < 1e4:
        return f"{number:.0f}"
    return f"{number / 1e3:.0f}k" if number < 1e7 else f"{number / 1e6:.1f}M"


def kinds_of(cost):
    return "+".join(f"{written}{SHORT[kind]}" for kind, (written, _) in sorted(cost["kinds"].items())) or "-"


def text_of(row):
    if "error" in row:
        return f"{row['name']:29} fails: {row['error']}"
    ours, xla = row["ours"], row["xla"]
    return (f"{row['name']:29} bytes {ratio(row, 'bytes'):6.2f} ({short(ours['bytes'])}/{short(xla['bytes'])})  "
            f"flops {ratio(row, 'flops'):5.2f} ({short(ours['flops'])}/{short(xla['flops'])})  "
            f"largest {ratio(row, 'largest'):5.2f} ({ours['largest_shape']}/{xla['largest_shape']})  "
            f"written {ours['static']}/{xla['static']} run {ours['count']}/{xla['count']}  "
            f"[{kinds_of(ours)} / {kinds_of(xla)}]{' ?' if ours['unknown'] or xla['unknown'] else ''}")


def summary(rows):
    good = [row for row in rows if "error" not in row]
    text = f"{len(rows)} programs, {len(rows) - len(good)} failed"
    if not good:
        return text
    mean = lambda measure: math.exp(sum(math.log(ratio_with_offset(row, measure)) for row in good) / len(good))
    means = ", ".join(f"{measure} {mean(measure):.3f}" for measure in ("bytes", "flops", "largest"))
    more = sum(row["ours"]["bytes"] > row["xla"]["bytes"] for row in good)
    fewer = sum(row["ours"]["bytes"] < row["xla"]["bytes"] for row in good)
    return (f"{text}; geometric means of ours / XLA (of the value + {OFFSET}): {means}; "
            f"more bytes than XLA in {more}, fewer in {fewer}")


def main():
    parser = workers.parser_of(__doc__)
    parser.add_argument("--by", default="bytes", choices=MEASURES, help="whose ratio orders the rows")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows here, too")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder to write the programs' texts to")
    options = parser.parse_args()
    if options.serve:
        workers.serve(lambda name: measure(name, options))
        return 0
    os.environ["JAX_PLATFORMS"] = "cpu"
    import corpus

    names = corpus.chosen(options.only)
    answers = workers.answers(names, workers.on_xla(), options.limit, shared=True)
    rows = sorted(({"name": name} | answer for name, answer in answers), key=lambda row: order(row, options.by))
    for row in rows:
        print(text_of(row))
    print(summary(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 1 if not rows or any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
