// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/onnx/ops/node_context.h"

#include <fmt/format.h>
#include <cstring>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/onnx/model/tensors.h"

namespace plimsoll::onnx {

using ir::DType;
using ir::Literal;

namespace {

// Elements of any integer dtype, exactly.
std::int64_t integer_at(const Literal& literal, std::int64_t i) {
  if (literal.shape().dtype() == DType::s64 || literal.shape().dtype() == DType::u64) {
    std::int64_t value = 0;
    std::memcpy(&value, literal.bytes().data() + at(i) * sizeof value, sizeof value);
    return value;
  }
  return static_cast<std::int64_t>(literal.at(i));
}

}  // namespace

bool NodeContext::has(int i) const {
  return i < input_count() && inputs_[at(i)].kind != Value::Kind::nothing;
}

Value& NodeContext::value(int i) {
  const bool is_named = at(i) < node.inputs.size() && !node.inputs[at(i)].empty();
  if (has(i) || (i < input_count() && is_named)) return inputs_[at(i)];
  e.fail(fmt::format("input {} is missing (the node has {})", i, input_count()));
  none_ = Value::nothing();
  return none_;
}

Array NodeContext::array_of(Value& value) {
  if (value.kind == Value::Kind::sequence) {
    e.fail("takes a tensor, is given a sequence");
    return {};
  }
  if (value.kind == Value::Kind::nothing) {
    e.fail("takes a tensor, is given an optional without one");
    return {};
  }
  if (value.known != nullptr && (value.array.is_null() || value.array.emit() != &e)) {
    value.array = e.constant(*value.known);
  }
  return value.array;
}

Array NodeContext::in(int i) { return array_of(value(i)); }

const Literal* NodeContext::known(int i) const {
  return i < input_count() ? inputs_[at(i)].known.get() : nullptr;
}

const Quantized* NodeContext::quantized(int i) const {
  if (i >= input_count()) return nullptr;
  const Quantized* const made_of = inputs_[at(i)].quantized.get();
  if (made_of == nullptr) return nullptr;
  for (const Value* part : {&made_of->x, &made_of->scale, &made_of->zero}) {
    if (part->kind == Value::Kind::array && part->known == nullptr && part->array.emit() != &e) {
      return nullptr;
    }
  }
  return made_of;
}

const Literal* NodeContext::must_know(int i, std::string_view what) {
  const Value& given = value(i);
  if (given.kind != Value::Kind::array) {
    if (e.status().ok()) e.fail(fmt::format("input {} ({}) is no tensor", i, what));
    return nullptr;
  }
  if (given.known == nullptr && e.status().ok()) {
    e.fail(translator.ask_for(given, fmt::format("input {} ({})", i, what)));
  }
  return given.known.get();
}

Sizes NodeContext::integers(int i, std::string_view what) {
  const Literal* const literal = must_know(i, what);
  if (literal == nullptr) return {};
  if (!ir::is_integer(literal->shape().dtype()) && literal->shape().dtype() != DType::pred) {
    e.fail(fmt::format("input {} ({}) is {} (must be of integers)", i, what,
                       literal->shape().to_string()));
    return {};
  }
  Sizes values;
  for (std::int64_t k = 0; k < literal->shape().element_count(); ++k) {
    values.push_back(integer_at(*literal, k));
  }
  return values;
}

std::int64_t NodeContext::integer(int i, std::string_view what) {
  const Sizes values = integers(i, what);
  if (values.size() == 1) return values[0];
  e.fail(fmt::format("input {} ({}) has {} elements (must have one)", i, what, values.size()));
  return 0;
}

std::vector<double> NodeContext::reals(int i, std::string_view what) {
  const Literal* const literal = must_know(i, what);
  std::vector<double> values;
  if (literal == nullptr) return values;
  if (ir::is_complex(literal->shape().dtype())) {
    e.fail(fmt::format("input {} ({}) is complex", i, what));
    return values;
  }
  for (std::int64_t k = 0; k < literal->shape().element_count(); ++k) {
    values.push_back(literal->at(k));
  }
  return values;
}

const Attribute* NodeContext::attribute(std::string_view name) const {
  const Attribute* found = node.find(name);
  if (found == nullptr || found->reference.empty()) return found;
  for (const Attribute& one : call_attributes_) {
    if (one.name == found->reference) return &one;
  }
  return nullptr;
}

std::int64_t NodeContext::number(std::string_view name, std::int64_t fallback) const {
  const Attribute* const found = attribute(name);
  return found == nullptr ? fallback : found->number;
}

double NodeContext::real(std::string_view name, double fallback) const {
  const Attribute* const found = attribute(name);
  return found == nullptr ? fallback : static_cast<double>(found->real);
}

std::string NodeContext::text(std::string_view name, std::string_view fallback) const {
  const Attribute* const found = attribute(name);
  return std::string(found == nullptr ? fallback : found->text);
}

Sizes NodeContext::numbers(std::string_view name, Sizes fallback) const {
  const Attribute* const found = attribute(name);
  return found == nullptr ? fallback : found->numbers;
}

std::vector<double> NodeContext::reals(std::string_view name, std::vector<double> fallback) const {
  const Attribute* const found = attribute(name);
  if (found == nullptr) return fallback;
  return {found->reals.begin(), found->reals.end()};
}

std::vector<std::string> NodeContext::texts(std::string_view name) const {
  const Attribute* const found = attribute(name);
  if (found == nullptr) return {};
  return {found->texts.begin(), found->texts.end()};
}

const Graph* NodeContext::graph(std::string_view name) {
  const Attribute* const found = attribute(name);
  if (found == nullptr || found->graph == nullptr) {
    e.fail(fmt::format("attribute '{}' is missing (must be a graph)", name));
    return nullptr;
  }
  return found->graph.get();
}

DType NodeContext::dtype(std::string_view name, std::int64_t fallback) {
  auto made = dtype_of(number(name, fallback));
  if (made.ok()) return *made;
  e.fail(made.status().with_context(fmt::format("attribute '{}'", name)));
  return DType::f32;
}

void NodeContext::wrong(std::string_view attribute, std::string_view why) {
  e.fail(fmt::format("attribute '{}' {}", attribute, why));
}

bool NodeContext::wants(int i) const {
  return at(i) < node.outputs.size() && !node.outputs[at(i)].empty();
}

void NodeContext::set(int i, Value value) {
  if (outputs_.size() <= at(i)) outputs_.resize(at(i) + 1, Value::nothing());
  outputs_[at(i)] = std::move(value);
}

}  // namespace plimsoll::onnx
