# SPDX-License-Identifier: Apache-2.0
"""Prints a table of training steps: peak and floor over XLA's bytes, times under limits, planning time."""
import argparse
import itertools
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import jax

import applied_steps
import steps

LIMITS = (0.7, 0.5)
TURNS = 3


def xla_bytes(lowered):
    memory = lowered.compile().memory_analysis()
    return (memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
            - memory.alias_size_in_bytes)


def call(command):
    return subprocess.run(command, capture_output=True, text=True)


def plan(plimsoll, program, *flags):
    start = time.perf_counter()
    done = call([plimsoll, "plan", program, "--json", *flags])
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout), seconds


def run(plimsoll, program, folder, limit, repeat):
    """Median seconds and the results' bytes; None where the limit is refused."""
    folder.mkdir()
    command = [plimsoll, "run", program, "--json", "--seed", "1", "--repeat", str(repeat), "--output-dir", str(folder)]
    done = call(command + ([] if limit is None else ["--memory-limit", str(limit)]))
    if done.returncode != 0:
        return None
    report = json.loads(done.stdout)
    if limit is not None and report["measured_peak_bytes"] > limit:
        raise RuntimeError(f"{report['measured_peak_bytes']} bytes under a limit of {limit}")
    results = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    return statistics.median(report["seconds"]), results


def measure(plimsoll, name, make, repeat, kept):
    function, arguments, donated = make()
    lowered = jax.jit(function, donate_argnums=() if kept else donated).lower(*arguments)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program = str(folder / "step.hlo")
        pathlib.Path(program).write_text(lowered.compiler_ir("hlo").as_hlo_text())
        row = {"name": name, "xla_bytes": xla_bytes(lowered)}
        try:
            report, seconds = plan(plimsoll, program)
        except RuntimeError as error:
            return row | {"error": str(error)[:100]}
        row |= {"peak": report["unlimited_peak_bytes"], "floor": report["floor_bytes"], "plan_seconds": seconds}
        shares = {str(share): int(share * row["peak"]) for share in LIMITS} | {"floor": row["floor"]}
        limits = {"free": None} | {key: limit for key, limit in shares.items() if limit >= row["floor"]}
        # In turns, so that a machine that others slow down at times slows down all alike.
        ratios = {key: [] for key in limits}
        for turn in range(TURNS):
            runs = {key: run(plimsoll, program, folder / f"{key}-{turn}", limit, repeat)
                    for key, limit in limits.items()}
            for key, found in runs.items():
                if found is None:
                    return row | {"error": f"refused at {key}"}
                if found[1] != runs["free"][1]:
                    return row | {"error": f"other bits at {key}"}
                ratios[key].append(found[0] / runs["free"][0])
        row["times"] = {key: statistics.median(found) for key, found in ratios.items() if key != "free"}
        _, row["floor_plan_seconds"] = plan(plimsoll, program, "--memory-limit", str(row["floor"]))
        if call([plimsoll, "plan", program, "--memory-limit", str(row["floor"] - 1)]).returncode != 1:
            return row | {"error": "a byte below the floor is accepted"}
    return row


def text_of(row):
    if "error" in row:
        return f"| {row['name']} | {row['xla_bytes'] / 2**20:.2f} | {row['error']} |"
    times = [f"{row['times'][key]:.2f}" if key in row["times"] else "refused"
             for key in (*map(str, LIMITS), "floor")]
    return (f"| {row['name']} | {row['xla_bytes'] / 2**20:.2f} | {row['peak'] / row['xla_bytes']:.2f} | "
            f"{row['floor'] / row['xla_bytes']:.2f} | {row['floor'] / row['peak']:.2f} | {' | '.join(times)} | "
            f"{row['plan_seconds']:.2f} | {row['floor_plan_seconds']:.2f} |")


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", help="names that hold all of these words")
    parser.add_argument("--kept", action="store_true", help="the caller keeps all arguments: nothing is donated")
    parser.add_argument("--repeat", type=int, default=5, help="runs of a turn; there are three turns")
    parser.add_argument("--json", help="write the rows here, too")
    flags = parser.parse_args()
    plimsoll = str(pathlib.Path(flags.build) / "bin" / "plimsoll")
    rows = []
    for name, make in itertools.chain(steps.steps(), applied_steps.steps()):
        if all(word in name for word in flags.only.split()):
            rows.append(measure(plimsoll, name, make, flags.repeat, flags.kept))
            print(text_of(rows[-1]), file=sys.stderr, flush=True)
    good = [row for row in rows if "error" not in row]
    print("| step | XLA, MiB | peak / XLA | floor / XLA | floor / peak | time at 0.7 of the peak | at 0.5 | at the floor | "
          "plan, s | plan at the floor, s |\n|---|---|---|---|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda row: -math.inf if "error" in row else -row["peak"] / row["xla_bytes"]):
        print(text_of(row))
    if good:
        below = sum(row["peak"] <= row["xla_bytes"] for row in good)
        print(f"\n{len(good)} of {len(rows)} steps; {below} need no more than XLA; geometric means: peak / XLA "
              f"{geometric_mean([row['peak'] / row['xla_bytes'] for row in good]):.2f}, floor / XLA "
              f"{geometric_mean([row['floor'] / row['xla_bytes'] for row in good]):.2f}, floor / peak "
              f"{geometric_mean([row['floor'] / row['peak'] for row in good]):.2f}")
    if flags.json:
        pathlib.Path(flags.json).write_text(json.dumps(rows, indent=1))
    return 1 if len(good) < len(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
