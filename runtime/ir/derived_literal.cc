// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/derived_literal.h"

#include <utility>

namespace plimsoll::ir {

Literal derived_literal(
    const Shape& shape, std::span<const std::shared_ptr<const Literal>> parts,
    std::function<void(std::span<const std::byte* const>, std::span<std::byte>)> make) {
  bool is_elsewhere = true;
  std::vector<Literal> own;  // so that parts which somebody has read aren't kept in memory for this
  for (const auto& part : parts) {
    is_elsewhere = is_elsewhere && part->is_kept_elsewhere();
    own.push_back(part->unread());
  }
  const auto fill = [own = std::move(own), make = std::move(make)](std::span<std::byte> to) {
    std::vector<std::shared_ptr<const std::byte>> held;
    std::vector<const std::byte*> from;
    for (const Literal& part : own) {
      held.push_back(part.held_bytes());
      from.push_back(held.back().get());
    }
    make(from, to);
  };
  if (is_elsewhere) return Literal::deferred(shape, fill);
  Literal literal(shape);
  fill(literal.mutable_bytes());
  return literal;
}

}  // namespace plimsoll::ir
