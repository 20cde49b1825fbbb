# SPDX-License-Identifier: Apache-2.0
"""Processes that judge programs for a script: each reads a program's name a line and answers a line of JSON.

A program that ends its process or takes too long costs its own row only.
"""
import argparse
import contextlib
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile

from programs import DEVICES

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
WORDS = 300


def parser_of(description):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=TREE / "build/release", help="Plimsoll's build folder")
    parser.add_argument("--only", help="names of programs, comma-separated, with * for any letters")
    parser.add_argument("--limit", type=float, default=90, help="seconds that a program may take")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser


def on_xla():
    """What the environment says of a process that has virtual CPU devices of XLA's."""
    return {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}"}


def on_plimsoll(build):
    """The same with Plimsoll's devices, beside one CPU device of XLA's."""
    packages = os.pathsep.join(filter(None, [str(TREE / "plugins/jax"), os.environ.get("PYTHONPATH")]))
    return {"JAX_PLATFORMS": "plimsoll,cpu", "XLA_FLAGS": "", "PYTHONPATH": packages,
            "PLIMSOLL_PJRT_LIBRARY": str(build.resolve() / "plugins/pjrt/libplimsoll_pjrt.so"),
            "JAX_PJRT_CLIENT_CREATE_OPTIONS": f"num_devices:{DEVICES}"}


def shortened(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:WORDS]}"


class Worker:
    """The script itself in another process, with the same command line."""

    def __init__(self, environment):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([sys.executable, *sys.argv, "--serve"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env={**os.environ, **environment})

    def ask(self, name, limit):
        """The answer of the process, which is of no more use where that is an error that it did not tell itself."""
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"error": self.ended()}
        if not select.select([self.process.stdout], [], [], limit)[0]:
            self.end()
            return {"error": f"takes more than {limit:g} s"}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": self.ended()}

    def ended(self):
        status = self.process.wait()
        self.errors.seek(0)
        said = " ".join(self.errors.read().decode(errors="replace").split())
        return f"the process has ended with {status}: {said[-WORDS:]}"

    def alive(self):
        return self.process.poll() is None

    def end(self):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


def answers(names, environment, limit, shared):
    """Each name with its answer. One process serves all names while it lives, or each name has one of its own."""
    worker = None
    for name in names:
        worker = worker or Worker(environment)
        answer = worker.ask(name, limit)
        if not shared or not worker.alive():
            worker.end()
            worker = None
        yield name, answer
    if worker:
        worker.end()


def serve(answer):
    """Answers what the script asks; what libraries print goes to the errors."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name = line.strip()
        try:
            found = answer(name)
        except Exception as error:  # the script prints it
            found = {"error": shortened(error)}
        print(json.dumps(found), file=channel, flush=True)
