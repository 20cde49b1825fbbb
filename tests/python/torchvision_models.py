# SPDX-License-Identifier: Apache-2.0
"""Whole models of torchvision, compiled, against eager PyTorch: `python torchvision_models.py
[MODEL]...` prints for each the relative errors of the result and of all gradients, eager's and ours,
as norms of the difference to f64."""

import copy
import sys

import torch
import torchvision

MODELS = (
    "resnet18 mobilenet_v3_small densenet121 convnext_tiny shufflenet_v2_x0_5 efficientnet_b0 "
    "regnet_y_400mf squeezenet1_1 swin_t vit_b_16"
).split()


def values(module, run, x):
    result = run(x)
    result.square().sum().backward()
    gradients = torch.cat([p.grad.flatten() for p in module.parameters()])
    return result.detach().double(), gradients.double()


def error(value, exact):
    return f"{((value - exact).norm() / exact.norm()).item():.1e}"


def main(names):
    for name in names:
        torch.manual_seed(0)
        torch._dynamo.reset()
        module = torchvision.models.get_model(name, num_classes=10).eval()
        for parameter in module.parameters():  # heads of some begin as zeros
            if not parameter.any():
                torch.nn.init.normal_(parameter, std=0.02)
        x = torch.randn((1, 3, 224, 224) if name.startswith("vit") else (2, 3, 64, 64))
        ours = copy.deepcopy(module)
        exact = copy.deepcopy(module).double()
        exact_values = values(exact, exact, x.double())
        eager_values = values(module, module, x)
        our_values = values(ours, torch.compile(ours, backend="plimsoll", fullgraph=True), x)
        errors = [
            f"{what}: eager {error(eager, exact)}, ours {error(mine, exact)}"
            for what, exact, eager, mine in zip(
                ("result", "gradients"), exact_values, eager_values, our_values
            )
        ]
        print(f"{name}: {'; '.join(errors)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or MODELS)
