// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/attributes.h"
#include "runtime/ir/text/cursor.h"

// Attribute values that say where in an array something happens, read and printed.
namespace plimsoll::ir {

// `{[0:2], [1:9:2]}` to slice_starts, slice_limits, slice_strides.
Status read_slice(Cursor& cursor, Attributes& attributes);
std::string slice_text(const Attributes& attributes);
// `0_1_2x1_1`
Status read_value(Cursor& cursor, std::vector<PaddingDimension>& padding);
std::string text_of(const std::vector<PaddingDimension>& padding);
// `{size=3x3 stride=2x2 pad=1_1x1_1 lhs_dilate=1x1 rhs_dilate=1x1 rhs_reversal=0x1}`
Status read_value(Cursor& cursor, std::vector<WindowDimension>& window);
// Without what is the same as if nothing were said.
std::string text_of(const std::vector<WindowDimension>& window);
// `b01f_01io->b01f`
Status read_value(Cursor& cursor, ConvolutionDimensions& dimensions);
std::string text_of(const ConvolutionDimensions& dimensions);

}  // namespace plimsoll::ir
