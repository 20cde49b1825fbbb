// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/hlo_proto/attributes.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <bit>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/hlo_proto/collectives.h"
#include "runtime/import/hlo_proto/fields.h"
#include "runtime/import/hlo_proto/literals.h"
#include "runtime/ir/text/attribute_rules.h"
#include "runtime/ir/text/cursor.h"

namespace plimsoll::hlo_proto {
namespace {

using ir::Attributes;
using ir::Opcode;
using Numbers = std::vector<std::int64_t>;

// The enumerator of a word that HLO text has, too.
template <typename Enum, std::size_t N>
Status read_word(const std::string_view (&words)[N], std::string_view word, std::string_view what,
                 Enum& out) {
  const auto* const found = std::find(std::begin(words), std::end(words), word);
  if (found == std::end(words)) return broken(what);
  out = static_cast<Enum>(found - std::begin(words));
  return ok_status();
}

// Of several dimension numbers, that each may be one.
Status check_dimensions(const Numbers& numbers, std::string_view what) {
  const auto is_none = [](std::int64_t dim) { return dim < 0 || dim >= ir::kMaxRank; };
  return std::any_of(numbers.begin(), numbers.end(), is_none) ? broken(what) : ok_status();
}

Status read_slices(const Instruction& from, Attributes& out) {
  for (const std::string_view message : from.slices) {
    std::int64_t start = 0, limit = 0, stride = 0;
    PLIMSOLL_RETURN_IF_ERROR(
        read_fields(message, "a slice", {{1, &start}, {2, &limit}, {3, &stride}}));
    out.slice_starts.push_back(start);
    out.slice_limits.push_back(limit);
    out.slice_strides.push_back(stride);
  }
  return ok_status();
}

Status read_padding(const Instruction& from, Attributes& out) {
  std::vector<std::string_view> dims;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(from.padding, "the padding", {{1, &dims}}));
  for (const std::string_view message : dims) {
    ir::PaddingDimension dim;
    PLIMSOLL_RETURN_IF_ERROR(
        read_fields(message, "the padding", {{1, &dim.low}, {2, &dim.high}, {3, &dim.interior}}));
    out.padding.push_back(dim);
  }
  return ok_status();
}

Status read_window(const Instruction& from, Attributes& out) {
  std::vector<std::string_view> dims;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(from.window, "a window", {{1, &dims}}));
  if (dims.size() > static_cast<std::size_t>(ir::kMaxRank)) return broken("a window");
  for (const std::string_view message : dims) {
    ir::WindowDimension dim;
    PLIMSOLL_RETURN_IF_ERROR(read_fields(message, "a window",
                                         {{1, &dim.size},
                                          {2, &dim.stride},
                                          {3, &dim.padding_low},
                                          {4, &dim.padding_high},
                                          {5, &dim.window_dilation},
                                          {6, &dim.base_dilation},
                                          {7, &dim.reversal}}));
    out.window.push_back(dim);
  }
  return ok_status();
}

Status read_dot(std::string_view message, Attributes& out) {
  auto dims = std::make_shared<ir::DotDimensions>();
  PLIMSOLL_RETURN_IF_ERROR(read_fields(message, "the dimensions of a dot",
                                       {{1, &dims->lhs_contracting},
                                        {2, &dims->rhs_contracting},
                                        {3, &dims->lhs_batch},
                                        {4, &dims->rhs_batch}}));
  out.dot = std::move(dims);
  return ok_status();
}

Status read_ragged_dot(const Instruction& from, Attributes& out) {
  std::string_view dot;
  std::vector<std::int64_t> ragged, group;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(from.ragged_dot, "the dimensions of a ragged dot",
                                       {{1, &dot}, {2, &ragged}, {3, &group}}));
  for (const auto& [name, dims] :
       {std::pair("lhs_ragged_dims", &ragged), std::pair("rhs_group_dims", &group)}) {
    PLIMSOLL_RETURN_IF_ERROR(check_dimensions(*dims, "a dimension number"));
    if (!dims->empty()) {
      out.extra.emplace_back(name, fmt::format("{{{}}}", fmt::join(*dims, ",")));
    }
  }
  return read_dot(dot, out);
}

Status read_convolution(const Instruction& from, Attributes& out) {
  auto dims = std::make_shared<ir::ConvolutionDimensions>();
  PLIMSOLL_RETURN_IF_ERROR(read_fields(from.convolution, "the dimensions of a convolution",
                                       {{3, &dims->kernel_input_feature},
                                        {4, &dims->kernel_output_feature},
                                        {6, &dims->kernel_spatial},
                                        {7, &dims->input_batch},
                                        {8, &dims->input_feature},
                                        {9, &dims->output_batch},
                                        {10, &dims->output_feature},
                                        {11, &dims->input_spatial},
                                        {12, &dims->output_spatial}}));
  out.convolution = std::move(dims);
  out.feature_group_count = std::max<std::int64_t>(from.feature_group_count, 1);
  out.batch_group_count = std::max<std::int64_t>(from.batch_group_count, 1);
  return read_window(from, out);
}

Status read_gather(const Instruction& from, Attributes& out) {
  auto dims = std::make_shared<ir::GatherDimensions>();
  PLIMSOLL_RETURN_IF_ERROR(read_fields(from.gather, "the dimensions of a gather",
                                       {{1, &dims->offset_dims},
                                        {2, &dims->collapsed_slice_dims},
                                        {3, &dims->start_index_map},
                                        {4, &dims->index_vector_dim},
                                        {5, &dims->operand_batching_dims},
                                        {6, &dims->start_indices_batching_dims}}));
  out.gather = std::move(dims);
  out.slice_sizes = from.gather_slice_sizes;
  out.indices_are_sorted = from.indices_are_sorted;
  return ok_status();
}

Status read_scatter(const Instruction& from, Attributes& out) {
  auto dims = std::make_shared<ir::ScatterDimensions>();
  PLIMSOLL_RETURN_IF_ERROR(read_fields(from.scatter, "the dimensions of a scatter",
                                       {{1, &dims->update_window_dims},
                                        {2, &dims->inserted_window_dims},
                                        {3, &dims->scatter_dims_to_operand_dims},
                                        {4, &dims->index_vector_dim},
                                        {5, &dims->input_batching_dims},
                                        {6, &dims->scatter_indices_batching_dims}}));
  out.scatter = std::move(dims);
  out.indices_are_sorted = from.indices_are_sorted;
  out.unique_indices = from.unique_indices;
  return ok_status();
}

Status read_compare(const Instruction& from, Attributes& out) {
  constexpr std::string_view kDirections[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  PLIMSOLL_RETURN_IF_ERROR(read_word(kDirections, from.comparison_direction,
                                     "the direction of a comparison", out.comparison_direction));
  if (from.comparison_type == "TOTALORDER") out.comparison_order = ir::ComparisonOrder::total;
  return ok_status();
}

Status read_random(const Instruction& from, Opcode opcode, Attributes& out) {
  const bool is_known = opcode == Opcode::rng ? from.distribution == 1 || from.distribution == 2
                                              : from.rng_algorithm >= 0 && from.rng_algorithm <= 2;
  if (!is_known) return broken("the kind of random numbers");
  if (opcode == Opcode::rng) {
    out.rng_distribution =
        from.distribution == 1 ? ir::RngDistribution::uniform : ir::RngDistribution::normal;
  } else {
    out.rng_algorithm = static_cast<ir::RngAlgorithm>(from.rng_algorithm);
  }
  return ok_status();
}

Status read_reduce_precision(const Instruction& from, Attributes& out) {
  constexpr std::int64_t kMost = 64;
  if (from.exponent_bits < 1 || from.exponent_bits > kMost || from.mantissa_bits < 0 ||
      from.mantissa_bits > kMost) {
    return broken("the bits of reduce-precision");
  }
  out.exponent_bits = static_cast<int>(from.exponent_bits);
  out.mantissa_bits = static_cast<int>(from.mantissa_bits);
  return ok_status();
}

Status read_constant(const Instruction& from, const ir::Shape& shape, Attributes& out) {
  if (from.literal.empty()) {
    // Left out by the writer, as `{...}` in text.
    if (!shape.is_array()) return broken("a constant without values");
    out.literal = std::make_shared<const ir::Literal>(ir::Literal::elided(shape));
    return ok_status();
  }
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Literal literal, read_literal(from.literal, shape));
  out.literal = std::make_shared<const ir::Literal>(std::move(literal));
  return ok_status();
}

// The word of that number.
Status read_type(std::span<const std::string_view> words, std::int64_t number,
                 std::string_view what, std::string& out) {
  if (number < 0 || at(number) >= words.size()) return broken(what);
  out = words[at(number)];
  return ok_status();
}

Status read_fft(const Instruction& from, Attributes& out) {
  constexpr std::string_view kTypes[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  std::string type;
  PLIMSOLL_RETURN_IF_ERROR(read_type(kTypes, from.fft_type, "the type of a transform", type));
  out.extra.emplace_back("fft_type", std::move(type));
  out.extra.emplace_back("fft_length", fmt::format("{{{}}}", fmt::join(from.fft_lengths, ",")));
  return ok_status();
}

Status read_triangular(const Instruction& from, Opcode opcode, Attributes& out) {
  constexpr std::string_view kTransposes[] = {"", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  const auto flag = [&](std::string_view name, bool value) {
    out.extra.emplace_back(name, value ? "true" : "false");
  };
  bool left = false, lower = false, is_unit = false;
  if (opcode == Opcode::cholesky) {
    PLIMSOLL_RETURN_IF_ERROR(read_fields(from.cholesky, "the options of a factor", {{1, &lower}}));
    flag("lower", lower);
    return ok_status();
  }
  std::int64_t transpose = 0;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(from.triangular_solve, "the options of a solution",
                                       {{1, &left}, {2, &lower}, {3, &is_unit}, {4, &transpose}}));
  std::string word;
  PLIMSOLL_RETURN_IF_ERROR(read_type(kTransposes, transpose, "a transposition", word));
  if (word.empty()) return broken("a transposition");
  flag("left_side", left);
  flag("lower", lower);
  flag("unit_diagonal", is_unit);
  out.extra.emplace_back("transpose_a", std::move(word));
  return ok_status();
}

Status read_by_opcode(const Instruction& from, Opcode opcode, const ir::Shape& shape,
                      std::int64_t& participants_left, Attributes& out) {
  constexpr std::string_view kFusionKinds[] = {"kLoop", "kInput", "kOutput", "kCustom"};
  constexpr std::int64_t kMaxIndex = 1 << 30;
  if (ir::has_collective_attributes(opcode)) {
    PLIMSOLL_ASSIGN_OR_RETURN(out.collective, read_collective(from, participants_left));
  }
  switch (opcode) {
    case Opcode::parameter:
      out.parameter_number = from.parameter_number;
      return ok_status();
    case Opcode::constant:
      return read_constant(from, shape, out);
    case Opcode::get_tuple_element:
      out.tuple_index = from.tuple_index;
      if (out.tuple_index < 0 || out.tuple_index > kMaxIndex) return broken("a tuple index");
      return ok_status();
    case Opcode::sort:
      out.is_stable = from.is_stable;
      [[fallthrough]];
    case Opcode::broadcast:
    case Opcode::transpose:
    case Opcode::reduce:
    case Opcode::concatenate:
    case Opcode::reverse:
    case Opcode::iota:
    case Opcode::map:
    case Opcode::all_gather:
    case Opcode::all_gather_start:
    case Opcode::all_to_all:
    case Opcode::reduce_scatter:
      out.dimensions = from.dimensions;
      return check_dimensions(out.dimensions, "a dimension number");
    case Opcode::slice:
      return read_slices(from, out);
    case Opcode::dynamic_slice:
      out.slice_sizes = from.slice_sizes;
      return ok_status();
    case Opcode::pad:
      return read_padding(from, out);
    case Opcode::reduce_window:
    case Opcode::select_and_scatter:
      return read_window(from, out);
    case Opcode::dot:
    case Opcode::scaled_dot:
      return read_dot(from.dot, out);
    case Opcode::ragged_dot:
      return read_ragged_dot(from, out);
    case Opcode::scan:
      out.extra.emplace_back("num_carries", std::to_string(from.num_carries));
      if (from.is_reverse) out.extra.emplace_back("is_reverse", "true");
      out.dimensions = from.dimensions;
      return check_dimensions(out.dimensions, "a dimension number");
    case Opcode::convolution:
      return read_convolution(from, out);
    case Opcode::gather:
      return read_gather(from, out);
    case Opcode::scatter:
      return read_scatter(from, out);
    case Opcode::compare:
      return read_compare(from, out);
    case Opcode::rng:
    case Opcode::rng_bit_generator:
      return read_random(from, opcode, out);
    case Opcode::reduce_precision:
      return read_reduce_precision(from, out);
    case Opcode::fusion:
      return read_word(kFusionKinds, from.fusion_kind, "the kind of a fusion", out.fusion_kind);
    case Opcode::custom_call:
      if (from.custom_call_target.empty()) return broken("a custom call without a target");
      out.custom_call_target = from.custom_call_target;
      out.custom_call_has_side_effect = from.has_side_effect;
      return ok_status();
    case Opcode::topk:
      out.extra.emplace_back("k", std::to_string(from.k));
      out.extra.emplace_back("largest", from.largest ? "true" : "false");
      return ok_status();
    case Opcode::fft:
      return read_fft(from, out);
    case Opcode::cholesky:
    case Opcode::triangular_solve:
      return read_triangular(from, opcode, out);
    case Opcode::batch_norm_training:
    case Opcode::batch_norm_inference:
    case Opcode::batch_norm_grad: {
      const auto epsilon = std::bit_cast<float>(static_cast<std::uint32_t>(from.epsilon_bits));
      out.extra.emplace_back("epsilon", fmt::format("{}", epsilon));
      out.extra.emplace_back("feature_index", std::to_string(from.feature_index));
      return ok_status();
    }
    default:
      return ok_status();
  }
}

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), ir::is_word_character);
}

std::string key_text(std::string_view key) {
  return is_word(key) ? std::string(key) : ir::quote(key);
}

Result<std::string> metadata_text(std::string_view message) {
  std::string_view type, name, file;
  std::int64_t line = 0;
  PLIMSOLL_RETURN_IF_ERROR(
      read_fields(message, "metadata", {{1, &type}, {2, &name}, {3, &file}, {4, &line}}));
  std::string text;
  const auto add = [&](std::string_view key, const std::string& value) {
    text.append(text.empty() ? "" : " ").append(key).append("=").append(value);
  };
  if (!type.empty()) add("op_type", ir::quote(type));
  if (!name.empty()) add("op_name", ir::quote(name));
  if (!file.empty()) add("source_file", ir::quote(file));
  if (line != 0) add("source_line", std::to_string(line));
  return text.empty() ? text : "{" + text + "}";
}

Result<std::string> precision_text(std::string_view message) {
  constexpr std::string_view kWords[] = {"default", "high", "highest"};
  Numbers of_operands;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(message, "a precision", {{1, &of_operands}}));
  const auto is_usual = [](std::int64_t precision) { return precision == 0; };
  if (std::all_of(of_operands.begin(), of_operands.end(), is_usual)) return std::string();
  std::string text;
  for (const std::int64_t precision : of_operands) {
    if (precision < 0 || at(precision) >= std::size(kWords)) return broken("a precision");
    text.append(text.empty() ? "{" : ",").append(kWords[at(precision)]);
  }
  return text + "}";
}

// A dictionary, of a typed call, stands in text as it is, and whatever else is quoted.
std::string config_text(std::string_view config) {
  int open = 0;
  bool is_quoted = false, is_whole = config.starts_with('{') && config.ends_with('}');
  for (std::size_t i = 0; is_whole && i < config.size(); ++i) {
    const char c = config[i];
    if (c == '\\' || static_cast<unsigned char>(c) < ' ') is_whole = false;
    if (c == '"') is_quoted = !is_quoted;
    if (!is_quoted) open += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (open <= 0 && i + 1 < config.size()) is_whole = false;
  }
  return is_whole && open == 0 && !is_quoted ? std::string(config) : ir::quote(config);
}

Status read_texts(const Instruction& from, Attributes& out) {
  const auto add = [&](std::string_view name, std::string text) {
    if (!text.empty()) out.extra.emplace_back(name, std::move(text));
  };
  PLIMSOLL_ASSIGN_OR_RETURN(std::string precision, precision_text(from.precision));
  add("operand_precision", std::move(precision));
  PLIMSOLL_ASSIGN_OR_RETURN(std::string frontend,
                            frontend_attributes_text(from.frontend_attributes));
  add("frontend_attributes", std::move(frontend));
  PLIMSOLL_ASSIGN_OR_RETURN(std::string metadata, metadata_text(from.metadata));
  add("metadata", std::move(metadata));
  if (!from.backend_config.empty()) add("backend_config", config_text(from.backend_config));
  return ok_status();
}

}  // namespace

Result<Instruction> read_instruction(std::string_view message) {
  Instruction made;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(message, "an instruction",
                                       {{1, &made.name},
                                        {2, &made.opcode},
                                        {3, &made.shape},
                                        {7, &made.metadata},
                                        {8, &made.literal},
                                        {9, &made.parameter_number},
                                        {11, &made.fusion_kind},
                                        {13, &made.tuple_index},
                                        {14, &made.dimensions},
                                        {15, &made.window},
                                        {16, &made.convolution},
                                        {17, &made.slices},
                                        {18, &made.exponent_bits},
                                        {19, &made.mantissa_bits},
                                        {20, &made.slice_sizes},
                                        {21, &made.padding},
                                        {23, &made.distribution},
                                        {24, &made.epsilon_bits},
                                        {25, &made.feature_index},
                                        {26, &made.channel_id},
                                        {28, &made.custom_call_target},
                                        {30, &made.dot},
                                        {31, &made.fft_type},
                                        {32, &made.fft_lengths},
                                        {33, &made.gather},
                                        {34, &made.gather_slice_sizes},
                                        {35, &made.id},
                                        {36, &made.operands},
                                        {37, &made.control_predecessors},
                                        {38, &made.called},
                                        {43, &made.backend_config},
                                        {45, &made.all_reduce_id},
                                        {47, &made.is_host_transfer},
                                        {48, &made.scatter},
                                        {49, &made.replica_groups},
                                        {50, &made.feature_group_count},
                                        {51, &made.precision},
                                        {52, &made.source_target_pairs},
                                        {56, &made.constrain_layout},
                                        {58, &made.batch_group_count},
                                        {59, &made.triangular_solve},
                                        {60, &made.is_stable},
                                        {62, &made.cholesky},
                                        {63, &made.comparison_direction},
                                        {65, &made.has_side_effect},
                                        {67, &made.indices_are_sorted},
                                        {68, &made.frontend_attributes},
                                        {69, &made.unique_indices},
                                        {70, &made.rng_algorithm},
                                        {71, &made.use_global_device_ids},
                                        {72, &made.comparison_type},
                                        {81, &made.k},
                                        {85, &made.largest},
                                        {87, &made.device_list},
                                        {90, &made.ragged_dot},
                                        {92, &made.iota_groups},
                                        {93, &made.mesh_groups},
                                        {94, &made.is_reverse},
                                        {95, &made.num_carries}}));
  return made;
}

Result<Attributes> read_attributes(const Instruction& instruction, Opcode opcode,
                                   const ir::Shape& shape, std::int64_t& participants_left) {
  Attributes made;
  PLIMSOLL_RETURN_IF_ERROR(read_by_opcode(instruction, opcode, shape, participants_left, made));
  PLIMSOLL_RETURN_IF_ERROR(read_texts(instruction, made));
  return made;
}

Result<std::string> frontend_attributes_text(std::string_view message) {
  std::vector<std::string_view> entries;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(message, "frontend attributes", {{1, &entries}}));
  std::string text;
  for (const std::string_view entry : entries) {
    std::string_view key, value;
    PLIMSOLL_RETURN_IF_ERROR(read_fields(entry, "frontend attributes", {{1, &key}, {2, &value}}));
    text.append(text.empty() ? "{" : ",").append(key_text(key)).append("=");
    text += ir::quote(value);
  }
  return text.empty() ? text : text + "}";
}

}  // namespace plimsoll::hlo_proto
