// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ir/literal.h"

namespace plimsoll::ir {

enum class ComparisonDirection : std::uint8_t { eq, ne, ge, gt, le, lt };
// The outcome for a and b; for NaNs that of C++'s operators.
template <typename T>
constexpr bool holds(ComparisonDirection direction, T a, T b) {
  switch (direction) {
    case ComparisonDirection::eq:
      return a == b;
    case ComparisonDirection::ne:
      return a != b;
    case ComparisonDirection::ge:
      return a >= b;
    case ComparisonDirection::gt:
      return a > b;
    case ComparisonDirection::le:
      return a <= b;
    case ComparisonDirection::lt:
      return a < b;
  }
  __builtin_unreachable();
}
// The direction with the same outcome when the operands change places.
constexpr ComparisonDirection mirrored(ComparisonDirection direction) {
  switch (direction) {
    case ComparisonDirection::ge:
      return ComparisonDirection::le;
    case ComparisonDirection::gt:
      return ComparisonDirection::lt;
    case ComparisonDirection::le:
      return ComparisonDirection::ge;
    case ComparisonDirection::lt:
      return ComparisonDirection::gt;
    default:
      return direction;
  }
}
// How `compare` orders: `total` puts -NaN < -inf < -0 < +0 < +inf < +NaN; `natural` is IEEE for
// floats and plain integer order.
enum class ComparisonOrder : std::uint8_t { natural, total };
enum class FusionKind : std::uint8_t { loop, input, output, custom };
enum class RngDistribution : std::uint8_t { uniform, normal };
enum class RngAlgorithm : std::uint8_t { default_, three_fry, philox };

struct PaddingDimension {
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t interior = 0;
  friend bool operator==(const PaddingDimension&, const PaddingDimension&) = default;
};

struct WindowDimension {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t padding_low = 0;
  std::int64_t padding_high = 0;
  std::int64_t base_dilation = 1;    // text: lhs_dilate
  std::int64_t window_dilation = 1;  // text: rhs_dilate
  bool reversal = false;             // text: rhs_reversal
  friend bool operator==(const WindowDimension&, const WindowDimension&) = default;
};

struct DotDimensions {
  std::vector<std::int64_t> lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  friend bool operator==(const DotDimensions&, const DotDimensions&) = default;
};

// Text: dim_labels=b01f_01io->b01f. Spatial vectors give, per spatial dimension, its position.
struct ConvolutionDimensions {
  std::int64_t input_batch = 0, input_feature = 0;
  std::int64_t kernel_input_feature = 0, kernel_output_feature = 0;
  std::int64_t output_batch = 0, output_feature = 0;
  std::vector<std::int64_t> input_spatial, kernel_spatial, output_spatial;
  friend bool operator==(const ConvolutionDimensions&, const ConvolutionDimensions&) = default;
};

struct GatherDimensions {
  std::vector<std::int64_t> offset_dims, collapsed_slice_dims, start_index_map;
  std::vector<std::int64_t> operand_batching_dims, start_indices_batching_dims;
  std::int64_t index_vector_dim = 0;
  friend bool operator==(const GatherDimensions&, const GatherDimensions&) = default;
};

struct ScatterDimensions {
  std::vector<std::int64_t> update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
  std::vector<std::int64_t> input_batching_dims, scatter_indices_batching_dims;
  std::int64_t index_vector_dim = 0;
  friend bool operator==(const ScatterDimensions&, const ScatterDimensions&) = default;
};

// What collectives carry. `groups_text` holds an iota form ([2,4]<=[8]T(1,0)) for printing back;
// `replica_groups` always holds the expanded groups (empty: one group of everybody).
struct CollectiveAttributes {
  std::vector<std::vector<std::int64_t>> replica_groups;
  std::string groups_text;
  std::int64_t channel_id = 0;  // 0: none
  bool use_global_device_ids = false;
  bool constrain_layout = false;
  bool is_host_transfer = false;
  std::vector<std::pair<std::int64_t, std::int64_t>> source_target_pairs;
  friend bool operator==(const CollectiveAttributes&, const CollectiveAttributes&) = default;
};

// The attributes of an instruction; each opcode reads the fields HLO gives it, the others stay
// empty. A value type; rarely used groups are shared, immutable and null when absent. What visits
// every field goes by the list in attribute_fields.h.
struct Attributes {
  // broadcast transpose reduce concatenate reverse sort iota map all-gather all-to-all
  // reduce-scatter
  std::vector<std::int64_t> dimensions;
  std::vector<std::int64_t> slice_starts, slice_limits, slice_strides;  // slice
  std::vector<std::int64_t> slice_sizes;                                // dynamic-slice, gather
  std::vector<PaddingDimension> padding;                                // pad
  std::vector<WindowDimension> window;     // convolution, reduce-window, select-and-scatter
  std::shared_ptr<const Literal> literal;  // constant
  std::shared_ptr<const DotDimensions> dot;
  std::shared_ptr<const ConvolutionDimensions> convolution;
  std::shared_ptr<const GatherDimensions> gather;
  std::shared_ptr<const ScatterDimensions> scatter;
  std::shared_ptr<const CollectiveAttributes> collective;

  std::int64_t parameter_number = 0;
  std::int64_t tuple_index = 0;
  std::int64_t feature_group_count = 1;
  std::int64_t batch_group_count = 1;
  int exponent_bits = 8, mantissa_bits = 23;  // reduce-precision
  ComparisonDirection comparison_direction = ComparisonDirection::eq;
  ComparisonOrder comparison_order = ComparisonOrder::natural;
  FusionKind fusion_kind = FusionKind::loop;
  RngDistribution rng_distribution = RngDistribution::uniform;
  RngAlgorithm rng_algorithm = RngAlgorithm::default_;
  bool indices_are_sorted = false;
  bool unique_indices = false;
  bool is_stable = false;  // sort
  bool custom_call_has_side_effect = false;
  std::string custom_call_target;

  // Attributes without meaning for execution (sharding, metadata, backend_config,
  // frontend_attributes, operand_precision, ...): name and verbatim text, in the order read;
  // printed back as they came.
  std::vector<std::pair<std::string, std::string>> extra;

  // The verbatim text of `extra[name]`, or an empty view.
  std::string_view find_extra(std::string_view name) const;
};

}  // namespace plimsoll::ir
