#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plimsoll on cuda:0 beside PyTorch (eager, compiled, with a memory budget) and JAX, on the same GPU, within --seconds.

The GPT of gpu_steps (f32, TF32 off): time of a step and the most bytes that it held; kernels that move memory; the largest batch that
trains within --limit. All sides get ready at the same time, each in a process of its own, and are measured one after the other. One JSON
object goes to standard output, tables to standard error, what Plimsoll loses first. A side that is not installed, fails, or is not
ready in time is left out and named.
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SIDES = ("torch", "torch-compiled", "torch-budget", "jax")


def say(text=""):
    print(text, file=sys.stderr, flush=True)


class Side:
    """A peer's process (peer_side.py)."""

    def __init__(self, name, python, sizes):
        self.name = name
        environment = dict(
            os.environ,
            XLA_PYTHON_CLIENT_PREALLOCATE="false",
            PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
            PYTORCH_ALLOC_CONF="expandable_segments:True",
        )
        self.process = subprocess.Popen(
            [python, os.path.join(HERE, "peer_side.py"), name, json.dumps(sizes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.answers = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            try:
                self.answers.put(json.loads(line))
            except ValueError:
                continue
        self.answers.put({"error": "its process has ended"})

    def answer(self, seconds):
        try:
            return self.answers.get(timeout=max(seconds, 0.1))
        except queue.Empty:
            return {"error": f"no answer within {seconds:.0f} s"}

    def ask(self, request, seconds):
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        except OSError as error:
            return {"error": str(error)}
        return self.answer(seconds)

    def close(self):
        self.process.kill()
        self.process.wait()


def run_ours(program, arguments, seconds):
    """What one of our programs prints; None where it fails, and says why."""
    try:
        done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True, timeout=max(seconds, 1))
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        say(f"{os.path.basename(program)}: {error}")
        return None


def print_steps(rows, ours):
    say(f"\n{'side':16} {'ms a step':>10} {'of ours':>8} {'arrays':>9} {'held':>9}")
    for row in sorted(rows, key=lambda r: r.get("step_seconds", 1e9)):
        if "error" in row:
            say(f"{row['side']:16} {row['error']}")
            continue
        share = row["step_seconds"] / ours["step_seconds"] if ours else 0
        mib = lambda b: "-" if b is None else f"{b / 2**20:.0f} MiB"
        say(
            f"{row['side']:16} {1e3 * row['step_seconds']:10.2f} {share:8.2f} {mib(row.get('peak_bytes')):>9}"
            f" {mib(row.get('held_bytes')):>9}"
        )


def beside(ours, theirs):
    """Rows of both, what we lose first."""
    times = {(r["name"], r["dtype"], r["array_bytes"]): r["seconds"] for r in theirs}
    rows = []
    for row in ours:
        key = (row["name"], row["dtype"], row["array_bytes"])
        if key in times and "seconds" in row:
            rows.append({**row, "torch_seconds": times[key], "over_torch": times[key] / row["seconds"]})
    return sorted(rows, key=lambda r: r["over_torch"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/benchmarks/gpu", help="folder of gpu_steps and gpu_bandwidth")
    parser.add_argument("--python", default=sys.executable, help="Python that has torch and jax")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--limit", default="4GiB", help="of the largest batch")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--only", default="steps,rows,batch")
    options = parser.parse_args()
    only = options.only.split(",")
    start = time.monotonic()
    left = lambda: options.seconds - (time.monotonic() - start)
    program = lambda name: os.path.join(options.bin, name)
    limit = int(float(options.limit.removesuffix("GiB")) * 2**30) if options.limit.endswith("GiB") else int(options.limit)

    # The sizes are our program's own word; where there is no GPU it says so.
    sizes = run_ours(program("gpu_steps"), ["--sizes"], 20)
    if sizes is None:
        return 1
    if sizes.get("device", "") is None:
        say("peers: nothing measured, no GPU")
        print(json.dumps(sizes))
        return 0
    sizes = sizes["gpt"]
    sides = [Side(name, options.python, sizes) for name in options.sides.split(",") if name]
    out = {"gpt": sizes, "steps": [], "rows": [], "batches": []}

    # While the peers get ready: what is mostly planned.
    if "batch" in only:
        found = run_ours(program("gpu_steps"), ["--largest-batch", str(limit), "--seconds", str(0.3 * options.seconds)], left())
        for row in (found or {}).get("rows", []):
            out["batches"].append({"side": "plimsoll, " + row["remedies"], **row})
    ready = []
    for side in sides:
        answer = side.answer(min(0.5 * options.seconds - (time.monotonic() - start), left()))
        if "error" in answer:
            out["steps"].append({"side": side.name, **answer})
            side.close()
        else:
            ready.append(side)

    ours = None
    if "steps" in only:
        measured = run_ours(program("gpu_steps"), ["gpt", "--percents", "50", "--seconds", "12", "--top", "4"], left())
        for row in ((measured or {}).get("rows") or [{}])[0].get("rows", []):
            if not row["ran"]:
                continue
            name = "plimsoll" if row["limit"] == "none" else f"plimsoll, {row['limit']}"
            out["steps"].append(
                {
                    "side": name,
                    "step_seconds": row["wall_seconds"],
                    "device_seconds": row["step_seconds"],
                    "peak_bytes": row["peak_bytes"],
                    "held_bytes": row["driver_bytes"],
                }
            )
            if row["limit"] == "none":
                ours = out["steps"][-1]
        for side in ready:
            out["steps"].append({"side": side.name, **side.ask("steps 10", min(20, left()))})
        print_steps(out["steps"], ours)

    torch = next((side for side in ready if side.name == "torch"), None)
    if "rows" in only and torch is not None and left() > 10:
        names = "copy add gelu_of_erf gelu_of_tanh sum_rows sum_columns sum_all softmax_of_64 softmax_of_1024 softmax_of_16384"
        names += " layer_norm_of_1024 heads_first transpose adam"
        measured = run_ours(program("gpu_bandwidth"), [*names.split(), "--rounds", "3", "--seconds", "10"], left())
        theirs = torch.ask("rows 10", min(30, left()))
        out["rows"] = beside((measured or {}).get("rows", []), theirs.get("rows", []))
        say(f"\n{'of ours':>8} {'us':>9} {'torch us':>9} {'MiB':>5} {'dtype':>5}  kernel" + theirs.get("error", ""))
        for row in out["rows"]:
            say(
                f"{row['over_torch']:8.2f} {1e6 * row['seconds']:9.1f} {1e6 * row['torch_seconds']:9.1f}"
                f" {row['array_bytes'] >> 20:5} {row['dtype']:>5}  {row['name']}"
            )

    if "batch" in only:
        asked = [(side, how) for side in ready for how in ("plain", "checkpointed") if side.name == "torch"]
        asked += [(side, "plain") for side in ready if side.name == "torch-budget"]
        for number, (side, how) in enumerate(asked):
            seconds = left() / (len(asked) - number)
            if seconds < 2:
                out["batches"].append({"side": f"{side.name}, {how}", "error": "no time left"})
                continue
            answer = side.ask(f"batch {limit} {how} {0.7 * seconds}", seconds + 5)
            out["batches"].append({"side": f"{side.name}, {how}", **answer})
        say(f"\nlargest batch within {options.limit}")
        for row in sorted(out["batches"], key=lambda r: -(r.get("batch") or 0)):
            text = row.get("error") or f"{row['batch']:6} texts, {row.get('samples_per_second') or 0:8.1f} a second"
            say(f"  {row['side']:34} {text}")

    for side in sides:
        side.close()
    print(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
