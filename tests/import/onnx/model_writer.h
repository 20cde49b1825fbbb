// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/import/message_writer.h"

namespace plimsoll::testing {

// One attribute of a node: a number, or numbers.
inline MessageWriter attribute(std::string_view name, std::int64_t value) {
  return MessageWriter().text(1, name).number(3, static_cast<std::uint64_t>(value)).number(20, 2);
}
inline MessageWriter attribute(std::string_view name, const std::vector<std::int64_t>& values) {
  MessageWriter made;
  made.text(1, name);
  for (const std::int64_t value : values) made.number(8, static_cast<std::uint64_t>(value));
  return made.number(20, 7);
}
inline MessageWriter attribute(std::string_view name, const MessageWriter& graph) {
  return MessageWriter().text(1, name).message(6, graph).number(20, 5);
}

inline MessageWriter node(std::string_view op, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs,
                          const std::vector<MessageWriter>& attributes = {}) {
  MessageWriter made;
  for (const std::string& input : inputs) made.text(1, input);
  for (const std::string& output : outputs) made.text(2, output);
  made.text(3, "n_" + (outputs.empty() ? std::string() : outputs[0])).text(4, op);
  for (const MessageWriter& one : attributes) made.message(5, one);
  return made;
}

// A value of the standard's element type; sizes are numbers, or names of what is open.
inline MessageWriter value_info(std::string_view name, std::int64_t element,
                                const std::vector<std::string>& dims) {
  MessageWriter shape;
  for (const std::string& dim : dims) {
    MessageWriter size;
    if (dim.empty() || dim[0] < '0' || dim[0] > '9') {
      size.text(2, dim);
    } else {
      size.number(1, std::stoull(dim));
    }
    shape.message(1, size);
  }
  MessageWriter tensor;
  tensor.number(1, static_cast<std::uint64_t>(element)).message(2, shape);
  return MessageWriter().text(1, name).message(2, MessageWriter().message(1, tensor));
}

// A value of that type of which no shape is said.
inline MessageWriter shapeless_info(std::string_view name, std::int64_t element) {
  const MessageWriter tensor = MessageWriter().number(1, static_cast<std::uint64_t>(element));
  return MessageWriter().text(1, name).message(2, MessageWriter().message(1, tensor));
}

inline MessageWriter raw_tensor(std::string_view name, std::int64_t element,
                                const std::vector<std::uint64_t>& dims, std::string_view raw) {
  MessageWriter made;
  for (const std::uint64_t dim : dims) made.number(1, dim);
  return made.number(2, static_cast<std::uint64_t>(element)).text(8, name).text(9, raw);
}

struct GraphParts {
  std::vector<MessageWriter> nodes, initializers, inputs, outputs;
};
inline MessageWriter graph(const GraphParts& parts) {
  MessageWriter made;
  for (const MessageWriter& one : parts.nodes) made.message(1, one);
  made.text(2, "graph");
  for (const MessageWriter& one : parts.initializers) made.message(5, one);
  for (const MessageWriter& one : parts.inputs) made.message(11, one);
  for (const MessageWriter& one : parts.outputs) made.message(12, one);
  return made;
}
inline std::string model(const GraphParts& parts, std::uint64_t opset = 17) {
  return MessageWriter()
      .number(1, 8)
      .message(7, graph(parts))
      .message(8, MessageWriter().number(2, opset))
      .bytes();
}

}  // namespace plimsoll::testing
