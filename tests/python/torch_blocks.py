# SPDX-License-Identifier: Apache-2.0
"""Blocks of vision networks and transformers: a module and its inputs for each name."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    """relu(f(x) + shortcut(x)) or, without relu, f(x) + x."""

    def __init__(self, f, shortcut=None, relu=True):
        super().__init__()
        self.f, self.shortcut, self.relu = f, shortcut or nn.Identity(), relu

    def forward(self, x):
        y = self.f(x) + self.shortcut(x)
        return F.relu(y) if self.relu else y


def convolution(inputs, outputs, size=3, stride=1, groups=1, activation=None):
    layers = [
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([activation(inplace=True)] if activation else []))


def basic_block():
    f = nn.Sequential(convolution(8, 16, stride=2, activation=nn.ReLU), convolution(16, 16))
    return Residual(f, convolution(8, 16, 1, 2)), [torch.randn(2, 8, 16, 16)]


def grouped_bottleneck():
    f = nn.Sequential(
        convolution(16, 8, 1, activation=nn.ReLU),
        convolution(8, 8, groups=4, activation=nn.ReLU),
        convolution(8, 16, 1),
    )
    return Residual(f), [torch.randn(2, 16, 8, 8)]


def stem():
    module = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    return module, [torch.randn(2, 3, 32, 32)]


def inverted_residual():
    f = nn.Sequential(
        convolution(8, 32, 1, activation=nn.ReLU6),
        convolution(32, 32, groups=32, activation=nn.ReLU6),
        convolution(32, 8, 1),
    )
    return Residual(f, relu=False), [torch.randn(2, 8, 8, 8)]


class SqueezeExcitation(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.down = nn.Conv2d(channels, channels // 4, 1)
        self.up = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x):
        scale = self.up(F.silu(self.down(F.adaptive_avg_pool2d(x, 1))))
        return x * F.hardsigmoid(scale)


def squeeze_excitation():
    return SqueezeExcitation(16), [torch.randn(2, 16, 8, 8)]


class ConvNext(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up = nn.Linear(channels, 4 * channels)
        self.down = nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.down(F.gelu(self.up(y))) * self.scale).permute(0, 3, 1, 2)


def convnext_block():
    return ConvNext(8), [torch.randn(2, 8, 14, 14)]


def dense_transition():
    module = nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.AvgPool2d(2, 2))
    return module, [torch.randn(2, 8, 8, 8)]


def unet_up():
    module = nn.Sequential(
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ConvTranspose2d(8, 4, 2, 2),
    )
    return module, [torch.randn(2, 8, 8, 8)]


def classifier_head():
    module = nn.Sequential(nn.AdaptiveAvgPool2d((3, 5)), nn.Flatten(), nn.Linear(60, 10))
    return module, [torch.randn(2, 4, 10, 12)]


def encoder_layer():
    return nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True), [torch.randn(2, 10, 32)]


def decoder_layer():
    module = nn.TransformerDecoderLayer(32, 4, 64, 0.0, batch_first=True, norm_first=True)
    return module, [torch.randn(2, 10, 32), torch.randn(2, 7, 32)]


class Gpt(nn.Module):
    """A block between embeddings and a loss; takes tokens."""

    def __init__(self, width=32, heads=4, vocabulary=50):
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(16, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.out = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.tokens(tokens) + self.places(torch.arange(length))
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.attention(self.norms[0](x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, -1))
        x = x + self.down(F.gelu(self.up(self.norms[1](x)), approximate="tanh"))
        logits = self.out(x)[:, :-1].flatten(0, 1)
        return F.cross_entropy(logits, tokens[:, 1:].flatten())


def gpt_with_loss():
    return Gpt(), [torch.randint(0, 50, (2, 12))]


class SwiGlu(nn.Module):
    """RMS norm and a gated MLP."""

    def __init__(self, width=32):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.gate = nn.Linear(width, 64, bias=False)
        self.up = nn.Linear(width, 64, bias=False)
        self.down = nn.Linear(64, width, bias=False)

    def forward(self, x):
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def swiglu():
    return SwiGlu(), [torch.randn(2, 10, 32)]


class RotaryAttention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.attention = nn.Linear(width, 3 * width, bias=False)

    @staticmethod
    def rotate(x):
        length, depth = x.shape[-2:]
        frequencies = 1e4 ** (-torch.arange(0, depth, 2) / depth)
        angles = torch.outer(torch.arange(length), frequencies)
        even, odd = x[..., ::2], x[..., 1::2]
        cos, sin = angles.cos(), angles.sin()
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.attention(x).chunk(3, -1)
        )
        scores = self.rotate(query) @ self.rotate(key).mT / math.sqrt(width / self.heads)
        unseen = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        weights = scores.masked_fill(unseen, float("-inf")).softmax(-1)
        return (weights @ value).transpose(1, 2).reshape(batch, length, width)


def rotary_attention():
    return RotaryAttention(), [torch.randn(2, 10, 32)]


class Vit(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 17, width))
        self.block = nn.TransformerEncoderLayer(
            width, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).mT
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.block(x)[:, 0])


def vit():
    return Vit(), [torch.randn(2, 3, 16, 16)]


BLOCKS = {
    make.__name__: make
    for make in (
        basic_block,
        grouped_bottleneck,
        stem,
        inverted_residual,
        squeeze_excitation,
        convnext_block,
        dense_transition,
        unet_up,
        classifier_head,
        encoder_layer,
        decoder_layer,
        gpt_with_loss,
        swiglu,
        rotary_attention,
        vit,
    )
}
