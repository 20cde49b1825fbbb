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
  explicit Writer(std::uint64_t seed) : random_(seed) {
    size_ = random_.between(3, 24);
    if (seed % 5 == 4) size_ = 32;  // products read such slices of a stack where they lie
    rounds_ = random_.between(2, 7);
    if (rounds_ >= 6) rounds_ += random_.between(0, 13);
    array_ = fmt::format("f32[{0},{0}]", size_);
    stack_ = fmt::format("f32[{1},{0},{0}]", size_, rounds_);
    slice_ = fmt::format("f32[1,{0},{0}]", size_);
  }

  std::string run() {
    std::string text = "HloModule scan\n";
    const bool nested = random_.chance(0.3);
    if (nested) text += pair_of_loops("inner_", "");
    text += pair_of_loops("", nested ? "inner_" : "");
    text += fmt::format(
        "ENTRY e {{\n  x = {0} parameter(0)\n  w = {1} parameter(1)\n  v = {0} parameter(2)\n"
        "  g = {0} parameter(3)\n",
        array_, stack_);
    text += call("", "x", "w", "v", "g");
    return text +
           fmt::format(
               "  ROOT r = ({0}, {0}, {1}) tuple(forward_y, backward_d, backward_grads)\n}}\n",
               array_, stack_);
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
              "rhs_contracting_dims={{0}}\n  {0} = {1} tanh({0}p)\n",
              id, array_, a, b);
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
          text += fmt::format("  {0}h = bf16[{2},{2}] convert({3})\n  {0} = {1} convert({0}h)\n",
                              id, array_, size_, a);
          break;
        case 7:
          // Of the round.
          text += fmt::format(
              "  {0}r = f32[] convert(i)\n  {0}b = {1} broadcast({0}r), dimensions={{}}\n"
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
  std::int64_t size_ = 0, rounds_ = 0;
  std::string array_, stack_, slice_;
  bool has_reducer_ = false;
  // Of the outer pair, and of the inner one, by the length of its prefix.
  std::map<std::size_t, int> residuals_;
  std::map<std::size_t, std::pair<Counter, Counter>> counters_;
  Counter forward_, backward_;
};

}  // namespace

std::string random_scan(std::uint64_t seed) { return Writer(seed).run(); }

}  // namespace plimsoll::cases
