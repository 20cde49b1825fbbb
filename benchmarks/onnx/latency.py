# SPDX-License-Identifier: Apache-2.0
"""Latency of the ten architectures, and of single nodes, here and by ONNX Runtime, in one process, in turns.

  benchmarks/setup.sh onnx FOLDER
  FOLDER/bin/python benchmarks/onnx/latency.py --library LIBPLIMSOLL [NAME...] [--batches 1,16]

LIBPLIMSOLL is build/release/runtime/c_api/libplimsoll.so. One line of JSON per architecture and
batch: the medians of seconds here and there, and their ratio (here / there; below 1 is faster
here), and the same of processor time, of all threads together, which another program on the machine
changes less. Both have `--threads` threads, which sleep between their turns (ONNX Runtime's would else go
on spinning in ours); a turn is one run of each, the first three of which do not count. Models are kept in `--models FOLDER`,
if given, and exported once.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import numpy

FIRST_THAT_COUNTS = 3


def exported(name, batch, folder):
    """The model's path, exported if it is not there yet; its inputs lie beside it."""
    path = folder / f"{name}_{batch}" / f"{name}.onnx"
    if not path.exists():
        import nodes
        if name in nodes.NODES:
            nodes.export(name, batch, path.parent)
        else:
            import architectures  # brings PyTorch, which only exporting needs
            architectures.export(name, batch, path.parent, True)
    return path


def seconds_of(function):
    """Of the clock, and of all processors together."""
    start, busy = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - start, time.process_time() - busy


def measure(name, batch, flags, models):
    import onnxruntime
    import plimsoll
    path = exported(name, batch, models)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = flags.threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(path), options,
                                           providers=["CPUExecutionProvider"])
    arrays = [numpy.load(path.parent / f"input_{i}.npy") for i in range(len(session.get_inputs()))]
    feeds = {given.name: array for given, array in zip(session.get_inputs(), arrays)}
    context = plimsoll.Context(None)
    executable = plimsoll.Executable(context, path)
    ours, theirs = [], []
    for _ in range(flags.repeat + FIRST_THAT_COUNTS):
        theirs.append(seconds_of(lambda: session.run(None, feeds)))
        ours.append(seconds_of(lambda: executable.run(*arrays)))
    here, there = ([statistics.median(one) for one in zip(*sample[FIRST_THAT_COUNTS:])]
                   for sample in (ours, theirs))
    return {"name": name, "batch": batch, "threads": flags.threads, "seconds": here[0],
            "onnxruntime_seconds": there[0], "ratio": round(here[0] / there[0], 2),
            "cpu_seconds": here[1], "onnxruntime_cpu_seconds": there[1],
            "cpu_ratio": round(here[1] / there[1], 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="architectures, or nodes of nodes.py; none: all architectures")
    parser.add_argument("--library", required=True)
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", type=pathlib.Path)
    flags = parser.parse_args()
    here = pathlib.Path(__file__).resolve()
    sys.path[:0] = [str(here.parent), str(here.parents[2] / "python")]
    os.environ["PLIMSOLL_PJRT_LIBRARY"] = flags.library
    os.environ["PLIMSOLL_NUM_THREADS"] = str(flags.threads)
    with tempfile.TemporaryDirectory() as folder:
        models = flags.models or pathlib.Path(folder)
        names = flags.names
        if not names:
            import architectures
            names = list(architectures.ARCHITECTURES)
        for name in names:
            for batch in map(int, flags.batches.split(",")):
                print(json.dumps(measure(name, batch, flags, models)), flush=True)


if __name__ == "__main__":
    main()
