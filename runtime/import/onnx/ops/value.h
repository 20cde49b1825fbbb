// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/import/onnx/emit/emit.h"
#include "runtime/ir/literal.h"

namespace plimsoll::onnx {

// A value of a graph: an array, a sequence of values (whose length is known while the model is
// read) or an optional without one. Of an array what is known before anything runs is kept beside
// the instruction, or instead of one until somebody needs it.
struct Value {
  enum class Kind : std::uint8_t { array, sequence, nothing };
  Kind kind = Kind::array;
  Array array;
  std::shared_ptr<const ir::Literal> known;
  std::vector<Value> elements;

  static Value of(const Array& array) { return {Kind::array, array, nullptr, {}}; }
  static Value of(ir::Literal literal) {
    return {Kind::array, {}, std::make_shared<const ir::Literal>(std::move(literal)), {}};
  }
  static Value sequence(std::vector<Value> elements) {
    return {Kind::sequence, {}, nullptr, std::move(elements)};
  }
  static Value nothing() { return {Kind::nothing, {}, nullptr, {}}; }
};

}  // namespace plimsoll::onnx
