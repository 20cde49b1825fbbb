// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/attributes.h"
#include "runtime/ir/opcode.h"
#include "runtime/ir/shape.h"

namespace plimsoll::hlo_proto {

// What an HloInstructionProto says, apart from its id, as it stands in the bytes: messages within
// it are read when an opcode asks for them.
struct Instruction {
  std::string_view name, opcode, shape, metadata, literal, frontend_attributes, backend_config;
  std::string_view precision;
  std::int64_t id = 0;
  std::vector<std::int64_t> operands, control_predecessors, called;  // ids

  std::int64_t parameter_number = 0, tuple_index = 0;
  std::vector<std::int64_t> dimensions, slice_sizes, gather_slice_sizes;
  std::vector<std::string_view> slices;
  std::string_view window, padding, dot, ragged_dot, convolution, gather, scatter;
  std::int64_t feature_group_count = 0, batch_group_count = 0;
  std::int64_t exponent_bits = 0, mantissa_bits = 0;
  std::string_view comparison_direction, comparison_type, fusion_kind, custom_call_target;
  std::int64_t distribution = 0, rng_algorithm = 0, k = 0, num_carries = 0;
  std::int64_t fft_type = 0, epsilon_bits = 0, feature_index = 0;
  std::vector<std::int64_t> fft_lengths;
  std::string_view triangular_solve, cholesky;
  bool largest = false, is_stable = false, indices_are_sorted = false, unique_indices = false;
  bool has_side_effect = false, is_reverse = false;

  // Of collectives: groups in one of several forms.
  std::vector<std::string_view> replica_groups, source_target_pairs;
  std::string_view device_list, iota_groups, mesh_groups;
  std::int64_t channel_id = 0, all_reduce_id = 0;
  bool use_global_device_ids = false, constrain_layout = false, is_host_transfer = false;
};

Result<Instruction> read_instruction(std::string_view message);

// The attributes that `opcode` reads, and as texts those without meaning here that HLO text has,
// too (metadata, frontend_attributes, backend_config, operand_precision, ...); sharding and what
// only XLA's backends look at is passed over. `participants_left` counts down what groups may still
// have together.
Result<ir::Attributes> read_attributes(const Instruction& instruction, ir::Opcode opcode,
                                       const ir::Shape& shape, std::int64_t& participants_left);

// `{key="value",...}`; empty where there are none.
Result<std::string> frontend_attributes_text(std::string_view message);

}  // namespace plimsoll::hlo_proto
