# SPDX-License-Identifier: Apache-2.0
"""What a server keeps in memory of a model, before the first request and after some.

  benchmarks/setup.sh onnx FOLDER
  FOLDER/bin/python benchmarks/onnx/memory.py --build build/release [NAME...] [--models FOLDER]

NAME is a model of torchvision (with random weights, one image of 224 x 224). One line of JSON per
model: bytes of its file, and of the server's memory (smaps_rollup) what is its own and what are pages
of files, which the system may take back; then the same after five requests, when constants stay in
device memory, which the limit counts, for as long as nobody needs the room. Models are kept in `--models`, if given, and exported once.
"""
import argparse
import json
import pathlib
import struct
import subprocess
import tempfile
import time
import urllib.request

NAMES = ["mobilenet_v2", "resnet50", "fcn_resnet50", "vit_b_16", "vgg16"]
SIDE = 224


def export(name, path):
    import torch
    import torchvision
    segmentation = getattr(torchvision.models.segmentation, name, None)
    make = segmentation or getattr(torchvision.models, name)
    model = make(weights=None, **({"weights_backbone": None} if segmentation else {})).eval()

    class Tensor(torch.nn.Module):
        def forward(self, x):
            y = model(x)
            return y["out"] if isinstance(y, dict) else y

    path.parent.mkdir(parents=True)
    torch.onnx.export(Tensor().eval(), (torch.zeros(1, 3, SIDE, SIDE),), str(path), dynamo=True,
                      external_data=False, input_names=["x"], output_names=["y"], verbose=False)


def memory(process):
    with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as rollup:
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in rollup
                 if line.endswith("kB\n")}
    return {"private_bytes": sizes["Anonymous"], "file_bytes": sizes["Rss"] - sizes["Anonymous"]}


def measure(build, folder, options):
    with subprocess.Popen([build / "examples" / "serve", folder, "--port", "0", *options],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            port = int(server.stdout.readline().rsplit(":", 1)[1])
            address = f"http://127.0.0.1:{port}"
            name = next(folder.iterdir()).name
            # Its heaps give back what they have kept a second after a request.
            urllib.request.urlopen(address + "/v2").read()
            time.sleep(2.5)
            loaded = memory(server.pid)
            count = 3 * SIDE * SIDE
            head = json.dumps({
                "parameters": {"binary_data_output": True},
                "inputs": [{"name": "x", "shape": [1, 3, SIDE, SIDE], "datatype": "FP32",
                            "parameters": {"binary_data_size": 4 * count}}]}).encode()
            request = urllib.request.Request(
                f"{address}/v2/models/{name}/infer", head + struct.pack(f"<{count}f", *([0.5] * count)),
                {"Inference-Header-Content-Length": str(len(head))})
            for _ in range(5):
                urllib.request.urlopen(request).read()
            time.sleep(2.5)
            return {"loaded": loaded, "after_requests": memory(server.pid)}
        finally:
            server.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--memory-limit", help="of the server; none")
    parser.add_argument("--models", type=pathlib.Path)
    flags = parser.parse_args()
    options = ["--memory-limit", flags.memory_limit] if flags.memory_limit else []
    with tempfile.TemporaryDirectory() as temporary:
        for name in flags.names:
            folder = (flags.models or pathlib.Path(temporary)) / name
            path = folder / name / "1" / "model.onnx"
            if not path.exists():
                export(name, path)
            print(json.dumps({"name": name, "model_bytes": path.stat().st_size,
                              **measure(flags.build, folder, options)}), flush=True)


if __name__ == "__main__":
    main()
