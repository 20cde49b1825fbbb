// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/sliced_dot.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/contraction/contraction.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/result_pieces.h"
#include "runtime/ir/fusions/sliced_operands.h"

namespace plimsoll::kernels {
namespace {

// An index of a slice, clamped to [0, most] as HLO has it, and the bytes that each step of it moves
// the slice by.
struct SliceIndex {
  int input = -1;  // that holds it; -1: `value`
  ir::DType dtype = ir::DType::s32;
  std::int64_t value = 0;
  std::int64_t most = 0, bytes = 0;

  std::int64_t offset(std::span<const void* const> inputs) const {
    std::int64_t at = value;
    if (input >= 0) {
      ir::visit_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          const T index = *static_cast<const T*>(inputs[plimsoll::at(input)]);
          // Unsigned numbers that are too large for the other type are large.
          at = std::cmp_greater(index, most) ? most : static_cast<std::int64_t>(index);
        }
      });
    }
    return std::clamp<std::int64_t>(at, 0, most) * bytes;
  }
};

// Where an operand of the dot comes from: an input, from its indices on.
struct OperandSource {
  int input = 0;
  std::vector<SliceIndex> indices;
};

constexpr std::size_t kOperands = 2;

class SlicedDot final : public device::Kernel, public device::ResultPieces {
 public:
  SlicedDot(std::shared_ptr<const device::Kernel> dot, std::array<OperandSource, kOperands> sources)
      : dot_(std::move(dot)),
        pieces_(dynamic_cast<const device::ResultPieces*>(dot_.get())),
        sources_(std::move(sources)),
        name_(dot_->name() + ".sliced") {}

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    const auto operands = operands_of(arguments);
    return dot_->launch(stream, {operands, arguments.outputs, arguments.workspace});
  }
  std::int64_t workspace_bytes() const override { return dot_->workspace_bytes(); }
  device::KernelOrigin origin() const override { return dot_->origin(); }
  const std::string& name() const override { return name_; }

  std::span<const std::int64_t> piece_ends() const override {
    return pieces_ == nullptr ? std::span<const std::int64_t>() : pieces_->piece_ends();
  }
  Status begin(const device::KernelArguments& arguments) const override {
    const auto operands = operands_of(arguments);
    return pieces_->begin({operands, arguments.outputs, arguments.workspace});
  }
  Status run_piece(const device::KernelArguments& arguments, std::int64_t piece) const override {
    const auto operands = operands_of(arguments);
    return pieces_->run_piece({operands, arguments.outputs, arguments.workspace}, piece);
  }

 private:
  std::array<const void*, kOperands> operands_of(const device::KernelArguments& arguments) const {
    std::array<const void*, kOperands> operands{};
    for (std::size_t i = 0; i < kOperands; ++i) {
      std::int64_t offset = 0;
      for (const SliceIndex& index : sources_[i].indices) offset += index.offset(arguments.inputs);
      operands[i] = byte_offset(arguments.inputs[at(sources_[i].input)], offset);
    }
    return operands;
  }

  std::shared_ptr<const device::Kernel> dot_;
  const device::ResultPieces* pieces_;  // null: the dot is not made so
  std::array<OperandSource, kOperands> sources_;
  std::string name_;
};

int number_of(const ir::Instruction& parameter) {
  return static_cast<int>(parameter.attributes().parameter_number);
}

OperandSource source_of(const ir::Instruction& operand) {
  if (operand.opcode() == ir::Opcode::parameter) return {number_of(operand), {}};
  const ir::Instruction& slice = *ir::contiguous_slice(operand);
  const ir::Shape& from = slice.operand(0)->shape();
  const ir::Dims strides = ir::row_major_strides(from.dims());
  OperandSource source{number_of(*slice.operand(0)), {}};
  for (int d = 0; d < from.rank(); ++d) {
    const std::int64_t most = from.dim(d) - slice.shape().dim(d);
    if (most == 0) continue;
    SliceIndex made{-1, ir::DType::s64, 0, most, strides[d] * ir::dtype_bytes(from.dtype())};
    if (slice.opcode() == ir::Opcode::slice) {
      made.value = slice.attributes().slice_starts[at(d)];
      source.indices.push_back(made);
      continue;
    }
    const ir::Instruction& index = *slice.operand(1 + d);
    made.dtype = index.shape().dtype();
    if (index.opcode() == ir::Opcode::parameter) {
      made.input = number_of(index);
    } else {
      made.value = static_cast<std::int64_t>(index.attributes().literal->at(0));
    }
    source.indices.push_back(made);
  }
  return source;
}

}  // namespace

KernelResult make_sliced_dot(const ir::Instruction& fusion) {
  const ir::Instruction& dot = *fusion.to_apply()->root();
  PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, make_dot(dot));
  return KernelResult(std::make_shared<SlicedDot>(
      std::move(kernel), std::array<OperandSource, kOperands>{source_of(*dot.operand(0)),
                                                              source_of(*dot.operand(1))}));
}

}  // namespace plimsoll::kernels
