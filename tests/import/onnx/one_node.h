// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/import/program_bytes.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "tests/import/onnx/model_writer.h"

namespace plimsoll::testing {

inline MessageWriter real_attribute(std::string_view name, float value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  return MessageWriter().text(1, name).four_bytes(2, {bytes, sizeof bytes}).number(20, 1);
}
inline MessageWriter text_attribute(std::string_view name, std::string_view value) {
  return MessageWriter().text(1, name).text(4, value).number(20, 3);
}

inline std::int64_t element_of(ir::DType dtype) {
  const std::map<ir::DType, std::int64_t> numbers = {{ir::DType::f32, 1}, {ir::DType::u8, 2},
                                                     {ir::DType::s8, 3},  {ir::DType::s32, 6},
                                                     {ir::DType::s64, 7}, {ir::DType::pred, 9}};
  return numbers.at(dtype);
}

// A model of one node, whose inputs are parameters or constants, or left out.
class OneNode {
 public:
  explicit OneNode(std::string op, std::string domain = "", std::uint64_t opset = 24)
      : op_(std::move(op)), domain_(std::move(domain)), opset_(opset) {}
  OneNode& input(ir::Literal value) {
    names_.push_back("i" + std::to_string(names_.size()));
    values_.push_back(std::move(value));
    return *this;
  }
  // An initializer.
  OneNode& constant(const ir::Literal& value) {
    names_.push_back("c" + std::to_string(names_.size()));
    std::vector<std::uint64_t> dims;
    for (const std::int64_t dim : value.shape().dims()) {
      dims.push_back(static_cast<std::uint64_t>(dim));
    }
    const auto bytes = value.bytes();
    constants_.push_back(raw_tensor(names_.back(), element_of(value.shape().dtype()), dims,
                                    {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    return *this;
  }
  OneNode& no_input() {
    names_.emplace_back();
    return *this;
  }
  OneNode& with(MessageWriter attribute) {
    attributes_.push_back(std::move(attribute));
    return *this;
  }
  // The model's, whose output is output `output` of the node.
  std::string bytes(ir::DType dtype, std::size_t output = 0) const {
    GraphParts parts;
    std::size_t next = 0;
    for (const std::string& name : names_) {
      if (!name.starts_with('i')) continue;
      const ir::Shape& shape = values_[next++].shape();
      std::vector<std::string> dims;
      for (const std::int64_t dim : shape.dims()) dims.push_back(std::to_string(dim));
      parts.inputs.push_back(value_info(name, element_of(shape.dtype()), dims));
    }
    std::vector<std::string> outputs(output + 1);
    outputs[output] = "y";
    parts.initializers = constants_;
    parts.nodes = {node(op_, names_, outputs, attributes_).text(7, domain_)};
    parts.outputs = {shapeless_info("y", element_of(dtype))};
    return model(parts, opset_);
  }
  // What the model computes.
  Result<ir::Literal> result(ir::DType dtype, std::size_t output = 0) const {
    PLIMSOLL_ASSIGN_OR_RETURN(const auto module,
                              import::read_program(bytes(dtype, output), "m.onnx"));
    return ir::interpret(*module, values_);
  }
  std::string error(ir::DType dtype) const {
    const auto made = result(dtype);
    return made.ok() ? std::string() : made.status().to_string();
  }

 private:
  std::string op_, domain_;
  std::uint64_t opset_;
  std::vector<std::string> names_;
  std::vector<ir::Literal> values_;
  std::vector<MessageWriter> attributes_, constants_;
};

template <typename T>
ir::Literal array(const ir::Dims& dims, const std::vector<T>& values) {
  return ir::Literal::array<T>(dims, values);
}

inline void expect_near(const Result<ir::Literal>& got, const ir::Dims& dims,
                        const std::vector<double>& wanted, double within) {
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  ASSERT_EQ(got->shape().dims(), dims);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(got->at(static_cast<std::int64_t>(i)), wanted[i], within) << "element " << i;
  }
}

// How many products or convolutions of bytes as they lie, and of what they were widened to.
inline std::pair<int, int> products_of(const std::string& model_bytes) {
  const auto module = import::read_program(model_bytes, "m.onnx");
  std::pair<int, int> made;
  if (!module.ok()) return made;
  for (const auto& one : (*module)->entry()->instructions()) {
    if (one->opcode() != ir::Opcode::dot && one->opcode() != ir::Opcode::convolution) continue;
    const ir::DType dtype = one->operand(0)->shape().dtype();
    ++(dtype == ir::DType::s8 || dtype == ir::DType::u8 ? made.first : made.second);
  }
  return made;
}

}  // namespace plimsoll::testing
