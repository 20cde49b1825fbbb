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
inline constexpr auto kFields<PaddingDimension> = [] {
  using T = PaddingDimension;
  return std::tuple(Field<&T::low>(), Field<&T::high>(), Field<&T::interior>());
}();

template <>
inline constexpr auto kFields<WindowDimension> = [] {
  using T = WindowDimension;
  return std::tuple(Field<&T::size>{"size"}, Field<&T::stride>{"stride"},
                    Field<&T::padding_low>{"pad"}, Field<&T::padding_high>(),
                    Field<&T::base_dilation>{"lhs_dilate"},
                    Field<&T::window_dilation>{"rhs_dilate"}, Field<&T::reversal>{"rhs_reversal"});
}();

template <>
inline constexpr auto kFields<DotDimensions> = [] {
  using T = DotDimensions;
  return std::tuple(Field<&T::lhs_contracting>{"lhs_contracting_dims"},
                    Field<&T::rhs_contracting>{"rhs_contracting_dims"},
                    Field<&T::lhs_batch>{"lhs_batch_dims"}, Field<&T::rhs_batch>{"rhs_batch_dims"});
}();

template <>
inline constexpr auto kFields<ConvolutionDimensions> = [] {
  using T = ConvolutionDimensions;
  return std::tuple(
      Field<&T::input_batch>(), Field<&T::input_feature>(), Field<&T::kernel_input_feature>(),
      Field<&T::kernel_output_feature>(), Field<&T::output_batch>(), Field<&T::output_feature>(),
      Field<&T::input_spatial>(), Field<&T::kernel_spatial>(), Field<&T::output_spatial>());
}();

template <>
inline constexpr auto kFields<GatherDimensions> = [] {
  using T = GatherDimensions;
  return std::tuple(Field<&T::offset_dims>{"offset_dims"},
                    Field<&T::collapsed_slice_dims>{"collapsed_slice_dims"},
                    Field<&T::start_index_map>{"start_index_map"},
                    Field<&T::operand_batching_dims>{"operand_batching_dims"},
                    Field<&T::start_indices_batching_dims>{"start_indices_batching_dims"},
                    Field<&T::index_vector_dim>{"index_vector_dim"});
}();

template <>
inline constexpr auto kFields<ScatterDimensions> = [] {
  using T = ScatterDimensions;
  return std::tuple(Field<&T::update_window_dims>{"update_window_dims"},
                    Field<&T::inserted_window_dims>{"inserted_window_dims"},
                    Field<&T::scatter_dims_to_operand_dims>{"scatter_dims_to_operand_dims"},
                    Field<&T::input_batching_dims>{"input_batching_dims"},
                    Field<&T::scatter_indices_batching_dims>{"scatter_indices_batching_dims"},
                    Field<&T::index_vector_dim>{"index_vector_dim"});
}();

template <>
inline constexpr auto kFields<CollectiveAttributes> = [] {
  using T = CollectiveAttributes;
  return std::tuple(Field<&T::replica_groups>{"replica_groups"}, Field<&T::groups_text>(),
                    Field<&T::channel_id>{"channel_id"},
                    Field<&T::use_global_device_ids>{"use_global_device_ids"},
                    Field<&T::constrain_layout>{"constrain_layout"},
                    Field<&T::is_host_transfer>{"is_host_transfer"},
                    Field<&T::source_target_pairs>{"source_target_pairs"});
}();

template <>
inline constexpr auto kFields<Attributes> = [] {
  using T = Attributes;
  return std::tuple(
      Field<&T::dimensions>{"dimensions", 'd'}, Field<&T::slice_starts>{"", 's'},
      Field<&T::slice_limits>{"", 'l'}, Field<&T::slice_strides>{"", 't'},
      Field<&T::slice_sizes>{"slice_sizes", 'z'}, Field<&T::padding>{"padding", 'p'},
      Field<&T::window>{"window", 'w'}, Field<&T::literal>{"", '='}, Field<&T::dot>{"", 'D'},
      Field<&T::convolution>{"dim_labels", 'C'}, Field<&T::gather>{"", 'G'},
      Field<&T::scatter>{"", 'S'}, Field<&T::collective>(), Field<&T::parameter_number>{"", 'n'},
      Field<&T::tuple_index>{"index", 'i'},
      Field<&T::feature_group_count>{"feature_group_count", 'f'},
      Field<&T::batch_group_count>{"batch_group_count", 'b'},
      Field<&T::exponent_bits>{"exponent_bits", 'e'},
      Field<&T::mantissa_bits>{"mantissa_bits", 'm'},
      Field<&T::comparison_direction>{"direction", 'c'}, Field<&T::comparison_order>{"type", 'o'},
      Field<&T::fusion_kind>{"kind", 'k'}, Field<&T::rng_distribution>{"distribution", 'r'},
      Field<&T::rng_algorithm>{"algorithm", 'a'},
      Field<&T::indices_are_sorted>{"indices_are_sorted", 'I'},
      Field<&T::unique_indices>{"unique_indices", 'U'}, Field<&T::is_stable>{"is_stable", 'T'},
      Field<&T::custom_call_has_side_effect>{"custom_call_has_side_effect", 'X'},
      Field<&T::custom_call_target>{"custom_call_target", '*'}, Field<&T::extra>());
}();

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

// Writes a field's value to an archive or, where it is not const, reads it from there: one number
// after the other, lists behind their lengths. Unambiguous for one field; a literal has no such
// form. An archive that is written has number(int64), length(size) and bytes(pointer, size); of one
// that is read these give what was written, in the same order.
template <typename T, typename Archive>
void archive_value(T& value, Archive& archive) {
  using Value = std::remove_const_t<T>;
  constexpr bool kWrites = std::is_const_v<T>;
  if constexpr (HasFields<Value>) {
    for_each_field(value, [&](auto, auto& part) { archive_value(part, archive); });
  } else if constexpr (requires { value.first; }) {
    archive_value(value.first, archive);
    archive_value(value.second, archive);
  } else if constexpr (std::is_integral_v<Value> || std::is_enum_v<Value>) {
    if constexpr (kWrites) archive.number(static_cast<std::int64_t>(value));
    if constexpr (!kWrites) value = static_cast<Value>(archive.number());
  } else if constexpr (std::is_same_v<Value, std::string>) {
    if constexpr (kWrites) archive.bytes(value.data(), value.size());
    if constexpr (!kWrites) value = archive.bytes();
  } else if constexpr (fields::kIsShared<Value>) {
    using Group = std::remove_const_t<typename Value::element_type>;
    if constexpr (kWrites) archive_value(*value, archive);
    if constexpr (!kWrites) {
      auto group = std::make_shared<Group>();
      archive_value(*group, archive);
      value = std::move(group);
    }
  } else {
    if constexpr (kWrites) archive.length(value.size());
    if constexpr (!kWrites) value.resize(archive.length());
    for (auto& part : value) archive_value(part, archive);
  }
}

}  // namespace plimsoll::ir
