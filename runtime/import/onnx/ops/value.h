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
struct Quantized;
struct Value {
  enum class Kind : std::uint8_t { array, sequence, nothing };
  Kind kind = Kind::array;
  Array array;
  std::shared_ptr<const ir::Literal> known;
  std::vector<Value> elements;
  std::shared_ptr<const Quantized> quantized;  // of floats that DequantizeLinear makes of bytes

  static Value of(const Array& array) { return {Kind::array, array, nullptr, {}, nullptr}; }
  static Value of(ir::Literal literal) {
    return {Kind::array, {}, std::make_shared<const ir::Literal>(std::move(literal)), {}, nullptr};
  }
  static Value sequence(std::vector<Value> elements) {
    return {Kind::sequence, {}, nullptr, std::move(elements), nullptr};
  }
  static Value nothing() { return {Kind::nothing, {}, nullptr, {}, nullptr}; }
};

// What floats are made of: (x - zero) * scale. `zero` is an optional without a value where none was
// given; `axis`: of x, along which scales lie.
struct Quantized {
  Value x, scale, zero;
  std::int64_t axis = 0;
};

}  // namespace plimsoll::onnx
