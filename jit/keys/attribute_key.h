// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/ir/attributes.h"

namespace plimsoll::jit {

// Writes every attribute that may tell two kernels apart and is not at its default to `sink`, which
// has `tag(char)`, `number(int64)` and `bytes(const void*, size)`. Left out are names and
// annotations (`extra`), and what no kernel of ours has (collectives). Equal texts mean equal
// attributes.
template <typename Sink>
void append_attributes(Sink& sink, const ir::Attributes& attributes) {
  // Fails to compile when an attribute is added: it belongs into the key, too.
  const auto& [dimensions, slice_starts, slice_limits, slice_strides, slice_sizes, padding, window,
               literal, dot, convolution, gather, scatter, collective, parameter_number,
               tuple_index, feature_group_count, batch_group_count, exponent_bits, mantissa_bits,
               comparison_direction, comparison_order, fusion_kind, rng_distribution, rng_algorithm,
               indices_are_sorted, unique_indices, is_stable, custom_call_has_side_effect,
               custom_call_target, extra] = attributes;
  (void)collective;
  (void)extra;
  const auto numbers = [&sink](const std::vector<std::int64_t>& values) {
    sink.number(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t value : values) sink.number(value);
  };
  const auto list = [&](char tag, const std::vector<std::int64_t>& values) {
    if (values.empty()) return;
    sink.tag(tag);
    numbers(values);
  };
  const auto number = [&sink](char tag, auto value, auto otherwise) {
    if (value == otherwise) return;
    sink.tag(tag);
    sink.number(static_cast<std::int64_t>(value));
  };
  list('d', dimensions);
  list('s', slice_starts);
  list('l', slice_limits);
  list('t', slice_strides);
  list('z', slice_sizes);
  if (!padding.empty()) {
    sink.tag('p');
    sink.number(static_cast<std::int64_t>(padding.size()));
    for (const auto& [low, high, interior] : padding) {
      for (const std::int64_t value : {low, high, interior}) sink.number(value);
    }
  }
  if (!window.empty()) {
    sink.tag('w');
    sink.number(static_cast<std::int64_t>(window.size()));
    for (const auto& [size, stride, low, high, base_dilation, window_dilation, reversal] : window) {
      for (const std::int64_t value : {size, stride, low, high, base_dilation, window_dilation,
                                       static_cast<std::int64_t>(reversal)}) {
        sink.number(value);
      }
    }
  }
  if (literal != nullptr) {
    sink.tag(literal->is_elided() ? 'E' : '=');
    if (literal->shape().is_array() && !literal->is_elided()) {
      // Of a splat one element says all.
      auto bytes = literal->bytes();
      if (literal->is_splat()) {
        bytes = bytes.first(static_cast<std::size_t>(ir::dtype_bytes(literal->shape().dtype())));
      }
      sink.bytes(bytes.data(), bytes.size());
    }
  }
  if (dot != nullptr) {
    const auto& [lhs, rhs, lhs_batch, rhs_batch] = *dot;
    sink.tag('D');
    for (const auto* values : {&lhs, &rhs, &lhs_batch, &rhs_batch}) numbers(*values);
  }
  if (convolution != nullptr) {
    const auto& [input_batch, input_feature, kernel_input, kernel_output, output_batch,
                 output_feature, input_spatial, kernel_spatial, output_spatial] = *convolution;
    sink.tag('C');
    for (const std::int64_t value :
         {input_batch, input_feature, kernel_input, kernel_output, output_batch, output_feature}) {
      sink.number(value);
    }
    for (const auto* values : {&input_spatial, &kernel_spatial, &output_spatial}) numbers(*values);
  }
  if (gather != nullptr) {
    const auto& [offset, collapsed, start_map, operand_batching, start_batching, vector] = *gather;
    sink.tag('G');
    for (const auto* values :
         {&offset, &collapsed, &start_map, &operand_batching, &start_batching}) {
      numbers(*values);
    }
    sink.number(vector);
  }
  if (scatter != nullptr) {
    const auto& [update, inserted, to_operand, input_batching, indices_batching, vector] = *scatter;
    sink.tag('S');
    for (const auto* values :
         {&update, &inserted, &to_operand, &input_batching, &indices_batching}) {
      numbers(*values);
    }
    sink.number(vector);
  }
  static const ir::Attributes none;
  number('n', parameter_number, none.parameter_number);
  number('i', tuple_index, none.tuple_index);
  number('f', feature_group_count, none.feature_group_count);
  number('b', batch_group_count, none.batch_group_count);
  number('e', exponent_bits, none.exponent_bits);
  number('m', mantissa_bits, none.mantissa_bits);
  number('c', comparison_direction, none.comparison_direction);
  number('o', comparison_order, none.comparison_order);
  number('k', fusion_kind, none.fusion_kind);
  number('r', rng_distribution, none.rng_distribution);
  number('a', rng_algorithm, none.rng_algorithm);
  number('I', indices_are_sorted, false);
  number('U', unique_indices, false);
  number('T', is_stable, false);
  number('X', custom_call_has_side_effect, false);
  if (!custom_call_target.empty()) {
    sink.tag('*');
    sink.bytes(custom_call_target.data(), custom_call_target.size());
  }
}

}  // namespace plimsoll::jit
