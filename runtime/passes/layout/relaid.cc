// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/layout/relaid.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/base/index.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

namespace {

template <typename Value>
void permute(std::vector<Value>& values, const DimensionOrder& order) {
  if (values.empty()) return;
  std::vector<Value> result;
  for (const std::int64_t d : order) result.push_back(values[at(d)]);
  values = std::move(result);
}

// Names of dimensions after the array has been put into the order whose inverse is `places`.
void rename(std::vector<std::int64_t>& dimensions, const DimensionOrder& places) {
  for (std::int64_t& d : dimensions) d = places[at(d)];
}

bool is_increasing(const DimensionOrder& places, const std::vector<std::int64_t>& dimensions) {
  for (std::size_t i = 1; i < dimensions.size(); ++i) {
    if (places[at(dimensions[i - 1])] > places[at(dimensions[i])]) {
      return false;
    }
  }
  return true;
}

// The dimensions of a reduction's operand that go, and those that stay.
std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>> parts_of(
    const Instruction& reduce) {
  std::vector<std::int64_t> gone = reduce.attributes().dimensions, kept;
  std::sort(gone.begin(), gone.end());
  for (std::int64_t d = 0; d < reduce.operand(0)->shape().rank(); ++d) {
    if (!std::binary_search(gone.begin(), gone.end(), d)) kept.push_back(d);
  }
  return {gone, kept};
}

std::vector<int> first_operands(int count) {
  std::vector<int> result;
  for (int i = 0; i < count; ++i) result.push_back(i);
  return result;
}

// The convolution's names of dimensions of operand 0, operand 1 or, as operand 2, of the result.
void rename_convolution(Instruction& copy, int array, const DimensionOrder& places) {
  auto labels = std::make_shared<ir::ConvolutionDimensions>(*copy.attributes().convolution);
  const auto rename_one = [&](std::int64_t& d) { d = places[at(d)]; };
  if (array == 0) {
    rename_one(labels->input_batch);
    rename_one(labels->input_feature);
    rename(labels->input_spatial, places);
  } else if (array == 1) {
    rename_one(labels->kernel_input_feature);
    rename_one(labels->kernel_output_feature);
    rename(labels->kernel_spatial, places);
  } else {
    rename_one(labels->output_batch);
    rename_one(labels->output_feature);
    rename(labels->output_spatial, places);
  }
  copy.attributes().convolution = std::move(labels);
}

}  // namespace

bool is_identity(const DimensionOrder& order) { return std::is_sorted(order.begin(), order.end()); }

DimensionOrder inverse(const DimensionOrder& order) {
  DimensionOrder result(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    result[at(order[i])] = static_cast<std::int64_t>(i);
  return result;
}

// Dims of size one may go anywhere without moving a byte: f32[8,1,1,64] is the same in NCHW and in
// NHWC. What is left must be in its old order.
bool keeps_bytes(const DimensionOrder& order, const ir::Dims& dims) {
  std::int64_t last = -1;
  for (const std::int64_t d : order) {
    if (dims[static_cast<int>(d)] == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

Shape reordered(const Shape& shape, const DimensionOrder& order) {
  ir::Dims dims;
  for (const std::int64_t d : order) dims.push_back(shape.dim(static_cast<int>(d)));
  return Shape(shape.dtype(), dims);
}

std::vector<int> corresponding_operands(const Instruction& instruction) {
  const auto same_dims = [&] {
    std::vector<int> result;
    for (int i = 0; i < instruction.operand_count(); ++i) {
      const Shape& shape = instruction.operand(i)->shape();
      if (shape.is_array() && shape.dims() == instruction.shape().dims()) result.push_back(i);
    }
    return result;
  };
  switch (instruction.opcode()) {
    case Opcode::copy:
    case Opcode::reverse:
    case Opcode::slice:
    case Opcode::pad:
      return {0};
    case Opcode::bitcast_convert: {
      const Shape& operand = instruction.operand(0)->shape();
      return operand.rank() == instruction.shape().rank() ? same_dims() : std::vector<int>{};
    }
    case Opcode::reduce_window:
      return instruction.operand_count() == 2 ? std::vector<int>{0} : std::vector<int>{};
    case Opcode::select_and_scatter:
      return {0, 1};
    case Opcode::concatenate:
      return first_operands(instruction.operand_count());
    case Opcode::dynamic_slice:
      // An index per dimension, not one vector of them.
      return instruction.operand_count() == instruction.shape().rank() + 1 &&
                     instruction.operand(1)->shape().is_scalar()
                 ? std::vector<int>{0}
                 : std::vector<int>{};
    case Opcode::dynamic_update_slice:
      return instruction.operand_count() == instruction.shape().rank() + 2 &&
                     instruction.operand(2)->shape().is_scalar()
                 ? std::vector<int>{0, 1}
                 : std::vector<int>{};
    default:
      return is_elementwise(instruction.opcode()) ? same_dims() : std::vector<int>{};
  }
}

bool takes_any_order(const Instruction& instruction) {
  if (!instruction.shape().is_array() || instruction.shape().layout() != nullptr ||
      !instruction.control_predecessors().empty() || !instruction.control_successors().empty()) {
    return false;
  }
  switch (instruction.opcode()) {
    case Opcode::broadcast:
    case Opcode::iota:
    case Opcode::convolution:
      return true;
    default:
      return !corresponding_operands(instruction).empty();
  }
}

// A reduction should round as it is written. A window that reduces (reduce-window) adds its
// elements in the order of the text's dims; if two windowed dims changed places, the sum would be
// taken in another order. So windowed dims keep their relative order; others may go anywhere: (0,
// 1, 2, 3) -> (0, 2, 3, 1) is allowed, since 2 and 3 stay in order. A convolution may take any
// order: its kernel reads its dims by their roles and not by their places.
bool allows_order(const Instruction& instruction, const DimensionOrder& order) {
  if (instruction.opcode() == Opcode::convolution) return true;
  std::vector<std::int64_t> windowed;
  for (std::size_t d = 0; d < instruction.attributes().window.size(); ++d) {
    if (instruction.attributes().window[d] != ir::WindowDimension{})
      windowed.push_back(static_cast<std::int64_t>(d));
  }
  return is_increasing(inverse(order), windowed);
}

// A reduction likewise: reduced dims in increasing places give the same order of sums, and kept
// dims in increasing places give the same result array, so that no transpose follows.
bool reads_any_order(const Instruction& instruction, int operand, const DimensionOrder& order) {
  if (!instruction.control_predecessors().empty() || !instruction.control_successors().empty())
    return false;
  switch (instruction.opcode()) {
    case Opcode::transpose:
    case Opcode::convolution:
      return true;
    case Opcode::reduce: {
      if (instruction.operand_count() != 2 || operand != 0) return false;
      const auto [gone, kept] = parts_of(instruction);
      const DimensionOrder places = inverse(order);
      return is_increasing(places, gone) && is_increasing(places, kept);
    }
    default:
      return false;
  }
}

void reorder_result(Instruction& copy, const DimensionOrder& order) {
  const DimensionOrder places = inverse(order);
  copy.set_shape(reordered(copy.shape(), order));
  Attributes& attributes = copy.attributes();
  const auto reorder_indices = [&](int first) {
    std::vector<Instruction*> indices;
    for (const std::int64_t d : order) indices.push_back(copy.operand(first + static_cast<int>(d)));
    for (std::size_t i = 0; i < indices.size(); ++i)
      copy.replace_operand(first + static_cast<int>(i), indices[i]);
  };
  switch (copy.opcode()) {
    case Opcode::convolution:
      return rename_convolution(copy, 2, places);
    case Opcode::broadcast:
    case Opcode::iota:
    case Opcode::concatenate:
      return rename(attributes.dimensions, places);
    case Opcode::reverse:
      rename(attributes.dimensions, places);
      std::sort(attributes.dimensions.begin(), attributes.dimensions.end());
      return;
    case Opcode::slice:
      permute(attributes.slice_starts, order);
      permute(attributes.slice_limits, order);
      permute(attributes.slice_strides, order);
      return;
    case Opcode::pad:
      return permute(attributes.padding, order);
    case Opcode::reduce_window:
    case Opcode::select_and_scatter:
      return permute(attributes.window, order);
    case Opcode::dynamic_slice:
      permute(attributes.slice_sizes, order);
      return reorder_indices(1);
    case Opcode::dynamic_update_slice:
      return reorder_indices(2);
    default:
      return;
  }
}

void reorder_operand(Instruction& copy, int operand, const DimensionOrder& order) {
  const DimensionOrder places = inverse(order);
  Attributes& attributes = copy.attributes();
  switch (copy.opcode()) {
    case Opcode::convolution:
      return rename_convolution(copy, operand, places);
    case Opcode::transpose:
      return rename(attributes.dimensions, places);
    case Opcode::reduce:
      rename(attributes.dimensions, places);
      std::sort(attributes.dimensions.begin(), attributes.dimensions.end());
      return;
    default:
      return;
  }
}

}  // namespace plimsoll::passes
