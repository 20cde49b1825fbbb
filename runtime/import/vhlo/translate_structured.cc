// SPDX-License-Identifier: Apache-2.0
// Products, windows, reductions, and what moves elements by indices.
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/vhlo/translator.h"

namespace plimsoll::vhlo {

using ir::Attributes;
using ir::Instruction;
using ir::Shape;
using Numbers = std::vector<std::int64_t>;

namespace {

// What an older version of the operation lacks.
Result<Numbers> numbers_or_none(const Operation& operation, std::string_view name) {
  if (operation.find(name) == nullptr) return Numbers();
  return numbers_of(operation, name);
}

// A list per spatial dim; missing ones are `usual`.
struct WindowLists {
  Numbers size, stride, padding, base_dilation, window_dilation, reversal;
};

Result<std::vector<ir::WindowDimension>> window_of(const Operation& operation,
                                                   const WindowLists& lists) {
  const std::size_t rank = lists.size.size();
  const auto fits = [&](const Numbers& list) { return list.empty() || list.size() == rank; };
  if (!fits(lists.stride) || !fits(lists.base_dilation) || !fits(lists.window_dilation) ||
      !fits(lists.reversal) || (!lists.padding.empty() && lists.padding.size() != 2 * rank)) {
    return wrong(operation);
  }
  std::vector<ir::WindowDimension> window(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    ir::WindowDimension& dim = window[i];
    dim.size = lists.size[i];
    if (!lists.stride.empty()) dim.stride = lists.stride[i];
    if (!lists.base_dilation.empty()) dim.base_dilation = lists.base_dilation[i];
    if (!lists.window_dilation.empty()) dim.window_dilation = lists.window_dilation[i];
    if (!lists.reversal.empty()) dim.reversal = lists.reversal[i] != 0;
    if (lists.padding.empty()) continue;
    dim.padding_low = lists.padding[2 * i];
    dim.padding_high = lists.padding[2 * i + 1];
  }
  return window;
}

}  // namespace

Result<Translator::Instructions> Translator::dot(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  if (list.size() != 2 || !list[0]->shape().is_array() || list[0]->shape().rank() < 1) {
    return wrong(operation);
  }
  auto dims = std::make_shared<ir::DotDimensions>();
  dims->lhs_contracting = {list[0]->shape().rank() - 1};
  dims->rhs_contracting = {0};
  Attributes attributes;
  attributes.dot = std::move(dims);
  return one(operation, scope, "dot", std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::dot_general(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  auto dims = std::make_shared<ir::DotDimensions>();
  PLIMSOLL_ASSIGN_OR_RETURN(dims->lhs_contracting,
                            numbers_of(operation, "lhs_contracting_dimensions"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->rhs_contracting,
                            numbers_of(operation, "rhs_contracting_dimensions"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->lhs_batch, numbers_of(operation, "lhs_batching_dimensions"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->rhs_batch, numbers_of(operation, "rhs_batching_dimensions"));
  Attributes attributes;
  attributes.dot = std::move(dims);
  return one(operation, scope, "dot", std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::convolution(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  auto dims = std::make_shared<ir::ConvolutionDimensions>();
  const std::pair<std::string_view, std::int64_t*> numbers[] = {
      {"input_batch_dimension", &dims->input_batch},
      {"input_feature_dimension", &dims->input_feature},
      {"kernel_input_feature_dimension", &dims->kernel_input_feature},
      {"kernel_output_feature_dimension", &dims->kernel_output_feature},
      {"output_batch_dimension", &dims->output_batch},
      {"output_feature_dimension", &dims->output_feature},
  };
  for (const auto& [name, number] : numbers) {
    PLIMSOLL_ASSIGN_OR_RETURN(*number, number_of(operation, name));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(dims->input_spatial, numbers_of(operation, "input_spatial_dimensions"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->kernel_spatial,
                            numbers_of(operation, "kernel_spatial_dimensions"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->output_spatial,
                            numbers_of(operation, "output_spatial_dimensions"));
  WindowLists lists;
  if (list.size() != 2 || !list[1]->shape().is_array()) return wrong(operation);
  for (const std::int64_t dim : dims->kernel_spatial) {
    if (dim < 0 || dim >= list[1]->shape().rank()) return wrong(operation);
    lists.size.push_back(list[1]->shape().dim(static_cast<int>(dim)));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(lists.stride, numbers_of(operation, "window_strides"));
  PLIMSOLL_ASSIGN_OR_RETURN(lists.padding, numbers_of(operation, "padding"));
  PLIMSOLL_ASSIGN_OR_RETURN(lists.base_dilation, numbers_of(operation, "lhs_dilation"));
  PLIMSOLL_ASSIGN_OR_RETURN(lists.window_dilation, numbers_of(operation, "rhs_dilation"));
  PLIMSOLL_ASSIGN_OR_RETURN(lists.reversal, numbers_of(operation, "window_reversal"));
  Attributes attributes;
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.window, window_of(operation, lists));
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.feature_group_count,
                            number_of(operation, "feature_group_count"));
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.batch_group_count,
                            number_of(operation, "batch_group_count"));
  attributes.convolution = std::move(dims);
  return one(operation, scope, "convolution", std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::reduce(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  Attributes attributes;
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.dimensions, numbers_of(operation, "dimensions"));
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const combiner, region(operation, 0));
  return several(operation, scope, "reduce", std::move(list), std::move(attributes), {combiner});
}

Result<Translator::Instructions> Translator::reduce_window(const Operation& operation,
                                                           Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  WindowLists lists;
  PLIMSOLL_ASSIGN_OR_RETURN(lists.size, numbers_of(operation, "window_dimensions"));
  PLIMSOLL_ASSIGN_OR_RETURN(lists.stride, numbers_of(operation, "window_strides"));
  PLIMSOLL_ASSIGN_OR_RETURN(lists.padding, numbers_of(operation, "padding"));
  PLIMSOLL_ASSIGN_OR_RETURN(lists.base_dilation, numbers_of(operation, "base_dilations"));
  PLIMSOLL_ASSIGN_OR_RETURN(lists.window_dilation, numbers_of(operation, "window_dilations"));
  Attributes attributes;
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.window, window_of(operation, lists));
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const combiner, region(operation, 0));
  return several(operation, scope, "reduce-window", std::move(list), std::move(attributes),
                 {combiner});
}

Result<Translator::Instructions> Translator::select_and_scatter(const Operation& operation,
                                                                Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  WindowLists lists;
  PLIMSOLL_ASSIGN_OR_RETURN(lists.size, numbers_of(operation, "window_dimensions"));
  PLIMSOLL_ASSIGN_OR_RETURN(lists.stride, numbers_of(operation, "window_strides"));
  PLIMSOLL_ASSIGN_OR_RETURN(lists.padding, numbers_of(operation, "padding"));
  Attributes attributes;
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.window, window_of(operation, lists));
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const select, region(operation, 0));
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const scatter, region(operation, 1));
  return one(operation, scope, "select-and-scatter", std::move(list), std::move(attributes),
             {select, scatter});
}

Result<Translator::Instructions> Translator::sort(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(std::int64_t dim, number_of(operation, "dimension"));
  if (list.empty() || !list[0]->shape().is_array()) return wrong(operation);
  if (dim < 0) dim += list[0]->shape().rank();
  Attributes attributes;
  attributes.dimensions = {dim};
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t is_stable, number_of(operation, "is_stable"));
  attributes.is_stable = is_stable != 0;
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const comparator, region(operation, 0));
  return several(operation, scope, "sort", std::move(list), std::move(attributes), {comparator});
}

Result<Translator::Instructions> Translator::map(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  Attributes attributes;
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.dimensions, numbers_of(operation, "dimensions"));
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const body, region(operation, 0));
  return one(operation, scope, "map", std::move(list), std::move(attributes), {body});
}

Result<Translator::Instructions> Translator::gather(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  auto dims = std::make_shared<ir::GatherDimensions>();
  PLIMSOLL_ASSIGN_OR_RETURN(dims->offset_dims, numbers_of(operation, "offset_dims"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->collapsed_slice_dims,
                            numbers_of(operation, "collapsed_slice_dims"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->start_index_map, numbers_of(operation, "start_index_map"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->operand_batching_dims,
                            numbers_or_none(operation, "operand_batching_dims"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->start_indices_batching_dims,
                            numbers_or_none(operation, "start_indices_batching_dims"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->index_vector_dim, number_of(operation, "index_vector_dim"));
  Attributes attributes;
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.slice_sizes, numbers_of(operation, "slice_sizes"));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto is_sorted, number_of(operation, "indices_are_sorted"));
  attributes.indices_are_sorted = is_sorted != 0;
  attributes.gather = std::move(dims);
  return one(operation, scope, "gather", std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::scatter(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  auto dims = std::make_shared<ir::ScatterDimensions>();
  PLIMSOLL_ASSIGN_OR_RETURN(dims->update_window_dims, numbers_of(operation, "update_window_dims"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->inserted_window_dims,
                            numbers_of(operation, "inserted_window_dims"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->scatter_dims_to_operand_dims,
                            numbers_of(operation, "scatter_dims_to_operand_dims"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->input_batching_dims,
                            numbers_or_none(operation, "input_batching_dims"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->scatter_indices_batching_dims,
                            numbers_or_none(operation, "scatter_indices_batching_dims"));
  PLIMSOLL_ASSIGN_OR_RETURN(dims->index_vector_dim, number_of(operation, "index_vector_dim"));
  Attributes attributes;
  PLIMSOLL_ASSIGN_OR_RETURN(const auto is_sorted, number_of(operation, "indices_are_sorted"));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto is_unique, number_of(operation, "unique_indices"));
  attributes.indices_are_sorted = is_sorted != 0;
  attributes.unique_indices = is_unique != 0;
  attributes.scatter = std::move(dims);
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const combiner, region(operation, 0));
  return several(operation, scope, "scatter", std::move(list), std::move(attributes), {combiner});
}

Result<Translator::Instructions> Translator::rng(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto distribution, number_of(operation, "rng_distribution"));
  if (list.size() < 2) return wrong(operation);
  list.resize(2);  // the third is the shape, which the result has
  Attributes attributes;
  attributes.rng_distribution =
      distribution == 0 ? ir::RngDistribution::uniform : ir::RngDistribution::normal;
  return one(operation, scope, "rng", std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::rng_bit_generator(const Operation& operation,
                                                               Scope& scope) {
  constexpr ir::RngAlgorithm kAlgorithms[] = {
      ir::RngAlgorithm::default_, ir::RngAlgorithm::three_fry, ir::RngAlgorithm::philox};
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto algorithm, number_of(operation, "rng_algorithm"));
  if (algorithm < 0 || algorithm >= static_cast<std::int64_t>(std::size(kAlgorithms))) {
    return wrong(operation);
  }
  Attributes attributes;
  attributes.rng_algorithm = kAlgorithms[algorithm];
  return several(operation, scope, "rng-bit-generator", std::move(list), std::move(attributes));
}

}  // namespace plimsoll::vhlo
