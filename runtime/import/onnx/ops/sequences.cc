// SPDX-License-Identifier: Apache-2.0
// Sequences, whose length is known while the model is read, and optionals.
#include <fmt/format.h>
#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Literal;

std::vector<Value>& elements(NodeContext& n, int i) {
  Value& value = n.value(i);
  if (value.kind != Value::Kind::sequence && n.e.status().ok()) {
    n.e.fail(fmt::format("input {} is no sequence", i));
  }
  return value.elements;
}

// A place in a sequence of `count`, where `extra` more is behind the end; -1 after an error.
std::int64_t place(NodeContext& n, int i, std::int64_t count, std::int64_t extra) {
  std::int64_t at = n.integer(i, "position");
  if (at < 0) at += count;
  if (at >= 0 && at < count + extra) return at;
  n.e.fail(fmt::format("position {} in a sequence of {}", at, count));
  return -1;
}

void make_sequence(NodeContext& n) {
  std::vector<Value> made;
  for (int i = 0; i < n.input_count(); ++i) made.push_back(n.value(i));
  n.set(0, Value::sequence(std::move(made)));
}

void insert_element(NodeContext& n) {
  std::vector<Value> made = elements(n, 0);
  const std::int64_t to = n.has(2) ? place(n, 2, std::ssize(made), 1) : std::ssize(made);
  if (to < 0) return;
  made.insert(made.begin() + to, n.value(1));
  n.set(0, Value::sequence(std::move(made)));
}

void erase_element(NodeContext& n) {
  std::vector<Value> made = elements(n, 0);
  const std::int64_t from = n.has(1) ? place(n, 1, std::ssize(made), 0) : std::ssize(made) - 1;
  if (from < 0) return n.e.fail("the sequence is empty");
  made.erase(made.begin() + from);
  n.set(0, Value::sequence(std::move(made)));
}

void take_element(NodeContext& n) {
  const std::vector<Value>& all = elements(n, 0);
  const std::int64_t from = place(n, 1, std::ssize(all), 0);
  if (from >= 0) n.set(0, all[at(from)]);
}

void sequence_length(NodeContext& n) {
  n.set(0, Value::of(Literal::scalar(static_cast<std::int64_t>(elements(n, 0).size()))));
}

void split_to_sequence(NodeContext& n) {
  const Array x = n.in(0);
  const std::int64_t axis = n.e.axis(n.number("axis", 0), x.rank());
  const bool keeps = n.number("keepdims", 1) != 0 || n.has(1);
  Sizes sizes;
  if (n.has(1)) {
    sizes = n.integers(1, "split");
    const Literal* const given = n.known(1);
    if (given != nullptr && given->shape().is_scalar() && !sizes.empty() && sizes[0] > 0) {
      const std::int64_t each = sizes[0];
      sizes.clear();
      for (std::int64_t left = x.dim(axis); left > 0; left -= each) {
        sizes.push_back(std::min(each, left));
      }
    }
  } else {
    constexpr std::int64_t kMost = 1 << 16;
    if (x.dim(axis) > kMost) return n.e.fail(unimplemented("a sequence of very many elements"));
    sizes.assign(at(x.dim(axis)), 1);
  }
  std::vector<Value> made;
  std::int64_t from = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > x.dim(axis) - from) return n.e.fail("split does not fit the input");
    const Array part = n.e.slice(x, axis, from, from + size);
    made.push_back(Value::of(keeps ? part : n.e.squeeze(part, axis)));
    from += size;
  }
  n.set(0, Value::sequence(std::move(made)));
}

void join_sequence(NodeContext& n) {
  std::vector<Value>& all = elements(n, 0);
  std::vector<Array> parts;
  const bool stacks = n.number("new_axis", 0) != 0;
  for (Value& one : all) {
    const Array part = n.array_of(one);
    const std::int64_t rank = part.rank() + (stacks ? 1 : 0);
    parts.push_back(stacks ? n.e.unsqueeze(part, n.e.axis(n.number("axis", 0), rank)) : part);
  }
  if (parts.empty()) return n.e.fail("joins an empty sequence, which has no shape");
  n.set(0, n.e.concatenate(parts, n.e.axis(n.number("axis", 0), parts[0].rank())));
}

// The body once for each element of the first sequence.
void map_sequence(NodeContext& n) {
  const Graph* const body = n.graph("body");
  if (body == nullptr) return;
  const std::size_t count = elements(n, 0).size();
  std::vector<std::vector<Value>> results(body->outputs.size());
  for (std::size_t k = 0; k < count; ++k) {
    std::vector<Value> inputs;
    for (int i = 0; i < n.input_count(); ++i) {
      const Value& given = n.value(i);
      if (given.kind == Value::Kind::sequence && given.elements.size() != count) {
        return n.e.fail("its sequences differ in length");
      }
      inputs.push_back(given.kind == Value::Kind::sequence ? given.elements[k] : given);
    }
    auto made = n.translator.translate(*body, std::move(inputs), n.e, nullptr);
    if (!made.ok()) return n.e.fail(made.status());
    for (std::size_t i = 0; i < results.size(); ++i) results[i].push_back((*made)[i]);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    n.set(static_cast<int>(i), Value::sequence(std::move(results[i])));
  }
}

void make_optional(NodeContext& n) {
  n.set(0, n.input_count() > 0 && n.has(0) ? n.value(0) : Value::nothing());
}

void has_element(NodeContext& n) { n.set(0, Value::of(Literal::scalar(n.has(0)))); }

void get_element(NodeContext& n) {
  if (!n.has(0)) return n.e.fail("the optional has no element");
  n.set(0, n.value(0));
}

}  // namespace

void add_sequences(OpTable& t) {
  t["SequenceEmpty"] = {[](NodeContext& n) { n.set(0, Value::sequence({})); }, false};
  t["SequenceConstruct"] = {make_sequence, false};
  t["SequenceInsert"] = {insert_element, false};
  t["SequenceErase"] = {erase_element, false};
  t["SequenceAt"] = {take_element, false};
  t["SequenceLength"] = {sequence_length, false};
  t["SplitToSequence"] = {split_to_sequence, false};
  t["ConcatFromSequence"] = {join_sequence, false};
  t["SequenceMap"] = {map_sequence, false};
  t["Optional"] = {make_optional, false};
  t["OptionalHasElement"] = {has_element, false};
  t["OptionalGetElement"] = {get_element, false};
}

}  // namespace plimsoll::onnx
