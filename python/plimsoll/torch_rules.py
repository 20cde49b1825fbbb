# SPDX-License-Identifier: Apache-2.0
"""ATen operations in JAX that torchax has no function for: gradients of windows, pulled back through
the forward operations that it has."""

import math

import jax
import jax.numpy as jnp
import torch

from . import torchax_rules

_aten = torch.ops.aten


def _pull_back(operation, gradient, *arrays):
    """The gradients of `arrays` by what `operation(*arrays)` gives."""
    _, pull = jax.vjp(operation, *arrays)
    return pull(gradient)


def _convolution_backward(
    gradient,
    input,
    weight,
    bias_sizes,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    output_mask,
):
    convolution = torchax_rules.find(_aten.convolution.default).func

    def forward(input, weight):
        return convolution(
            input, weight, None, stride, padding, dilation, transposed, output_padding, groups
        )

    by_input, by_weight = _pull_back(forward, gradient, input, weight)
    by_bias = gradient.sum(axis=(0, *range(2, gradient.ndim)))
    return tuple(
        value if wanted else None
        for value, wanted in zip((by_input, by_weight, by_bias), output_mask)
    )


def _avg_pool_backward(forward_overload):
    def backward(gradient, input, *settings):
        pool = torchax_rules.find(forward_overload).func
        return _pull_back(lambda array: pool(array, *settings), gradient, input)[0]

    return backward


def _adaptive_avg_pool_backward(gradient, input):
    """Windows of an output place begin at floor(i * in / out) and end before
    ceil((i + 1) * in / out), along each spatial dim."""
    by_input = gradient
    for dim in range(2, input.ndim):
        size, places = input.shape[dim], gradient.shape[dim]
        place = jnp.arange(places)[:, None]
        at = jnp.arange(size)[None, :]
        begin, end = place * size // places, -((-(place + 1) * size) // places)
        share = ((at >= begin) & (at < end)) / (end - begin)
        moved = jnp.moveaxis(by_input, dim, -1) @ share.astype(gradient.dtype)
        by_input = jnp.moveaxis(moved, -1, dim)
    return by_input


def _max_pool_backward(spatial):
    def backward(gradient, input, kernel, stride, padding, dilation, ceil_mode, indices):
        """indices: of each maximum among the places of its plane."""
        planes = math.prod(input.shape[:-spatial])
        at = indices.reshape(planes, -1)
        zeros = jnp.zeros((planes, math.prod(input.shape[-spatial:])), gradient.dtype)
        sums = zeros.at[jnp.arange(planes)[:, None], at].add(gradient.reshape(at.shape))
        return sums.reshape(input.shape)

    return backward


RULES = {
    _aten.convolution_backward.default: _convolution_backward,
    _aten.avg_pool2d_backward.default: _avg_pool_backward(_aten.avg_pool2d.default),
    _aten.avg_pool3d_backward.default: _avg_pool_backward(_aten.avg_pool3d.default),
    _aten._adaptive_avg_pool2d_backward.default: _adaptive_avg_pool_backward,
    _aten._adaptive_avg_pool3d_backward.default: _adaptive_avg_pool_backward,
    _aten.max_pool2d_with_indices_backward.default: _max_pool_backward(2),
    _aten.max_pool3d_with_indices_backward.default: _max_pool_backward(3),
}
