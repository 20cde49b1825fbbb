# SPDX-License-Identifier: Apache-2.0
"""Models of one node with random weights, for what deployed models spend their time in. A batch is a number of rows.

Add one as a row of NODES."""

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


def few_bits(depth, columns, bits, block):
    """A product by weights of a few bits, in blocks with a scale and a zero point each."""

    def make(rows):
        random = numpy.random.default_rng(0)
        blocks = depth // block
        packed = random.integers(0, 256, (columns, blocks, block * bits // 8), dtype=numpy.uint8)
        scales = (0.001 + 0.01 * random.random(columns * blocks)).astype(numpy.float32)
        zeros = random.integers(0, 256, columns * ((blocks * bits + 7) // 8), dtype=numpy.uint8)
        node = helper.make_node("MatMulNBits", ["a", "packed", "scales", "zeros"], ["y"], domain="com.microsoft",
                                K=depth, N=columns, bits=bits, block_size=block)
        weights = {"packed": packed, "scales": scales, "zeros": zeros}
        return node, [numpy_helper.from_array(array, name) for name, array in weights.items()], (rows, depth), (rows, columns)

    return make


NODES = {
    "few_bits_2048x2048": few_bits(2048, 2048, 4, 32),
    "few_bits_4096x11008": few_bits(4096, 11008, 4, 32),
    "few_bits_2048x32000": few_bits(2048, 32000, 4, 32),
}


def export(name, batch, folder):
    """Writes NAME.onnx and its input into `folder`."""
    node, weights, given, made = NODES[name](batch)
    graph = helper.make_graph([node], name, [helper.make_tensor_value_info("a", TensorProto.FLOAT, given)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, made)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8  # which ONNX Runtime of some years reads
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / f"{name}.onnx")
    numpy.save(folder / "input_0.npy", numpy.random.default_rng(1).standard_normal(given).astype(numpy.float32))
