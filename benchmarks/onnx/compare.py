# SPDX-License-Identifier: Apache-2.0
"""Architectures exported by PyTorch, run here and by ONNX Runtime: results, time, peak.

  benchmarks/setup.sh onnx FOLDER
  FOLDER/bin/python benchmarks/onnx/compare.py --build build/release [NAME...] [--batches 1,16] [--real-size]

One line of JSON per architecture and batch: the greatest error relative to the greatest element of
each result (against ONNX Runtime and against PyTorch), the same bits at half of the peak (or the
floor), seconds of a run here and there, in turns, and peaks: here what the limit counts, there what
the process's resident memory grew by from before the model was read.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy

import architectures

WORST = 1e-4

RUNNER = """
import json, resource, sys, time
import numpy, onnxruntime
def resident():
    with open('/proc/self/status') as status:
        return next(int(l.split()[1]) * 1024 for l in status if l.startswith('VmHWM'))
folder, model, count, threads, repeats = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
before = resident()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
session = onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'])
inputs = {session.get_inputs()[i].name: numpy.load(f'{folder}/input_{i}.npy') for i in range(count)}
seconds = []
for _ in range(repeats):
    start = time.perf_counter()
    results = session.run(None, inputs)
    seconds.append(time.perf_counter() - start)
for i, value in enumerate(results):
    numpy.save(f'{folder}/ort_{i}.npy', value)
print(json.dumps({'seconds': seconds, 'peak_bytes': resident() - before,
                  'inputs': [i.name for i in session.get_inputs()],
                  'outputs': [o.name for o in session.get_outputs()]}))
"""


def call(*command):
    environment = dict(os.environ, PLIMSOLL_CALIBRATION=os.environ.get("PLIMSOLL_CALIBRATION", "off"))
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True,
                          env=environment, check=False)
    if done.returncode != 0:
        text = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise RuntimeError(text[-1] if text else f"exit code {done.returncode}")
    return json.loads(done.stdout)


def error(got, want):
    """The greatest difference, relative to the greatest element; 1 where shapes differ."""
    if got.shape != want.shape:
        return 1.0
    greatest = max(float(numpy.max(numpy.abs(want))) if want.size else 0.0, 1e-30)
    return float(numpy.max(numpy.abs(got.astype("f8") - want.astype("f8")))) / greatest \
        if want.size else 0.0


def compare(name, batch, folder, build, repeats, dynamo):
    model = architectures.export(name, batch, folder, dynamo)
    count = len(list(folder.glob("input_*.npy")))
    threads = os.cpu_count()
    theirs = call(sys.executable, "-c", RUNNER, folder, model, count, threads, repeats)
    command = [build / "bin" / "plimsoll", "run", model, "--json", "--repeat", repeats]
    for i, input_name in enumerate(theirs["inputs"]):
        command += ["--input", f"{input_name}={folder}/input_{i}.npy"]
    ours = call(*command, "--output-dir", folder / "out")
    plan = call(build / "bin" / "plimsoll", "plan", model, "--json",
                *[word for i, n in enumerate(theirs["inputs"])
                  for word in ("--input-shape", n + "=" + ",".join(
                      map(str, numpy.load(folder / f"input_{i}.npy").shape)))])
    limit = max(plan["floor_bytes"], ours["measured_peak_bytes"] // 2)
    half = call(*command, "--memory-limit", limit)
    errors, torch_errors = [], []
    for i, output in enumerate(ours["outputs"]):
        got = numpy.load(folder / "out" / (output["name"] + ".npy"))
        errors.append(error(got, numpy.load(folder / f"ort_{i}.npy")))
        torch_errors.append(error(got, numpy.load(folder / f"expected_{i}.npy")))
    return {"name": name, "batch": batch, "exporter": "dynamo" if dynamo else "torchscript",
            "worst_error": max(errors), "worst_error_against_pytorch": max(torch_errors),
            "is_close": max(errors) <= WORST,
            "same_bits_at_limit": ours["outputs"] == half["outputs"], "limit_bytes": limit,
            "peak_bytes": ours["measured_peak_bytes"], "floor_bytes": plan["floor_bytes"],
            "onnxruntime_peak_bytes": theirs["peak_bytes"],
            "seconds": statistics.median(ours["seconds"][1:] or ours["seconds"]),
            "onnxruntime_seconds": statistics.median(theirs["seconds"][1:] or theirs["seconds"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="architectures; none: the ten")
    parser.add_argument("--real-size", action="store_true", help="models of deployed sizes instead")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--torchscript", action="store_true", help="PyTorch's older exporter")
    flags = parser.parse_args()
    failed = False
    every = architectures.REAL_SIZE if flags.real_size else architectures.ARCHITECTURES
    for name in flags.names or every:
        for batch in map(int, flags.batches.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    row = compare(name, batch, pathlib.Path(folder), flags.build, flags.repeat,
                                  not flags.torchscript)
                except RuntimeError as problem:
                    row = {"name": name, "batch": batch, "error": str(problem)}
            failed |= not (row.get("is_close") and row.get("same_bits_at_limit"))
            print(json.dumps(row), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
