// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernels.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/calls/custom_call.h"
#include "kernels/cpu/collectives/collectives.h"
#include "kernels/cpu/collectives/ragged.h"
#include "kernels/cpu/collectives/transfers.h"
#include "kernels/cpu/contraction/contraction.h"
#include "kernels/cpu/contraction/sliced_dot.h"
#include "kernels/cpu/fourier/fft.h"
#include "kernels/cpu/indexing/indexing.h"
#include "kernels/cpu/indexing/sort.h"
#include "kernels/cpu/indexing/top_k.h"
#include "kernels/cpu/linalg/linalg.h"
#include "kernels/cpu/random.h"
#include "kernels/cpu/scalar/map.h"
#include "kernels/cpu/window/window.h"
#include "runtime/ir/fusions/sliced_operands.h"

namespace plimsoll::kernels {
namespace {

using Maker = KernelResult (*)(const ir::Instruction&);

// A function that was registered, or one of the library's own.
KernelResult make_call(const ir::Instruction& instruction) {
  const std::string& target = instruction.attributes().custom_call_target;
  if (is_custom_call_registered(instruction)) return make_custom_call(instruction);
  if (target == kFftTarget) return make_fft(instruction);
  if (is_lapack_target(target)) return make_lapack(instruction);
  return unimplemented(fmt::format(
      "custom-call {}: no function '{}' is known (known: {}; others are registered with "
      "plm_register_custom_call)",
      instruction.name(), target, fmt::join(lapack_targets(), ", ")));
}

KernelResult make_fusion(const ir::Instruction& fusion) {
  return ir::has_sliced_operands(fusion) ? make_sliced_dot(fusion) : make_attention(fusion);
}

// Null when there is no kernel for the opcode.
Maker maker_of(ir::Opcode opcode) {
  switch (opcode) {
    case ir::Opcode::dot:
      return make_dot;
    case ir::Opcode::convolution:
      return make_convolution;
    case ir::Opcode::reduce_window:
      return make_reduce_window;
    case ir::Opcode::select_and_scatter:
      return make_select_and_scatter;
    case ir::Opcode::sort:
      return make_sort;
    case ir::Opcode::topk:
      return make_top_k;
    case ir::Opcode::scatter:
      return make_scatter;
    case ir::Opcode::map:
      return make_map;
    case ir::Opcode::rng:
      return make_rng;
    case ir::Opcode::rng_bit_generator:
      return make_rng_bit_generator;
    case ir::Opcode::rng_get_and_update_state:
      return make_rng_get_and_update_state;
    case ir::Opcode::custom_call:
      return make_call;
    case ir::Opcode::fusion:
      return make_fusion;
    case ir::Opcode::partition_id:
    case ir::Opcode::replica_id:
      return make_participant_id;
    case ir::Opcode::send:
    case ir::Opcode::send_done:
    case ir::Opcode::recv:
    case ir::Opcode::recv_done:
      return make_transfer;
    case ir::Opcode::ragged_all_to_all:
      return make_ragged_all_to_all;
    case ir::Opcode::all_reduce:
    case ir::Opcode::all_gather:
    case ir::Opcode::reduce_scatter:
    case ir::Opcode::all_to_all:
    case ir::Opcode::collective_permute:
    case ir::Opcode::collective_broadcast:
    case ir::Opcode::all_reduce_start:
    case ir::Opcode::all_reduce_done:
    case ir::Opcode::all_gather_start:
    case ir::Opcode::all_gather_done:
    case ir::Opcode::collective_permute_start:
    case ir::Opcode::collective_permute_done:
    case ir::Opcode::copy_start:
    case ir::Opcode::copy_done:
    case ir::Opcode::async_start:
    case ir::Opcode::async_update:
    case ir::Opcode::async_done:
      return make_collective;
    default:
      return nullptr;
  }
}

}  // namespace

bool supports(const ir::Instruction& instruction) {
  if (instruction.opcode() == ir::Opcode::fusion) {
    return ir::claims_attention(instruction) || ir::has_sliced_operands(instruction);
  }
  return maker_of(instruction.opcode()) != nullptr;
}

Result<std::shared_ptr<const device::Kernel>> make_kernel(const ir::Instruction& instruction) {
  const Maker maker = maker_of(instruction.opcode());
  if (maker == nullptr) {
    return unimplemented("kernel of " + instruction.name() + ": no kernel for " +
                         std::string(ir::to_string(instruction.opcode())));
  }
  return maker(instruction);
}

}  // namespace plimsoll::kernels
