// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Dims;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

bool adds_numbers(const ir::Computation& computation) {
  const Instruction& root = *computation.root();
  return computation.parameters().size() == 2 && root.opcode() == Opcode::add &&
         root.shape().dtype() != ir::DType::pred &&
         root.operand(0)->opcode() == Opcode::parameter &&
         root.operand(1)->opcode() == Opcode::parameter && root.operand(0) != root.operand(1);
}

// How many zeros stand behind the last window of a dim that has an element; -1 where a window has
// none, or more than one.
//
// Elements that a pad puts `size` apart, with size - 1 zeros before the first and after the last,
// are each in the windows of `size` neighbouring results, and in each there is one of them.
std::int64_t zeros_behind(const ir::PaddingDimension& padding, const ir::WindowDimension& window) {
  const bool is_plain = window.stride == 1 && window.padding_low == 0 && window.padding_high == 0 &&
                        window.base_dilation == 1 && window.window_dilation == 1;
  const std::int64_t zeros = window.size - 1;
  if (!is_plain || padding.interior != zeros || padding.low != zeros || padding.high < zeros) {
    return -1;
  }
  return padding.high - zeros;
}

// A sum over windows of one element among zeros each, as the gradient of an average over windows
// side by side is: the element, as often as it is in a window. Of zeros the sum is +0, so that 0 is
// added.
Instruction* repeat_elements(Rewriter& rewriter, Instruction& at) {
  if (at.operand_count() != 2 || !adds_numbers(*at.to_apply())) return nullptr;
  Instruction* const pad = at.operand(0);
  if (pad->opcode() != Opcode::pad || !is_zero(*pad->operand(1)) ||
      !is_splat_of(*at.operand(1), 0)) {
    return nullptr;
  }
  Instruction* const from = pad->operand(0);
  const Dims& dims = from->shape().dims();
  const ir::DType dtype = at.shape().dtype();
  std::vector<std::int64_t> apart, places, together;  // dims of each, places of `from`'s in `apart`
  std::vector<ir::PaddingDimension> behind;
  bool is_repeated = false, is_padded = false;
  for (int d = 0; d < dims.size(); ++d) {
    const ir::WindowDimension& window = at.attributes().window[plimsoll::at(d)];
    const std::int64_t zeros = zeros_behind(pad->attributes().padding[plimsoll::at(d)], window);
    if (zeros < 0 || dims[d] == 0) return nullptr;
    places.push_back(static_cast<std::int64_t>(apart.size()));
    apart.push_back(dims[d]);
    if (window.size > 1) apart.push_back(window.size);
    together.push_back(dims[d] * window.size);
    behind.push_back({0, zeros, 0});
    is_repeated |= window.size > 1;
    is_padded |= zeros > 0;
  }
  if (!is_repeated || apart.size() > ir::kMaxRank) return nullptr;
  Instruction* const zero = rewriter.add_splat(Shape(dtype, dims), *splat_value(*at.operand(1)));
  Instruction* const sum = rewriter.add(Opcode::add, Shape(dtype, dims), {from, zero});
  Attributes repeated;
  repeated.dimensions = std::move(places);
  Instruction* const broadcast =
      rewriter.add(Opcode::broadcast, Shape(dtype, apart), {sum}, std::move(repeated));
  Instruction* const made = rewriter.add(Opcode::reshape, Shape(dtype, together), {broadcast});
  if (!is_padded) return made;
  Attributes padding;
  padding.padding = std::move(behind);
  return rewriter.add(Opcode::pad, Shape(dtype, at.shape().dims()), {made, at.operand(1)},
                      std::move(padding));
}

}  // namespace

Instruction* simplify_windows(Rewriter& rewriter, Instruction& at) {
  return at.opcode() == Opcode::reduce_window ? repeat_elements(rewriter, at) : nullptr;
}

}  // namespace plimsoll::passes
