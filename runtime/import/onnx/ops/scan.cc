// SPDX-License-Identifier: Apache-2.0
// Scan: a loop over the rows of its inputs, which stacks rows.
#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/captured.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;

// How the rows of inputs and outputs lie.
struct Layout {
  Sizes axes, directions, out_axes, out_directions;
  std::int64_t states = 0;

  std::size_t scanned() const { return axes.size(); }
  std::size_t stacks() const { return out_axes.size(); }
};

// The same with the axis first; turns go along it.
Array with_rows(NodeContext& n, const Array& x, std::int64_t axis, bool is_backwards) {
  axis = n.e.axis(axis, x.rank(), "scan_input_axes");
  Sizes order{axis};
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (d != axis) order.push_back(d);
  }
  return n.e.transpose(is_backwards ? n.e.reverse(x, {axis}) : x, order);
}

// One run of the loop: the last state, then what is stacked.
std::vector<Array> run_scan(NodeContext& n, const Graph& body, const Layout& layout,
                            const std::vector<Array>& state, const std::vector<Array>& inputs) {
  const auto states = at(layout.states);
  std::vector<Array> all = state;
  std::int64_t turns = -1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    all.push_back(with_rows(n, inputs[i], layout.axes[i], layout.directions[i] != 0));
    if (turns >= 0 && all.back().dim(0) != turns) n.e.fail("scanned inputs differ in length");
    turns = all.back().dim(0);
  }
  const Captured captured = capture(n, {&body});
  all.insert(all.end(), captured.arrays.begin(), captured.arrays.end());
  if (!n.e.status().ok()) return {};
  const std::size_t fixed = all.size();
  const auto run_body = [&](Emit& inner, const Array& turn,
                            const std::vector<Array>& before) -> std::vector<Array> {
    std::vector<Value> given;
    for (std::size_t i = 0; i < states + inputs.size(); ++i) {
      given.push_back(Value::of(i < states ? before[i] : inner.element(before[i], turn, 0)));
    }
    const auto first = before.begin() + static_cast<std::ptrdiff_t>(states + inputs.size());
    const GraphTranslator::Outer outer =
        captured.outer({first, first + std::ssize(captured.arrays)});
    auto made = n.translator.translate(body, std::move(given), inner, &outer);
    if (!made.ok()) {
      inner.fail(made.status());
      return {};
    }
    NodeContext context(n.node, n.opset, {}, {}, inner, n.translator);
    return arrays_of(context, *made);
  };
  // What is stacked needs its shape before the loop: the body once, for nothing else.
  ir::Module scratch("rows");
  ir::Computation* const computation = scratch.add_computation("main");
  Emit once(*computation);
  std::vector<Array> parameters;
  for (const Array& one : all) {
    parameters.emplace_back(
        &once, computation->add_parameter(std::ssize(parameters), one.instruction()->shape()));
  }
  const auto rows = run_body(once, once.scalar(0, DType::s64), parameters);
  if (!once.status().ok()) {
    n.e.fail(once.status());
    return {};
  }
  for (std::size_t i = states; i < rows.size(); ++i) {
    Sizes dims = rows[i].dims();
    dims.insert(dims.begin(), turns);
    all.push_back(n.e.splat(0, rows[i].dtype(), dims));
  }
  const auto end =
      n.e.repeat(turns, all, [&](Emit& inner, const Array& turn, const std::vector<Array>& before) {
        const auto made = run_body(inner, turn, before);
        std::vector<Array> after = before;
        for (std::size_t i = 0; i < made.size(); ++i) {
          if (i < states) {
            after[i] = made[i];
            continue;
          }
          const bool is_backwards = layout.out_directions[i - states] != 0;
          const Array place = is_backwards ? static_cast<double>(turns - 1) - turn : turn;
          Array& row = after[fixed + i - states];
          row = inner.with_element(row, made[i], place, 0);
        }
        return after;
      });
  std::vector<Array> results(end.begin(), end.begin() + layout.states);
  for (std::size_t i = 0; i < layout.stacks(); ++i) {
    const Array& stack = end[fixed + i];
    const std::int64_t axis = n.e.axis(layout.out_axes[i], stack.rank(), "scan_output_axes");
    Sizes order;
    for (std::int64_t d = 1; d < stack.rank(); ++d) order.push_back(d);
    order.insert(order.begin() + std::min<std::int64_t>(axis, std::ssize(order)), 0);
    results.push_back(n.e.transpose(stack, order));
  }
  return results;
}

// Before opset 9 there is a batch around the loop, and a first input of its lengths.
void scan(NodeContext& n) {
  const Graph* const body = n.graph("body");
  if (body == nullptr) return;
  const bool is_old = n.opset < 9;
  const int skip = is_old ? 1 : 0;
  const std::int64_t scanned = n.number("num_scan_inputs", 0);
  Layout layout;
  layout.states = n.input_count() - skip - scanned;
  if (scanned < 1 || scanned > n.input_count() || layout.states < 0 ||
      std::ssize(body->inputs) != layout.states + scanned ||
      std::ssize(body->outputs) < layout.states) {
    return n.wrong("num_scan_inputs", fmt::format("is {}, the node has {} inputs and its body {}",
                                                  scanned, n.input_count(), body->inputs.size()));
  }
  const std::int64_t stacks = std::ssize(body->outputs) - layout.states;
  layout.axes = n.numbers("scan_input_axes", Sizes(at(scanned), 0));
  layout.directions =
      n.numbers(is_old ? "directions" : "scan_input_directions", Sizes(at(scanned), 0));
  layout.out_axes = n.numbers("scan_output_axes", Sizes(at(stacks), 0));
  layout.out_directions = n.numbers("scan_output_directions", Sizes(at(stacks), 0));
  if (std::ssize(layout.axes) != scanned || std::ssize(layout.directions) != scanned ||
      std::ssize(layout.out_axes) != stacks || std::ssize(layout.out_directions) != stacks) {
    return n.wrong("scan_input_axes", "and its like have not one number a scanned value");
  }
  if (is_old && n.has(0)) {
    return n.e.fail(unimplemented("lengths of sequences (Scan before opset 9)"));
  }
  std::vector<Array> inputs;
  for (int i = skip; i < n.input_count(); ++i) inputs.push_back(n.in(i));
  if (!n.e.status().ok()) return;
  constexpr std::int64_t kMostBatch = 64;
  const std::int64_t batch = is_old ? inputs[0].dim(0) : 1;
  if (batch > kMostBatch) {
    return n.e.fail(unimplemented("batches of more than 64 (Scan before opset 9)"));
  }
  std::vector<std::vector<Value>> results(at(layout.states + stacks));
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<Array> state, given;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Array one = is_old ? n.e.squeeze(n.e.slice(inputs[i], 0, b, b + 1), 0) : inputs[i];
      (i < at(layout.states) ? state : given).push_back(one);
    }
    const auto made = run_scan(n, *body, layout, state, given);
    if (!n.e.status().ok()) return;
    for (std::size_t i = 0; i < made.size(); ++i) results[i].push_back(Value::of(made[i]));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    n.set(static_cast<int>(i), is_old ? Value::of(stacked(n, results[i], 0)) : results[i][0]);
  }
}

}  // namespace

void add_scan(OpTable& t) { t["Scan"] = {scan, false}; }

}  // namespace plimsoll::onnx
