// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/cost_model.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/index.h"
#include "runtime/planner/cost/collective_costs.h"
#include "runtime/planner/cost/library_work.h"

namespace plimsoll::planner {
namespace {

using ir::Instruction;
using ir::Opcode;

double elements(const ir::Shape& shape) {
  if (shape.is_array()) return static_cast<double>(shape.element_count());
  double sum = 0;
  for (const ir::Shape& element : shape.elements()) sum += elements(element);
  return sum;
}

double bytes(const ir::Shape& shape) { return static_cast<double>(shape.byte_size()); }

double computation_flops(const ir::Computation& computation);

double flops_of(const Instruction& instruction) {
  if (const auto work = library_work(instruction)) return *work;
  const double results = elements(instruction.shape());
  switch (instruction.opcode()) {
    case Opcode::dot: {
      double depth = 1;
      if (instruction.attributes().dot != nullptr) {
        for (const std::int64_t d : instruction.attributes().dot->lhs_contracting) {
          depth *= static_cast<double>(instruction.operand(0)->shape().dim(static_cast<int>(d)));
        }
      }
      return 2 * results * depth;
    }
    case Opcode::convolution: {
      const ir::Shape& kernel = instruction.operand(1)->shape();
      double depth = elements(kernel);
      if (instruction.attributes().convolution != nullptr) {
        const int out =
            static_cast<int>(instruction.attributes().convolution->kernel_output_feature);
        depth /= std::max(1.0, static_cast<double>(kernel.dim(out)));
      }
      return 2 * results * depth;
    }
    case Opcode::reduce: {
      double sum = 0;
      for (int i = 0; i < instruction.operand_count() / 2; ++i) {
        sum += elements(instruction.operand(i)->shape());
      }
      return sum;
    }
    case Opcode::reduce_window:
    case Opcode::select_and_scatter: {
      double window = 1;
      for (const auto& d : instruction.attributes().window) window *= static_cast<double>(d.size);
      return results * window;
    }
    case Opcode::sort: {
      const double n = elements(instruction.operand(0)->shape());
      return n * std::max(1.0, std::log2(std::max(2.0, n)));
    }
    case Opcode::topk:
      return 2 * elements(instruction.operand(0)->shape());
    case Opcode::rng_bit_generator:
      return 10 * results;
    case Opcode::fusion:
    case Opcode::map:
      return computation_flops(*instruction.to_apply()) *
             (instruction.opcode() == Opcode::map ? results : 1);
    default:
      break;
  }
  switch (ir::op_info(instruction.opcode()).op_class) {
    case ir::OpClass::unary:
    case ir::OpClass::binary:
    case ir::OpClass::ternary:
      return results * ir::op_info(instruction.opcode()).work;
    case ir::OpClass::structure:
    case ir::OpClass::control:
    case ir::OpClass::creation:
    case ir::OpClass::movement:
      return 0;
    default:
      return results;
  }
}

double computation_flops(const ir::Computation& computation) {
  double sum = 0;
  for (const auto& instruction : computation.instructions()) sum += flops_of(*instruction);
  return sum;
}

// The dearest class among the instructions of a fusion.
CostClass class_of(const ir::Computation& computation) {
  CostClass found = CostClass::elementwise;
  for (const auto& inner : computation.instructions()) {
    const CostClass one = cost_class(*inner);
    if (one == CostClass::contraction || one == CostClass::convolution) return one;
    if (one != CostClass::elementwise) found = one;
  }
  return found;
}

bool takes_part(Opcode opcode) {
  return opcode == Opcode::slice || opcode == Opcode::dynamic_slice || opcode == Opcode::gather;
}

// What a fusion reads of a parameter: no more than the parts that it takes of it, and nothing of
// what it changes in place.
//
// A fusion that takes one slice of a stack of a hundred reads a hundredth of it, and one that puts
// a slice there writes as much. Counting all of it would make every loop body look bound by memory,
// recomputing it dear, and stacking dearer than recomputing.
double bytes_read(const Instruction& parameter) {
  const auto all = static_cast<double>(parameter.shape().byte_size());
  double parts = 0;
  for (const Instruction* user : parameter.users()) {
    const bool is_updated = user->opcode() == Opcode::dynamic_update_slice &&
                            user->operand(0) == &parameter && user->operand(1) != &parameter;
    if (is_updated) continue;
    if (user->opcode() == Opcode::fusion) {  // one of those that share a launch
      for (int i = 0; i < user->operand_count(); ++i) {
        if (user->operand(i) == &parameter)
          parts += bytes_read(*user->to_apply()->parameters()[at(i)]);
      }
      continue;
    }
    if (!takes_part(user->opcode()) || user->operand(0) != &parameter) return all;
    parts += static_cast<double>(user->shape().byte_size());
  }
  return parameter.is_root() ? all : std::min(all, parts);
}

// What a fusion writes of a result.
double bytes_written(const Instruction& root) {
  double sum = 0;
  switch (root.opcode()) {
    case Opcode::tuple:
      for (const Instruction* operand : root.operands()) sum += bytes_written(*operand);
      return sum;
    case Opcode::fusion:
      return bytes_written(*root.to_apply()->root());
    case Opcode::dynamic_update_slice:
      // What the fusion makes itself, zeros say, is written whole.
      if (root.operand(0)->opcode() == Opcode::parameter) return bytes(root.operand(1)->shape());
      return bytes(root.shape());
    default:
      return bytes(root.shape());
  }
}

// What a slice-like operation touches of its first operand is what it returns or writes; what is
// updated is updated in place, as it nearly always can be (ir/fusions/in_place.h).
double bytes_of(const Instruction& instruction) {
  const auto result = static_cast<double>(instruction.shape().byte_size());
  switch (instruction.opcode()) {
    case Opcode::slice:
    case Opcode::dynamic_slice:
    case Opcode::gather:
      return 2 * result;
    case Opcode::call:
    case Opcode::while_:
    case Opcode::conditional:
      return 0;
    case Opcode::dynamic_update_slice:
      return 2 * bytes(instruction.operand(1)->shape());
    case Opcode::scatter: {
      // Reads indices and updates, reads and writes what these are combined with.
      const int arrays = instruction.operand_count() / 2;
      double sum = bytes(instruction.operand(arrays)->shape());
      for (int i = arrays + 1; i < instruction.operand_count(); ++i) {
        sum += 3 * bytes(instruction.operand(i)->shape());
      }
      return sum;
    }
    case Opcode::fusion: {
      double sum = bytes_written(*instruction.to_apply()->root());
      for (const Instruction* parameter : instruction.to_apply()->parameters()) {
        sum += bytes_read(*parameter);
      }
      return sum;
    }
    default:
      break;
  }
  double sum = result;
  for (const Instruction* operand : instruction.operands()) {
    sum += static_cast<double>(operand->shape().byte_size());
  }
  return sum;
}

}  // namespace

Work count_work(const Instruction& instruction) {
  return {flops_of(instruction), bytes_of(instruction)};
}

CostClass cost_class(const Instruction& instruction) {
  if (instruction.opcode() == Opcode::custom_call && library_work(instruction)) {
    return CostClass::irregular;
  }
  switch (instruction.opcode()) {
    case Opcode::convolution:
      return CostClass::convolution;
    case Opcode::gather:
    case Opcode::scatter:
    case Opcode::sort:
    case Opcode::topk:
      return CostClass::irregular;
    case Opcode::rng:
    case Opcode::rng_bit_generator:
      return CostClass::random;
    case Opcode::fusion:
    case Opcode::map:
      return class_of(*instruction.to_apply());
    default:
      break;
  }
  switch (ir::op_info(instruction.opcode()).op_class) {
    case ir::OpClass::contraction:
      return CostClass::contraction;
    case ir::OpClass::reduction:
      return CostClass::reduction;
    case ir::OpClass::collective:
    case ir::OpClass::async:
      return CostClass::collective;
    default:
      return CostClass::elementwise;
  }
}

// A roofline with a rate of arithmetic for each class, measured once on the machine
// (program/calibration.h), and one rate of memory. Only ratios matter for what is recomputed;
// measured times replace all of this as soon as the program has run (measured_costs.h).
//
// Example: f32[512,512] times f32[512,512] is 2 * 512^3 = 2.7e8 operations and 3 MiB. At 1e11
// operations and 2e10 bytes a second: 2.7 ms against 0.16 ms, bound by arithmetic. An addition of
// the same size is 2.6e5 operations and 3 MiB: bound by memory. Per byte of its result the dot is
// 17 times dearer to recompute, so additions are recomputed first.
double RooflineCostModel::seconds(const Instruction& instruction) const {
  const Work work = count_work(instruction);
  double rate = roofline_.other_flops_per_second;
  const CostClass kind = cost_class(instruction);
  if (kind == CostClass::contraction) rate = roofline_.contraction_flops_per_second;
  if (kind == CostClass::convolution) rate = roofline_.convolution_flops_per_second;
  if (kind == CostClass::random) rate = roofline_.random_flops_per_second;
  const double messages =
      kind == CostClass::collective
          ? collective_seconds(collective_traffic(instruction), roofline_.collectives)
          : 0;
  return std::max(work.flops / rate, work.bytes / roofline_.bytes_per_second) +
         roofline_.launch_seconds + messages;
}

// Both directions read one form and write the other.
double RooflineCostModel::codec_seconds(const Codec& codec, const ir::Shape& shape,
                                        bool encode) const {
  const auto bytes = static_cast<double>(shape.byte_size() + encoded_bytes(codec, shape));
  const Roofline::CodecRate& rate = roofline_.codecs[at(codec.kind)];
  const double work =
      static_cast<double>(shape.element_count()) / (encode ? rate.encode : rate.decode);
  return std::max(work, bytes / roofline_.bytes_per_second) + roofline_.launch_seconds;
}

}  // namespace plimsoll::planner
