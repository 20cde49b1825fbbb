// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/random_scan.h"

#include <fmt/core.h>

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/cases/random.h"

namespace plimsoll::cases {
namespace {

// How a loop's counter runs, and the slice that a round touches.
struct Counter {
  std::int64_t start = 0, step = 1;
  bool down = false;  // the slices

  std::string condition(const std::string& state, const std::string& name,
                        std::int64_t rounds) const {
    return fmt::format(
        "{} {{\n  s = {} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  n = s32[] constant({})\n  ROOT more = pred[] compare(i, n), direction=LT\n}}\n",
        name, state, start + step * rounds);
  }
  // Lines that make `at` of `i`, and `next`.
  std::string lines(std::int64_t rounds) const {
    std::string text = fmt::format(
        "  c_step = s32[] constant({})\n  c_start = s32[] constant({})\n  zero = s32[] "
        "constant(0)\n"
        "  next = s32[] add(i, c_step)\n  past = s32[] subtract(i, c_start)\n"
        "  round = s32[] divide(past, c_step)\n",
        step, start);
    if (!down) return text + "  at = s32[] add(round, zero)\n";
    return text +
           fmt::format("  c_last = s32[] constant({})\n  at = s32[] subtract(c_last, round)\n",
                       rounds - 1);
  }
};

class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_(seed), behind_(seed + (1U << 20)) {
    size_ = random_.between(3, 24);
    if (seed % 5 == 4) size_ = 32;  // products read such slices of a stack where they lie
    is_thick_ = seed % 7 == 3;      // what reads such stacks goes into the loop
    if (is_thick_) size_ = 64;
    rounds_ = random_.between(2, 7);
    if (rounds_ >= 6) rounds_ += random_.between(0, 13);
    array_ = fmt::format("f32[{0},{0}]", size_);
    stack_ = fmt::format("f32[{1},{0},{0}]", size_, rounds_);
    slice_ = fmt::format("f32[1,{0},{0}]", size_);
  }

  std::string run() {
    std::string text;
    const bool nested = random_.chance(0.3);
    if (nested) text += pair_of_loops("inner_", "");
    text += pair_of_loops("", nested ? "inner_" : "");
    const bool in_a_loop = behind_.chance(0.4);
    if (in_a_loop) text += loop_of_updates();
    text += fmt::format(
        "ENTRY e {{\n  x = {0} parameter(0)\n  w = {1} parameter(1)\n  v = {0} parameter(2)\n"
        "  g = {0} parameter(3)\n  momentum = {1} parameter(4)\n  rate = f32[] parameter(5)\n"
        "  rates = f32[{2}] parameter(6)\n",
        array_, stack_, rounds_);
    text += call("", "x", "w", "v", "g");
    text += in_a_loop ? call_of_updates() : optimizer();
    const bool is_donated = behind_.chance(0.7);
    text += fmt::format("  ROOT r = ({0}, {0}, {1}, {1}", array_, stack_);
    const bool gives_gradients = behind_.chance(0.2);
    text += gives_gradients ? fmt::format(", {}", stack_) : "";
    text += ") tuple(forward_y, backward_d, updated, moved";
    text += gives_gradients ? ", backward_grads" : "";
    text += ")\n}\n";
    return fmt::format("HloModule scan{}\n",
                       is_donated ? ", input_output_alias={ {2}: (1, {}, may-alias), "
                                    "{3}: (4, {}, may-alias) }"
                                  : "") +
           text;
  }

 private:
  std::string state_of(const std::string& prefix, bool forward) {
    std::string state = fmt::format("(s32[], {0}, {1}, {0}", array_, stack_);
    if (!forward) state += ", " + stack_;
    for (int k = 0; k < residuals_[prefix.size()]; ++k) state += ", " + stack_;
    return state + ")";
  }

  // Lines of random operations on `values`, which grow.
  std::string operations(std::vector<std::string>& values, const std::string& name, int count) {
    std::string text;
    for (int n = 0; n < count; ++n) {
      const std::string id = fmt::format("{}{}", name, n);
      const std::string a = random_.pick(std::span<const std::string>(values));
      const std::string b = random_.pick(std::span<const std::string>(values));
      switch (random_.below(9)) {
        case 0:
          text += fmt::format("  {} = {} tanh({})\n", id, array_, a);
          break;
        case 1:
          text += fmt::format("  {} = {} add({}, {})\n", id, array_, a, b);
          break;
        case 2:
          text += fmt::format("  {} = {} multiply({}, {})\n", id, array_, a, b);
          break;
        case 3:
          text += fmt::format(
              "  {0}p = {1} dot({2}, {3}), lhs_contracting_dims={{1}}, "
              "rhs_contracting_dims={{0}}\n",
              id, array_, a, b);
          if (is_thick_) {
            text += fmt::format(
                "  {0}c = f32[] constant(0.05)\n  {0}d = {1} broadcast({0}c), dimensions={{}}\n"
                "  {0} = {1} multiply({0}p, {0}d)\n",
                id, array_);
          } else {
            text += fmt::format("  {0} = {1} tanh({0}p)\n", id, array_);
          }
          break;
        case 4:
          text += fmt::format("  {} = {} transpose({}), dimensions={{1,0}}\n", id, array_, a);
          break;
        case 5:
          text += fmt::format(
              "  {0}z = f32[] constant(-1e9)\n  {0}m = f32[{2}] reduce({3}, {0}z), "
              "dimensions={{1}}, "
              "to_apply=largest\n  {0}w = {1} broadcast({0}m), dimensions={{0}}\n"
              "  {0} = {1} subtract({3}, {0}w)\n",
              id, array_, size_, a);
          break;
        case 6:
          if (is_thick_) {  // a flipped bit of a half would grow
            text += fmt::format("  {} = {} sine({})\n", id, array_, a);
            break;
          }
          text += fmt::format("  {0}h = bf16[{2},{2}] convert({3})\n  {0} = {1} convert({0}h)\n",
                              id, array_, size_, a);
          break;
        case 7:
          // Of the round, by no more than 1: the last bits of what a loop makes bigger in each
          // round would become the first.
          text += fmt::format(
              "  {0}i = f32[] convert(i)\n  {0}r = f32[] cosine({0}i)\n  {0}b = {1} "
              "broadcast({0}r), dimensions={{}}\n"
              "  {0}s = {1} multiply({0}b, {2})\n  {0} = {1} tanh({0}s)\n",
              id, array_, a);
          break;
        default:
          text += fmt::format("  {} = {} cosine({})\n", id, array_, a);
      }
      values.push_back(id);
    }
    return text;
  }

  // What becomes of weights and momentum by the gradients, all layers at once: `updated`, `moved`.
  std::string optimizer() {
    std::string text = fmt::format(
        "  o_decay = f32[] constant(0.9)\n  o_decays = {0} broadcast(o_decay), dimensions={{}}\n"
        "  o_kept = {0} multiply(momentum, o_decays)\n",
        stack_);
    std::string gradient = "backward_grads";
    if (behind_.chance(0.3)) {
      text += fmt::format("  o_bent = {} tanh({})\n", stack_, gradient);
      gradient = "o_bent";
    }
    if (behind_.chance(0.3)) {  // of what every layer has
      text += fmt::format(
          "  o_bias = {0} broadcast(v), dimensions={{1,2}}\n  o_biased = {0} add({1}, o_bias)\n",
          stack_, gradient);
      gradient = "o_biased";
    }
    if (behind_.chance(0.2)) {  // of all layers together
      text += fmt::format(
          "  o_low = f32[] constant(-1e9)\n  o_all = f32[] reduce({1}, o_low), "
          "dimensions={{0,1,2}}, to_apply=largest\n  o_norm = {0} broadcast(o_all), "
          "dimensions={{}}\n  o_clipped = {0} minimum({1}, o_norm)\n",
          stack_, gradient);
      gradient = "o_clipped";
    }
    std::string rate = "rate";
    if (behind_.chance(0.3)) {
      text += "  o_rate = f32[] tanh(rate)\n";
      rate = "o_rate";
    }
    if (behind_.chance(0.2)) {  // of each layer
      text += fmt::format("  o_rates = {} broadcast(rates), dimensions={{0}}\n", stack_);
    } else {
      text += fmt::format("  o_rates = {} broadcast({}), dimensions={{}}\n", stack_, rate);
    }
    return text + fmt::format(
                      "  moved = {0} add(o_kept, {1})\n  o_step = {0} multiply(moved, o_rates)\n"
                      "  updated = {0} subtract(w, o_step)\n",
                      stack_, gradient);
  }

  // A loop that changes slices of weights and momentum by those of the gradients, in place or,
  // where what is read is not what is replaced, not.
  std::string loop_of_updates() {
    const std::string state = fmt::format("(s32[], {0}, {0}, {0}, {1}, f32[])", stack_, array_);
    updates_ = {behind_.between(-3, 3), behind_.between(1, 2), behind_.chance(0.3)};
    std::string text = updates_.condition(state, "updates_more", rounds_);
    text += fmt::format(
        "updates {{\n  s = {0} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  w = {1} get-tuple-element(s), index=1\n  m = {1} get-tuple-element(s), index=2\n"
        "  grads = {1} get-tuple-element(s), index=3\n  v = {2} get-tuple-element(s), index=4\n"
        "  rate = f32[] get-tuple-element(s), index=5\n",
        state, stack_, array_);
    text += updates_.lines(rounds_);
    text += "  one = s32[] constant(1)\n  beside = s32[] add(at, one)\n";
    const std::string other = behind_.chance(0.3) ? "beside" : "at";
    text += slice_of("grads", "gi") + slice_of("m", "mi") + slice_of("w", "wi");
    text += fmt::format("  rates = {0} broadcast(rate), dimensions={{}}\n", array_);
    if (behind_.chance(0.2)) {  // read at another place than it is written
      text += fmt::format("  turned = {0} transpose(wi), dimensions={{1,0}}\n", array_);
    } else {
      text += fmt::format("  turned = {0} cosine(wi)\n", array_);
    }
    return text + fmt::format(
                      "  mv = {0} multiply(mi, v)\n  mg = {0} add(mv, gi)\n"
                      "  mt = {0} tanh(mg)\n  step = {0} multiply(mt, rates)\n"
                      "  wn = {0} subtract(turned, step)\n  wr = {1} reshape(wn)\n"
                      "  mr = {1} reshape(mt)\n"
                      "  w2 = {2} dynamic-update-slice(w, wr, {3}, zero, zero)\n"
                      "  m2 = {2} dynamic-update-slice(m, mr, at, zero, zero)\n"
                      "  ROOT t = {4} tuple(next, w2, m2, grads, v, rate)\n}}\n",
                      array_, slice_, stack_, other, state);
  }

  std::string call_of_updates() const {
    const std::string state = fmt::format("(s32[], {0}, {0}, {0}, {1}, f32[])", stack_, array_);
    return fmt::format(
        "  u_start = s32[] constant({0})\n"
        "  u_state = {1} tuple(u_start, w, momentum, backward_grads, v, rate)\n"
        "  u_loop = {1} while(u_state), condition=updates_more, body=updates\n"
        "  updated = {2} get-tuple-element(u_loop), index=1\n"
        "  moved = {2} get-tuple-element(u_loop), index=2\n",
        updates_.start, state, stack_);
  }

  std::string slice_of(const std::string& stack, const std::string& name) {
    return fmt::format(
        "  {0}_row = {1} dynamic-slice({2}, at, zero, zero), dynamic_slice_sizes={{1,{3},{3}}}\n"
        "  {0} = {4} reshape({0}_row)\n",
        name, slice_, stack, size_, array_);
  }

  // The two loops' computations; an inner pair's calls stand in their bodies.
  std::string pair_of_loops(const std::string& prefix, const std::string& inner) {
    std::string text;
    if (!has_reducer_) {
      text +=
          "largest {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
          "  ROOT m = f32[] maximum(a, b)\n}\n";
      has_reducer_ = true;
    }
    const int residuals = static_cast<int>(random_.between(1, 4));
    residuals_[prefix.size()] = residuals;
    forward_ = {random_.between(-3, 3), random_.between(1, 2), random_.chance(0.3)};
    backward_ = {random_.between(-3, 3), random_.between(1, 2), random_.chance(0.7)};
    counters_[prefix.size()] = {forward_, backward_};

    const std::string forward = state_of(prefix, true);
    text += forward_.condition(forward, prefix + "forward_more", rounds_);
    text += fmt::format(
        "{}forward {{\n  s = {} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  x = {} get-tuple-element(s), index=1\n  w = {} get-tuple-element(s), index=2\n"
        "  v = {} get-tuple-element(s), index=3\n",
        prefix, forward, array_, stack_, array_);
    text += forward_.lines(rounds_);
    text += slice_of("w", "wi");
    std::vector<std::string> values{"x", "wi", "v"};
    text += operations(values, "a", static_cast<int>(random_.between(1, 5)));
    if (!inner.empty()) {
      text += call(inner, values.back(), "w", "v", "x");
      values.push_back(inner + "forward_y");
      // What only the inner loops pass to each other is theirs; the rest is an operation's result.
      values.push_back(inner + "backward_d");
    }
    text += operations(values, "b", static_cast<int>(random_.between(2, 8)));
    std::string root = "next, y, w, v";
    std::string stacks;
    for (int k = 0; k < residuals; ++k) {
      const std::string value = random_.pick(std::span<const std::string>(values));
      stacks += fmt::format(
          "  r{0} = {1} get-tuple-element(s), index={2}\n  u{0} = {3} reshape({4})\n"
          "  more{0} = {1} dynamic-update-slice(r{0}, u{0}, at, zero, zero)\n",
          k, stack_, 4 + k, slice_, value);
      root += fmt::format(", more{}", k);
    }
    text += fmt::format("  y = {} tanh({})\n", array_, values.back()) + stacks;
    text += fmt::format("  ROOT t = {} tuple({})\n}}\n", forward, root);

    const std::string backward = state_of(prefix, false);
    text += backward_.condition(backward, prefix + "backward_more", rounds_);
    text += fmt::format(
        "{}backward {{\n  s = {} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  d = {} get-tuple-element(s), index=1\n  w = {} get-tuple-element(s), index=2\n"
        "  v = {} get-tuple-element(s), index=3\n  grads = {} get-tuple-element(s), index=4\n",
        prefix, backward, array_, stack_, array_, stack_);
    text += backward_.lines(rounds_);
    text += slice_of("w", "wi");
    values = {"d", "wi", "v"};
    root = "next, down, w, v, more_grads";
    for (int k = 0; k < residuals; ++k) {
      text += fmt::format("  r{} = {} get-tuple-element(s), index={}\n", k, stack_, 5 + k);
      text += slice_of(fmt::format("r{}", k), fmt::format("q{}", k));
      values.push_back(fmt::format("q{}", k));
      root += fmt::format(", r{}", k);
    }
    text += operations(values, "c", static_cast<int>(random_.between(3, 9)));
    std::string sum = values.back();
    for (int k = 0; k < residuals; ++k) {
      text += fmt::format("  sum{0} = {1} add({2}, q{0})\n", k, array_, sum);
      sum = fmt::format("sum{}", k);
    }
    text += fmt::format(
        "  down = {0} tanh({1})\n  grad = {2} reshape({1})\n"
        "  more_grads = {3} dynamic-update-slice(grads, grad, at, zero, zero)\n"
        "  ROOT t = {4} tuple({5})\n}}\n",
        array_, sum, slice_, stack_, backward, root);
    return text;
  }

  // The loops one behind the other, on a carried array, a stack, an array and a gradient.
  std::string call(const std::string& prefix, const std::string& x, const std::string& w,
                   const std::string& v, const std::string& g) {
    const auto& [forward, backward] = counters_[prefix.size()];
    const int residuals = residuals_[prefix.size()];
    const std::string p = prefix;
    std::string text = fmt::format(
        "  {0}i0 = s32[] constant({1})\n  {0}i1 = s32[] constant({2})\n"
        "  {0}nothing = f32[] constant(0)\n  {0}empty = {3} broadcast({0}nothing), "
        "dimensions={{}}\n",
        p, forward.start, backward.start, stack_);
    std::string start = fmt::format("{}i0, {}, {}, {}", p, x, w, v);
    for (int k = 0; k < residuals; ++k) start += fmt::format(", {}empty", p);
    text += fmt::format(
        "  {0}start = {1} tuple({2})\n"
        "  {0}loop = {1} while({0}start), condition={0}forward_more, body={0}forward\n"
        "  {0}forward_y = {3} get-tuple-element({0}loop), index=1\n",
        p, state_of(prefix, true), start, array_);
    start = fmt::format("{}i1, {}, {}, {}, {}empty", p, g, w, v, p);
    for (int k = 0; k < residuals; ++k) {
      text += fmt::format("  {0}r{1} = {2} get-tuple-element({0}loop), index={3}\n", p, k, stack_,
                          4 + k);
      start += fmt::format(", {}r{}", p, k);
    }
    return text + fmt::format(
                      "  {0}back = {1} tuple({2})\n"
                      "  {0}loop2 = {1} while({0}back), condition={0}backward_more, "
                      "body={0}backward\n"
                      "  {0}backward_d = {3} get-tuple-element({0}loop2), index=1\n"
                      "  {0}backward_grads = {4} get-tuple-element({0}loop2), index=4\n",
                      p, state_of(prefix, false), start, array_, stack_);
  }

  Random random_;
  Random behind_;  // of what comes behind the pair of loops
  bool is_thick_ = false;
  std::int64_t size_ = 0, rounds_ = 0;
  std::string array_, stack_, slice_;
  bool has_reducer_ = false;
  // Of the outer pair, and of the inner one, by the length of its prefix.
  std::map<std::size_t, int> residuals_;
  std::map<std::size_t, std::pair<Counter, Counter>> counters_;
  Counter forward_, backward_, updates_;
};

}  // namespace

std::string random_scan(std::uint64_t seed) { return Writer(seed).run(); }

}  // namespace plimsoll::cases
