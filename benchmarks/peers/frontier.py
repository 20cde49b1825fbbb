#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of a training step over its peak bytes: Plimsoll under limits beside what PyTorch and JAX offer.

Writes DIR/frontier.json, a picture DIR/NETWORK.svg of each network, and prints tables (Markdown).
"""

import argparse
import dataclasses
import hashlib
import json
import mmap
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import frontier_networks
import frontier_report
from compare import WARM_MEMORY

LIMITS = (100, 85, 70, 50, 35, "floor")
# Every side makes these steps before anything is timed; ours makes some more, since it plans again by what it measures.
COMPARED_STEPS = 4
MORE_OF_OURS = 6
# Of the first step's loss and of the last one compared, over the first.
LOSS_TOLERANCE = (1e-4, 1e-2)
MIB = 2**20


class Allocations:
    """The counters of a process that runs with allocations.so."""

    def __init__(self, folder, name):
        path = folder / f"{name}.allocations"
        path.write_bytes(bytes(16))
        self.path = str(path)
        with open(path, "r+b") as file:
            self.counters = mmap.mmap(file.fileno(), 16)

    def live(self):
        return struct.unpack_from("q", self.counters, 0)[0]

    def peak(self):
        return struct.unpack_from("q", self.counters, 8)[0]

    def start(self):
        struct.pack_into("q", self.counters, 8, self.live())
        return self.live()


class Process:
    """Answers requests by JSON, a line each."""

    def __init__(self, command, build, folder, name, threads):
        self.allocations = Allocations(folder, name)
        environment = dict(
            os.environ,
            LD_PRELOAD=str(build / "benchmarks" / "allocations.so"),
            ALLOCATIONS_FILE=self.allocations.path,
            PLIMSOLL_NUM_THREADS=str(threads),
        )
        self.log = open(folder / f"{name}.log", "w")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment
        )

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"ended ({self.process.wait()}): {pathlib.Path(self.log.name).read_text()[-500:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def pages(self):
        """Resident bytes now, and the most since this was last asked."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in text.splitlines())
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return tuple(1024 * int(fields[name].split()[0]) for name in ("VmRSS", "VmHWM"))

    def end(self):
        self.process.stdin.close()
        self.process.wait()


@dataclasses.dataclass
class Row:
    """One side. `bytes` is what it is charged with, of the counts in `counts`."""

    framework: str
    name: str
    plain: bool = False  # saves nothing on purpose
    version: str = ""
    limit: int = 0  # bytes; 0: none
    bytes: int = 0
    counts: dict = dataclasses.field(default_factory=dict)
    details: dict = dataclasses.field(default_factory=dict)
    losses: list = dataclasses.field(default_factory=list)
    bits: str = ""
    seconds: list = dataclasses.field(default_factory=list)
    error: str = ""

    @property
    def median(self):
        return statistics.median(self.seconds)


class PeerSide:
    def __init__(self, row, options, run):
        self.row = row
        command = [sys.executable, str(run.here / "peer_step.py"), run.network, row.framework, options]
        self.process = Process(command, run.build, run.folder, f"{row.framework}-{options}", run.threads)
        start = time.perf_counter()
        ready = self.process.answer()
        self.row.version = ready["version"]
        self.row.losses = self.process.ask("run", COMPARED_STEPS)["losses"]
        self.row.details["seconds_to_get_ready"] = time.perf_counter() - start
        self.measure(ready["bytes"], run.resident_bytes)

    def measure(self, said, resident):
        """What is there between steps is the same on all sides, and counted by its sizes."""
        self.process.ask("settle")
        live = self.process.allocations.start()
        self.process.ask("run", 2)
        allocated = resident + self.process.allocations.peak() - live
        self.process.ask("settle")
        resting, _ = self.process.pages()
        self.process.ask("run", 1)
        _, most = self.process.pages()
        self.row.counts = {"allocated": allocated, "pages": resident + most - resting}
        if said is not None:
            self.row.counts["said"] = said
        # Where two counts differ a peer is charged with the smaller.
        self.row.bytes = min(allocated, said or allocated)

    def run(self, count):
        return self.process.ask("run", count)["seconds"]

    def end(self):
        self.process.end()


class OurSide:
    def __init__(self, row, _, run):
        self.row, self.name, self.folder = row, run.network, run.folder
        command = [str(run.build / "benchmarks" / "program_loop")]
        self.process = Process(command, run.build, run.folder, f"plimsoll-{row.name}", run.threads)
        start = time.perf_counter()
        words = [self.folder / "program.hlo", self.folder] + ([row.limit] if row.limit else [])
        self.process.ask("load", self.name, *words)
        self.row.version = run.version
        digest = hashlib.sha256()
        for steps in (1, COMPARED_STEPS - 1, MORE_OF_OURS):
            self.process.ask("run", self.name, steps)
            self.row.losses.append(self.results(digest))
        self.row.bits = digest.hexdigest()
        self.row.losses = [self.row.losses[0]] + [None] * (COMPARED_STEPS - 2) + [self.row.losses[1]]
        self.row.details["seconds_to_get_ready"] = time.perf_counter() - start
        self.describe()

    def results(self, digest):
        """Adds the results to the digest; the loss, which is the last of them."""
        import numpy as np

        folder = self.folder / "results"
        count = self.process.ask("save", self.name, folder)["outputs"]
        for i in range(count):
            digest.update((folder / f"{i}.npy").read_bytes())
        return float(np.load(folder / f"{count - 1}.npy"))

    def describe(self):
        said = self.process.ask("describe", self.name)
        self.row.bytes = said["measured_peak_bytes"]
        self.row.counts["said"] = said["measured_peak_bytes"]
        self.row.details.update(said)

    def run(self, count):
        return self.process.ask("run", self.name, count)["seconds"]

    def floor(self):
        return self.process.ask("floor", self.name)["floor_bytes"]

    def end(self):
        """Counts what was held, too: all that goes with the program, its plan and code included."""
        self.describe()
        live = self.process.allocations.start()
        self.run(1)
        over = self.process.allocations.peak() - live
        self.row.details["allocated_in_a_step"] = over
        live = self.process.allocations.live()
        self.process.ask("drop", self.name)
        self.row.counts["allocated"] = over + live - self.process.allocations.live()
        self.process.end()


def peers_of(network):
    """(framework, name, options, plain) of every peer."""
    images = network in frontier_networks.IMAGES
    best = ",channels_last" if images else ""
    rows = [
        ("torch", "eager", "", True),
        ("torch", "compiled", "compiled" + best, True),
        *(("torch", f"compiled, budget {b}", f"compiled,budget={b}{best}", False) for b in (0.75, 0.5, 0.25, 0)),
        ("torch", "checkpointed, eager", "checkpointed" + best, False),
        ("torch", "checkpointed, compiled", "checkpointed,compiled" + best, False),
        ("torch", "checkpointed, eager, updates early", "checkpointed,early" + best, False),
        ("jax", "jit", "", True),
        ("jax", "checkpointed", "kept=nothing", False),
        ("jax", "checkpointed, products kept", "kept=products", False),
    ]
    if images:
        rows += [
            ("torch", "eager, channels last", "channels_last", True),
            ("torch", "compiled, channels first", "compiled", True),
        ]
    return rows


class Run:
    """One network: all its sides, started one after the other and then timed in turns."""

    def __init__(self, network, flags, folder, version):
        self.network, self.flags, self.folder, self.version = network, flags, folder, version
        self.here = pathlib.Path(__file__).parent
        self.build = pathlib.Path(flags.build).resolve()
        self.threads = flags.threads
        self.sides, self.rows = [], []
        self.resident_bytes = self.write_program()

    def write_program(self):
        """What our side reads; returns the bytes of inputs, parameters and optimizer state."""
        import jax
        import numpy as np
        from peer_step import jax_step

        function, arguments, donated = jax_step(frontier_networks.network(self.network))
        lowered = jax.jit(function, donate_argnums=donated, keep_unused=True).lower(*arguments)
        text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
        (self.folder / "program.hlo").write_text(text)
        leaves = [np.asarray(a) for a in jax.tree.leaves(arguments)]
        for i, array in enumerate(leaves):
            np.save(self.folder / f"{i}.npy", array)
        return sum(array.nbytes for array in leaves)

    def wanted(self, row):
        words = self.flags.sides.split(",") if self.flags.sides else [""]
        return any(word in f"{row.framework} {row.name}" for word in words)

    def add(self, make, row, argument=None):
        """A side that fails is a row, not the end."""
        if not self.wanted(row):
            return None
        self.rows.append(row)
        try:
            side = make(row, argument, self)
        except Exception as error:
            row.error = str(error)
            print(f"{self.network}: {row.framework} {row.name}: {row.error}", file=sys.stderr, flush=True)
            return None
        ready = row.details["seconds_to_get_ready"]
        print(
            f"{self.network}: {row.framework} {row.name}: {row.bytes / MIB:.1f} MiB, ready in {ready:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        self.sides.append(side)
        return side

    def start(self):
        first = self.add(OurSide, Row("plimsoll", "100 %", True))
        floor = first.floor() if first else 0
        for limit in LIMITS[1:] if first else ():
            self.start_within(floor if limit == "floor" else limit * first.row.bytes // 100, first, floor)
        for framework, name, options, plain in peers_of(self.network):
            self.add(PeerSide, Row(framework, name, plain), options)
        peers = [row.bytes for row in self.rows if row.framework != "plimsoll" and not row.error]
        if first and peers:
            self.start_within(min(peers), first, floor, ", as the smallest peer")

    def start_within(self, limit, first, floor, why=""):
        if floor <= limit < first.row.bytes:
            name = f"{100 * limit / first.row.bytes:.0f} %" + (", floor" if limit == floor else why)
            self.add(OurSide, Row("plimsoll", name, limit=limit))

    def time(self):
        once = {}
        for i in range(self.flags.rounds + 1):
            for side in self.sides:
                if side.row.error:
                    continue
                try:
                    time.sleep(0.03)  # until the threads of the side before sleep, too
                    if i == 0:
                        once[side] = min(side.run(2))
                        continue
                    side.run(1)
                    side.row.seconds += side.run(max(1, min(50, int(self.flags.round_seconds / once[side]))))
                except Exception as error:
                    side.row.error = str(error)
        for side in self.sides:
            side.end()

    def check(self):
        """Same bits at every limit; the same losses everywhere."""
        good = [row for row in self.rows if not row.error]
        first = next((row for row in good if row.framework == "plimsoll"), None)
        for row in good if first else []:
            if row.framework == "plimsoll" and row.bits != first.bits:
                row.error = "other bits than without a limit"
            for at, tolerance in zip((0, -1), LOSS_TOLERANCE):
                if not abs(row.losses[at] - first.losses[at]) < tolerance * first.losses[0]:
                    row.error = f"losses {row.losses}, ours {first.losses}"


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    flags = next((line for line in lines if line.startswith("flags")), "")
    return {"processor": name + (" (AVX-512)" if "avx512f" in flags else ""), "processors": os.cpu_count()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release", help="a build folder of the project (release)")
    parser.add_argument("--output", required=True, help="folder of frontier.json, the pictures, and PyTorch's kernels")
    parser.add_argument("--only", help="networks, by commas: " + ", ".join(frontier_networks.MAKERS))
    parser.add_argument("--large", action="store_true", help="the large networks, too")
    parser.add_argument("--sides", help="only sides whose 'framework name' contains one of these, by commas")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--round-seconds", type=float, default=0.5, help="of each side in each round, at least one step")
    parser.add_argument(
        "--by", choices=("median", "fastest"), default="median", help="which steps count; fastest where others use the machine, too"
    )
    parser.add_argument("--report", action="store_true", help="print and draw what frontier.json holds")
    flags = parser.parse_args()
    output = pathlib.Path(flags.output).resolve()
    if flags.report:
        found = json.loads((output / "frontier.json").read_text())
        names = flags.only.split(",") if flags.only else list(found)
        frontier_report.write({name: found[name] for name in names}, output, flags.by)
        return 0
    for program in ("program_loop", "allocations.so"):
        if not (pathlib.Path(flags.build) / "benchmarks" / program).exists():
            parser.error(f"{flags.build}/benchmarks/{program} is missing: build the project's benchmarks first")
    chosen = flags.only.split(",") if flags.only else list(frontier_networks.MAKERS)
    if unknown := [name for name in chosen if name not in frontier_networks.MAKERS]:
        parser.error(f"no network {', '.join(unknown)}")
    if not flags.only and not flags.large:
        chosen = [name for name in chosen if name not in frontier_networks.LARGE]
    output.mkdir(parents=True, exist_ok=True)
    os.environ.update(
        WARM_MEMORY,
        OMP_NUM_THREADS=str(flags.threads),
        JAX_PLATFORMS="cpu",
        TORCHINDUCTOR_CACHE_DIR=str(output / "torch_kernels"),
        TORCHINDUCTOR_COMPILE_THREADS="1",  # no pool of processes for every side
    )
    # JAX takes as many threads as the process may use processors.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: flags.threads])
    git = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=flags.build)
    file = output / "frontier.json"
    # Networks that are measured again take the place of what was there.
    results = json.loads(file.read_text()) if file.exists() else {}
    for network in chosen:
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{network}-", dir=output))
        try:
            load = os.getloadavg()
            run = Run(network, flags, folder, git.stdout.strip())
            run.start()
            run.time()
            run.check()
        finally:
            shutil.rmtree(folder)
        results[network] = {
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine(),
            "threads": flags.threads,
            "rounds": flags.rounds,
            "load": [load[0], os.getloadavg()[0]],
            "resident_bytes": run.resident_bytes,
            "rows": [dataclasses.asdict(row) for row in run.rows],
        }
        file.write_text(json.dumps(results, indent=1))
    found = {name: results[name] for name in chosen}
    frontier_report.write(found, output, flags.by)
    return 1 if any(row["error"] for network in found.values() for row in network["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
