// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/onnx/ops/captured.h"

#include <utility>

#include "runtime/base/index.h"

namespace plimsoll::onnx {
namespace {

// Known values of at most so many elements are made anew in the computations that use them.
constexpr std::int64_t kSmall = 64;

// The arrays that a computation has to be given for `values`; small known values it makes itself.
void flatten(NodeContext& n, std::vector<Value>& values, std::vector<Array>& out) {
  for (Value& value : values) {
    if (value.kind == Value::Kind::sequence) {
      flatten(n, value.elements, out);
    } else if (value.kind == Value::Kind::array &&
               (value.known == nullptr || value.known->shape().element_count() > kSmall)) {
      out.push_back(n.array_of(value));
    }
  }
}

// The same values in another computation, where `arrays` are what flatten gave.
std::vector<Value> rebuild(const std::vector<Value>& values, const std::vector<Array>& arrays,
                           std::size_t& next) {
  std::vector<Value> made = values;
  for (Value& value : made) {
    if (value.kind == Value::Kind::sequence) {
      value.elements = rebuild(value.elements, arrays, next);
    } else if (value.kind == Value::Kind::array) {
      const bool is_small =
          value.known != nullptr && value.known->shape().element_count() <= kSmall;
      value.array = is_small || next >= arrays.size() ? Array() : arrays[next++];
    }
  }
  return made;
}

}  // namespace

GraphTranslator::Outer Captured::outer(const std::vector<Array>& inner) const {
  std::size_t next = 0;
  const std::vector<Value> made = rebuild(values, inner, next);
  GraphTranslator::Outer outer;
  for (std::size_t i = 0; i < names.size(); ++i) outer[names[i]] = made[i];
  return outer;
}

Captured capture(NodeContext& n, std::initializer_list<const Graph*> graphs) {
  Captured captured;
  GraphTranslator::Outer all;
  for (const Graph* const graph : graphs) all.merge(n.translator.captured(*graph));
  for (auto& [name, value] : all) {
    captured.names.push_back(name);
    captured.values.push_back(value);
  }
  flatten(n, captured.values, captured.arrays);
  return captured;
}

std::vector<Array> arrays_of(NodeContext& n, std::vector<Value>& values) {
  std::vector<Array> arrays;
  for (Value& value : values) arrays.push_back(n.array_of(value));
  return arrays;
}

Array stacked(NodeContext& n, std::vector<Value>& rows, std::int64_t axis) {
  std::vector<Array> parts;
  for (Value& row : rows) {
    const Array one = n.array_of(row);
    parts.push_back(n.e.unsqueeze(one, n.e.axis(axis, one.rank() + 1)));
  }
  if (parts.empty()) {
    n.e.fail(unimplemented("a loop of no turns that stacks rows, whose shape nothing says"));
    return {};
  }
  return n.e.concatenate(parts, n.e.axis(axis, parts[0].rank()));
}

}  // namespace plimsoll::onnx
