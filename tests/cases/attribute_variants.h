// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/ir/attribute_fields.h"

namespace plimsoll::cases {

// emit(T) for values that differ from `base` and from each other, each in one place.
template <typename T, typename Emit>
void for_each_variant(const T& base, Emit&& emit) {
  if constexpr (std::is_same_v<T, ir::Literal>) {
    emit(ir::Literal::scalar(1.0f));
  } else if constexpr (std::is_same_v<T, bool>) {
    emit(!base);
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    emit(static_cast<T>(static_cast<int>(base) + 1));
  } else if constexpr (std::is_same_v<T, std::string>) {
    emit(base + "x");
  } else if constexpr (ir::fields::kIsShared<T>) {
    using Group = std::remove_const_t<typename T::element_type>;
    emit(T(std::make_shared<Group>()));
    for_each_variant(Group(), [&](const Group& group) { emit(T(std::make_shared<Group>(group))); });
  } else if constexpr (ir::HasFields<T>) {
    ir::for_each_field(base, [&](auto field, const auto& value) {
      for_each_variant(value, [&](const auto& other) {
        T changed = base;
        changed.*field.member = other;
        emit(changed);
      });
    });
  } else if constexpr (requires { base.first; }) {
    for_each_variant(base.first, [&](const auto& other) { emit(T(other, base.second)); });
    for_each_variant(base.second, [&](const auto& other) { emit(T(base.first, other)); });
  } else {
    using Element = typename T::value_type;
    emit(T{Element()});
    for_each_variant(Element(), [&](const Element& element) { emit(T{element}); });
  }
}

// Attributes with one field that is not at its default.
struct AttributeVariant {
  ir::Attributes attributes;
  char letter = 0;  // the field's
  bool is_literal = false, is_extra = false, is_collective = false;
};

// Every field of Attributes and of all groups in it, one at a time.
inline std::vector<AttributeVariant> attribute_variants() {
  std::vector<AttributeVariant> variants;
  const ir::Attributes usual;
  ir::for_each_field(usual, [&]<auto Member>(ir::Field<Member> field, const auto& value) {
    for_each_variant(value, [&](const auto& other) {
      AttributeVariant& variant = variants.emplace_back();
      variant.attributes.*Member = other;
      variant.letter = field.letter;
      using F = ir::Field<Member>;
      variant.is_literal = std::is_same_v<F, ir::Field<&ir::Attributes::literal>>;
      variant.is_extra = std::is_same_v<F, ir::Field<&ir::Attributes::extra>>;
      variant.is_collective = std::is_same_v<F, ir::Field<&ir::Attributes::collective>>;
    });
  });
  return variants;
}

}  // namespace plimsoll::cases
