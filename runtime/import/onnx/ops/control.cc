// SPDX-License-Identifier: Apache-2.0
// Branches and loops. What is decided while the model is read is written out; the rest becomes
// HLO's conditional and while, whose computations see what they are given and nothing else.
#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

// Loops of so many turns at most are written out where nothing else will do, or they are short.
constexpr std::int64_t kShort = 16, kMostWrittenOut = 4096;
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

// Values of the graphs of a node that come from around it.
struct Captured {
  std::vector<std::string_view> names;
  std::vector<Value> values;
  std::vector<Array> arrays;

  GraphTranslator::Outer outer(const std::vector<Array>& inner) const {
    std::size_t next = 0;
    const std::vector<Value> made = rebuild(values, inner, next);
    GraphTranslator::Outer outer;
    for (std::size_t i = 0; i < names.size(); ++i) outer[names[i]] = made[i];
    return outer;
  }
};

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

// The arrays of `values`, or an error: sequences have no place in a loop's state.
std::vector<Array> arrays_of(NodeContext& inner, std::vector<Value>& values) {
  std::vector<Array> arrays;
  for (Value& value : values) arrays.push_back(inner.array_of(value));
  return arrays;
}

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

// Arrays of one shape, one behind the other in a new first dim.
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
  Array limit = counts ? n.e.scalar(static_cast<double>(turns), DType::s64)
                : n.has(0) ? n.e.convert(n.e.reshape(n.in(0), {}), DType::s64)
                           : n.e.highest(DType::s64);
  condition = condition & n.e.compare(ir::ComparisonDirection::gt, limit, n.e.scalar(0, DType::s64));
  if (!n.e.status().ok()) return;

  const auto run_body = [&](Emit& inner, const Array& turn, const Array& before,
                            const std::vector<Array>& values, const std::vector<Array>& given)
      -> std::vector<Array> {
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
    const auto made = run_body(inner, inner.scalar(0, DType::s64), inner.scalar(1, DType::pred),
                               values, given);
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
  const auto end = n.e.repeat_while(
      all, [&](Emit& inner, const Array& turn, const std::vector<Array>& before) {
        const auto first = before.begin() + 2;
        const auto middle = first + static_cast<std::ptrdiff_t>(carried);
        const auto last = middle + static_cast<std::ptrdiff_t>(captured.arrays.size());
        const auto made = run_body(inner, turn, before[0], {first, middle}, {middle, last});
        std::vector<Array> after = before;
        if (made.empty()) return after;
        if (stacks > 0 && made[0].instruction() != before[0].instruction()) {
          const auto* const literal = made[0].is_null()
                                          ? nullptr
                                          : made[0].instruction()->attributes().literal.get();
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
    turns = std::max<std::int64_t>(n.integer(0, "M"), 0);
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
      return n.e.fail(unimplemented(fmt::format("a loop over sequences of {} turns (at most {})",
                                                most, kMostWrittenOut)));
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

// Before opset 9 there is a batch around the loop, and a first input of its lengths.
void scan(NodeContext& n) {
  const Graph* const body = n.graph("body");
  if (body == nullptr) return;
  const bool is_old = n.opset < 9;
  const int skip = is_old ? 1 : 0;
  const std::int64_t scanned = n.number("num_scan_inputs", 0);
  const std::int64_t states = n.input_count() - skip - scanned;
  if (scanned < 1 || states < 0 || std::ssize(body->inputs) != states + scanned ||
      std::ssize(body->outputs) < states) {
    return n.wrong("num_scan_inputs", fmt::format("is {}, the node has {} inputs and its body {}",
                                                  scanned, n.input_count(), body->inputs.size()));
  }
  const std::int64_t stacks = std::ssize(body->outputs) - states;
  const Sizes axes = n.numbers("scan_input_axes", Sizes(at(scanned), 0));
  const Sizes directions = n.numbers(is_old ? "directions" : "scan_input_directions",
                                     Sizes(at(scanned), 0));
  const Sizes out_axes = n.numbers("scan_output_axes", Sizes(at(stacks), 0));
  const Sizes out_directions = n.numbers("scan_output_directions", Sizes(at(stacks), 0));
  if (std::ssize(axes) != scanned || std::ssize(directions) != scanned ||
      std::ssize(out_axes) != stacks || std::ssize(out_directions) != stacks) {
    return n.wrong("scan_input_axes", "and its like have not one number a scanned value");
  }
  if (is_old && n.has(0)) {
    return n.e.fail(unimplemented("lengths of sequences (Scan before opset 9)"));
  }
  std::vector<Array> start, given;
  for (std::int64_t i = 0; i < states; ++i) start.push_back(n.in(skip + static_cast<int>(i)));
  std::int64_t turns = -1;
  const std::int64_t batch = is_old && !start.empty() ? start[0].dim(0)
                             : is_old ? n.in(skip).dim(0)
                                      : 1;
  constexpr std::int64_t kMostBatch = 64;
  if (batch > kMostBatch) {
    return n.e.fail(unimplemented("large batches of Scan before opset 9"));
  }
  std::vector<std::vector<Value>> results(at(states + stacks));
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<Array> state;
    for (const Array& one : start) {
      state.push_back(is_old ? n.e.squeeze(n.e.slice(one, 0, b, b + 1), 0) : one);
    }
    given.clear();
    for (std::int64_t i = 0; i < scanned; ++i) {
      Array one = n.in(skip + static_cast<int>(states + i));
      if (is_old) one = n.e.squeeze(n.e.slice(one, 0, b, b + 1), 0);
      const std::int64_t axis = n.e.axis(axes[at(i)], one.rank(), "scan_input_axes");
      if (directions[at(i)] != 0) one = n.e.reverse(one, {axis});
      // Turns go along the first dim.
      Sizes order{axis};
      for (std::int64_t d = 0; d < one.rank(); ++d) {
        if (d != axis) order.push_back(d);
      }
      one = n.e.transpose(one, order);
      if (turns >= 0 && one.dim(0) != turns) return n.e.fail("scanned inputs differ in length");
      turns = one.dim(0);
      given.push_back(one);
    }
    if (!n.e.status().ok()) return;
    Captured captured = capture(n, {body});
    const auto turn_body = [&](Emit& inner, const Array& turn, const std::vector<Array>& before)
        -> std::vector<Array> {
      // before: state, scanned inputs, captured
      std::vector<Value> inputs;
      for (std::int64_t i = 0; i < states; ++i) inputs.push_back(Value::of(before[at(i)]));
      for (std::int64_t i = 0; i < scanned; ++i) {
        inputs.push_back(Value::of(inner.element(before[at(states + i)], turn, 0)));
      }
      const std::vector<Array> around(before.begin() + states + scanned,
                                      before.begin() + states + scanned +
                                          std::ssize(captured.arrays));
      const GraphTranslator::Outer outer = captured.outer(around);
      auto made = n.translator.translate(*body, std::move(inputs), inner, &outer);
      if (!made.ok()) {
        inner.fail(made.status());
        return {};
      }
      NodeContext context(n.node, n.opset, {}, {}, inner, n.translator);
      return arrays_of(context, *made);
    };
    std::vector<Array> all = state;
    all.insert(all.end(), given.begin(), given.end());
    all.insert(all.end(), captured.arrays.begin(), captured.arrays.end());
    // The shapes of rows: the body once, for nothing else.
    std::vector<Array> rows;
    {
      ir::Module scratch("rows");
      ir::Computation* const computation = scratch.add_computation("main");
      Emit inner(*computation);
      std::vector<Array> parameters;
      for (const Array& one : all) {
        if (one.is_null()) return;
        parameters.emplace_back(&inner, computation->add_parameter(std::ssize(parameters),
                                                                   one.instruction()->shape()));
      }
      const auto made = turn_body(inner, inner.scalar(0, DType::s64), parameters);
      if (!inner.status().ok()) return n.e.fail(inner.status());
      for (std::int64_t i = 0; i < stacks; ++i) {
        Sizes dims = made[at(states + i)].dims();
        dims.insert(dims.begin(), turns);
        rows.push_back(n.e.splat(0, made[at(states + i)].dtype(), dims));
      }
    }
    const std::size_t fixed = all.size();
    all.insert(all.end(), rows.begin(), rows.end());
    const auto end = n.e.repeat(
        turns, all, [&](Emit& inner, const Array& turn, const std::vector<Array>& before) {
          const auto made = turn_body(inner, turn, before);
          std::vector<Array> after = before;
          if (made.empty()) return after;
          for (std::int64_t i = 0; i < states; ++i) after[at(i)] = made[at(i)];
          for (std::int64_t i = 0; i < stacks; ++i) {
            Array& row = after[fixed + at(i)];
            const bool is_back = out_directions[at(i)] != 0;
            const Array place = is_back ? static_cast<double>(turns - 1) - turn : turn;
            row = inner.with_element(row, made[at(states + i)], place, 0);
          }
          return after;
        });
    for (std::int64_t i = 0; i < states; ++i) results[at(i)].push_back(Value::of(end[at(i)]));
    for (std::int64_t i = 0; i < stacks; ++i) {
      Array row = end[fixed + at(i)];
      const std::int64_t axis = n.e.axis(out_axes[at(i)], row.rank(), "scan_output_axes");
      Sizes order;
      for (std::int64_t d = 1; d < row.rank(); ++d) order.push_back(d);
      order.insert(order.begin() + std::min<std::int64_t>(axis, std::ssize(order)), 0);
      results[at(states + i)].push_back(Value::of(n.e.transpose(row, order)));
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    n.set(static_cast<int>(i), is_old ? Value::of(stacked(n, results[i], 0)) : results[i][0]);
  }
}

}  // namespace

void add_control(OpTable& t) {
  t["If"] = {branch, false};
  t["Loop"] = {loop, false};
  t["Scan"] = {scan, false};
}

}  // namespace plimsoll::onnx
