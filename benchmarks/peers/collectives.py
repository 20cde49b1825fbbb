#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums over processes of one host: Plimsoll beside PyTorch's and JAX's Gloo, in turns in one run.

One JSON object goes to standard output, a table to standard error, the worst row first. `over_X` is X's
time by ours: above 1 we are faster. A time is that of the slowest process; medians of the rounds.

array: one f32 array is summed. gradients: 200 f32 arrays of mixed sizes, a network's: in one call
(Plimsoll), flattened into one bucket and copied back, as DistributedDataParallel does (PyTorch), in one
compiled program (JAX).
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def gradient_sizes(count):
    """As benchmarks/collectives.cc has them."""
    return [147_456 if i % 10 == 0 else 4_608 if i % 3 == 0 else 64 + 8 * (i % 50) for i in range(count)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Side:
    """As many processes as there are ranks, which wait for a line each and answer with seconds."""

    def __init__(self, command, ranks, threads):
        port = free_port()
        self.processes = []
        for rank in range(ranks):
            environment = dict(
                os.environ,
                RANK=str(rank),
                WORLD_SIZE=str(ranks),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port),
                PLIMSOLL_COLLECTIVE_INTERFACE="lo",
                GLOO_SOCKET_IFNAME="lo",
                OMP_NUM_THREADS=str(threads),
                PLIMSOLL_NUM_THREADS=str(threads),
            )
            self.processes.append(
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
                )
            )
        for process in self.processes:
            self._answer(process)

    def _answer(self, process):
        # Libraries write there, too.
        for line in process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError("a process ended: " + " ".join(process.args))

    def seconds(self, case):
        for process in self.processes:
            process.stdin.write(case + "\n")
            process.stdin.flush()
        return max(self._answer(process)["seconds"] for process in self.processes)

    def end(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


def serve(run):
    """The loop of a peer's process: `run(case)` does one sum and gives its seconds."""
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"seconds": run(line.strip())}), flush=True)


def measure(arguments, ranks):
    commands = {
        "plimsoll": [
            os.path.join(arguments.build, "benchmarks", "collectives"),
            "--turns",
            f"--megabytes={arguments.megabytes}",
            f"--gradients={arguments.gradients}",
        ]
    }
    pythons = {"torch": arguments.torch_python, "jax": arguments.jax_python}
    for side in arguments.sides:
        commands[side] = [
            pythons[side],
            str(HERE / "peer_collectives.py"),
            side,
            str(arguments.megabytes),
            str(arguments.gradients),
        ]
    sides = {name: Side(command, ranks, arguments.threads) for name, command in commands.items()}
    rows = []
    for case in ("array", "gradients"):
        times = {name: [] for name in sides}
        for turn in range(arguments.rounds + 1):
            for name, side in sides.items():
                seconds = side.seconds(case)
                if turn > 0:  # memory that is new, programs that are compiled
                    times[name].append(seconds)
        size = arguments.megabytes << 20 if case == "array" else 4 * sum(gradient_sizes(arguments.gradients))
        row = {"case": case, "processes": ranks, "bytes": size}
        for name, values in times.items():
            row[name + "_seconds"] = statistics.median(values)
            row[name + "_bytes_per_second"] = size / statistics.median(values)
            if name != "plimsoll":
                row["over_" + name] = statistics.median(values) / row["plimsoll_seconds"]
        rows.append(row)
    for side in sides.values():
        side.end()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="build folder with benchmarks/collectives")
    parser.add_argument("--torch-python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--jax-python", default=sys.executable, help="a Python that has JAX")
    parser.add_argument("--sides", default="torch,jax", help="peers, by commas")
    parser.add_argument("--megabytes", type=int, default=64, help="MiB of the array")
    parser.add_argument("--gradients", type=int, default=200)
    parser.add_argument("--processes", default="2,4", help="numbers of processes, by commas")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    arguments = parser.parse_args()
    arguments.sides = [side for side in arguments.sides.split(",") if side]
    load = os.getloadavg()[0]
    rows = []
    for ranks in map(int, arguments.processes.split(",")):
        rows += measure(arguments, ranks)
    rows.sort(key=lambda row: min(row["over_" + side] for side in arguments.sides))
    for row in rows:
        theirs = ", ".join(f"{row['over_' + side]:.2f} over {side}" for side in arguments.sides)
        print(
            f"{row['case']:>10} of {row['bytes'] / 1e6:.1f} MB, {row['processes']} processes: "
            f"{1e3 * row['plimsoll_seconds']:.1f} ms, {theirs}",
            file=sys.stderr,
        )
    print(json.dumps({"processors": os.cpu_count(), "load_before": load, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
