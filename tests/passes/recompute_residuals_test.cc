// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/participants.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/loops/residual_pair.h"
#include "runtime/passes/loops/vertex_cut.h"
#include "runtime/passes/passes.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_scan.h"

namespace plimsoll::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

std::unique_ptr<ir::Module> parse_scan(const std::string& text) {
  auto module = ir::parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().to_string() << "\n" << text;
  return std::move(*module);
}

// Of the states of all loops of the entry, together.
std::int64_t state_bytes(const ir::Module& module) {
  std::int64_t bytes = 0;
  for (const auto& instruction : module.entry()->instructions()) {
    if (instruction->opcode() != Opcode::while_) continue;
    for (const ir::Shape* leaf : ir::leaves(instruction->shape())) bytes += leaf->byte_size();
  }
  return bytes;
}

int count_in_bodies(const ir::Module& module, Opcode opcode) {
  int count = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      count += instruction->opcode() == opcode ? 1 : 0;
    }
  }
  return count;
}

// Layers y = tanh(x . w) over stacked w: the backward loop reads w, x and y of each.
std::string layers() {
  return R"(HloModule m
forward_more {
  s = (s32[], f32[4,64], f32[8,64,64], f32[8,4,64], f32[8,4,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8)
  ROOT more = pred[] compare(i, n), direction=LT
}
forward {
  s = (s32[], f32[4,64], f32[8,64,64], f32[8,4,64], f32[8,4,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,64] get-tuple-element(s), index=1
  w = f32[8,64,64] get-tuple-element(s), index=2
  xs = f32[8,4,64] get-tuple-element(s), index=3
  ys = f32[8,4,64] get-tuple-element(s), index=4
  zero = s32[] constant(0)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  row = f32[1,64,64] dynamic-slice(w, i, zero, zero), dynamic_slice_sizes={1,64,64}
  wi = f32[64,64] reshape(row)
  p = f32[4,64] dot(x, wi), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[4,64] tanh(p)
  ux = f32[1,4,64] reshape(x)
  uy = f32[1,4,64] reshape(y)
  xs1 = f32[8,4,64] dynamic-update-slice(xs, ux, i, zero, zero)
  ys1 = f32[8,4,64] dynamic-update-slice(ys, uy, i, zero, zero)
  ROOT t = (s32[], f32[4,64], f32[8,64,64], f32[8,4,64], f32[8,4,64]) tuple(next, y, w, xs1, ys1)
}
backward_more {
  s = (s32[], f32[4,64], f32[8,64,64], f32[8,4,64], f32[8,4,64], f32[8,64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8)
  ROOT more = pred[] compare(i, n), direction=LT
}
backward {
  s = (s32[], f32[4,64], f32[8,64,64], f32[8,4,64], f32[8,4,64], f32[8,64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  d = f32[4,64] get-tuple-element(s), index=1
  w = f32[8,64,64] get-tuple-element(s), index=2
  xs = f32[8,4,64] get-tuple-element(s), index=3
  ys = f32[8,4,64] get-tuple-element(s), index=4
  grads = f32[8,64,64] get-tuple-element(s), index=5
  zero = s32[] constant(0)
  one = s32[] constant(1)
  last = s32[] constant(7)
  next = s32[] add(i, one)
  at = s32[] subtract(last, i)
  wrow = f32[1,64,64] dynamic-slice(w, at, zero, zero), dynamic_slice_sizes={1,64,64}
  wi = f32[64,64] reshape(wrow)
  xrow = f32[1,4,64] dynamic-slice(xs, at, zero, zero), dynamic_slice_sizes={1,4,64}
  x = f32[4,64] reshape(xrow)
  yrow = f32[1,4,64] dynamic-slice(ys, at, zero, zero), dynamic_slice_sizes={1,4,64}
  y = f32[4,64] reshape(yrow)
  y2 = f32[4,64] multiply(y, y)
  dy = f32[4,64] multiply(d, y2)
  dp = f32[4,64] subtract(d, dy)
  dw = f32[64,64] dot(x, dp), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dx = f32[4,64] dot(dp, wi), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  grow = f32[1,64,64] reshape(dw)
  grads1 = f32[8,64,64] dynamic-update-slice(grads, grow, at, zero, zero)
  ROOT t = (s32[], f32[4,64], f32[8,64,64], f32[8,4,64], f32[8,4,64], f32[8,64,64]) tuple(next, dx, w, xs, ys, grads1)
}
ENTRY e {
  x = f32[4,64] parameter(0)
  w = f32[8,64,64] parameter(1)
  i = s32[] constant(0)
  nothing = f32[] constant(0)
  stack = f32[8,4,64] broadcast(nothing), dimensions={}
  zeros = f32[8,64,64] broadcast(nothing), dimensions={}
  start = (s32[], f32[4,64], f32[8,64,64], f32[8,4,64], f32[8,4,64]) tuple(i, x, w, stack, stack)
  loop = (s32[], f32[4,64], f32[8,64,64], f32[8,4,64], f32[8,4,64]) while(start), condition=forward_more, body=forward
  y = f32[4,64] get-tuple-element(loop), index=1
  xs = f32[8,4,64] get-tuple-element(loop), index=3
  ys = f32[8,4,64] get-tuple-element(loop), index=4
  back = (s32[], f32[4,64], f32[8,64,64], f32[8,4,64], f32[8,4,64], f32[8,64,64]) tuple(i, y, w, xs, ys, zeros)
  loop2 = (s32[], f32[4,64], f32[8,64,64], f32[8,4,64], f32[8,4,64], f32[8,64,64]) while(back), condition=backward_more, body=backward
  ROOT g = f32[8,64,64] get-tuple-element(loop2), index=5
})";
}

TEST(RecomputeResiduals, StacksWhatIsCarriedAndComputesTheRestAgain) {
  const auto module = parse_scan(layers());
  const auto arguments = cases::random_arguments(*module, 3);
  const auto expected = ir::interpret(*module, arguments);
  ASSERT_TRUE(expected.ok());
  const int dots = count_in_bodies(*module, Opcode::dot);
  const std::int64_t before = state_bytes(*module);
  const auto changed = recompute_residuals(*module, Residuals::carried);
  ASSERT_TRUE(changed.ok() && *changed);
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
  // ys is in neither state any more, and the backward body has the product once more.
  EXPECT_EQ(state_bytes(*module), before - 2 * 8 * 4 * 64 * 4) << ir::to_text(*module);
  EXPECT_EQ(count_in_bodies(*module, Opcode::dot), dots + 1);
  const auto actual = ir::interpret(*module, arguments);
  ASSERT_TRUE(actual.ok());
  EXPECT_EQ(cases::compare_bits(*expected, *actual), "");
}

// A bitcast that changes the layout transposes: what it shows is not what it is made of.
TEST(RecomputeResiduals, TellsATransposingBitcastFromAView) {
  std::string text = layers();
  const auto replace = [&](const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, from.size(), to);
  };
  replace("  ux = f32[1,4,64] reshape(x)\n  uy = f32[1,4,64] reshape(y)\n",
          "  yt = f32[64,4]{0,1} transpose(y), dimensions={1,0}\n"
          "  uy = f32[1,4,64] bitcast(yt)\n"
          "  e = f32[64,4] tanh(yt)\n"
          "  ux = f32[1,4,64] reshape(e)\n");
  for (const Residuals extent : {Residuals::elementwise, Residuals::carried}) {
    const auto module = parse_scan(text);
    const auto arguments = cases::random_arguments(*module, 3);
    const auto expected = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok());
    const auto changed = recompute_residuals(*module, extent);
    ASSERT_TRUE(changed.ok() && *changed);
    ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
    const auto actual = ir::interpret(*module, arguments);
    ASSERT_TRUE(actual.ok());
    EXPECT_EQ(cases::compare_bits(*expected, *actual), "");
  }
}

TEST(RecomputeResiduals, RepeatsProductsOnlyWhereTheyAreMeant) {
  for (const Residuals extent : {Residuals::stacked, Residuals::cheaper, Residuals::elementwise}) {
    const auto module = parse_scan(layers());
    const auto changed = recompute_residuals(*module, extent);
    ASSERT_TRUE(changed.ok());
    // Without the product x and y are needed, or x and the product: no fewer bytes.
    EXPECT_FALSE(*changed) << to_string(extent);
  }
  const auto module = parse_scan(layers());
  const auto changed = recompute_residuals(*module, Residuals::products);
  EXPECT_TRUE(changed.ok() && *changed);
}

int count_loops(const ir::Module& module) {
  int count = 0;
  for (const auto& instruction : module.entry()->instructions()) {
    count += instruction->opcode() == Opcode::while_ ? 1 : 0;
  }
  return count;
}

// What stands before a loop, and behind it, does so still: participants meet in that order. Names
// of what is copied change, what members know it by does not.
TEST(RecomputeResiduals, LoopsKeepTheirPlacesAmongMeetings) {
  for (const int percent : {100, 50}) {
    std::string text = layers();
    const auto replace = [&](const std::string& from, const std::string& to) {
      const auto at = text.find(from);
      ASSERT_NE(at, std::string::npos) << from;
      text.replace(at, from.size(), to);
    };
    replace("HloModule m\n",
            "HloModule m, num_partitions=2\n"
            "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n");
    replace("  dw = f32[64,64] dot(x, dp), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n",
            "  part = f32[64,64] dot(x, dp), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
            "  dw = f32[64,64] all-reduce(part), channel_id=1, replica_groups={{0,1}}, "
            "use_global_device_ids=true, to_apply=sum\n");
    replace("  ROOT g = f32[8,64,64] get-tuple-element(loop2), index=5\n",
            "  g = f32[8,64,64] get-tuple-element(loop2), index=5\n"
            "  ROOT total = f32[8,64,64] all-reduce(g), channel_id=2, replica_groups={{0,1}}, "
            "use_global_device_ids=true, to_apply=sum\n");
    replace("  x = f32[4,64] parameter(0)\n  w = f32[8,64,64] parameter(1)\n",
            "  own = f32[4,64] parameter(0)\n  w = f32[8,64,64] parameter(1)\n"
            "  x = f32[4,64] all-reduce(own), channel_id=3, replica_groups={{0,1}}, "
            "use_global_device_ids=true, to_apply=sum\n");
    const auto module = parse_scan(text);
    const auto arguments = cases::random_arguments(*module, 3);
    const std::vector<std::vector<ir::Literal>> all(2, arguments);
    const auto expected = ir::interpret_together(*module, all);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    const auto ordered = order_collectives(*module);
    ASSERT_TRUE(ordered.ok() && *ordered);
    const std::int64_t before = state_bytes(*module);
    const auto changed = recompute_residuals(*module, Residuals::carried, {}, percent);
    ASSERT_TRUE(changed.ok() && *changed);
    ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
    if (percent == 100) EXPECT_EQ(state_bytes(*module), before - 2 * 8 * 4 * 64 * 4);
    // Of the loops that meet, halves follow each other by what they read.
    int behind_x = 0, before_total = 0;
    const Instruction* const x = module->entry()->find("x");
    const auto& last = module->entry()->find("total")->control_predecessors();
    for (const auto& loop : module->entry()->instructions()) {
      if (loop->opcode() != Opcode::while_) continue;
      const auto& first = loop->control_predecessors();
      behind_x += std::find(first.begin(), first.end(), x) != first.end();
      before_total += std::find(last.begin(), last.end(), loop.get()) != last.end();
      for (const auto& instruction : loop->while_body()->instructions()) {
        if (instruction->opcode() != Opcode::all_reduce) continue;
        EXPECT_NE(instruction->name(), "dw");
        EXPECT_EQ(ir::meeting_of(*instruction), "dw");
      }
    }
    EXPECT_EQ(behind_x, 1) << ir::to_text(*module);
    EXPECT_EQ(before_total, 1) << ir::to_text(*module);
    const auto actual = ir::interpret_together(*module, all);
    ASSERT_TRUE(actual.ok()) << actual.status().to_string();
    for (std::size_t p = 0; p < 2; ++p) {
      EXPECT_EQ(cases::compare_bits((*expected)[p], (*actual)[p]), "");
    }
  }
}

// Each half of the rounds is a loop with stacks of its own: x of all eight, y of the later ones.
TEST(RecomputeResiduals, InSomeOfTheRounds) {
  for (const int percent : {25, 50, 75}) {
    const auto module = parse_scan(layers());
    const auto arguments = cases::random_arguments(*module, 3);
    const auto expected = ir::interpret(*module, arguments);
    const auto changed = recompute_residuals(*module, Residuals::carried, {}, percent);
    ASSERT_TRUE(changed.ok() && *changed);
    ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
    EXPECT_EQ(count_loops(*module), 4);
    const int rounds = 8 * percent / 100;
    std::vector<std::int64_t> stacked;  // arrays of x or y, by loop
    for (const auto& instruction : module->entry()->instructions()) {
      if (instruction->opcode() != Opcode::while_) continue;
      stacked.push_back(0);
      for (const ir::Shape* leaf : ir::leaves(instruction->shape())) {
        if (leaf->rank() == 3 && leaf->dim(1) == 4) stacked.back() += leaf->dim(0);
      }
    }
    EXPECT_EQ(stacked,
              (std::vector<std::int64_t>{rounds, 2 * (8 - rounds), 2 * (8 - rounds), rounds}));
    const auto actual = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok() && actual.ok());
    EXPECT_EQ(cases::compare_bits(*expected, *actual), "");
  }
}

// Whose rounds nobody can count, or which are read in the order in which they were written, stay
// one loop, in all of whose rounds is recomputed.
TEST(RecomputeResiduals, InAllRoundsOfLoopsThatStayWhole) {
  std::string text = layers();
  const std::string at = "  at = s32[] subtract(last, i)\n";
  text.replace(text.find(at), at.size(), "  at = s32[] add(i, zero)\n");
  const auto module = parse_scan(text);
  const auto arguments = cases::random_arguments(*module, 3);
  const auto expected = ir::interpret(*module, arguments);
  const auto changed = recompute_residuals(*module, Residuals::carried, {}, 50);
  ASSERT_TRUE(changed.ok() && *changed);
  EXPECT_EQ(count_loops(*module), 2);
  const auto actual = ir::interpret(*module, arguments);
  ASSERT_TRUE(expected.ok() && actual.ok());
  EXPECT_EQ(cases::compare_bits(*expected, *actual), "");
}

// The same with so many layers.
std::string layers(int count) {
  std::string text = layers();
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  };
  const std::string rounds = std::to_string(count);
  replace("f32[8,", "f32[" + rounds + ",");
  replace("constant(8)", "constant(" + rounds + ")");
  replace("constant(7)", "constant(" + std::to_string(count - 1) + ")");
  return text;
}

// Slices of x in the stacks of all loops of a computation.
std::vector<std::int64_t> stacked_slices(const ir::Computation& computation) {
  std::vector<std::int64_t> stacked;
  for (const auto& instruction : computation.instructions()) {
    if (instruction->opcode() != Opcode::while_) continue;
    stacked.push_back(0);
    for (const ir::Shape* leaf : ir::leaves(instruction->shape())) {
      if (leaf->rank() == 3 && leaf->dim(1) == 4) stacked.back() += leaf->dim(0);
    }
  }
  return stacked;
}

// What is carried is stacked once a segment; its rounds run again before the backward ones. Rounds
// that are left over are a pair of loops as they were.
TEST(RecomputeResiduals, BySegments) {
  struct Case {
    int rounds;
    std::vector<std::int64_t> loops, inside;  // slices that are stacked
  };
  for (const Case& example : {Case{8, {8, 8}, {}},  // where it would save little
                              Case{12, {4, 4}, {4, 4}}, Case{16, {5, 5}, {4, 4}},
                              Case{17, {5, 1, 1, 5}, {4, 4}}, Case{30, {6, 6}, {6, 6}}}) {
    SCOPED_TRACE(example.rounds);
    const auto module = parse_scan(layers(example.rounds));
    const auto arguments = cases::random_arguments(*module, 3);
    const auto expected = ir::interpret(*module, arguments);
    const auto changed = recompute_residuals(*module, Residuals::segments);
    ASSERT_TRUE(changed.ok() && *changed);
    ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
    EXPECT_EQ(stacked_slices(*module->entry()), example.loops);
    std::vector<std::int64_t> inside;
    for (const auto& computation : module->computations()) {
      if (computation.get() == module->entry()) continue;
      for (const std::int64_t slices : stacked_slices(*computation)) inside.push_back(slices);
    }
    EXPECT_EQ(inside, example.inside);
    const auto actual = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok() && actual.ok());
    EXPECT_EQ(cases::compare_bits(*expected, *actual), "");
  }
}

TEST(RecomputeResiduals, LeavesWhatOthersReadToo) {
  std::string text = layers();
  // The stack is a result as well.
  const std::string root = "  ROOT g = f32[8,64,64] get-tuple-element(loop2), index=5\n";
  text.replace(text.find(root), root.size(),
               "  g = f32[8,64,64] get-tuple-element(loop2), index=5\n"
               "  ROOT r = (f32[8,64,64], f32[8,4,64]) tuple(g, ys)\n");
  const auto module = parse_scan(text);
  const auto changed = recompute_residuals(*module, Residuals::carried);
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
}

TEST(RecomputeResiduals, KeepsTheBitsOfRandomScans) {
  int smaller = 0, more_with_products = 0, split = 0, by_segments = 0;
  constexpr int kPrograms = 200;
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    const auto module = parse_scan(cases::random_scan(seed));
    ASSERT_NE(module, nullptr);
    const auto arguments = cases::random_arguments(*module, seed);
    const auto expected = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    for (const int percent : {20, 50, 80}) {
      const auto other = module->clone();
      OptimizeOptions options;
      options.fusion = Fusion::none;
      options.residuals = percent == 50 ? Residuals::products : Residuals::carried;
      options.recomputed_percent = percent;
      ASSERT_TRUE(optimize(*other, options).ok());
      ASSERT_TRUE(ir::verify(*other).ok()) << ir::to_text(*other);
      const auto actual = ir::interpret(*other, arguments);
      ASSERT_TRUE(actual.ok()) << actual.status().to_string();
      EXPECT_EQ(cases::compare_bits(*expected, *actual), "") << "seed " << seed;
      if (count_loops(*other) > 2) ++split;
    }
    std::int64_t least = state_bytes(*module);
    for (const Residuals extent : {Residuals::cheaper, Residuals::elementwise, Residuals::products,
                                   Residuals::carried, Residuals::segments}) {
      const auto other = module->clone();
      OptimizeOptions options;
      options.fusion = Fusion::none;
      options.residuals = extent;
      const Status status = optimize(*other, options);
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_TRUE(ir::verify(*other).ok()) << ir::to_text(*other);
      const auto actual = ir::interpret(*other, arguments);
      ASSERT_TRUE(actual.ok()) << actual.status().to_string();
      EXPECT_EQ(cases::compare_bits(*expected, *actual), "") << "seed " << seed;
      const std::int64_t bytes = state_bytes(*other);
      if (extent == Residuals::segments) {
        for (const auto& computation : other->computations()) {
          if (computation->name().starts_with("segment")) ++by_segments;
        }
      } else if (bytes < least) {
        ++(extent == Residuals::carried ? more_with_products : smaller);
      }
      least = std::min(least, bytes);
    }
  }
  EXPECT_GT(smaller, kPrograms / 2);
  EXPECT_GT(more_with_products, kPrograms / 10);
  EXPECT_GT(split, kPrograms / 5);
  EXPECT_GT(by_segments, kPrograms / 40);
}

TEST(VertexCut, TakesTheCheapestAndTheNearestToTheSinks) {
  VertexCut cut;
  const int a = cut.add(5), b = cut.add(3), c = cut.add(3), d = cut.add(9);
  cut.mark_source(a);
  cut.connect(a, b);
  cut.connect(b, c);
  cut.connect(c, d);
  cut.mark_sink(d);
  EXPECT_EQ(cut.solve(), (std::vector<bool>{false, false, true, false}));
}

TEST(VertexCut, CutsAVertexThatIsBothAndFindsNothingWhereNoneMayBeCut) {
  VertexCut both;
  const int a = both.add(7);
  both.mark_source(a);
  both.mark_sink(a);
  EXPECT_EQ(both.solve(), std::vector<bool>{true});
  VertexCut none;
  const int b = none.add(VertexCut::kNever);
  none.mark_source(b);
  none.mark_sink(b);
  EXPECT_TRUE(none.solve().empty());
}

// Every cut of small random graphs, against the one that is found.
TEST(VertexCut, IsNoDearerThanAnyOther) {
  std::uint64_t state = 88172645463325252ULL;
  const auto below = [&](std::uint64_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % n;
  };
  for (int round = 0; round < 300; ++round) {
    const int n = 2 + static_cast<int>(below(7));
    std::vector<std::int64_t> cost;
    std::vector<std::pair<int, int>> arcs;
    std::vector<bool> source, sink;
    VertexCut cut;
    for (int v = 0; v < n; ++v) {
      cost.push_back(static_cast<std::int64_t>(below(6)));
      cut.add(cost.back());
      source.push_back(below(3) == 0);
      sink.push_back(below(3) == 0);
      if (source.back()) cut.mark_source(v);
      if (sink.back()) cut.mark_sink(v);
    }
    for (int from = 0; from < n; ++from) {
      for (int to = from + 1; to < n; ++to) {
        if (below(3) != 0) continue;
        arcs.emplace_back(from, to);
        cut.connect(from, to);
      }
    }
    const auto parts = [&](const std::vector<bool>& is_cut) {
      std::vector<bool> reached(static_cast<std::size_t>(n));
      for (int v = 0; v < n; ++v) {
        const auto i = static_cast<std::size_t>(v);
        bool any = source[i];
        for (const auto& [from, to] : arcs) any = any || (to == v && reached[at(from)]);
        reached[i] = any && !is_cut[i];
        if (reached[i] && sink[i]) return false;
      }
      return true;
    };
    const auto price = [&](const std::vector<bool>& is_cut) {
      std::int64_t sum = 0;
      for (std::size_t v = 0; v < is_cut.size(); ++v) sum += is_cut[v] ? cost[v] : 0;
      return sum;
    };
    const std::vector<bool> found = cut.solve();
    ASSERT_EQ(found.size(), static_cast<std::size_t>(n));
    EXPECT_TRUE(parts(found));
    for (int set = 0; set < 1 << n; ++set) {
      std::vector<bool> other;
      for (int v = 0; v < n; ++v) other.push_back((set >> v & 1) != 0);
      if (parts(other)) {
        EXPECT_LE(price(found), price(other));
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::passes
