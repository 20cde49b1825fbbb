#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plimsoll beside JAX and PyTorch: every case in turns in one run, ratios of medians.

One JSON object goes to standard output, a table to standard error: rows as they are measured, then all of them, what we lose
first. `over_X` is X's time by ours: above 1 we are faster. Every row says on which processor it was measured, and how many other
programs wanted one (`load`: the system's load average of a minute, the sides' own threads included). `share`: of what the
machine does in the same rounds, a triad's bytes per second or a large f32 product's operations.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

# Freed memory stays with the process on all sides, so that nobody is timed while pages are mapped.
WARM_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "1073741824"}


class Plimsoll:
    """The coprocess `program_loop`: programs stay compiled, buffers stay on the device."""

    def __init__(self, build, threads):
        environment = dict(os.environ, PLIMSOLL_NUM_THREADS=str(threads))
        self.process = subprocess.Popen(
            [os.path.join(build, "benchmarks", "program_loop")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("program_loop ended at: " + " ".join(str(w) for w in words))
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer


def as_tuple(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def worst_error(ours, theirs, groups):
    """The largest difference, by the largest magnitude in the group of arrays (at least 1e-6)."""
    import numpy as np

    worst = 0.0
    for group in groups or [(i,) for i in range(len(theirs))]:
        difference, scale = 0.0, 1e-6
        for i in group:
            a, b = np.asarray(ours[i], np.float32), np.asarray(theirs[i], np.float32)
            if a.shape != b.shape:
                return float("inf")
            difference = max(difference, float(np.abs(a - b).max(initial=0)))
            scale = max(scale, float(np.abs(b).max(initial=0)))
        worst = max(worst, difference / scale)
    return worst


class Sides:
    """The ways to run one case: name -> function of a count that returns seconds per run."""

    def __init__(self, case, plimsoll, folder, compile_torch):
        import jax
        import jax.numpy as jnp
        import ml_dtypes
        import numpy as np
        import torch

        self.runs, self.compile_seconds, self.errors = {}, {}, {}
        wide = case.dtype == "f32"

        def narrow(a):
            return a if wide or a.dtype != np.float32 else a.astype(ml_dtypes.bfloat16)

        arrays = [narrow(a) for a in case.inputs]
        os.makedirs(folder, exist_ok=True)
        for i, a in enumerate(arrays):
            np.save(f"{folder}/{i}.npy", a)
        jitted = jax.jit(case.jax, donate_argnums=case.donated, keep_unused=True)
        lowered = jitted.lower(*arrays)
        with open(f"{folder}/program.hlo", "w") as f:
            f.write(lowered.compiler_ir(dialect="hlo").as_hlo_text(print_large_constants=True))

        loaded = plimsoll.ask("load", case.name, f"{folder}/program.hlo", folder)
        self.compile_seconds["plimsoll"] = loaded["compile_seconds"]
        self.peak_bytes = loaded["peak_bytes"]
        plimsoll.ask("run", case.name, 1)
        count = plimsoll.ask("save", case.name, folder + "/out")["outputs"]

        def read(path):
            a = np.load(path)
            return a.view(ml_dtypes.bfloat16) if a.dtype == np.dtype("V2") else a

        ours = [read(f"{folder}/out/{i}.npy") for i in range(count)]
        self.runs["plimsoll"] = lambda n: plimsoll.ask("run", case.name, n)["seconds"]

        start = time.perf_counter()
        compiled = lowered.compile()
        self.compile_seconds["jax"] = time.perf_counter() - start
        state = [jnp.asarray(a) for a in arrays]

        def run_jax(n):
            seconds = []
            for _ in range(n):
                start = time.perf_counter()
                out = as_tuple(jax.block_until_ready(compiled(*state)))
                seconds.append(time.perf_counter() - start)
                # Outputs take the place of the inputs they were donated, the last ones first.
                for i, at in enumerate(reversed(case.donated)):
                    state[at] = out[-1 - i]
                self.last_jax = out
            return seconds

        run_jax(1)
        self.errors["jax"] = worst_error(ours, self.last_jax, case.compared)
        self.runs["jax"] = run_jax

        def tensor(a):
            t = torch.from_numpy(np.array(a, np.float32 if a.dtype == ml_dtypes.bfloat16 else a.dtype))
            return t if wide or not t.is_floating_point() else t.to(torch.bfloat16)

        def torch_side(function, name):
            inputs = [tensor(a) for a in arrays]

            def run(n):
                seconds = []
                for _ in range(n):
                    start = time.perf_counter()
                    out = as_tuple(function(*inputs))
                    seconds.append(time.perf_counter() - start)
                self.last_torch = out
                return seconds

            start = time.perf_counter()
            run(1)
            self.compile_seconds[name] = time.perf_counter() - start
            self.errors[name] = worst_error(ours, [t.float().numpy() for t in self.last_torch], case.compared)
            self.runs[name] = run

        torch_side(case.torch, "torch_eager")
        if compile_torch:
            torch._dynamo.reset()
            whole = lambda: torch.compile(case.torch, dynamic=False)
            torch_side((case.compiled_torch or whole)(), "torch_compiled")


class Limits:
    """What the machine does at most: programs of ours that are run between the sides."""

    PROGRAMS = {
        "triad": (
            "HloModule triad\nENTRY e {\n  b = f32[16777216] parameter(0)\n  c = f32[16777216] parameter(1)\n"
            "  s = f32[] constant(3)\n  f = f32[16777216] broadcast(s), dimensions={}\n"
            "  p = f32[16777216] multiply(f, c)\n  ROOT a = f32[16777216] add(b, p)\n}\n",
            (16777216,),
            3 * 4 * 16777216,
        ),
        "product": (
            "HloModule product\nENTRY e {\n  a = f32[1536,1536] parameter(0)\n  b = f32[1536,1536] parameter(1)\n"
            "  ROOT c = f32[1536,1536] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
            (1536, 1536),
            2 * 1536**3,
        ),
    }

    def __init__(self, folder):
        import numpy as np

        self.folders = {}
        for name, (text, shape, _) in self.PROGRAMS.items():
            self.folders[name] = f"{folder}/limit_{name}"
            os.makedirs(self.folders[name])
            with open(f"{self.folders[name]}/program.hlo", "w") as f:
                f.write(text)
            for i in range(2):
                np.save(f"{self.folders[name]}/{i}.npy", np.random.default_rng(i).random(shape, dtype=np.float32))

    def load(self, plimsoll):
        for name, folder in self.folders.items():
            plimsoll.ask("load", f"limit_{name}", f"{folder}/program.hlo", folder)
            plimsoll.ask("run", f"limit_{name}", 2)
        self.plimsoll = plimsoll

    def seconds(self, name):
        return min(self.plimsoll.ask("run", f"limit_{name}", 2)["seconds"])

    def per_second(self, name, seconds):
        return self.PROGRAMS[name][2] / seconds


def processor():
    """Its name, or the machine's kind where the system does not say."""
    try:
        with open("/proc/cpuinfo") as lines:
            named = dict(part for part in (line.split(":", 1) for line in lines) if len(part) == 2)
        vectors = next((w for w in ("avx512f", "avx2") if w in next(v for k, v in named.items() if k.startswith("flags"))), "")
        return " ".join(w for w in (next(v for k, v in named.items() if k.startswith("model name")).strip(), vectors) if w)
    except (OSError, StopIteration):
        return platform.machine()


HEADING = ("case", "ms", "GB/s", "Gflop/s", "share", "eager", "compiled", "jax", "best compiled", "load", "agrees")
LINE = "%-34s %9s %7s %7s %6s %7s %9s %7s %14s %6s %7s"


def print_row(row):
    number = lambda key: "%.2f" % row[key] if key in row else "-"
    print(
        LINE
        % (
            row["case"],
            "%.3f" % row["milliseconds"]["plimsoll"],
            number("gb_per_s"),
            number("gflop_per_s"),
            number("share"),
            number("over_torch_eager"),
            number("over_torch_compiled"),
            number("over_jax"),
            number("over_best_compiled"),
            "%.1f" % row["load"],
            "yes" if row["agree"] else "NO %.1e" % max(row["difference"].values()),
        ),
        file=sys.stderr,
        flush=True,
    )


def measure(case, sides, limits, rounds, seconds_per_round):
    load = os.getloadavg()[0]
    once = {name: min(run(2)) for name, run in sides.runs.items()}
    times = {name: [] for name in sides.runs}
    limit = "triad" if case.bytes else "product" if case.flops else None
    at_most = []
    for _ in range(rounds):
        if limit:
            at_most.append(limits.seconds(limit))
        for name, run in sides.runs.items():
            time.sleep(0.03)  # until the threads of the side before sleep, too
            run(1)
            times[name] += run(max(1, min(200, int(seconds_per_round / max(1e-6, once[name])))))
    medians = {name: statistics.median(t) for name, t in times.items()}
    row = {
        "case": case.name,
        "milliseconds": {k: 1e3 * v for k, v in medians.items()},
        "compile_seconds": sides.compile_seconds,
        "difference": sides.errors,
        "agree": all(e <= case.tolerance for e in sides.errors.values()),
        "peak_bytes": sides.peak_bytes,
        "load": max(load, os.getloadavg()[0]),
        "processor": processor(),
    }
    if limit:
        done = (case.bytes or case.flops) / medians["plimsoll"]
        row["gb_per_s" if case.bytes else "gflop_per_s"] = done * 1e-9
        row["share"] = done / limits.per_second(limit, statistics.median(at_most))
    for name, value in medians.items():
        if name != "plimsoll":
            row["over_" + name] = value / medians["plimsoll"]
    row["over_best_compiled"] = min(row[k] for k in ("over_jax", "over_torch_compiled") if k in row)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="a build folder of the project (release)")
    parser.add_argument("--only", help="cases whose name contains one of these words, by commas")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--round-seconds", type=float, default=0.1, help="of each side in each round")
    parser.add_argument("--no-torch-compile", action="store_true")
    flags = parser.parse_args()
    if not os.path.exists(os.path.join(flags.build, "benchmarks", "program_loop")):
        parser.error(f"{flags.build}/benchmarks/program_loop is missing: build the project's benchmarks first")
    if os.environ.get("MALLOC_TOP_PAD_") != WARM_MEMORY["MALLOC_TOP_PAD_"]:
        os.environ.update(WARM_MEMORY, OMP_NUM_THREADS=str(flags.threads), JAX_PLATFORMS="cpu")
        # JAX takes as many threads as the process may use processors.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: flags.threads])
        os.execv(sys.executable, [sys.executable] + sys.argv)
    try:
        import jax
        import torch
    except ImportError as error:
        parser.error(f"{error}: run benchmarks/setup.sh peers FOLDER and use FOLDER/bin/python")
    torch.set_num_threads(flags.threads)
    import cases
    import networks
    import product_cases
    import row_cases

    everything = cases.cases() + row_cases.cases() + product_cases.cases() + networks.networks()
    plimsoll = Plimsoll(flags.build, flags.threads)
    rows = []
    print(LINE % HEADING, file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        limits = Limits(folder)
        limits.load(plimsoll)
        for case in everything:
            if flags.only and not any(word in case.name for word in flags.only.split(",")):
                continue
            try:
                sides = Sides(case, plimsoll, f"{folder}/{case.name}", not flags.no_torch_compile)
                row = measure(case, sides, limits, flags.rounds, flags.round_seconds)
            except Exception as error:  # one side's failure is a row, not the end
                rows.append({"case": case.name, "error": str(error)[:2000]})
                print(f"{case.name}: {str(error)[:300]}", file=sys.stderr)
                continue
            finally:
                if plimsoll.process.poll() is not None:
                    plimsoll = Plimsoll(flags.build, flags.threads)
                    limits.load(plimsoll)
            plimsoll.ask("drop", case.name)
            rows.append(row)
            print_row(row)
    # What failed is a loss, too.
    rows.sort(key=lambda row: row.get("over_best_compiled", 0.0))
    print(f"\nWhat we lose first, on {processor()}, {flags.threads} threads:", file=sys.stderr)
    print(LINE % HEADING, file=sys.stderr)
    for row in rows:
        print_row(row) if "error" not in row else print(f"{row['case']}: failed", file=sys.stderr)
    versions = {"jax": jax.__version__, "torch": torch.__version__}
    print(json.dumps({"threads": flags.threads, "versions": versions, "cases": rows}))


if __name__ == "__main__":
    main()
