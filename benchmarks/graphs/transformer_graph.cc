// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/graphs/transformer_graph.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "benchmarks/graphs/loop.h"
#include "benchmarks/graphs/tape.h"

namespace plimsoll::graphs {
namespace {

using ir::Attributes;
using ir::Computation;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using Node = Tape::Node;
using Nodes = std::vector<Node>;

std::vector<Dims> weight_dims(const TransformerOptions& o) {
  const Dims vector{o.width}, square{o.width, o.width};
  return {vector,
          vector,
          square,
          square,
          square,
          square,
          vector,
          vector,
          Dims{o.width, o.hidden},
          {o.hidden},
          {o.hidden, o.width},
          vector};
}

Node over_rows(Tape& t, Node vector, std::int64_t rows) {
  return t.broadcast(vector, {rows, vector->shape().dim(0)}, {1});
}

Node normalized(Tape& t, Node x, Node gain, Node bias) {
  const std::int64_t rows = x->shape().dim(0), columns = x->shape().dim(1);
  const float share = 1.0f / static_cast<float>(columns);
  const auto over_columns = [&](Node v) { return t.broadcast(v, {rows, columns}, {0}); };
  Node centred = t.subtract(x, over_columns(t.scale(t.sum(x, {1}), share)));
  Node variance = t.scale(t.sum(t.multiply(centred, centred), {1}), share);
  Node deviation = t.rsqrt(t.add(variance, t.full(1e-5f, {rows})));
  Node unit = t.multiply(centred, over_columns(deviation));
  return t.add(t.multiply(unit, over_rows(t, gain, rows)), over_rows(t, bias, rows));
}

// `scores` is [batch, heads, length, length].
Node softmax(Tape& t, Node scores) {
  const Dims dims = scores->shape().dims();
  Node top = t.maximum_over(scores, 3);
  Node powers = t.exponential(t.subtract(scores, t.broadcast(top, dims, {0, 1, 2})));
  Node share = t.reciprocal(t.sum(powers, {3}));
  return t.multiply(powers, t.broadcast(share, dims, {0, 1, 2}));
}

Node layer(Tape& t, const TransformerOptions& o, const Nodes& w, Node x) {
  const std::int64_t rows = o.batch * o.length, head = o.width / o.heads;
  Node in = normalized(t, x, w[0], w[1]);
  const auto split = [&](Node weights) {
    Node all = t.reshape(t.dot(in, weights, 0, 1, 0), {o.batch, o.length, o.heads, head});
    return t.transpose(all, {0, 2, 1, 3});
  };
  Node query = split(w[2]), key = split(w[3]), value = split(w[4]);
  Node scores = t.scale(t.dot(query, key, 2, 3, 3), 1.0f / std::sqrt(static_cast<float>(head)));
  Node mixed = t.transpose(t.dot(softmax(t, scores), value, 2, 3, 2), {0, 2, 1, 3});
  Node attended = t.add(x, t.dot(t.reshape(mixed, {rows, o.width}), w[5], 0, 1, 0));
  Node inner = normalized(t, attended, w[6], w[7]);
  Node wide = t.tanh(t.add(t.dot(inner, w[8], 0, 1, 0), over_rows(t, w[9], rows)));
  Node narrow = t.add(t.dot(wide, w[10], 0, 1, 0), over_rows(t, w[11], rows));
  return t.add(attended, narrow);
}

// What the backward direction reads of the forward one, recomputed where that is free.
class Residuals {
 public:
  // `know` gives the value that stands for a forward one, or null; `read` makes one that does.
  Residuals(Tape& tape, std::function<Node(Node)> know, std::function<Node(Node)> read)
      : tape_(tape), know_(std::move(know)), read_(std::move(read)) {}

  Node operator()(Node forward) {
    const auto it = made_.find(forward);
    if (it != made_.end()) return it->second;
    Node here = know_(forward);
    if (here == nullptr) here = again(forward);
    if (here == nullptr) {
      here = read_(forward);
      stored_.push_back(forward);
    }
    made_.emplace(forward, here);
    return here;
  }
  const Nodes& stored() const { return stored_; }

 private:
  Node again(Node forward) {
    switch (forward->opcode()) {
      case Opcode::constant:
        return tape_.op(Opcode::constant, {}, forward->attributes(), {}, &forward->shape());
      case Opcode::broadcast:
      case Opcode::reshape:
      case Opcode::transpose:
        return tape_.op(forward->opcode(), {(*this)(forward->operand(0))}, forward->attributes(),
                        {}, &forward->shape());
      default:
        return nullptr;
    }
  }

  Tape& tape_;
  std::function<Node(Node)> know_, read_;
  std::unordered_map<Node, Node> made_;
  Nodes stored_;
};

class Builder {
 public:
  explicit Builder(const TransformerOptions& options)
      : o_(options), module_(std::make_unique<ir::Module>("transformer_step")) {}

  std::unique_ptr<ir::Module> run() {
    entry_ = module_->add_computation("step");
    module_->set_entry(entry_);
    Tape tape(*entry_);
    add_state();
    const Dims dims{o_.batch * o_.length, o_.width};
    Node x = parameter("x", dims), target = parameter("target", dims);
    switch (o_.form) {
      case Layers::inlined:
        inlined(tape, x, target);
        break;
      case Layers::called:
        called(tape, x, target);
        break;
      case Layers::looped:
        looped(tape, x, target);
        break;
    }
    update(tape);
    results_.push_back(loss_);
    entry_->add_tuple(results_, "result");
    entry_->remove_dead();
    module_->remove_unreachable();
    return std::move(module_);
  }

 private:
  Node parameter(const std::string& name, const Dims& dims) {
    return entry_->add_parameter(static_cast<std::int64_t>(entry_->parameters().size()),
                                 Shape(DType::f32, dims), name);
  }

  void add_state() {
    const int sets = o_.form == Layers::looped ? 1 : o_.layers;
    const std::vector<Dims> dims = weight_dims(o_);
    for (int i = 0; i < sets; ++i) {
      weights_.emplace_back();
      for (std::size_t k = 0; k < dims.size(); ++k) {
        const Dims all = o_.form == Layers::looped ? stacked(o_.layers, dims[k]) : dims[k];
        const std::string name = std::to_string(i) + "_" + std::to_string(k);
        weights_.back().push_back(parameter("w" + name, all));
        if (!o_.adam) continue;
        mean_.push_back(parameter("m" + name, all));
        square_.push_back(parameter("v" + name, all));
      }
    }
    gradients_.resize(weights_.size());
  }

  // Mean squared error; returns the gradient of the network's output.
  Node error(Tape& t, Node output, Node target) {
    const float share = 1.0f / static_cast<float>(output->shape().element_count());
    Node difference = t.op(Opcode::subtract, {output, target});
    Node squares = t.op(Opcode::multiply, {difference, difference});
    loss_ = t.scale(t.sum(squares, {0, 1}), share);
    return t.op(Opcode::multiply, {difference, t.full(2 * share, output->shape().dims())});
  }

  void inlined(Tape& t, Node x, Node target) {
    Node h = x;
    for (const Nodes& w : weights_) h = layer(t, o_, w, h);
    Tape aside(*entry_);  // the loss is not differentiated by rule
    t.seed(h, error(aside, h, target));
    t.backward();
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      for (Node w : weights_[i]) gradients_[i].push_back(t.gradient(w));
    }
  }

  void called(Tape& t, Node x, Node target) {
    const Shape activation = x->shape();
    Computation* forward = module_->add_computation("layer_forward");
    Computation* backward = module_->add_computation("layer_backward");
    Nodes inner, outer{backward->add_parameter(0, activation, "g")};
    const auto add_both = [&](const Shape& shape, const std::string& name) {
      inner.push_back(forward->add_parameter(static_cast<std::int64_t>(inner.size()), shape, name));
      outer.push_back(
          backward->add_parameter(static_cast<std::int64_t>(outer.size()), shape, name));
    };
    add_both(activation, "x");
    for (const Dims& dims : weight_dims(o_)) add_both(Shape(DType::f32, dims), "w");
    Tape tape(*forward);
    Node output = layer(tape, o_, Nodes(inner.begin() + 1, inner.end()), inner[0]);
    Residuals residuals(
        tape,
        [&](Node v) -> Node {
          const auto it = std::find(inner.begin(), inner.end(), v);
          return it == inner.end() ? nullptr
                                   : outer[static_cast<std::size_t>(it - inner.begin()) + 1];
        },
        [&](Node v) {
          outer.push_back(backward->add_parameter(static_cast<std::int64_t>(outer.size()),
                                                  v->shape(), "residual"));
          return outer.back();
        });
    tape.move_to(*backward, [&](Node v) { return residuals(v); });
    tape.seed(output, outer[0]);
    tape.backward();
    Nodes given;
    for (Node v : inner) given.push_back(tape.gradient(v));
    backward->add_tuple(given);
    Nodes made{output};
    made.insert(made.end(), residuals.stored().begin(), residuals.stored().end());
    forward->add_tuple(made);

    std::vector<Nodes> calls;
    Node h = x;
    for (const Nodes& w : weights_) {
      Nodes arguments{h};
      arguments.insert(arguments.end(), w.begin(), w.end());
      Node call = t.op(Opcode::call, arguments, {}, {forward});
      for (std::size_t k = 1; k < made.size(); ++k) {
        arguments.push_back(entry_->add_get_tuple_element(call, static_cast<std::int64_t>(k)));
      }
      calls.push_back(std::move(arguments));
      h = entry_->add_get_tuple_element(call, 0);
    }
    Node g = error(t, h, target);
    for (std::size_t i = weights_.size(); i-- > 0;) {
      Nodes arguments{g};
      arguments.insert(arguments.end(), calls[i].begin(), calls[i].end());
      Node call = t.op(Opcode::call, arguments, {}, {backward});
      for (std::size_t k = 0; k < weights_[i].size(); ++k) {
        gradients_[i].push_back(
            entry_->add_get_tuple_element(call, static_cast<std::int64_t>(k) + 1));
      }
      g = entry_->add_get_tuple_element(call, 0);
    }
  }

  void looped(Tape& t, Node x, Node target) {
    Loop forward(*module_, "forward");
    Node step = forward.add(t.integer(0)), h = forward.add(x);
    Tape tape(forward.body());
    Nodes slices;
    for (Node stack : weights_[0]) slices.push_back(pick(tape, forward.add(stack), step));
    Node output = layer(tape, o_, slices, h);
    forward.set_next(1, output);

    Loop backward(*module_, "backward");
    Node back = backward.add(t.integer(0)), g = backward.add(x);  // the gradient comes later
    std::size_t stacks_end = 2;
    Nodes stacks;
    for (Node stack : weights_[0]) stacks.push_back(backward.add(stack));
    Tape gradient(backward.body());
    Node index = gradient.op(Opcode::subtract, {gradient.integer(o_.layers - 1), back});
    stacks_end += stacks.size();
    Residuals residuals(
        tape,
        [&](Node v) -> Node {
          const auto it = std::find(slices.begin(), slices.end(), v);
          if (it == slices.end()) return nullptr;
          return pick(tape, stacks[static_cast<std::size_t>(it - slices.begin())], index);
        },
        [&](Node v) {
          Node empty = t.full(0, stacked(o_.layers, v->shape().dims()));
          return pick(tape, backward.add(empty), index);
        });
    tape.move_to(backward.body(), [&](Node v) { return residuals(v); });
    tape.seed(output, g);
    tape.backward();
    backward.set_next(1, tape.gradient(h));
    const std::size_t gradients_begin = backward.size();
    for (std::size_t k = 0; k < slices.size(); ++k) {
      Node sum = backward.add(t.full(0, weights_[0][k]->shape().dims()));
      backward.set_next(gradients_begin + k, put(tape, sum, tape.gradient(slices[k]), index));
    }
    backward.set_next(0, tape.op(Opcode::add, {back, tape.integer(1)}));

    Tape again(forward.body());
    for (std::size_t k = 0; k < residuals.stored().size(); ++k) {
      Node stack = forward.add(backward.initial(stacks_end + k));
      forward.set_next(forward.size() - 1, put(again, stack, residuals.stored()[k], step));
    }
    forward.set_next(0, again.op(Opcode::add, {step, again.integer(1)}));
    Node first = forward.finish(t, o_.layers);
    backward.set_initial(1, error(t, entry_->add_get_tuple_element(first, 1), target));
    for (std::size_t k = 0; k < residuals.stored().size(); ++k) {
      backward.set_initial(stacks_end + k, entry_->add_get_tuple_element(
                                               first, static_cast<std::int64_t>(stacks_end + k)));
    }
    Node second = backward.finish(t, o_.layers);
    for (std::size_t k = 0; k < slices.size(); ++k) {
      gradients_[0].push_back(
          entry_->add_get_tuple_element(second, static_cast<std::int64_t>(gradients_begin + k)));
    }
  }

  void give(Node value, Node into) {
    module_->input_output_alias.push_back({{static_cast<std::int64_t>(results_.size())},
                                           into->attributes().parameter_number,
                                           {},
                                           false});
    results_.push_back(value);
  }

  void update(Tape& t) {
    std::size_t number = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      for (std::size_t k = 0; k < weights_[i].size(); ++k, ++number) {
        Node w = weights_[i][k], g = gradients_[i][k];
        const Dims dims = w->shape().dims();
        const auto times = [&](Node x, float factor) {
          return t.op(Opcode::multiply, {x, t.full(factor, dims)});
        };
        if (!o_.adam) {
          give(t.op(Opcode::subtract, {w, times(g, 0.01f)}), w);
          continue;
        }
        Node m = t.op(Opcode::add, {times(mean_[number], 0.9f), times(g, 0.1f)});
        Node v = t.op(Opcode::add, {times(square_[number], 0.99f),
                                    times(t.op(Opcode::multiply, {g, g}), 0.01f)});
        Node root = t.op(Opcode::rsqrt, {t.op(Opcode::add, {v, t.full(1e-8f, dims)})});
        Node step = times(t.op(Opcode::multiply, {m, root}), 0.001f);
        give(t.op(Opcode::subtract, {w, step}), w);
        give(m, mean_[number]);
        give(v, square_[number]);
      }
    }
  }

  const TransformerOptions o_;
  std::unique_ptr<ir::Module> module_;
  Computation* entry_ = nullptr;
  std::vector<Nodes> weights_, gradients_;
  Nodes mean_, square_, results_;
  Node loss_ = nullptr;
};

}  // namespace

std::unique_ptr<ir::Module> transformer_step(const TransformerOptions& options) {
  return Builder(options).run();
}

std::unique_ptr<ir::Module> transformer_step_of_size(int instructions) {
  TransformerOptions options;
  options.layers = 1;
  const std::int64_t one = transformer_step(options)->entry()->instruction_count();
  options.layers = 2;
  const std::int64_t two = transformer_step(options)->entry()->instruction_count();
  const std::int64_t each = two - one;
  options.layers =
      static_cast<int>(std::max<std::int64_t>(1, (instructions - (one - each) + each / 2) / each));
  return transformer_step(options);
}

}  // namespace plimsoll::graphs
