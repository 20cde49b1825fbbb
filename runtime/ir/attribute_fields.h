// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/ir/attributes.h"

// The one list of the fields of Attributes and of the groups in it. Equality, hash, words, keys and
// text derive from it; where fields are visited, one that is not listed fails to compile.
namespace plimsoll::ir {

// One field. Its type tells it from the others, so that a visitor can overload on it.
template <auto Member>
struct Field {
  static constexpr auto member = Member;
  std::string_view name = {};  // in HLO text; empty where it has none of its own
  char letter = 0;             // in the keys of kernels, where it must not change; 0: in no key
};

// std::tuple of Field, in the order in which keys list them.
template <typename T>
inline constexpr auto kFields = nullptr;

template <typename T>
concept HasFields = !std::is_null_pointer_v<std::remove_const_t<decltype(kFields<T>)>>;

template <>
inline constexpr auto kFields<PaddingDimension> =
    std::tuple<Field<&PaddingDimension::low>, Field<&PaddingDimension::high>,
               Field<&PaddingDimension::interior>>();

template <>
inline constexpr auto kFields<WindowDimension> =
    std::tuple(Field<&WindowDimension::size>{"size"}, Field<&WindowDimension::stride>{"stride"},
               Field<&WindowDimension::padding_low>{"pad"}, Field<&WindowDimension::padding_high>{},
               Field<&WindowDimension::base_dilation>{"lhs_dilate"},
               Field<&WindowDimension::window_dilation>{"rhs_dilate"},
               Field<&WindowDimension::reversal>{"rhs_reversal"});

template <>
inline constexpr auto kFields<DotDimensions> =
    std::tuple(Field<&DotDimensions::lhs_contracting>{"lhs_contracting_dims"},
               Field<&DotDimensions::rhs_contracting>{"rhs_contracting_dims"},
               Field<&DotDimensions::lhs_batch>{"lhs_batch_dims"},
               Field<&DotDimensions::rhs_batch>{"rhs_batch_dims"});

template <>
inline constexpr auto kFields<ConvolutionDimensions> = std::tuple<
    Field<&ConvolutionDimensions::input_batch>, Field<&ConvolutionDimensions::input_feature>,
    Field<&ConvolutionDimensions::kernel_input_feature>,
    Field<&ConvolutionDimensions::kernel_output_feature>,
    Field<&ConvolutionDimensions::output_batch>, Field<&ConvolutionDimensions::output_feature>,
    Field<&ConvolutionDimensions::input_spatial>, Field<&ConvolutionDimensions::kernel_spatial>,
    Field<&ConvolutionDimensions::output_spatial>>();

template <>
inline constexpr auto kFields<GatherDimensions> =
    std::tuple(Field<&GatherDimensions::offset_dims>{"offset_dims"},
               Field<&GatherDimensions::collapsed_slice_dims>{"collapsed_slice_dims"},
               Field<&GatherDimensions::start_index_map>{"start_index_map"},
               Field<&GatherDimensions::operand_batching_dims>{"operand_batching_dims"},
               Field<&GatherDimensions::start_indices_batching_dims>{"start_indices_batching_dims"},
               Field<&GatherDimensions::index_vector_dim>{"index_vector_dim"});

template <>
inline constexpr auto kFields<ScatterDimensions> = std::tuple(
    Field<&ScatterDimensions::update_window_dims>{"update_window_dims"},
    Field<&ScatterDimensions::inserted_window_dims>{"inserted_window_dims"},
    Field<&ScatterDimensions::scatter_dims_to_operand_dims>{"scatter_dims_to_operand_dims"},
    Field<&ScatterDimensions::input_batching_dims>{"input_batching_dims"},
    Field<&ScatterDimensions::scatter_indices_batching_dims>{"scatter_indices_batching_dims"},
    Field<&ScatterDimensions::index_vector_dim>{"index_vector_dim"});

template <>
inline constexpr auto kFields<CollectiveAttributes> =
    std::tuple(Field<&CollectiveAttributes::replica_groups>{"replica_groups"},
               Field<&CollectiveAttributes::groups_text>{},
               Field<&CollectiveAttributes::channel_id>{"channel_id"},
               Field<&CollectiveAttributes::use_global_device_ids>{"use_global_device_ids"},
               Field<&CollectiveAttributes::constrain_layout>{"constrain_layout"},
               Field<&CollectiveAttributes::is_host_transfer>{"is_host_transfer"},
               Field<&CollectiveAttributes::source_target_pairs>{"source_target_pairs"});

template <>
inline constexpr auto kFields<Attributes> = std::tuple(
    Field<&Attributes::dimensions>{"dimensions", 'd'}, Field<&Attributes::slice_starts>{"", 's'},
    Field<&Attributes::slice_limits>{"", 'l'}, Field<&Attributes::slice_strides>{"", 't'},
    Field<&Attributes::slice_sizes>{"slice_sizes", 'z'},
    Field<&Attributes::padding>{"padding", 'p'}, Field<&Attributes::window>{"window", 'w'},
    Field<&Attributes::literal>{"", '='}, Field<&Attributes::dot>{"", 'D'},
    Field<&Attributes::convolution>{"dim_labels", 'C'}, Field<&Attributes::gather>{"", 'G'},
    Field<&Attributes::scatter>{"", 'S'}, Field<&Attributes::collective>{},
    Field<&Attributes::parameter_number>{"", 'n'}, Field<&Attributes::tuple_index>{"index", 'i'},
    Field<&Attributes::feature_group_count>{"feature_group_count", 'f'},
    Field<&Attributes::batch_group_count>{"batch_group_count", 'b'},
    Field<&Attributes::exponent_bits>{"exponent_bits", 'e'},
    Field<&Attributes::mantissa_bits>{"mantissa_bits", 'm'},
    Field<&Attributes::comparison_direction>{"direction", 'c'},
    Field<&Attributes::comparison_order>{"type", 'o'}, Field<&Attributes::fusion_kind>{"kind", 'k'},
    Field<&Attributes::rng_distribution>{"distribution", 'r'},
    Field<&Attributes::rng_algorithm>{"algorithm", 'a'},
    Field<&Attributes::indices_are_sorted>{"indices_are_sorted", 'I'},
    Field<&Attributes::unique_indices>{"unique_indices", 'U'},
    Field<&Attributes::is_stable>{"is_stable", 'T'},
    Field<&Attributes::custom_call_has_side_effect>{"custom_call_has_side_effect", 'X'},
    Field<&Attributes::custom_call_target>{"custom_call_target", '*'}, Field<&Attributes::extra>{});

namespace fields {

struct AnyValue {
  template <typename T>
  constexpr operator T() const;
};
template <typename T, std::size_t... I>
constexpr bool takes_values(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyValue())...}; };
}
// One listed twice is a base twice, which does not compile.
template <typename... F>
struct Distinct : F... {};
template <typename T, typename... F>
constexpr bool are_all(const std::tuple<F...>&) {
  return sizeof(Distinct<F...>) > 0 && takes_values<T>(std::index_sequence_for<F...>()) &&
         !takes_values<T>(std::make_index_sequence<sizeof...(F) + 1>());
}
template <typename T>
inline constexpr bool kAreAllListed = are_all<T>(kFields<T>);

template <typename T>
inline constexpr bool kIsShared = false;
template <typename T>
inline constexpr bool kIsShared<std::shared_ptr<T>> = true;

}  // namespace fields

// visit(Field, value) for every field of an Attributes or of what has fields in it.
template <typename T, typename Visit>
constexpr void for_each_field(T& object, Visit&& visit) {
  using Object = std::remove_const_t<T>;
  static_assert(fields::kAreAllListed<Object>, "a field is missing in kFields");
  std::apply([&](auto... field) { (visit(field, object.*field.member), ...); }, kFields<Object>);
}

// True when same(Field, value of a, value of b) is for every field; stops at the first that is not.
template <typename T, typename Same>
constexpr bool all_fields(const T& a, const T& b, Same&& same) {
  static_assert(fields::kAreAllListed<T>, "a field is missing in kFields");
  return std::apply(
      [&](auto... field) { return (same(field, a.*field.member, b.*field.member) && ...); },
      kFields<T>);
}

// What every instruction has that was given no attributes.
inline const Attributes& default_attributes() {
  static const Attributes attributes;
  return attributes;
}

// visit(Field, value) for the fields that are not at their defaults.
template <typename Visit>
void for_each_set_field(const Attributes& attributes, Visit&& visit) {
  all_fields(attributes, default_attributes(),
             [&](auto field, const auto& value, const auto& usual) {
               if (value != usual) visit(field, value);
               return true;
             });
}

// Equal as values: of groups what they hold counts.
template <typename T>
bool same_value(const T& a, const T& b) {
  if constexpr (fields::kIsShared<T>) {
    return a == b || (a != nullptr && b != nullptr && *a == *b);
  } else {
    return a == b;
  }
}

// Writes a field's value to `out`, which has number(int64), length(size) for the size of a list and
// bytes(pointer, size) for text. Unambiguous for one field. A literal has no such form.
template <typename T, typename Out>
void write_value(const T& value, Out& out) {
  if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    out.number(static_cast<std::int64_t>(value));
  } else if constexpr (HasFields<T>) {
    for_each_field(value, [&](auto, const auto& part) { write_value(part, out); });
  } else if constexpr (fields::kIsShared<T>) {
    write_value(*value, out);
  } else if constexpr (std::is_same_v<T, std::string>) {
    out.bytes(value.data(), value.size());
  } else if constexpr (requires { value.first; }) {
    write_value(value.first, out);
    write_value(value.second, out);
  } else {
    out.length(value.size());
    for (const auto& part : value) write_value(part, out);
  }
}

// The inverse: number(), length() and bytes() of `in` give what was written, in the same order.
template <typename T, typename In>
void read_value(T& value, In& in) {
  if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    value = static_cast<T>(in.number());
  } else if constexpr (HasFields<T>) {
    for_each_field(value, [&](auto, auto& part) { read_value(part, in); });
  } else if constexpr (fields::kIsShared<T>) {
    auto made = std::make_shared<std::remove_const_t<typename T::element_type>>();
    read_value(*made, in);
    value = std::move(made);
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = in.bytes();
  } else if constexpr (requires { value.first; }) {
    read_value(value.first, in);
    read_value(value.second, in);
  } else {
    value.resize(in.length());
    for (auto& part : value) read_value(part, in);
  }
}

}  // namespace plimsoll::ir
