// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/scanned_attention.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/cases/random.h"

namespace plimsoll::cases {
namespace {

constexpr std::int64_t kBatch = 2;

class AttentionWriter {
 public:
  explicit AttentionWriter(std::uint64_t seed) : random_(seed) {
    layers_ = random_.between(2, 8);
    heads_ = random_.between(2, 3);
    length_ = 16 * random_.between(1, 3);
    depth_ = 1 + 2 * random_.between(1, 3);  // no width is a length
    width_ = heads_ * depth_;
    causal_ = random_.chance(0.5);
    of_keys_ = random_.chance(0.3);
    masks_in_front_ = random_.chance(0.6);
    scaled_ = random_.chance(0.7);
    stacks_powers_ = random_.chance(0.5);
    stacks_result_ = random_.chance(0.7);
    sums_first_ = random_.chance(0.5);
    upwards_ = random_.chance(0.2);
    x_ = fmt::format("f32[{},{},{}]", kBatch, length_, width_);
    w_ = fmt::format("f32[{},{},{}]", layers_, width_, width_);
    heads_first_ = fmt::format("f32[{},{},{},{}]", kBatch, heads_, length_, depth_);
    heads_last_ = fmt::format("f32[{},{},{},{}]", kBatch, length_, heads_, depth_);
    scores_ = fmt::format("f32[{},{},{},{}]", kBatch, heads_, length_, length_);
    seen_ = fmt::format("pred[{},{},{},{}]", kBatch, heads_, length_, length_);
    rows_ = fmt::format("f32[{},{},{}]", kBatch, heads_, length_);
    keys_ = fmt::format("pred[{},{}]", kBatch, length_);
    stack("x", x_);
    for (const char* name : {"q", "k", "v"}) stack(name, heads_first_);
    stack(stacks_powers_ ? "powers" : "p", scores_);
    if (stacks_powers_) stack("l", rows_);
    if (stacks_result_) stack("joined", x_);
    for (const char* name : {"bent", "bent_again"}) stack(name, x_);
  }

  std::string run() {
    return "HloModule scanned_attention\n"
           "largest {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
           "  ROOT m = f32[] maximum(a, b)\n}\n"
           "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
           "  ROOT m = f32[] add(a, b)\n}\n" +
           condition("forward_more", state(true)) + forward() +
           condition("backward_more", state(false)) + backward() + entry();
  }

 private:
  struct Stack {
    std::string name, slice, stacked, row;  // shapes: of the value, the stack, a slice of it
    int rank = 0;
  };

  void stack(const std::string& name, const std::string& shape) {
    const auto with = [&](std::int64_t first) {
      return fmt::format("f32[{},{}", first, shape.substr(4));
    };
    const int rank = 1 + static_cast<int>(std::count(shape.begin(), shape.end(), ','));
    stacks_.push_back({name, shape, with(layers_), with(1), rank});
  }

  bool is_masked() const { return causal_ || of_keys_; }
  bool carries_masks() const { return is_masked() && masks_in_front_; }

  // What both loops are given and leave alone.
  std::vector<std::pair<std::string, std::string>> invariants() const {
    std::vector<std::pair<std::string, std::string>> result = {{"wq", w_}, {"wk", w_}, {"wv", w_}};
    if (carries_masks()) {
      result.insert(result.end(), {{"sees", seen_}, {"lows", scores_}});
    } else if (of_keys_) {
      result.emplace_back("keys", keys_);
    }
    return result;
  }

  std::string state(bool is_forward) const {
    std::string text = "(s32[], " + x_;
    if (!is_forward) text += ", " + w_;
    for (const Stack& stack : stacks_) text += ", " + stack.stacked;
    for (const auto& [name, shape] : invariants()) text += ", " + shape;
    return text + ")";
  }

  std::string condition(const std::string& name, const std::string& shape) const {
    return fmt::format(
        "{} {{\n  s = {} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  n = s32[] constant({})\n  ROOT more = pred[] compare(i, n), direction=LT\n}}\n",
        name, shape, layers_);
  }

  // The elements of the state, and the slice of a round.
  std::string opening(bool is_forward) const {
    std::string text = fmt::format(
        "{} {{\n  s = {} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  {} = {} get-tuple-element(s), index=1\n",
        is_forward ? "forward" : "backward", state(is_forward), is_forward ? "x" : "d", x_);
    int index = 2;
    if (!is_forward) {
      text += fmt::format("  grads = {} get-tuple-element(s), index={}\n", w_, index++);
    }
    for (const Stack& stack : stacks_) {
      text += fmt::format("  {}s = {} get-tuple-element(s), index={}\n", stack.name, stack.stacked,
                          index++);
    }
    for (const auto& [name, shape] : invariants()) {
      text += fmt::format("  {} = {} get-tuple-element(s), index={}\n", name, shape, index++);
    }
    text += "  zero = s32[] constant(0)\n  one = s32[] constant(1)\n  next = s32[] add(i, one)\n";
    const bool counts_down = is_forward == upwards_;
    text += fmt::format("  last = s32[] constant({})\n", layers_ - 1);
    text += counts_down ? "  at = s32[] subtract(last, i)\n" : "  at = s32[] add(i, zero)\n";
    for (const char* name : {"wq", "wk", "wv"}) {
      text += fmt::format(
          "  {0}_row = f32[1,{1},{1}] dynamic-slice({0}, at, zero, zero), "
          "dynamic_slice_sizes={{1,{1},{1}}}\n  {0}_i = f32[{1},{1}] reshape({0}_row)\n",
          name, width_);
    }
    if (is_masked() && !carries_masks()) text += masks();
    return text + scale();
  }

  std::string scale() const {
    return fmt::format("  c = f32[] constant(0.5)\n  cs = {} broadcast(c), dimensions={{}}\n",
                       scores_);
  }

  std::string masks() const {
    std::string text, sees;
    if (causal_) {
      text += fmt::format(
          "  rows = s32[{0},{0}] iota(), iota_dimension=0\n"
          "  columns = s32[{0},{0}] iota(), iota_dimension=1\n"
          "  before = pred[{0},{0}] compare(rows, columns), direction=GE\n"
          "  causal = {1} broadcast(before), dimensions={{2,3}}\n",
          length_, seen_);
      sees = "causal";
    }
    if (of_keys_) {
      text += fmt::format("  spread = {} broadcast(keys), dimensions={{0,3}}\n", seen_);
      sees = causal_ ? "" : "spread";
    }
    text += sees.empty() ? fmt::format("  sees = {} and(causal, spread)\n", seen_)
                         : fmt::format("  sees = {0} and({1}, {1})\n", seen_, sees);
    return text + fmt::format(
                      "  low = f32[] constant(-1e9)\n  lows = {} broadcast(low), dimensions={{}}\n",
                      scores_);
  }

  std::string products(const std::string& name, const std::string& shape, const std::string& a,
                       const std::string& b, int a_dim, int b_dim) const {
    return fmt::format(
        "  {} = {} dot({}, {}), lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,1}}, "
        "lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}\n",
        name, shape, a, b, a_dim, b_dim);
  }

  std::string split(const std::string& name, const std::string& of) const {
    return fmt::format(
        "  {0}_split = {1} reshape({2})\n  {0} = {3} transpose({0}_split), "
        "dimensions={{0,2,1,3}}\n",
        name, heads_last_, of, heads_first_);
  }
  std::string join(const std::string& name, const std::string& of) const {
    return fmt::format(
        "  {0}_heads = {1} transpose({2}), dimensions={{0,2,1,3}}\n  {0} = {3} reshape({0}_heads)"
        "\n",
        name, heads_last_, of, x_);
  }

  std::string forward() const {
    std::string text = opening(true);
    for (const char* name : {"q", "k", "v"}) {
      text += fmt::format(
          "  {0}_flat = {1} dot(x, w{0}_i), lhs_contracting_dims={{2}}, "
          "rhs_contracting_dims={{0}}\n",
          name, x_);
      text += split(name, fmt::format("{}_flat", name));
    }
    text += products("raw", scores_, "q", "k", 3, 3);
    std::string scores = "raw";
    if (scaled_) {
      text += fmt::format("  scaled = {} multiply(raw, cs)\n", scores_);
      scores = "scaled";
    }
    if (is_masked()) {
      text += fmt::format("  masked = {} select(sees, {}, lows)\n", scores_, scores);
      scores = "masked";
    }
    text += fmt::format(
        "  lowest = f32[] constant(-inf)\n  nothing = f32[] constant(0)\n"
        "  top = {0} reduce({1}, lowest), dimensions={{3}}, to_apply=largest\n"
        "  tops = {2} broadcast(top), dimensions={{0,1,2}}\n"
        "  shifted = {2} subtract({1}, tops)\n  powers = {2} exponential(shifted)\n"
        "  l = {0} reduce(powers, nothing), dimensions={{3}}, to_apply=sum\n"
        "  spread_l = {2} broadcast(l), dimensions={{0,1,2}}\n"
        "  p = {2} divide(powers, spread_l)\n",
        rows_, scores, scores_);
    text += products("o", heads_first_, "p", "v", 3, 2) + join("joined", "o");
    text += fmt::format(
        "  mixed = {0} tanh(joined)\n  bent = {0} sine(x)\n  bent_again = {0} tanh(bent)\n"
        "  sum_of_two = {0} add(x, mixed)\n  y = {0} add(sum_of_two, bent_again)\n",
        x_);
    std::string root = "next, y";
    for (const Stack& stack : stacks_) {
      text += fmt::format(
          "  {0}_u = {1} reshape({0})\n  {0}_more = {2} dynamic-update-slice({0}s, "
          "{0}_u, at{3})\n",
          stack.name, stack.row, stack.stacked, zeros(stack.rank));
      root += fmt::format(", {}_more", stack.name);
    }
    for (const auto& [name, shape] : invariants()) root += ", " + name;
    return text + fmt::format("  ROOT t = {} tuple({})\n}}\n", state(true), root);
  }

  static std::string zeros(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += ", zero";
    return text;
  }

  std::string backward() const {
    std::string text = opening(false);
    for (const Stack& stack : stacks_) {
      text += fmt::format(
          "  {0}_row = {1} dynamic-slice({0}s, at{2}), dynamic_slice_sizes={{{3}}}\n"
          "  {0} = {4} reshape({0}_row)\n",
          stack.name, stack.row, zeros(stack.rank), stack.row.substr(4, stack.row.size() - 5),
          stack.slice);
    }
    if (stacks_powers_) {
      text += fmt::format(
          "  spread_l = {0} broadcast(l), dimensions={{0,1,2}}\n"
          "  p = {0} divide(powers, spread_l)\n",
          scores_);
    }
    if (!stacks_result_) {
      text += products("o", heads_first_, "p", "v", 3, 2) + join("joined", "o");
    }
    text += fmt::format(
        "  nothing = f32[] constant(0)\n  unit = f32[] constant(1)\n"
        "  units = {0} broadcast(unit), dimensions={{}}\n  mixed = {0} tanh(joined)\n"
        "  square = {0} multiply(mixed, mixed)\n  slope = {0} subtract(units, square)\n"
        "  do_flat = {0} multiply(d, slope)\n",
        x_);
    text += split("do", "do_flat");
    text += products("dv", heads_first_, "p", "do", 2, 2);
    text += products("dp", scores_, "do", "v", 3, 3);
    if (sums_first_) {
      text += fmt::format(
          "  pdp = {0} multiply(p, dp)\n"
          "  r = {1} reduce(pdp, nothing), dimensions={{3}}, to_apply=sum\n"
          "  rs = {0} broadcast(r), dimensions={{0,1,2}}\n  centred = {0} subtract(dp, rs)\n"
          "  ds = {0} multiply(p, centred)\n",
          scores_, rows_);
    } else {
      text += fmt::format(
          "  pdp = {0} multiply(dp, p)\n"
          "  r = {1} reduce(pdp, nothing), dimensions={{3}}, to_apply=sum\n"
          "  rs = {0} broadcast(r), dimensions={{0,1,2}}\n  prs = {0} multiply(p, rs)\n"
          "  ds = {0} subtract(pdp, prs)\n",
          scores_, rows_);
    }
    std::string slopes = "ds";
    if (is_masked()) {
      text += fmt::format(
          "  nothings = {0} broadcast(nothing), dimensions={{}}\n"
          "  ds_seen = {0} select(sees, ds, nothings)\n",
          scores_);
      slopes = "ds_seen";
    }
    if (scaled_) {
      text += fmt::format("  ds_scaled = {} multiply({}, cs)\n", scores_, slopes);
      slopes = "ds_scaled";
    }
    text += products("dq", heads_first_, slopes, "k", 3, 2);
    text += products("dk", heads_first_, slopes, "q", 2, 2);
    text += fmt::format(
        "  bending = {0} multiply(bent, bent_again)\n  bent_d = {0} multiply(d, bending)\n", x_);
    std::string sum = "bent_d";
    for (const char* name : {"q", "k", "v"}) {
      text += join(fmt::format("d{}_flat", name), fmt::format("d{}", name));
      text += fmt::format(
          "  dx_{0} = {1} dot(d{0}_flat, w{0}_i), lhs_contracting_dims={{2}}, "
          "rhs_contracting_dims={{1}}\n  to_{0} = {1} add({2}, dx_{0})\n",
          name, x_, sum);
      sum = fmt::format("to_{}", name);
    }
    text += fmt::format(
        "  dw = f32[{0},{0}] dot(x, dq_flat), lhs_contracting_dims={{0,1}}, "
        "rhs_contracting_dims={{0,1}}\n  dw_u = f32[1,{0},{0}] reshape(dw)\n"
        "  grads_more = {1} dynamic-update-slice(grads, dw_u, at, zero, zero)\n",
        width_, w_);
    std::string root = fmt::format("next, {}, grads_more", sum);
    for (const Stack& stack : stacks_) root += fmt::format(", {}s", stack.name);
    for (const auto& [name, shape] : invariants()) root += ", " + name;
    return text + fmt::format("  ROOT t = {} tuple({})\n}}\n", state(false), root);
  }

  std::string entry() const {
    std::string text = fmt::format(
        "ENTRY e {{\n  x = {0} parameter(0)\n  wq = {1} parameter(1)\n  wk = {1} parameter(2)\n"
        "  wv = {1} parameter(3)\n  g = {0} parameter(4)\n  keys = {2} parameter(5)\n"
        "  start = s32[] constant(0)\n  empty = f32[] constant(0)\n",
        x_, w_, keys_);
    if (carries_masks()) text += masks();
    std::string first = "start, x", second = "start, g, no_grads";
    text += fmt::format("  no_grads = {} broadcast(empty), dimensions={{}}\n", w_);
    int index = 2;
    std::string elements;
    for (const Stack& stack : stacks_) {
      text += fmt::format("  {}_empty = {} broadcast(empty), dimensions={{}}\n", stack.name,
                          stack.stacked);
      elements += fmt::format("  {}s = {} get-tuple-element(loop), index={}\n", stack.name,
                              stack.stacked, index++);
      first += fmt::format(", {}_empty", stack.name);
      second += fmt::format(", {}s", stack.name);
    }
    for (const auto& [name, shape] : invariants()) {
      first += ", " + name;
      second += ", " + name;
    }
    return text + fmt::format(
                      "  first = {0} tuple({1})\n"
                      "  loop = {0} while(first), condition=forward_more, body=forward\n"
                      "  y = {2} get-tuple-element(loop), index=1\n{3}"
                      "  second = {4} tuple({5})\n"
                      "  loop2 = {4} while(second), condition=backward_more, body=backward\n"
                      "  dx = {2} get-tuple-element(loop2), index=1\n"
                      "  dw = {6} get-tuple-element(loop2), index=2\n"
                      "  ROOT r = ({2}, {2}, {6}) tuple(y, dx, dw)\n}}\n",
                      state(true), first, x_, elements, state(false), second, w_);
  }

  Random random_;
  std::int64_t layers_ = 0, heads_ = 0, length_ = 0, depth_ = 0, width_ = 0;
  bool causal_ = false, of_keys_ = false, masks_in_front_ = false, scaled_ = false;
  bool stacks_powers_ = false, stacks_result_ = false, sums_first_ = false, upwards_ = false;
  std::string x_, w_, heads_first_, heads_last_, scores_, seen_, rows_, keys_;
  std::vector<Stack> stacks_;
};

}  // namespace

std::string scanned_attention(std::uint64_t seed) { return AttentionWriter(seed).run(); }

}  // namespace plimsoll::cases
