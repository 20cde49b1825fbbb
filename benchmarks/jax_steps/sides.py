# SPDX-License-Identifier: Apache-2.0
"""Processes that measure, one for a backend: each reads a command a line as JSON and answers a line."""
import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def start(script, environment):
    return subprocess.Popen([sys.executable, script, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment})


def plimsoll(build, cache):
    """What the environment of a process says that runs on Plimsoll, with a kernel cache of its own."""
    plugin = pathlib.Path(build).resolve() / "plugins/pjrt/libplimsoll_pjrt.so"
    packages = HERE.parent.parent / "plugins/jax"
    return {"JAX_PLATFORMS": "plimsoll,cpu", "PLIMSOLL_PJRT_LIBRARY": str(plugin),
            "PYTHONPATH": f"{packages}:{os.environ.get('PYTHONPATH', '')}", "PLIMSOLL_JIT_CACHE_DIR": str(cache)}


def ask(side, **command):
    side.stdin.write(json.dumps(command) + "\n")
    side.stdin.flush()
    line = side.stdout.readline()
    return json.loads(line) if line else {"error": "the process has ended"}


def ask_together(sides, **command):
    """The first one's answer, of processes that answer together, or an error of any."""
    for side in sides:
        side.stdin.write(json.dumps(command) + "\n")
        side.stdin.flush()
    lines = [side.stdout.readline() for side in sides]
    answers = [json.loads(line) if line else {"error": "a process has ended"} for line in lines]
    return next((one for one in answers if isinstance(one, dict) and "error" in one), answers[0])


def options_of(description, side_class, *, rounds, operations=False, processes=False):
    """What the command line says; None in a process that is a side, which has served."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--build", help="Plimsoll's build folder")
    parser.add_argument("--only", help="cases with one of these words, comma-separated")
    parser.add_argument("--rounds", type=int, default=rounds)
    if operations:
        parser.add_argument("--operations", action="store_true", help="single operations instead of programs")
    if processes:
        parser.add_argument("--processes", type=int, default=1, help="that share the devices")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(side_class)
        return None
    if not options.build:
        parser.error("--build is missing")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    return options


def chosen(options, names):
    words = options.only.split(",") if options.only else [""]
    return [name for name in names if any(word in name for word in words)]


def serve(side_class):
    # Libraries print, too.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    side = side_class()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(side, command.pop("do"))(**command)
        except Exception as error:  # the parent prints it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
