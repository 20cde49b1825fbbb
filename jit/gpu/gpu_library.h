// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/gpu/gpu_entry.h"

// Kernels of what the JIT does not fuse, as the library has them for the CPU (kernels/). Each adds
// its launches for the writer's instruction, of the opcode in its name; UNIMPLEMENTED, with the
// reason, for what it does not take.
namespace plimsoll::jit {

// Sums of products in an order that follows from the shape, in f32 (f64 where an operand or the
// result is); integers wrap in the result's dtype. Pairs of f16 or of bf16 go to tensor cores from
// compute capability 8.0 on. docs/gpu.md has the orders. The convolution takes every attribute.
Status write_gpu_dot(GpuWriter& writer);
Status write_gpu_convolution(GpuWriter& writer);

// Every element of the operand takes its updates in their order, as on the CPU: the same bits.
Status write_gpu_scatter(GpuWriter& writer);

// Windows in row-major order of their positions, as on the CPU: the same bits.
Status write_gpu_reduce_window(GpuWriter& writer);
Status write_gpu_select_and_scatter(GpuWriter& writer);

// A fusion that is an attention (ir/fusions/attention.h): tiles of queries by tiles of keys,
// softmax along the way, no array of the scores' size. In f32, in one order, that of the positions.
// UNIMPLEMENTED, so that it is computed as it is written, for heads of more columns than a thread
// has registers for: 256 of the values, backward 128.
Status write_gpu_attention(GpuWriter& writer);

// The computation on the operands' elements.
Status write_gpu_map(GpuWriter& writer);

// A stable merge sort with the CPU's merges, so the same bits, comparators that are no order
// included.
Status write_gpu_sort(GpuWriter& writer);

// Philox, as runtime/base/philox.h: the same bits.
Status write_gpu_random_bits(GpuWriter& writer);

}  // namespace plimsoll::jit
