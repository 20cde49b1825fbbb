// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/attention/attention_products.h"
#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/fusions/attention.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// A fusion that is an attention (ir/fusions/attention.h), forward or backward: blocks of queries by
// blocks of keys, softmax along the way; no array of the scores' size. UNIMPLEMENTED for other
// fusions. Products are of bf16 where operands are and the machine has those, else of f32.
KernelResult make_attention(const ir::Instruction& instruction);
// With these products, which must suit the operands.
KernelResult make_attention_of(const ir::Instruction& instruction, const BlockProducts& products);

KernelResult make_attention_forward(const ir::Instruction& instruction,
                                    const ir::AttentionForm& form, const ir::AttentionSizes& sizes,
                                    const BlockProducts& products);
KernelResult make_attention_backward(const ir::Instruction& instruction,
                                     const ir::AttentionForm& form, const ir::AttentionSizes& sizes,
                                     const BlockProducts& products);

}  // namespace plimsoll::kernels
