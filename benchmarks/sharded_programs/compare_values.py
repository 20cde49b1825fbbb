# SPDX-License-Identifier: Apache-2.0
"""Prints for each sharded program whether its values on Plimsoll's devices are those on one CPU device of XLA's.

compare_values.py [--build BUILD] [--only NAMES] [--xla]. Every device's copy and the shardings of the results are
compared, too. `--xla` judges the programs themselves: on several CPU devices of XLA's in place of Plimsoll's. The
status is 1 where a value is wrong or a program fails.
"""
import os
import sys
import time

import workers

SHOWN = 4


def run(name, devices):
    """The program and its results, on as many of the devices as its mesh has, or on the only one."""
    import jax

    import corpus

    built = corpus.build(name, devices)
    with built.scope():
        arguments = jax.tree.map(jax.device_put, built.arguments, built.shardings)
        return built, jax.block_until_ready(built.jitted(*arguments))


def distance(found, expected, whole):
    """The largest difference, by the whole array's largest value; of integers, 1 where any differs."""
    import numpy as np

    if expected.dtype.kind in "iub":
        return float((found != expected).any())
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    largest = np.max(np.abs(whole.astype(wide)), initial=0)
    return float(np.max(np.abs(found.astype(wide) - expected.astype(wide)), initial=0) / (largest + 1e-6))


def compare_leaf(path, found, expected, tolerance):
    """The largest distance of a result, and what is wrong with it."""
    import numpy as np

    whole = np.asarray(found)
    if whole.shape != expected.shape or whole.dtype != expected.dtype:
        return 0.0, [f"{path} {whole.dtype}{whole.shape} for {expected.dtype}{expected.shape}"]
    worst = 0.0
    wrong = []
    # Of copies, the whole array has only the first one's values.
    views = [(path, whole, expected)]
    views += [(f"{path}@device{shard.device.id}", np.asarray(shard.data), expected[shard.index])
              for shard in found.addressable_shards]
    for where, part, part_expected in views:
        if part.shape != part_expected.shape:
            wrong.append(f"{where} {part.shape} for {part_expected.shape}")
            continue
        one = distance(part, part_expected, expected)
        # Written so that NaN is wrong.
        if not one <= worst:
            worst = one
        if not one <= tolerance:
            wrong.append(f"{where} {one:.2e}")
    return worst, wrong


def wrong_shardings(built, paths, results):
    import jax

    import programs

    if built.result_shardings is None:
        return []
    expected = jax.tree.leaves(programs.over_leaves(built.result_shardings, results))
    return [f"{path} sharding {getattr(leaf.sharding, 'spec', leaf.sharding)} for {sharding.spec}"
            for path, leaf, sharding in zip(paths, jax.tree.leaves(results), expected, strict=True)
            if not leaf.sharding.is_equivalent_to(sharding, leaf.ndim)]


def judge(name, options):
    import jax
    import numpy as np

    cpu = jax.devices("cpu")
    with jax.default_device(cpu[0]):
        _, expected = run(name, cpu[:1])
    expected = [np.asarray(leaf) for leaf in jax.tree.leaves(expected)]
    devices = cpu if options.xla else jax.devices("plimsoll")
    built, results = run(name, devices)
    tolerance = built.case.tolerance if options.tolerance is None else options.tolerance
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(results)]
    worst = 0.0
    wrong = []
    for path, found, leaf in zip(paths, jax.tree.leaves(results), expected, strict=True):
        distance_found, wrong_found = compare_leaf(path, found, leaf, tolerance)
        if not distance_found <= worst:
            worst = distance_found
        wrong += wrong_found
    return {"distance": worst, "wrong": wrong + wrong_shardings(built, paths, results)}


def text_of(answer):
    if "error" in answer:
        return f"fails: {answer['error']}"
    wrong = answer["wrong"]
    if not wrong:
        return f"right, within {answer['distance']:.1e}"
    more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    return f"wrong: {'; '.join(wrong[:SHOWN])}{more}"


def main():
    parser = workers.parser_of(__doc__)
    parser.add_argument("--xla", action="store_true", help="compare XLA's CPU devices in place of Plimsoll's")
    parser.add_argument("--tolerance", type=float, help="in place of the programs' own")
    options = parser.parse_args()
    if options.serve:
        workers.serve(lambda name: judge(name, options))
        return 0
    os.environ["JAX_PLATFORMS"] = "cpu"
    import corpus

    names = corpus.chosen(options.only)
    environment = workers.on_xla() if options.xla else workers.on_plimsoll(options.build)
    counts = {"right": 0, "wrong": 0, "fails": 0}
    begin = time.perf_counter()
    for name, answer in workers.answers(names, environment, options.limit, shared=False):
        end = time.perf_counter()
        text = text_of(answer)
        counts[text.split(",")[0].split(":")[0]] += 1
        print(f"{name:29} {text}  [{end - begin:.1f} s]", flush=True)
        begin = end
    print(f"{len(names)} programs: {counts['right']} right, {counts['wrong']} wrong, {counts['fails']} failed")
    return 0 if names and counts["right"] == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
