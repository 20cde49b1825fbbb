# SPDX-License-Identifier: Apache-2.0
"""Networks in training, the same in JAX and in PyTorch, and compare.py's training steps with an Adam written out.

GPT: token and position embedding, pre-norm blocks (causal attention, MLP of 4 x width with tanh GELU), final norm, logits by the
token embedding, mean cross entropy; in JAX layer by layer or as a scan over stacked layers. Image networks: convolutions without
bias, each with batch normalization in training mode. JAX takes images as NHWC and filters as HWIO, PyTorch NCHW and OIHW.
"""

import dataclasses
import math
from typing import Callable

import numpy as np

from cases import Case

RATE, B1, B2, EPS = 1e-3, 0.9, 0.999, 1e-8


@dataclasses.dataclass
class Network:
    """`data`: inputs and labels; `parameters`: arrays as JAX takes them; `loss_jax` and `loss_torch`: functions of (parameters,
    inputs, labels, wrap), where `wrap` gets every block as a function of arrays and may return a checkpointed one."""

    name: str
    data: list
    parameters: list
    loss_jax: Callable
    loss_torch: Callable


def as_it_is(block):
    return block


class Draw:
    """Parameters in the order in which they are asked for."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.found = []

    def normal(self, *shape):
        scale = np.float32(1 / math.sqrt(np.prod(shape[:-1])))
        self.found.append(scale * self.rng.standard_normal(shape, dtype=np.float32))

    def ones(self, width):
        self.found.append(np.ones(width, np.float32))

    def zeros(self, width):
        self.found.append(np.zeros(width, np.float32))


def cross_entropy_jax(logits, labels):
    import jax
    import jax.numpy as jnp

    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1, mode="clip").mean()


GPT_LAYER = 12  # arrays a layer


def gpt(name, vocabulary, context, width, heads, layers, batch, scanned=False):
    """f32; matrices multiply from the right (inputs x outputs). `scanned`: the layers' arrays stacked, in JAX."""
    draw = Draw(1)
    draw.normal(vocabulary, width)
    draw.normal(context, width)
    for _ in range(layers):
        draw.ones(width), draw.zeros(width), draw.normal(width, 3 * width), draw.zeros(3 * width)
        draw.normal(width, width), draw.zeros(width)
        draw.ones(width), draw.zeros(width), draw.normal(width, 4 * width), draw.zeros(4 * width)
        draw.normal(4 * width, width), draw.zeros(width)
    draw.ones(width), draw.zeros(width)
    parameters = draw.found
    rng = np.random.default_rng(2)
    data = [rng.integers(0, vocabulary, (batch, context), dtype=np.int32) for _ in range(2)]
    head = width // heads

    def layers_of(p):
        return [tuple(p[i : i + GPT_LAYER]) for i in range(2, len(p) - 2, GPT_LAYER)]

    def norm_jax(x, g, b):
        import jax

        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * g + b

    def block_jax(x, g1, b1, qkv, qkv_bias, o, o_bias, g2, b2, up, up_bias, down, down_bias):
        import jax
        import jax.numpy as jnp

        seen = jnp.tril(jnp.ones((context, context), bool))
        y = norm_jax(x, g1, b1) @ qkv + qkv_bias
        q, k, v = (t.reshape(batch, context, heads, head).transpose(0, 2, 1, 3) for t in jnp.split(y, 3, -1))
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * head**-0.5
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1)
        mixed = jnp.einsum("bhqk,bhkd->bhqd", weights, v).transpose(0, 2, 1, 3).reshape(batch, context, width)
        x = x + (mixed @ o + o_bias)
        y = norm_jax(x, g2, b2) @ up + up_bias
        return x + (jax.nn.gelu(y, approximate=True) @ down + down_bias)

    def loss_jax(p, tokens, labels, wrap=as_it_is):
        import jax
        import jax.numpy as jnp

        table, positions = p[:2]
        block = wrap(block_jax)
        x = jnp.take(table, tokens, axis=0, mode="clip") + positions
        if scanned:
            x, _ = jax.lax.scan(lambda x, layer: (block(x, *layer), None), x, tuple(p[2:-2]))
        else:
            for layer in layers_of(p):
                x = block(x, *layer)
        return cross_entropy_jax(norm_jax(x, p[-2], p[-1]) @ table.T, labels)

    def block_torch(x, g1, b1, qkv, qkv_bias, o, o_bias, g2, b2, up, up_bias, down, down_bias):
        import torch.nn.functional as F

        y = F.layer_norm(x, (width,), g1, b1) @ qkv + qkv_bias
        q, k, v = (t.reshape(batch, context, heads, head).transpose(1, 2) for t in y.chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + (mixed.transpose(1, 2).reshape(batch, context, width) @ o + o_bias)
        y = F.layer_norm(x, (width,), g2, b2) @ up + up_bias
        return x + (F.gelu(y, approximate="tanh") @ down + down_bias)

    def loss_torch(p, tokens, labels, wrap=as_it_is):
        import torch.nn.functional as F

        table, positions = p[:2]
        block = wrap(block_torch)
        x = F.embedding(tokens, table) + positions
        for layer in layers_of(p):
            x = block(x, *layer)
        logits = F.layer_norm(x, (width,), p[-2], p[-1]) @ table.T
        return F.cross_entropy(logits.reshape(-1, vocabulary), labels.reshape(-1))

    if scanned:
        stacked = [np.stack(arrays) for arrays in zip(*layers_of(parameters))]
        parameters = parameters[:2] + stacked + parameters[-2:]
    return Network(name, data, parameters, loss_jax, loss_torch)


class ImagesInJax:
    """What image networks are made of; images are NHWC."""

    @staticmethod
    def convolution(x, w, stride=1):
        import jax

        pad = [(w.shape[0] // 2, w.shape[0] // 2)] * 2
        return jax.lax.conv_general_dilated(x, w, (stride, stride), pad, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    @staticmethod
    def normalized(x, g, b):
        import jax

        mean = x.mean((0, 1, 2))
        variance = ((x - mean) ** 2).mean((0, 1, 2))
        return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * g) + b

    @staticmethod
    def relu(x):
        import jax

        return jax.nn.relu(x)

    @staticmethod
    def max_pool(x, size, stride, pad):
        import jax

        window, strides, pads = (1, size, size, 1), (1, stride, stride, 1), ((0, 0), (pad, pad), (pad, pad), (0, 0))
        return jax.lax.reduce_window(x, -math.inf, jax.lax.max, window, strides, pads)

    @staticmethod
    def twice_as_large(x):
        import jax.numpy as jnp

        return jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)

    @staticmethod
    def beside(x, y):
        import jax.numpy as jnp

        return jnp.concatenate([x, y], -1)

    @staticmethod
    def mean(x):
        return x.mean((1, 2))

    @staticmethod
    def add_bias(x, b):
        return x + b

    cross_entropy = staticmethod(cross_entropy_jax)


class ImagesInTorch:
    """The same; images are NCHW."""

    @staticmethod
    def convolution(x, w, stride=1):
        import torch.nn.functional as F

        return F.conv2d(x, w, stride=stride, padding=w.shape[2] // 2)

    @staticmethod
    def normalized(x, g, b):
        import torch.nn.functional as F

        return F.batch_norm(x, None, None, g, b, training=True, eps=1e-5)

    @staticmethod
    def relu(x):
        import torch.nn.functional as F

        return F.relu(x)

    @staticmethod
    def max_pool(x, size, stride, pad):
        import torch.nn.functional as F

        return F.max_pool2d(x, size, stride, pad)

    @staticmethod
    def twice_as_large(x):
        import torch.nn.functional as F

        return F.interpolate(x, scale_factor=2, mode="nearest")

    @staticmethod
    def beside(x, y):
        import torch

        return torch.cat([x, y], 1)

    @staticmethod
    def mean(x):
        return x.mean((2, 3))

    @staticmethod
    def add_bias(x, b):
        return x + b[:, None, None]

    @staticmethod
    def cross_entropy(logits, labels):
        import torch.nn.functional as F

        return F.cross_entropy(logits, labels)


def _image_network(name, images, labels, parameters, loss):
    def loss_jax(p, x, y, wrap=as_it_is):
        return loss(ImagesInJax, p, x, y, wrap)

    def loss_torch(p, x, y, wrap=as_it_is):
        return loss(ImagesInTorch, p, x, y, wrap)

    return Network(name, [images, labels], parameters, loss_jax, loss_torch)


def _images(seed, batch, side, channels):
    rng = np.random.default_rng(seed)
    return (2 * rng.random((batch, side, side, channels), dtype=np.float32) - 1).astype(np.float32), rng


def residual(name, batch, side, channels, stem, stages, bottleneck, classes):
    """A residual network (He et al., arXiv:1512.03385). `stem`: width, size and stride of the first convolution, whether max
    pooling follows; `stages`: width and number of blocks, each stage but the first with stride 2 in its first block (in the 3x3
    convolution); blocks of two 3x3 convolutions, or with `bottleneck` of 1x1, 3x3 and 1x1 to four times the width."""
    draw = Draw(3)

    def add_convolution(size, inputs, outputs):
        draw.normal(size, size, inputs, outputs)
        draw.ones(outputs), draw.zeros(outputs)

    stem_width, stem_size, stem_stride, pooled = stem
    add_convolution(stem_size, channels, stem_width)
    blocks, inputs = [], stem_width
    for stage, (width, count) in enumerate(stages):
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            outputs = 4 * width if bottleneck else width
            if bottleneck:
                convolutions = [(1, inputs, width, 1), (3, width, width, stride), (1, width, outputs, 1)]
            else:
                convolutions = [(3, inputs, width, stride), (3, width, width, 1)]
            projected = stride != 1 or inputs != outputs
            if projected:
                convolutions.append((1, inputs, outputs, stride))
            for size, i, o, _ in convolutions:
                add_convolution(size, i, o)
            blocks.append((tuple(c[-1] for c in convolutions), projected))
            inputs = outputs
    draw.normal(inputs, classes)
    draw.zeros(classes)

    def residual_block(ops, strides, projected):
        def block(x, *arrays):
            layers = list(zip(strides, *(iter(arrays),) * 3))
            convolve = lambda x, layer: ops.normalized(ops.convolution(x, layer[1], layer[0]), *layer[2:])
            main = layers[:-1] if projected else layers
            y = x
            for layer in main[:-1]:
                y = ops.relu(convolve(y, layer))
            y = convolve(y, main[-1])
            return ops.relu(y + (convolve(x, layers[-1]) if projected else x))

        return block

    def loss(ops, p, x, y, wrap):
        x = ops.relu(ops.normalized(ops.convolution(x, p[0], stem_stride), p[1], p[2]))
        if pooled:
            x = ops.max_pool(x, 3, 2, 1)
        at = 3
        for strides, projected in blocks:
            x = wrap(residual_block(ops, strides, projected))(x, *p[at : at + 3 * len(strides)])
            at += 3 * len(strides)
        return ops.cross_entropy(ops.mean(x) @ p[at] + p[at + 1], y)

    images, rng = _images(3, batch, side, channels)
    return _image_network(name, images, rng.integers(0, classes, (batch,), dtype=np.int32), draw.found, loss)


def cnn(name, batch, blocks):
    """The residual network of the examples: 28 x 28 grey images, three stages of 16, 32 and 64 channels."""
    return residual(name, batch, 28, 1, (16, 3, 1, False), [(width, blocks) for width in (16, 32, 64)], False, 10)


def resnet50(name, batch, side):
    stages = [(64, 3), (128, 4), (256, 6), (512, 3)]
    return residual(name, batch, side, 3, (64, 7, 2, True), stages, True, 1000)


def unet(name, batch, side, widths, classes):
    """A U-Net (Ronneberger et al., arXiv:1505.04597): two 3x3 convolutions a level and direction, max pooling on the way down,
    nearest neighbours on the way up beside what the level kept; a class for each pixel."""
    draw = Draw(4)

    def add_level(inputs, outputs):
        for i in (inputs, outputs):
            draw.normal(3, 3, i, outputs)
            draw.ones(outputs), draw.zeros(outputs)

    for inputs, outputs in zip((3, *widths[:-1]), widths):
        add_level(inputs, outputs)
    for below, outputs in zip(widths[:0:-1], widths[-2::-1]):
        add_level(below + outputs, outputs)
    draw.normal(1, 1, widths[0], classes)
    draw.zeros(classes)

    def level_of(ops):
        def level(x, w1, g1, b1, w2, g2, b2):
            x = ops.relu(ops.normalized(ops.convolution(x, w1), g1, b1))
            return ops.relu(ops.normalized(ops.convolution(x, w2), g2, b2))

        return level

    def loss(ops, p, x, y, wrap):
        level = wrap(level_of(ops))
        arrays = iter([p[i : i + 6] for i in range(0, len(p) - 2, 6)])
        kept = []
        for depth in range(len(widths)):
            if depth > 0:
                kept.append(x)
                x = ops.max_pool(x, 2, 2, 0)
            x = level(x, *next(arrays))
        while kept:
            x = level(ops.beside(ops.twice_as_large(x), kept.pop()), *next(arrays))
        return ops.cross_entropy(ops.add_bias(ops.convolution(x, p[-2]), p[-1]), y)

    images, rng = _images(5, batch, side, 3)
    labels = rng.integers(0, classes, (batch, side, side), dtype=np.int32)
    return _image_network(name, images, labels, draw.found, loss)


def step_case(network, tolerance=1e-3):
    """A step takes (inputs, labels, parameters, first moments, second moments) and returns (loss, parameters, first moments, second
    moments); parameters and moments are updated in place where the framework can. PyTorch compiles the loss, as its users do:
    backward() and the update stay outside."""
    import jax
    import jax.numpy as jnp
    import torch

    n = len(network.parameters)
    zeros = [np.zeros_like(a) for a in network.parameters]

    def update_jax(x, y, *state):
        p, m, v = state[:n], state[n : 2 * n], state[2 * n :]
        loss, grads = jax.value_and_grad(lambda p: network.loss_jax(p, x, y))(list(p))
        m = [B1 * a + (1 - B1) * g for a, g in zip(m, grads)]
        v = [B2 * a + (1 - B2) * g * g for a, g in zip(v, grads)]
        p = [a - RATE * b / (jnp.sqrt(c) + EPS) for a, b, c in zip(p, m, v)]
        return (loss, *p, *m, *v)

    def update_torch(loss_of):
        def step(x, y, *state):
            p, m, v = list(state[:n]), list(state[n : 2 * n]), list(state[2 * n :])
            leaves = [a.detach().requires_grad_() for a in p]
            filters = [a.permute(3, 2, 0, 1) if a.dim() == 4 else a for a in leaves]
            loss = loss_of(filters, x.permute(0, 3, 1, 2) if x.dim() == 4 else x.long(), y.long())
            loss.backward()
            grads = [a.grad for a in leaves]
            with torch.no_grad():
                torch._foreach_mul_(m, B1)
                torch._foreach_add_(m, grads, alpha=1 - B1)
                torch._foreach_mul_(v, B2)
                torch._foreach_addcmul_(v, grads, grads, value=1 - B2)
                root = torch._foreach_add(torch._foreach_sqrt(v), EPS)
                torch._foreach_addcdiv_(p, m, root, value=-RATE)
            return (loss.detach(), *p, *m, *v)

        return step

    return Case(
        network.name,
        network.data + network.parameters + zeros + [z.copy() for z in zeros],
        update_jax,
        update_torch(network.loss_torch),
        compiled_torch=lambda: update_torch(torch.compile(network.loss_torch, dynamic=False)),
        donated=tuple(range(2, 2 + 3 * n)),
        tolerance=tolerance,
        # Where a gradient is nothing but rounding, Adam still moves the parameter by a whole step; the first moments say whether
        # the gradients agree.
        compared=((0,), tuple(range(1 + n, 1 + 2 * n))),
    )


def networks():
    """compare.py's training steps, as a list of cases."""
    return [
        step_case(gpt("gpt_small_step", vocabulary=96, context=64, width=96, heads=4, layers=6, batch=16)),
        step_case(gpt("gpt_step", vocabulary=2000, context=256, width=256, heads=4, layers=6, batch=8)),
        # Where a ReLU's input is nothing but rounding, its gradient is all or nothing.
        step_case(cnn("cnn_step", batch=64, blocks=4), tolerance=1e-2),
    ]
