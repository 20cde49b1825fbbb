// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/ir/attribute_fields.h"

namespace plimsoll::jit {

template <typename Sink>
struct AttributeKey {
  // Names and annotations, and what no kernel of ours has.
  void operator()(ir::Field<&ir::Attributes::extra>, const auto&) {}
  void operator()(ir::Field<&ir::Attributes::collective>, const auto&) {}
  void operator()(ir::Field<&ir::Attributes::literal> field,
                  const std::shared_ptr<const ir::Literal>& literal) {
    sink.tag(literal->is_elided() ? 'E' : field.letter);
    if (!literal->shape().is_array() || literal->is_elided()) return;
    // Of a splat one element says all.
    auto bytes = literal->bytes();
    if (literal->is_splat()) {
      bytes = bytes.first(static_cast<std::size_t>(ir::dtype_bytes(literal->shape().dtype())));
    }
    sink.bytes(bytes.data(), bytes.size());
  }
  template <auto Member, typename T>
  void operator()(ir::Field<Member> field, const T& value) {
    sink.tag(field.letter);
    ir::archive_value(value, sink);
  }

  Sink& sink;
};

// Writes every attribute that may tell two kernels apart and is not at its default to `sink`, which
// has `tag(char)`, `number(int64)`, `length(size)` and `bytes(const void*, size)`. Equal texts mean
// equal attributes.
template <typename Sink>
void append_attributes(Sink& sink, const ir::Attributes& attributes) {
  ir::for_each_set_field(attributes, AttributeKey<Sink>{sink});
}

}  // namespace plimsoll::jit
