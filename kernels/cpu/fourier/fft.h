// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// The custom call that HLO's `fft` becomes (runtime/passes/expand), with its attributes.
inline constexpr std::string_view kFftTarget = "plimsoll.fft";

// Transforms over the last one to three dims, computed in f64 and rounded once. INVALID_ARGUMENT
// for arrays that do not fit `fft_type` and `fft_length`.
KernelResult make_fft(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
