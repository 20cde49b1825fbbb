// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/import/onnx/model_writer.h"

// Whole models of a few nodes.
namespace plimsoll::testing {

inline constexpr std::int64_t kFloat = 1, kInt64 = 7, kBool = 9;

inline std::string raw_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

inline std::string raw_of(const std::vector<std::int64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t)};
}

// y = x + w, with open sizes.
inline std::string open_sum() {
  GraphParts parts;
  parts.inputs = {value_info("x", kFloat, {"batch", "3"}),
                  value_info("mask", kFloat, {"batch", "1"})};
  parts.initializers = {raw_tensor("w", kFloat, {3}, raw_of(std::vector<float>{1, 2, 3}))};
  parts.nodes = {node("Add", {"x", "w"}, {"sum"}), node("Mul", {"sum", "mask"}, {"y"})};
  parts.outputs = {value_info("y", kFloat, {"batch", "3"})};
  return model(parts);
}

// y = reshape(x, shape), where the shape is an input.
inline std::string asks_for_shape() {
  GraphParts parts;
  parts.inputs = {value_info("x", kFloat, {"6"}), value_info("shape", kInt64, {"2"})};
  parts.nodes = {node("Reshape", {"x", "shape"}, {"y"})};
  parts.outputs = {value_info("y", kFloat, {"a", "b"})};
  return model(parts);
}

// Twice x where `yes`, else x with one more.
inline std::string branches() {
  GraphParts yes, no, parts;
  yes.nodes = {node("Add", {"x", "x"}, {"a"})};
  yes.outputs = {value_info("a", kFloat, {"2"})};
  no.nodes = {node("Add", {"x", "one"}, {"b"})};
  no.outputs = {value_info("b", kFloat, {"2"})};
  parts.inputs = {value_info("yes", kBool, {}), value_info("x", kFloat, {"2"})};
  parts.initializers = {raw_tensor("one", kFloat, {}, raw_of(std::vector<float>{1}))};
  parts.nodes = {node("If", {"yes"}, {"y"},
                      {attribute("then_branch", graph(yes)), attribute("else_branch", graph(no))})};
  parts.outputs = {value_info("y", kFloat, {"2"})};
  return model(parts);
}

// A loop whose end depends on data: doubles x until it is over the limit.
inline std::string doubling(std::uint64_t turns) {
  GraphParts body, parts;
  body.inputs = {value_info("i", kInt64, {}), value_info("goes_on", kBool, {}),
                 value_info("v", kFloat, {})};
  body.nodes = {node("Add", {"v", "v"}, {"twice"}), node("Less", {"twice", "limit"}, {"again"})};
  body.outputs = {value_info("again", kBool, {}), value_info("twice", kFloat, {})};
  parts.inputs = {value_info("x", kFloat, {}), value_info("limit", kFloat, {})};
  parts.initializers = {raw_tensor(
      "turns", kInt64, {}, raw_of(std::vector<std::int64_t>{static_cast<std::int64_t>(turns)}))};
  parts.nodes = {node("Loop", {"turns", "", "x"}, {"y"}, {attribute("body", graph(body))})};
  parts.outputs = {shapeless_info("y", kFloat)};
  return model(parts);
}

}  // namespace plimsoll::testing
