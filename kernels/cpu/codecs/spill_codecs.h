// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kernels/spill_codec.h"

// One maker per spill codec; kernels/spill_codec.cc holds the table of them.
namespace plimsoll::kernels {

std::unique_ptr<const SpillCodec> make_sparse(int element_bytes);
std::unique_ptr<const SpillCodec> make_byte_planes(int element_bytes);

// What every encoder asks of its arguments.
Status check_spill(std::string_view name, int element_bytes, std::int64_t bound,
                   std::span<const std::byte> from, std::span<std::byte> to);
Status damaged(std::string_view name, std::string_view what);

}  // namespace plimsoll::kernels
