# SPDX-License-Identifier: Apache-2.0
"""Ten architectures with random weights, as PyTorch modules with example inputs, exported to ONNX."""
import pathlib

import numpy
import torch
from torch import nn


def images(batch, size, channels=3):
    return (torch.randn(batch, channels, size, size),)


def tokens(batch, length, words):
    return (torch.randint(0, words, (batch, length)),)


class Plain(nn.Module):
    """A model of transformers whose forward takes tensors and gives one."""

    def __init__(self, model, result, names, **fixed):
        super().__init__()
        self.model, self.result, self.names, self.fixed = model, result, names, fixed

    def forward(self, *inputs):
        made = self.model(**dict(zip(self.names, inputs)), **self.fixed)
        return getattr(made, self.result)


class UNet(nn.Module):
    """Two levels down, two up, with skips."""

    def __init__(self, width=32):
        super().__init__()

        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU(),
                                 nn.Conv2d(o, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU())
        self.first, self.second = block(3, width), block(width, 2 * width)
        self.third = block(2 * width, 4 * width)
        self.up_second = block(6 * width, 2 * width)
        self.transposed = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.up_first, self.last = block(2 * width, width), nn.Conv2d(width, 4, 1)

    def forward(self, x):
        a = self.first(x)
        b = self.second(nn.functional.max_pool2d(a, 2))
        c = self.third(nn.functional.avg_pool2d(b, 2))
        c = nn.functional.interpolate(c, scale_factor=2, mode="bilinear", align_corners=False)
        b = self.up_second(torch.cat([c, b], 1))
        return self.last(self.up_first(torch.cat([self.transposed(b), a], 1)))


class Tagger(nn.Module):
    """A bidirectional LSTM of two layers over embedded words."""

    def __init__(self, words=5000, width=128):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * width, 32)

    def forward(self, x):
        return self.head(self.lstm(self.embed(x))[0])


class Detector(nn.Module):
    """A detector of one stage: a backbone, heads on two levels, boxes from anchors (what selects
    among them, of a size that depends on data, comes after the model)."""

    def __init__(self, classes=20, anchors=3):
        super().__init__()
        self.classes, self.anchors = classes, anchors

        def step(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, stride=2, padding=1), nn.BatchNorm2d(o),
                                 nn.LeakyReLU(0.1))
        self.body = nn.Sequential(step(3, 16), step(16, 32), step(32, 64))
        self.deeper = step(64, 128)
        self.lateral = nn.Conv2d(128, 64, 1)
        self.heads = nn.ModuleList([nn.Conv2d(128, anchors * (classes + 5), 1) for _ in range(2)])

    def boxes(self, x):
        batch, _, rows, columns = x.shape
        x = x.reshape(batch, self.anchors, self.classes + 5, rows, columns).permute(0, 1, 3, 4, 2)
        ys, xs = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        grid = torch.stack([xs, ys], -1).to(x.dtype)
        centers = (torch.sigmoid(x[..., :2]) + grid) / torch.tensor([columns, rows])
        sizes = torch.exp(x[..., 2:4].clamp(max=4)) / 8
        return torch.cat([centers, sizes, torch.sigmoid(x[..., 4:])], -1).flatten(1, 3)

    def forward(self, x):
        near = self.body(x)
        far = self.deeper(near)
        up = nn.functional.interpolate(self.lateral(far), scale_factor=2, mode="nearest")
        joined = torch.cat([up, near], 1)
        all_boxes = torch.cat([self.boxes(self.heads[0](far)), self.boxes(self.heads[1](joined))], 1)
        scores, places = torch.topk(all_boxes[..., 4], 50, dim=1)
        return torch.gather(all_boxes, 1, places.unsqueeze(-1).expand(-1, -1, 25)), scores


def bert_base():
    from transformers import BertConfig, BertModel
    config = BertConfig()
    config._attn_implementation = "eager"
    return Plain(BertModel(config), "last_hidden_state", ["input_ids"])


def gpt2_small():
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config()
    config._attn_implementation = "eager"
    return Plain(GPT2LMHeadModel(config), "logits", ["input_ids"], use_cache=False)


def whisper_tiny():
    from transformers import WhisperConfig, WhisperModel
    config = WhisperConfig(d_model=384, encoder_layers=4, decoder_layers=4, encoder_ffn_dim=1536,
                           decoder_ffn_dim=1536, encoder_attention_heads=6,
                           decoder_attention_heads=6)
    config._attn_implementation = "eager"
    return Plain(WhisperModel(config), "last_hidden_state",
                 ["input_features", "decoder_input_ids"], use_cache=False)


def whisper():
    from transformers import WhisperConfig, WhisperModel
    config = WhisperConfig(d_model=128, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=512,
                           decoder_ffn_dim=512, encoder_attention_heads=4,
                           decoder_attention_heads=4, vocab_size=1000, max_source_positions=200,
                           pad_token_id=0, bos_token_id=1, eos_token_id=2,
                           decoder_start_token_id=1)
    config._attn_implementation = "eager"
    return Plain(WhisperModel(config), "last_hidden_state",
                 ["input_features", "decoder_input_ids"], use_cache=False)


def bert():
    from transformers import BertConfig, BertModel
    config = BertConfig(num_hidden_layers=4, hidden_size=256, num_attention_heads=4,
                        intermediate_size=1024, vocab_size=2000)
    config._attn_implementation = "eager"
    return Plain(BertModel(config), "last_hidden_state", ["input_ids"])


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=2000)
    config._attn_implementation = "eager"
    return Plain(GPT2LMHeadModel(config), "logits", ["input_ids"], use_cache=False)


def vision(name, **options):
    import torchvision
    return getattr(torchvision.models, name)(weights=None, **options)


def vision_transformer():
    from torchvision.models import VisionTransformer
    return VisionTransformer(image_size=224, patch_size=16, num_layers=4, num_heads=4,
                             hidden_dim=256, mlp_dim=1024)


ARCHITECTURES = {
    "resnet50": (lambda: vision("resnet50"), lambda b: images(b, 224)),
    "mobilenet_v2": (lambda: vision("mobilenet_v2"), lambda b: images(b, 224)),
    "efficientnet_b0": (lambda: vision("efficientnet_b0"), lambda b: images(b, 224)),
    "vit": (vision_transformer, lambda b: images(b, 224)),
    "unet": (UNet, lambda b: images(b, 64)),
    "lstm": (Tagger, lambda b: tokens(b, 32, 5000)),
    "detector": (Detector, lambda b: images(b, 128)),
    "bert": (bert, lambda b: tokens(b, 64, 2000)),
    "gpt2": (gpt2, lambda b: tokens(b, 64, 2000)),
    "whisper": (whisper, lambda b: (torch.randn(b, 80, 400), torch.randint(0, 1000, (b, 16)))),
}

# Models of the sizes that are deployed, with random weights.
REAL_SIZE = {
    "bert_base": (bert_base, lambda b: tokens(b, 128, 30522)),
    "gpt2_small": (gpt2_small, lambda b: tokens(b, 64, 50257)),
    "vit_b16": (lambda: vision("vit_b_16"), lambda b: images(b, 224)),
    "whisper_tiny": (whisper_tiny,
                     lambda b: (torch.randn(b, 80, 3000), torch.randint(0, 51865, (b, 16)))),
    "resnet50": ARCHITECTURES["resnet50"],
}


def export(name, batch, folder, dynamo):
    """Writes MODEL.onnx, input_K.npy and expected_K.npy (PyTorch's own results) into `folder`."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    # One operator for the whole of a layer's attention, which ONNX has no name for.
    torch.backends.mha.set_fastpath_enabled(False)
    make, example = {**ARCHITECTURES, **REAL_SIZE}[name]
    model = make().eval()
    # Statistics of a trained model, not those of its first moment.
    for module in model.modules():
        if isinstance(module, nn.Linear) and not module.weight.any():
            nn.init.normal_(module.weight, std=0.05)
        if isinstance(module, nn.BatchNorm2d):
            module.running_var.uniform_(0.5, 2)
            module.running_mean.normal_(0, 0.2)
    inputs = example(batch)
    with torch.no_grad():
        expected = model(*inputs)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    names = [f"input_{i}" for i in range(len(inputs))]
    path = folder / f"{name}.onnx"
    with torch.no_grad():
        if dynamo:
            torch.onnx.export(model, inputs, str(path), input_names=names, dynamo=True,
                              verbose=False)
        else:
            torch.onnx.export(model, inputs, str(path), input_names=names, dynamo=False,
                              opset_version=17)
    for i, value in enumerate(inputs):
        numpy.save(folder / f"input_{i}.npy", value.numpy())
    for i, value in enumerate(expected):
        numpy.save(folder / f"expected_{i}.npy", value.numpy())
    return path
