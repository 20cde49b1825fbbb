# SPDX-License-Identifier: Apache-2.0
"""What frontier.py trains, by name."""

import networks

SMALL_GPT = dict(vocabulary=2000, context=256, width=256, heads=4, layers=6, batch=8)
LARGE_GPT = dict(vocabulary=2000, context=512, width=512, heads=8, layers=12, batch=8)

MAKERS = {
    "gpt": lambda: networks.gpt("gpt", **SMALL_GPT),
    "gpt_scanned": lambda: networks.gpt("gpt_scanned", **SMALL_GPT, scanned=True),
    "cnn": lambda: networks.cnn("cnn", batch=128, blocks=2),
    "unet": lambda: networks.unet("unet", batch=4, side=128, widths=(32, 64, 128, 256), classes=4),
    "resnet50": lambda: networks.resnet50("resnet50", batch=16, side=128),
    "gpt_large": lambda: networks.gpt("gpt_large", **LARGE_GPT),
    "gpt_large_scanned": lambda: networks.gpt("gpt_large_scanned", **LARGE_GPT, scanned=True),
}

LARGE = ("gpt_large", "gpt_large_scanned")
IMAGES = ("cnn", "unet", "resnet50")


def network(name):
    return MAKERS[name]()


def in_torch(name):
    """PyTorch has no scan: its users write a loop over the layers."""
    return network(name.removesuffix("_scanned"))
