// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <functional>

#include "runtime/ir/text/attribute_text.h"

namespace plimsoll::ir {
namespace {

class Printer {
 public:
  explicit Printer(const Instruction& instruction)
      : opcode_(instruction.opcode()), attributes_(instruction.attributes()) {}

  std::string print() {
    dimensions();
    ranges();
    window();
    contraction();
    indexing();
    collective();
    scalars();
    return std::move(text_);
  }

 private:
  void field(std::string_view name, std::string_view value) {
    text_ += ", ";
    text_ += name;
    text_ += "=";
    text_ += value;
  }
  void flag(std::string_view name, bool value) {
    if (value) field(name, "true");
  }
  static std::string list(const std::vector<std::int64_t>& values) {
    std::string text = "{";
    for (const std::int64_t value : values) {
      if (text.size() > 1) text += ",";
      text += std::to_string(value);
    }
    return text + "}";
  }
  void non_empty_list(std::string_view name, const std::vector<std::int64_t>& values) {
    if (!values.empty()) field(name, list(values));
  }

  void dimensions() {
    const bool always = opcode_ == Opcode::broadcast || opcode_ == Opcode::transpose ||
                        opcode_ == Opcode::reduce || opcode_ == Opcode::concatenate ||
                        opcode_ == Opcode::reverse;
    if (opcode_ == Opcode::iota && attributes_.dimensions.size() == 1) {
      field("iota_dimension", std::to_string(attributes_.dimensions[0]));
    } else if (always || !attributes_.dimensions.empty()) {
      field("dimensions", list(attributes_.dimensions));
    }
  }

  void ranges() {
    if (opcode_ == Opcode::slice) {
      std::string text = "{";
      for (std::size_t i = 0; i < attributes_.slice_starts.size(); ++i) {
        if (i > 0) text += ", ";
        text += fmt::format("[{}:{}", attributes_.slice_starts[i], attributes_.slice_limits[i]);
        const std::int64_t stride =
            i < attributes_.slice_strides.size() ? attributes_.slice_strides[i] : 1;
        if (stride != 1) text += fmt::format(":{}", stride);
        text += "]";
      }
      field("slice", text + "}");
    }
    if (opcode_ == Opcode::dynamic_slice) {
      field("dynamic_slice_sizes", list(attributes_.slice_sizes));
    }
    if (opcode_ == Opcode::pad) {
      std::string text;
      for (const PaddingDimension& dimension : attributes_.padding) {
        if (!text.empty()) text += "x";
        text += fmt::format("{}_{}", dimension.low, dimension.high);
        if (dimension.interior != 0) text += fmt::format("_{}", dimension.interior);
      }
      field("padding", text);
    }
  }

  void window_field(std::string& text, std::string_view name,
                    const std::function<std::string(const WindowDimension&)>& value,
                    std::string_view usual) {
    const auto& window = attributes_.window;
    if (std::all_of(window.begin(), window.end(), [&](const auto& d) { return value(d) == usual; }))
      return;
    if (text.size() > 1) text += " ";
    text += std::string(name) + "=";
    for (std::size_t i = 0; i < window.size(); ++i) text += (i > 0 ? "x" : "") + value(window[i]);
  }

  void window() {
    const bool always = opcode_ == Opcode::reduce_window || opcode_ == Opcode::select_and_scatter;
    if (attributes_.window.empty() && !always) return;
    using D = WindowDimension;
    std::string text = "{";
    window_field(text, "size", [](const D& d) { return std::to_string(d.size); }, "");
    window_field(text, "stride", [](const D& d) { return std::to_string(d.stride); }, "1");
    window_field(
        text, "pad", [](const D& d) { return fmt::format("{}_{}", d.padding_low, d.padding_high); },
        "0_0");
    window_field(
        text, "lhs_dilate", [](const D& d) { return std::to_string(d.base_dilation); }, "1");
    window_field(
        text, "rhs_dilate", [](const D& d) { return std::to_string(d.window_dilation); }, "1");
    window_field(text, "rhs_reversal", [](const D& d) { return d.reversal ? "1" : "0"; }, "0");
    field("window", text + "}");
  }

  static std::string labels(std::int64_t first_at, char first, std::int64_t second_at, char second,
                            const std::vector<std::int64_t>& spatial) {
    std::string text(spatial.size() + 2, '?');
    text[static_cast<std::size_t>(first_at)] = first;
    text[static_cast<std::size_t>(second_at)] = second;
    for (std::size_t i = 0; i < spatial.size(); ++i) {
      text[static_cast<std::size_t>(spatial[i])] = static_cast<char>('0' + i);
    }
    return text;
  }

  void contraction() {
    if (opcode_ == Opcode::dot && attributes_.dot) {
      const DotDimensions& d = *attributes_.dot;
      non_empty_list("lhs_batch_dims", d.lhs_batch);
      field("lhs_contracting_dims", list(d.lhs_contracting));
      non_empty_list("rhs_batch_dims", d.rhs_batch);
      field("rhs_contracting_dims", list(d.rhs_contracting));
    }
    if (opcode_ != Opcode::convolution || !attributes_.convolution) return;
    const ConvolutionDimensions& d = *attributes_.convolution;
    field("dim_labels",
          labels(d.input_batch, 'b', d.input_feature, 'f', d.input_spatial) + "_" +
              labels(d.kernel_input_feature, 'i', d.kernel_output_feature, 'o', d.kernel_spatial) +
              "->" + labels(d.output_batch, 'b', d.output_feature, 'f', d.output_spatial));
    if (attributes_.feature_group_count != 1) {
      field("feature_group_count", std::to_string(attributes_.feature_group_count));
    }
    if (attributes_.batch_group_count != 1) {
      field("batch_group_count", std::to_string(attributes_.batch_group_count));
    }
  }

  void indexing() {
    if (opcode_ == Opcode::gather && attributes_.gather) {
      const GatherDimensions& d = *attributes_.gather;
      field("offset_dims", list(d.offset_dims));
      field("collapsed_slice_dims", list(d.collapsed_slice_dims));
      field("start_index_map", list(d.start_index_map));
      non_empty_list("operand_batching_dims", d.operand_batching_dims);
      non_empty_list("start_indices_batching_dims", d.start_indices_batching_dims);
      field("index_vector_dim", std::to_string(d.index_vector_dim));
      field("slice_sizes", list(attributes_.slice_sizes));
    }
    if (opcode_ == Opcode::scatter && attributes_.scatter) {
      const ScatterDimensions& d = *attributes_.scatter;
      field("update_window_dims", list(d.update_window_dims));
      field("inserted_window_dims", list(d.inserted_window_dims));
      field("scatter_dims_to_operand_dims", list(d.scatter_dims_to_operand_dims));
      non_empty_list("input_batching_dims", d.input_batching_dims);
      non_empty_list("scatter_indices_batching_dims", d.scatter_indices_batching_dims);
      field("index_vector_dim", std::to_string(d.index_vector_dim));
    }
    flag("indices_are_sorted", attributes_.indices_are_sorted);
    flag("unique_indices", attributes_.unique_indices);
  }

  void collective() {
    if (!has_collective_attributes(opcode_) || !attributes_.collective) return;
    const CollectiveAttributes& c = *attributes_.collective;
    if (c.channel_id != 0) field("channel_id", std::to_string(c.channel_id));
    if (!c.groups_text.empty()) {
      field("replica_groups", c.groups_text);
    } else if (!c.replica_groups.empty()) {
      std::string text = "{";
      for (const auto& group : c.replica_groups) {
        if (text.size() > 1) text += ",";
        text += list(group);
      }
      field("replica_groups", text + "}");
    }
    if (!c.source_target_pairs.empty()) {
      std::string text = "{";
      for (const auto& [source, target] : c.source_target_pairs) {
        if (text.size() > 1) text += ",";
        text += list({source, target});
      }
      field("source_target_pairs", text + "}");
    }
    flag("use_global_device_ids", c.use_global_device_ids);
    flag("constrain_layout", c.constrain_layout);
    flag("is_host_transfer", c.is_host_transfer);
  }

  void scalars() {
    switch (opcode_) {
      case Opcode::compare: {
        static constexpr std::string_view kDirections[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
        field("direction", kDirections[static_cast<std::size_t>(attributes_.comparison_direction)]);
        if (attributes_.comparison_order == ComparisonOrder::total) field("type", "TOTALORDER");
        break;
      }
      case Opcode::get_tuple_element:
        field("index", std::to_string(attributes_.tuple_index));
        break;
      case Opcode::reduce_precision:
        field("exponent_bits", std::to_string(attributes_.exponent_bits));
        field("mantissa_bits", std::to_string(attributes_.mantissa_bits));
        break;
      case Opcode::sort:
        flag("is_stable", attributes_.is_stable);
        break;
      case Opcode::fusion: {
        static constexpr std::string_view kKinds[] = {"kLoop", "kInput", "kOutput", "kCustom"};
        field("kind", kKinds[static_cast<std::size_t>(attributes_.fusion_kind)]);
        break;
      }
      case Opcode::rng:
        field("distribution", attributes_.rng_distribution == RngDistribution::normal
                                  ? "rng_normal"
                                  : "rng_uniform");
        break;
      case Opcode::rng_bit_generator: {
        static constexpr std::string_view kAlgorithms[] = {"rng_default", "rng_three_fry",
                                                           "rng_philox"};
        field("algorithm", kAlgorithms[static_cast<std::size_t>(attributes_.rng_algorithm)]);
        break;
      }
      case Opcode::custom_call:
        field("custom_call_target", quote(attributes_.custom_call_target));
        flag("custom_call_has_side_effect", attributes_.custom_call_has_side_effect);
        break;
      default:
        break;
    }
  }

  const Opcode opcode_;
  const Attributes& attributes_;
  std::string text_;
};

}  // namespace

std::string attributes_text(const Instruction& instruction) { return Printer(instruction).print(); }

}  // namespace plimsoll::ir
