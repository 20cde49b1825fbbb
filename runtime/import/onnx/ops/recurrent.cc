// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: a loop over time of one cell, in one direction or both.
#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
  bool operator==(const Activation&) const = default;
};

Array apply(Emit& e, const Activation& f, const Array& x) {
  const Array zero = e.scalar(0, x.dtype());
  if (f.name == "sigmoid") return e.unary(Opcode::logistic, x);
  if (f.name == "tanh") return tanh(x);
  if (f.name == "relu") return e.maximum(x, zero);
  if (f.name == "affine") return x * f.alpha + f.beta;
  if (f.name == "leakyrelu") return e.select(x < 0, x * f.alpha, x);
  if (f.name == "thresholdedrelu") return e.select(x > f.alpha, x, zero);
  if (f.name == "scaledtanh") return tanh(x * f.beta) * f.alpha;
  if (f.name == "hardsigmoid") {
    return e.minimum(e.maximum(x * f.alpha + f.beta, zero), e.scalar(1, x.dtype()));
  }
  if (f.name == "elu") {
    return e.select(x < 0, e.unary(Opcode::exponential_minus_one, x) * f.alpha, x);
  }
  if (f.name == "softsign") return x / (1.0 + abs(x));
  if (f.name == "softplus") return e.maximum(x, zero) + e.unary(Opcode::log_plus_one, exp(-abs(x)));
  e.fail(unimplemented("attribute 'activations' names '" + f.name + "'"));
  return x;
}

struct Layer {
  std::int64_t directions = 1, hidden = 0, steps = 0, batch = 0;
  std::string direction;
  std::vector<Activation> activations;  // of all directions
  double clip = 0;
  bool batch_first = false;
};

// What is left out of the lists of the activations' numbers.
std::pair<double, double> usual_numbers(const std::string& name) {
  if (name == "leakyrelu") return {0.01, 0};
  if (name == "hardsigmoid") return {0.2, 0.5};
  if (name == "scaledtanh" || name == "affine") return {1, name == "affine" ? 0 : 1};
  return {1, 0};
}

bool read_layer(NodeContext& n, const std::vector<std::string>& usual, Layer& layer) {
  layer.direction = n.text("direction", "forward");
  if (layer.direction != "forward" && layer.direction != "reverse" &&
      layer.direction != "bidirectional") {
    n.wrong("direction", "is '" + layer.direction + "'");
    return false;
  }
  layer.directions = layer.direction == "bidirectional" ? 2 : 1;
  std::vector<std::string> names = n.texts("activations");
  if (names.empty()) {
    for (std::int64_t d = 0; d < layer.directions; ++d) {
      names.insert(names.end(), usual.begin(), usual.end());
    }
  }
  if (names.size() != usual.size() * at(layer.directions)) {
    n.wrong("activations", fmt::format("has {} names (must have {})", names.size(),
                                       usual.size() * at(layer.directions)));
    return false;
  }
  const auto alphas = n.reals("activation_alpha"), betas = n.reals("activation_beta");
  std::size_t alpha = 0, beta = 0;
  for (std::string& name : names) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    Activation f{name, usual_numbers(name).first, usual_numbers(name).second};
    // Numbers belong to those activations that have them, in their order.
    const bool has_alpha = name != "sigmoid" && name != "tanh" && name != "relu" &&
                           name != "softsign" && name != "softplus";
    if (has_alpha && alpha < alphas.size()) f.alpha = alphas[alpha++];
    const bool has_beta = name == "affine" || name == "scaledtanh" || name == "hardsigmoid";
    if (has_beta && beta < betas.size()) f.beta = betas[beta++];
    layer.activations.push_back(f);
  }
  layer.clip = n.real("clip", 0);
  layer.batch_first = n.number("layout", 0) != 0;
  const Array x = n.in(0), w = n.in(1), r = n.in(2);
  if (x.rank() != 3 || w.rank() != 3 || r.rank() != 3 || w.dim(0) != layer.directions ||
      r.dim(0) != layer.directions) {
    n.e.fail(fmt::format("takes arrays of rank 3, weights for {} directions", layer.directions));
    return false;
  }
  layer.hidden = r.dim(2);
  if (const std::int64_t said = n.number("hidden_size", layer.hidden); said != layer.hidden) {
    n.wrong("hidden_size", fmt::format("is {}, the weights have {}", said, layer.hidden));
    return false;
  }
  layer.steps = x.dim(layer.batch_first ? 1 : 0);
  layer.batch = x.dim(layer.batch_first ? 0 : 1);
  return true;
}

// Directions that one loop computes, side by side.
struct Directions {
  std::int64_t first = 0, count = 1;
  bool is_reverse = false;  // the last of them
};

// What the node gives for these directions: [directions, ...]; null where it is not given.
Array part(NodeContext& n, int i, const Directions& of) {
  if (!n.has(i)) return {};
  const Array all = n.in(i);
  return all.dim(0) == of.count ? all : n.e.slice(all, 0, of.first, of.first + of.count);
}

// Columns of one gate.
Array gate(Emit& e, const Array& x, std::int64_t number, std::int64_t hidden) {
  return e.slice(x, x.rank() - 1, number * hidden, (number + 1) * hidden);
}

// The last of several directions backwards in time: [steps, directions, ...].
Array turned(Emit& e, const Array& x, const Directions& of) {
  if (of.count == 1) return x;
  const std::int64_t last = of.count - 1;
  return e.concatenate({e.slice(x, 1, 0, last), e.reverse(e.slice(x, 1, last, of.count), {0})}, 1);
}

// A cell: from what the input gives the gates, and the state, the next state, all of them
// [directions, batch, ...]. `own` are the arrays that it gave along with the state.
using Cell = std::function<std::vector<Array>(
    Emit&, const Array& gates, const std::vector<Array>& state, const std::vector<Array>& own)>;

struct Results {
  Array all;                 // [steps, directions, batch, hidden]
  std::vector<Array> state;  // [directions, batch, hidden] each
};

// Runs the cell over time. Beyond the length of a sequence the state stays and the output is zero.
// Two directions take their steps together, each in its own order: half as many turns, of products
// twice as large.
Results run(NodeContext& n, const Layer& layer, const Directions& of, const Array& x,
            const Array& weights, const Array& bias, std::vector<Array> state,
            const std::vector<Array>& own, const Cell& cell) {
  // The input's share of all gates, of all steps at once: [steps, directions, batch, gates].
  Array gates = n.e.transpose(n.e.dot(x, weights, {{2}, {2}, {}, {}}), {0, 2, 1, 3});
  if (!bias.is_null()) gates = gates + n.e.unsqueeze(bias, 1);
  gates = turned(n.e, gates, of);
  const bool has_lengths = n.has(4);
  const Array lengths = has_lengths ? n.e.convert(n.in(4), DType::s64) : Array();
  const std::size_t states = state.size();
  std::vector<Array> all = std::move(state);
  all.push_back(n.e.splat(0, x.dtype(), {layer.steps, of.count, layer.batch, layer.hidden}));
  all.push_back(gates);
  if (has_lengths) all.push_back(lengths);
  all.insert(all.end(), own.begin(), own.end());
  const std::size_t first_own = states + 2 + (has_lengths ? 1 : 0);
  const auto end = n.e.repeat(
      layer.steps, all, [&](Emit& e, const Array& turn, const std::vector<Array>& before) {
        const Array back = static_cast<double>(layer.steps - 1) - turn;
        const Array step = of.is_reverse && of.count == 1 ? back : turn;
        const std::vector<Array> old(before.begin(),
                                     before.begin() + static_cast<std::ptrdiff_t>(states));
        const std::vector<Array> inner(before.begin() + static_cast<std::ptrdiff_t>(first_own),
                                       before.end());
        std::vector<Array> next = cell(e, e.element(before[states + 1], step, 0), old, inner);
        std::vector<Array> after = before;
        if (next.size() != states) return after;
        Array out = next[0];
        if (has_lengths) {
          std::vector<Array> go_on;
          for (std::int64_t d = 0; d < of.count; ++d) {
            const Array& at = of.is_reverse && d == of.count - 1 ? back : turn;
            go_on.push_back(e.reshape(e.broadcast_to(at, {layer.batch}) < before[states + 2],
                                      {1, layer.batch, 1}));
          }
          const Array goes_on = e.concatenate(go_on, 0);
          out = e.select(goes_on, out, e.scalar(0, out.dtype()));
          for (std::size_t i = 0; i < states; ++i) next[i] = e.select(goes_on, next[i], old[i]);
        }
        for (std::size_t i = 0; i < states; ++i) after[i] = next[i];
        after[states] = e.with_element(before[states], out, step, 0);
        return after;
      });
  return {turned(n.e, end[states], of),
          {end.begin(), end.begin() + static_cast<std::ptrdiff_t>(states)}};
}

// Y, Y_h and what more of the state is asked for.
void set_results(NodeContext& n, const Layer& layer, const std::vector<Results>& results,
                 std::size_t states) {
  std::vector<Array> all;
  for (const Results& some : results) {
    all.push_back(layer.batch_first ? n.e.transpose(some.all, {2, 0, 1, 3}) : some.all);
  }
  n.set(0, n.e.concatenate(all, layer.batch_first ? 2 : 1));
  for (std::size_t i = 0; i < states; ++i) {
    std::vector<Array> last;
    for (const Results& some : results) {
      last.push_back(layer.batch_first ? n.e.transpose(some.state[i], {1, 0, 2}) : some.state[i]);
    }
    n.set(static_cast<int>(i) + 1, n.e.concatenate(last, layer.batch_first ? 1 : 0));
  }
}

// The state before the first step: what the node gives, or zeros.
Array start(NodeContext& n, const Layer& layer, int i, const Directions& of, DType dtype) {
  if (!n.has(i)) return n.e.splat(0, dtype, {of.count, layer.batch, layer.hidden});
  Array given = n.in(i);
  if (layer.batch_first) given = n.e.transpose(given, {1, 0, 2});
  return given.dim(0) == of.count ? given : n.e.slice(given, 0, of.first, of.first + of.count);
}

Array clipped(Emit& e, const Layer& layer, const Array& x) {
  if (layer.clip <= 0) return x;
  return e.minimum(e.maximum(x, e.scalar(-layer.clip, x.dtype())), e.scalar(layer.clip, x.dtype()));
}

// The first half of B, [directions, width], to whose first columns those of the second are added.
Array bias_of(NodeContext& n, const Directions& of, std::int64_t width, std::int64_t added) {
  const Array b = part(n, 3, of);
  if (b.is_null()) return {};
  const Array both = n.e.slice(b, 1, 0, added) + n.e.slice(b, 1, width, width + added);
  return added == width ? both : n.e.concatenate({both, n.e.slice(b, 1, added, width)}, 1);
}

// Both directions in one loop, unless they are of different activations.
std::vector<Directions> loops_of(const Layer& layer) {
  const bool is_reverse = layer.direction == "reverse";
  if (layer.directions == 1) return {{0, 1, is_reverse}};
  const auto half = static_cast<std::ptrdiff_t>(layer.activations.size() / 2);
  const auto begin = layer.activations.begin();
  if (std::equal(begin, begin + half, begin + half)) return {{0, 2, true}};
  return {{0, 1, false}, {1, 1, true}};
}

// `cell_of`: the cell of some directions, and the arrays that it needs besides the state; the first
// are the recurrence's weights. The cell itself adds the recurrence's bias of gates from `added`
// on.
void recurrent(NodeContext& n, const Layer& layer, std::size_t states, std::int64_t gates,
               std::int64_t added,
               const std::function<Cell(const Directions&, std::vector<Array>&)>& cell_of) {
  Array x = n.in(0);
  if (layer.batch_first) x = n.e.transpose(x, {1, 0, 2});
  std::vector<Results> results;
  for (const Directions& of : loops_of(layer)) {
    std::vector<Array> state;
    for (std::size_t i = 0; i < states; ++i) {
      state.push_back(start(n, layer, 5 + static_cast<int>(i), of, x.dtype()));
    }
    std::vector<Array> own{part(n, 2, of)};
    const Cell cell = cell_of(of, own);
    results.push_back(run(n, layer, of, x, part(n, 1, of),
                          bias_of(n, of, gates * layer.hidden, added * layer.hidden),
                          std::move(state), own, cell));
    if (!n.e.status().ok()) return;
  }
  set_results(n, layer, results, states);
}

// [directions, batch, hidden] by [directions, gates, hidden].
Array by_weights(Emit& e, const Array& state, const Array& weights) {
  return e.dot(state, weights, {{2}, {2}, {0}, {0}});
}

void simple(NodeContext& n) {
  Layer layer;
  if (!read_layer(n, {"tanh"}, layer)) return;
  recurrent(n, layer, 1, 1, 1, [&](const Directions& of, std::vector<Array>&) -> Cell {
    const Activation f = layer.activations[at(of.first)];
    return [&layer, f](Emit& e, const Array& gates, const std::vector<Array>& state,
                       const std::vector<Array>& own) -> std::vector<Array> {
      return {apply(e, f, clipped(e, layer, gates + by_weights(e, state[0], own[0])))};
    };
  });
}

// Gates in the order z, r, h.
void gated(NodeContext& n) {
  Layer layer;
  if (!read_layer(n, {"sigmoid", "tanh"}, layer)) return;
  const bool before_reset = n.number("linear_before_reset", 0) != 0;
  const std::int64_t hidden = layer.hidden;
  const std::int64_t added = before_reset ? 2 : 3;
  recurrent(n, layer, 1, 3, added, [&](const Directions& of, std::vector<Array>& own) -> Cell {
    if (before_reset) {
      // One product for all gates. The recurrence's bias of h stands apart, within the reset.
      const Array b = part(n, 3, of);
      own.push_back(b.is_null() ? n.e.splat(0, n.in(0).dtype(), {of.count, 1, hidden})
                                : n.e.unsqueeze(n.e.slice(b, 1, 5 * hidden, 6 * hidden), 1));
    } else {
      const Array weights = own[0];  // taken apart once, not in each turn
      own = {n.e.slice(weights, 1, 0, 2 * hidden), n.e.slice(weights, 1, 2 * hidden, 3 * hidden)};
    }
    const Activation f = layer.activations[at(2 * of.first)],
                     g = layer.activations[at(2 * of.first + 1)];
    return [&layer, f, g, hidden, before_reset](
               Emit& e, const Array& gates, const std::vector<Array>& state,
               const std::vector<Array>& own) -> std::vector<Array> {
      const Array product = by_weights(e, state[0], own[0]);
      const auto opened = [&](std::int64_t k) {
        return apply(e, f,
                     clipped(e, layer, gate(e, gates, k, hidden) + gate(e, product, k, hidden)));
      };
      const Array z = opened(0), r = opened(1);
      const Array inner = before_reset ? r * (gate(e, product, 2, hidden) + own[1])
                                       : by_weights(e, r * state[0], own[1]);
      const Array h = apply(e, g, clipped(e, layer, gate(e, gates, 2, hidden) + inner));
      return {(1.0 - z) * h + z * state[0]};
    };
  });
}

// Gates in the order i, o, f, c.
void long_short(NodeContext& n) {
  Layer layer;
  if (!read_layer(n, {"sigmoid", "tanh", "tanh"}, layer)) return;
  const bool couples = n.number("input_forget", 0) != 0, peeps = n.has(7);
  const std::int64_t hidden = layer.hidden;
  recurrent(n, layer, 2, 4, 4, [&](const Directions& of, std::vector<Array>& own) -> Cell {
    if (peeps) own.push_back(n.e.unsqueeze(part(n, 7, of), 1));
    const Activation f = layer.activations[at(3 * of.first)],
                     g = layer.activations[at(3 * of.first + 1)],
                     h = layer.activations[at(3 * of.first + 2)];
    return [&layer, f, g, h, hidden, couples, peeps](
               Emit& e, const Array& given, const std::vector<Array>& state,
               const std::vector<Array>& own) -> std::vector<Array> {
      const Array gates = given + by_weights(e, state[0], own[0]);
      // Peepholes let the gates see the cell: i, o, f.
      const auto opened = [&](std::int64_t k, const Array& cell) {
        Array x = gate(e, gates, k, hidden);
        if (peeps) x = x + cell * gate(e, own[1], k, hidden);
        return apply(e, f, clipped(e, layer, x));
      };
      const Array i = opened(0, state[1]);
      const Array forget = couples ? 1.0 - i : opened(2, state[1]);
      const Array c = apply(e, g, clipped(e, layer, gate(e, gates, 3, hidden)));
      const Array cell = forget * state[1] + i * c;
      return {opened(1, cell) * apply(e, h, cell), cell};
    };
  });
}

}  // namespace

void add_recurrent(OpTable& t) {
  t["RNN"] = {simple};
  t["GRU"] = {gated};
  t["LSTM"] = {long_short};
}

}  // namespace plimsoll::onnx
