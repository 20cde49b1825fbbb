// SPDX-License-Identifier: Apache-2.0
// Branches and loops (Scan has a source of its own). What is decided while the model is read is
// written out; the rest becomes HLO's conditional and while, whose computations see what they are
// given and nothing else.
#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/captured.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

// Loops of so many turns at most are written out where nothing else will do, or they are short.
constexpr std::int64_t kShort = 16, kMostWrittenOut = 4096;
// What is known of the condition: -1 nothing, else whether it holds.
int known_condition(const Value& value) {
  if (value.known == nullptr || value.known->shape().element_count() != 1) return -1;
  return value.known->at(0) != 0 ? 1 : 0;
}

void branch(NodeContext& n) {
  const Graph* const yes = n.graph("then_branch");
  const Graph* const no = n.graph("else_branch");
  if (yes == nullptr || no == nullptr) return;
  if (const int known = known_condition(n.value(0)); known >= 0) {
    auto values = n.translator.translate(known == 1 ? *yes : *no, {}, n.e, nullptr);
    if (!values.ok()) return n.e.fail(values.status());
    n.outputs() = std::move(*values);
    return;
  }
  // A conditional gives arrays; sequences are made while the model is read.
  for (const Graph* const graph : {yes, no}) {
    for (const ValueInfo& output : graph->outputs) {
      const bool is_array = output.type.kind == ValueType::Kind::tensor ||
                            output.type.kind == ValueType::Kind::unknown;
      if (!is_array) n.must_know(0, "cond");
    }
  }
  Array condition = n.in(0);
  if (condition.rank() > 0) condition = n.e.reshape(condition, {});
  Captured captured = capture(n, {yes, no});
  const Array packed = n.e.tuple(captured.arrays);
  if (packed.is_null()) return;
  std::vector<ir::Computation*> branches;
  std::vector<Value> shape_of_outputs;
  for (const Graph* const graph : {yes, no}) {
    ir::Computation* const computation =
        n.e.computation().module()->add_computation(graph == yes ? "then" : "else");
    Emit inner(*computation);
    const Array all(&inner,
                    computation->add_parameter(0, packed.instruction()->shape(), "captured"));
    std::vector<Array> given;
    for (std::size_t i = 0; i < captured.arrays.size(); ++i) {
      given.push_back(inner.element_of(all, static_cast<std::int64_t>(i)));
    }
    const GraphTranslator::Outer outer = captured.outer(given);
    auto values = n.translator.translate(*graph, {}, inner, &outer);
    if (!values.ok()) return n.e.fail(values.status());
    NodeContext made(n.node, n.opset, {}, {}, inner, n.translator);
    const std::vector<Array> arrays = arrays_of(made, *values);
    const Array root = inner.tuple(arrays);
    if (!inner.status().ok()) {
      return n.e.fail(inner.status().with_context(graph == yes ? "then_branch" : "else_branch"));
    }
    computation->set_root(root.instruction());
    branches.push_back(computation);
  }
  if (!(branches[0]->root()->shape() == branches[1]->root()->shape())) {
    return n.e.fail(unimplemented(fmt::format(
        "its branches give {} and {} (shapes must not depend on the condition)",
        branches[0]->root()->shape().to_string(), branches[1]->root()->shape().to_string())));
  }
  const std::size_t count = branches[0]->root()->operands().size();
  const Array made = n.e.make(Opcode::conditional, {condition, packed, packed}, {}, branches);
  for (std::size_t i = 0; i < count; ++i) {
    n.set(static_cast<int>(i), n.e.element_of(made, static_cast<std::int64_t>(i)));
  }
}

bool holds_sequence(const std::vector<Value>& values) {
  return std::any_of(values.begin(), values.end(),
                     [](const Value& value) { return value.kind != Value::Kind::array; });
}

// Turn by turn, as long as it is known whether there is another. False where it is not.
bool write_out(NodeContext& n, const Graph& body, std::int64_t turns, std::vector<Value> state) {
  const std::size_t carried = state.size();
  std::vector<std::vector<Value>> rows(body.outputs.size() - 1 - carried);
  Value condition = n.has(1) ? n.value(1) : Value::of(ir::Literal::scalar(true));
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    const int goes_on = known_condition(condition);
    if (goes_on < 0) return false;
    if (goes_on == 0) break;
    std::vector<Value> inputs{Value::of(ir::Literal::scalar(turn)), condition};
    inputs.insert(inputs.end(), state.begin(), state.end());
    auto made = n.translator.translate(body, std::move(inputs), n.e, nullptr);
    if (!made.ok()) {
      n.e.fail(made.status());
      return true;
    }
    condition = (*made)[0];
    for (std::size_t i = 0; i < carried; ++i) state[i] = (*made)[i + 1];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].push_back((*made)[i + 1 + carried]);
    }
    // Where the last turn ends the loop anyway it does not matter what the condition is.
    if (turn + 1 < turns && known_condition(condition) < 0) return false;
  }
  for (std::size_t i = 0; i < carried; ++i) n.set(static_cast<int>(i), state[i]);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    n.set(static_cast<int>(carried + i), stacked(n, rows[i], 0));
  }
  return true;
}

// As HLO's while: the condition, what is carried, what is captured, rows that are stacked.
void run_loop(NodeContext& n, const Graph& body, std::int64_t turns, std::vector<Value> state) {
  const std::size_t carried = state.size(), stacks = body.outputs.size() - 1 - carried;
  Captured captured = capture(n, {&body});
  std::vector<Array> start = arrays_of(n, state);
  const bool counts = turns >= 0;
  Array condition = n.has(1) ? n.e.reshape(n.in(1), {}) : n.e.scalar(1, DType::pred);
  Array limit = counts     ? n.e.scalar(static_cast<double>(turns), DType::s64)
                : n.has(0) ? n.e.convert(n.e.reshape(n.in(0), {}), DType::s64)
                           : n.e.highest(DType::s64);
  condition =
      condition & n.e.compare(ir::ComparisonDirection::gt, limit, n.e.scalar(0, DType::s64));
  if (!n.e.status().ok()) return;

  const auto run_body = [&](Emit& inner, const Array& turn, const Array& before,
                            const std::vector<Array>& values,
                            const std::vector<Array>& given) -> std::vector<Array> {
    std::vector<Value> inputs{Value::of(turn), Value::of(before)};
    for (const Array& one : values) inputs.push_back(Value::of(one));
    const GraphTranslator::Outer outer = captured.outer(given);
    auto made = n.translator.translate(body, std::move(inputs), inner, &outer);
    if (!made.ok()) {
      inner.fail(made.status());
      return {};
    }
    NodeContext context(n.node, n.opset, {}, {}, inner, n.translator);
    return arrays_of(context, *made);
  };
  // Rows that are stacked need their shape before the loop: the body once, for nothing else.
  std::vector<Array> rows;
  if (stacks > 0) {
    if (!counts) {
      return n.e.fail(unimplemented("the number of rows that it stacks depends on data"));
    }
    ir::Module scratch("rows");
    ir::Computation* const computation = scratch.add_computation("main");
    Emit inner(*computation);
    std::int64_t next = 0;
    const auto parameters = [&](const std::vector<Array>& like) {
      std::vector<Array> made;
      for (const Array& one : like) {
        made.emplace_back(&inner, computation->add_parameter(next++, one.instruction()->shape()));
      }
      return made;
    };
    const std::vector<Array> values = parameters(start), given = parameters(captured.arrays);
    const auto made =
        run_body(inner, inner.scalar(0, DType::s64), inner.scalar(1, DType::pred), values, given);
    if (!inner.status().ok()) return n.e.fail(inner.status());
    for (std::size_t i = 0; i < stacks; ++i) {
      const Array& row = made[1 + carried + i];
      Sizes dims = row.dims();
      dims.insert(dims.begin(), turns);
      rows.push_back(n.e.splat(0, row.dtype(), dims));
    }
  }
  std::vector<Array> all{condition, limit};
  all.insert(all.end(), start.begin(), start.end());
  all.insert(all.end(), captured.arrays.begin(), captured.arrays.end());
  all.insert(all.end(), rows.begin(), rows.end());
  bool ends_early = false;
  const auto end =
      n.e.repeat_while(all, [&](Emit& inner, const Array& turn, const std::vector<Array>& before) {
        const auto first = before.begin() + 2;
        const auto middle = first + static_cast<std::ptrdiff_t>(carried);
        const auto last = middle + static_cast<std::ptrdiff_t>(captured.arrays.size());
        const auto made = run_body(inner, turn, before[0], {first, middle}, {middle, last});
        std::vector<Array> after = before;
        if (made.empty()) return after;
        if (stacks > 0 && made[0].instruction() != before[0].instruction()) {
          const auto* const literal =
              made[0].is_null() ? nullptr : made[0].instruction()->attributes().literal.get();
          ends_early = literal == nullptr || literal->at(0) == 0;
        }
        after[0] = inner.reshape(made[0], {}) & ((turn + 1.0) < before[1]);
        for (std::size_t i = 0; i < carried; ++i) after[2 + i] = made[1 + i];
        for (std::size_t i = 0; i < stacks; ++i) {
          Array& row = after[2 + carried + captured.arrays.size() + i];
          row = inner.with_element(row, made[1 + carried + i], turn, 0);
        }
        return after;
      });
  if (ends_early || (stacks > 0 && n.has(1) && known_condition(n.value(1)) != 1)) {
    return n.e.fail(unimplemented(
        "the number of rows that it stacks depends on data (its condition is computed)"));
  }
  for (std::size_t i = 0; i < carried; ++i) n.set(static_cast<int>(i), end[2 + i]);
  for (std::size_t i = 0; i < stacks; ++i) {
    n.set(static_cast<int>(carried + i), end[2 + carried + captured.arrays.size() + i]);
  }
}

void loop(NodeContext& n) {
  const Graph* const body = n.graph("body");
  if (body == nullptr) return;
  std::vector<Value> state;
  for (int i = 2; i < n.input_count(); ++i) state.push_back(n.value(i));
  if (body->outputs.size() < 1 + state.size() || body->inputs.size() != 2 + state.size()) {
    return n.wrong("body", fmt::format("has {} inputs and {} outputs for {} carried values",
                                       body->inputs.size(), body->outputs.size(), state.size()));
  }
  const std::size_t stacks = body->outputs.size() - 1 - state.size();
  const bool must_write_out = holds_sequence(state);
  std::int64_t turns = -1;
  if (n.has(0) && (n.known(0) != nullptr || must_write_out || stacks > 0)) {
    // As many as nobody makes, which a double still holds: exporters write the largest integer.
    constexpr std::int64_t kEndless = std::int64_t{1} << 53;
    turns = std::clamp<std::int64_t>(n.integer(0, "M"), 0, kEndless);
    if (!n.e.status().ok()) return;
  }
  if (must_write_out || stacks > 0) {
    if (n.has(1)) n.must_know(1, "cond");
    if (!n.e.status().ok()) return;
  }
  const bool is_short = turns >= 0 && turns <= kShort;
  if (must_write_out || is_short || turns < 0) {
    const std::int64_t most = turns < 0 ? (must_write_out ? kMostWrittenOut : 0) : turns;
    if (most > kMostWrittenOut) {
      return n.e.fail(unimplemented(
          fmt::format("a loop over sequences of {} turns (at most {})", most, kMostWrittenOut)));
    }
    if (most > 0 || turns == 0) {
      if (write_out(n, *body, most, state)) return;
      if (must_write_out) {
        return n.e.fail(unimplemented("how long a sequence becomes depends on data"));
      }
    }
  }
  run_loop(n, *body, turns, std::move(state));
}

}  // namespace

void add_control(OpTable& t) {
  t["If"] = {branch, false};
  t["Loop"] = {loop, false};
}

}  // namespace plimsoll::onnx
