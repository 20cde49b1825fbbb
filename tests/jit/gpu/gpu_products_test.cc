// SPDX-License-Identifier: Apache-2.0
// Dots and convolutions on a GPU, in each of their forms: where sums are exact, and the order they
// are added in.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "runtime/base/index.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "tests/cases/compare.h"
#include "tests/jit/gpu/gpu_check.h"
#include "tests/jit/gpu/grid_emulator.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

using Dims = std::vector<std::int64_t>;

// Small whole numbers, so that every sum is exact and its order no matter.
std::vector<ir::Literal> whole_numbers(const ir::Module& module) {
  std::vector<ir::Literal> arguments = arguments_for(*module.entry(), 5);
  std::mt19937 random(7);
  for (ir::Literal& argument : arguments) {
    for (std::int64_t i = 0; i < argument.shape().element_count(); ++i) {
      argument.set(i, static_cast<double>(static_cast<int>(random() % 7) - 3));
    }
  }
  return arguments;
}

std::string check_exact(const std::string& text, GpuCheck& totals) {
  const auto module = parse(text);
  if (module == nullptr) return "no module";
  const ir::Instruction& root = *module->entry()->root();
  const auto arguments = whole_numbers(*module);
  // The library's kernel where there is one, which is faster than the interpreter.
  std::vector<ir::Literal> expected;
  if (const auto kernel = kernels::make_kernel(root); kernel.ok()) {
    auto results = run_on_cpu(**kernel, root, arguments);
    if (!results.ok()) return results.status().to_string();
    expected = *std::move(results);
  } else {
    auto result = ir::interpret(*module, arguments);
    if (!result.ok()) return result.status().to_string();
    expected.push_back(*std::move(result));
  }
  return check_on_gpu(root, arguments, totals, [&](const std::vector<ir::Literal>& results) {
    return cases::compare_bits(expected[0], results[0]);
  });
}

std::string array(const std::string& dtype, const std::string& dims) {
  return dtype + "[" + dims + "]";
}
std::string operation(const std::string& dtype, const std::string& lhs, const std::string& rhs,
                      const std::string& result_dtype, const std::string& out,
                      const std::string& what, const std::string& rest) {
  return "ENTRY e { a = " + array(dtype, lhs) + " parameter(0)\n b = " + array(dtype, rhs) +
         " parameter(1)\n ROOT r = " + array(result_dtype, out) + " " + what + "(a, b), " + rest +
         " }";
}
std::string dot(const std::string& dtype, const std::string& lhs, const std::string& rhs,
                const std::string& out, const std::string& numbers) {
  const bool is_half = dtype == "bf16" || dtype == "f16";
  return operation(dtype, lhs, rhs,
                   is_half         ? "f32"
                   : dtype == "s8" ? "s32"
                                   : dtype,
                   out, "dot", numbers);
}
constexpr const char* kRows = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
constexpr const char* kColumns = "lhs_contracting_dims={1}, rhs_contracting_dims={1}";
constexpr const char* kTurned = "lhs_contracting_dims={0}, rhs_contracting_dims={0}";
constexpr const char* kBothTurned = "lhs_contracting_dims={0}, rhs_contracting_dims={1}";

// Edges of tiles, contracted positions cut into parts, operands that lie the other way, vectors.
TEST(GpuDot, IsExactWhereSumsAre) {
  GpuCheck totals;
  for (const auto& [lhs, rhs, numbers, out] : {
           std::tuple{"65,33", "33,70", kRows, "65,70"},
           {"17,5", "130,17", kBothTurned, "5,130"},
           {"64,96", "96,64", kRows, "64,64"},
           {"96,72", "96,48", kTurned, "72,48"},
           {"40,200", "56,200", kColumns, "40,56"},
           {"2,3,40,16", "2,3,50,16",
            "lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, "
            "rhs_contracting_dims={3}",
            "2,3,40,50"},
           {"6,2100", "2100,7", kRows, "6,7"},
           {"8,2112", "2112,16", kRows, "8,16"},
           {"4,700,3", "3,5,700", "lhs_contracting_dims={1,2}, rhs_contracting_dims={2,0}", "4,5"},
           {"9", "9", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", ""},
           {"3,0", "0,4", kRows, "3,4"},
           {"8,0", "0,9", kRows, "8,9"},
           {"70,333", "333", kRows, "70"},
           {"1,4096", "4096,130", kRows, "1,130"},
           {"4096,3", "4096,264", kTurned, "3,264"},
           {"260,640", "2,640", kColumns, "260,2"},
           {"5,9,40", "5,40,1",
            "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
            "rhs_contracting_dims={1}",
            "5,9,1"},
           {"9,40,64", "2,40,64",
            "lhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_batch_dims={2}, "
            "rhs_contracting_dims={1}",
            "64,9,2"},
       }) {
    for (const char* dtype : {"f32", "bf16"}) {
      SCOPED_TRACE(fmt::format("{} {} {}", dtype, lhs, rhs));
      EXPECT_EQ(check_exact(dot(dtype, lhs, rhs, out, numbers), totals), "");
    }
  }
  EXPECT_GT(totals.newer, 5);
}

TEST(GpuDot, IsExactOfEveryDtype) {
  GpuCheck totals;
  for (const char* dtype : {"f16", "s32", "s8", "s64", "f64"}) {
    for (const auto& [lhs, rhs, numbers, out] : {std::tuple{"40,50", "50,36", kRows, "40,36"},
                                                 {"48,40", "48,64", kTurned, "40,64"},
                                                 {"33,64", "1,64", kColumns, "33,1"},
                                                 {"2,300", "300,48", kRows, "2,48"}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", dtype, lhs, rhs));
      EXPECT_EQ(check_exact(dot(dtype, lhs, rhs, out, numbers), totals), "");
    }
  }
}

// Results of 16 bits, and of a narrower dtype than sums have.
TEST(GpuDot, RoundsSumsOnceToTheResult) {
  GpuCheck totals;
  for (const char* dtype : {"bf16", "f16", "s8"}) {
    for (const char* n : {"24", "3"}) {
      EXPECT_EQ(check_exact(operation(dtype, "20,40", fmt::format("40,{}", n), dtype,
                                      fmt::format("20,{}", n), "dot", kRows),
                            totals),
                "")
          << dtype << " " << n;
    }
  }
}

// So many tiles that the largest are taken.
TEST(GpuDot, IsExactInEveryTile) {
  GpuCheck totals;
  for (const auto& [dtype, m, n] : {std::tuple{"f32", 700, 1900},
                                    {"f32", 1100, 1000},
                                    {"bf16", 1801, 1992},
                                    {"bf16", 701, 999}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", dtype, m, n));
    EXPECT_EQ(check_exact(dot(dtype, fmt::format("{},40", m), fmt::format("40,{}", n),
                              fmt::format("{},{}", m, n), kRows),
                          totals),
              "");
  }
}

std::string list(const Dims& dims) {
  std::string text;
  for (const std::int64_t d : dims) text += (text.empty() ? "" : ",") + std::to_string(d);
  return text;
}

// Random dims in random order.
TEST(GpuDot, IsExactOfRandomDims) {
  constexpr int kCases = 40;
  GpuCheck totals;
  for (int seed = 0; seed < kCases; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto pick = [&](std::initializer_list<std::int64_t> of) {
      return *(of.begin() + random() % of.size());
    };
    const auto extents = [&](std::size_t most) {
      Dims dims(random() % (most + 1));
      for (auto& d : dims) d = pick({1, 2, 3, 5, 8, 16, 20});
      return dims;
    };
    const Dims batch = extents(2), m = extents(2), n = extents(2), k = extents(2);
    // A free or shared dim of each number, in an order of its own.
    struct Operand {
      Dims dims, batch, contracting;
    };
    const auto operand = [&](const Dims& free) {
      std::vector<std::size_t> order(batch.size() + free.size() + k.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      Operand result;
      result.batch.resize(batch.size());
      result.contracting.resize(k.size());
      std::vector<std::int64_t> frees;
      for (std::size_t at = 0; at < order.size(); ++at) {
        const std::size_t which = order[at];
        const auto place = static_cast<std::int64_t>(at);
        if (which < batch.size()) {
          result.batch[which] = place;
          result.dims.push_back(batch[which]);
        } else if (which < batch.size() + k.size()) {
          result.contracting[which - batch.size()] = place;
          result.dims.push_back(k[which - batch.size()]);
        } else {
          result.dims.push_back(free[frees.size()]);
          frees.push_back(place);
        }
      }
      return result;
    };
    const Operand lhs = operand(m), rhs = operand(n);
    Dims out = batch;
    out.insert(out.end(), m.begin(), m.end());
    out.insert(out.end(), n.begin(), n.end());
    const std::string numbers = fmt::format(
        "lhs_batch_dims={{{}}}, lhs_contracting_dims={{{}}}, rhs_batch_dims={{{}}}, "
        "rhs_contracting_dims={{{}}}",
        list(lhs.batch), list(lhs.contracting), list(rhs.batch), list(rhs.contracting));
    for (const char* dtype : {"f32", "bf16"}) {
      const std::string text = dot(dtype, list(lhs.dims), list(rhs.dims), list(out), numbers);
      EXPECT_EQ(check_exact(text, totals), "") << text;
    }
  }
}

// The positions one after the other, each product and sum rounded once together, whatever the tile.
TEST(GpuDot, AddsPositionsInTheirOrder) {
  GpuCheck totals;
  constexpr std::int64_t kDepth = 75;
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{7, 9},
                             {40, 24},
                             {130, 40},
                             {300, 500},
                             {900, 1000},
                             {1810, 2001}}) {
    SCOPED_TRACE(fmt::format("{} {}", m, n));
    const auto module =
        parse(dot("f32", fmt::format("{},{}", m, kDepth), fmt::format("{},{}", kDepth, n),
                  fmt::format("{},{}", m, n), kRows));
    ASSERT_NE(module, nullptr);
    const auto arguments = arguments_for(*module->entry(), 5);
    const auto* a = reinterpret_cast<const float*>(arguments[0].bytes().data());
    const auto* b = reinterpret_cast<const float*>(arguments[1].bytes().data());
    std::vector<float> sums(at(m * n), 0.0F);
    for (std::int64_t k = 0; k < kDepth; ++k) {
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          float& sum = sums[at(i * n + j)];
          sum = std::fma(a[i * kDepth + k], b[k * n + j], sum);
        }
      }
    }
    const ir::Literal expected =
        ir::Literal::from_bytes(module->entry()->root()->shape(), std::as_bytes(std::span(sums)));
    EXPECT_EQ(check_on_gpu(*module->entry()->root(), arguments, totals,
                           [&](const std::vector<ir::Literal>& results) {
                             return cases::compare_bits(expected, results[0]);
                           }),
              "");
  }
}

TEST(GpuConvolution, IsExactWhereSumsAre) {
  GpuCheck totals;
  for (const auto& [lhs, rhs, rest, out] : {
           std::tuple{"2,9,11,5", "3,3,5,7",
                      "window={size=3x3 stride=2x1 pad=1_1x0_2}, dim_labels=b01f_01io->b01f",
                      "2,5,11,7"},
           {"2,5,9,11", "7,5,3,3",
            "window={size=3x3 pad=1_1x1_1 rhs_dilate=1x2}, dim_labels=bf01_oi01->bf01", "2,7,9,9"},
           {"2,4,6,3", "3,3,3,8",
            "window={size=3x3 pad=2_1x2_1 lhs_dilate=2x2 rhs_reversal=1x1}, "
            "dim_labels=b01f_01io->b01f",
            "2,8,12,8"},
           {"2,7,9,16", "3,3,16,24", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
            "2,7,9,24"},
           {"2,8,8,32", "1,1,32,40", "window={size=1x1 stride=2x2}, dim_labels=b01f_01io->b01f",
            "2,4,4,40"},
           {"1,8,8,6", "3,3,1,6",
            "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=6",
            "1,8,8,6"},
           {"6,5,5,2", "3,3,2,4",
            "window={size=3x3}, dim_labels=b01f_01io->b01f, batch_group_count=2", "3,3,3,4"},
           {"3,20,8", "5,8,2", "window={size=5 pad=2_2}, dim_labels=b0f_0io->b0f", "3,20,2"},
           {"40,3", "3,9", "dim_labels=bf_io->bf", "40,9"},
       }) {
    for (const char* dtype : {"f32", "bf16"}) {
      SCOPED_TRACE(fmt::format("{} {}", dtype, rest));
      EXPECT_EQ(check_exact(operation(dtype, lhs, rhs, "f32", out, "convolution", rest), totals),
                "");
    }
  }
}

// Random windows, in both orders of dims.
TEST(GpuConvolution, IsExactOfRandomWindows) {
  constexpr int kCases = 30;
  GpuCheck totals;
  for (int seed = 0; seed < kCases; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto pick = [&](std::initializer_list<std::int64_t> of) {
      return *(of.begin() + random() % of.size());
    };
    const std::int64_t rows = pick({1, 2, 3}), groups = pick({1, 1, 1, 2});
    const std::int64_t inputs = pick({1, 3, 4, 8, 16}), outputs = pick({1, 2, 5, 8, 24}) * groups;
    Dims in, taps, result;
    std::string sizes, strides, pads, base, dilations, reversals;
    for (int d = 0; d < 2; ++d) {
      const std::int64_t extent = pick({4, 7, 8, 11}), size = pick({1, 2, 3});
      const std::int64_t stride = pick({1, 1, 2}), low = pick({0, 1, 2}), high = pick({0, 1});
      const std::int64_t expand = pick({1, 1, 2}), dilation = pick({1, 1, 2});
      const std::int64_t whole = (extent - 1) * expand + 1 + low + high;
      in.push_back(extent);
      taps.push_back(size);
      result.push_back((whole - ((size - 1) * dilation + 1)) / stride + 1);
      const std::string cross = d == 0 ? "" : "x";
      sizes += cross + std::to_string(size);
      strides += cross + std::to_string(stride);
      pads += cross + fmt::format("{}_{}", low, high);
      base += cross + std::to_string(expand);
      dilations += cross + std::to_string(dilation);
      reversals += cross + std::to_string(pick({0, 1}));
    }
    std::string text = fmt::format(
        "window={{size={} stride={} pad={} lhs_dilate={} rhs_dilate={} rhs_reversal={}}}, ", sizes,
        strides, pads, base, dilations, reversals);
    const bool channels_last = random() % 2 == 0;
    text += channels_last ? "dim_labels=b01f_01io->b01f" : "dim_labels=bf01_oi01->bf01";
    text += fmt::format(", feature_group_count={}", groups);
    const auto dims = [&](std::int64_t first, const Dims& spatial, std::int64_t features) {
      return list(channels_last ? Dims{first, spatial[0], spatial[1], features}
                                : Dims{first, features, spatial[0], spatial[1]});
    };
    const std::string weights = list(channels_last ? Dims{taps[0], taps[1], inputs, outputs}
                                                   : Dims{outputs, inputs, taps[0], taps[1]});
    for (const char* dtype : {"f32", "bf16"}) {
      const std::string all = operation(dtype, dims(rows, in, inputs * groups), weights, "f32",
                                        dims(rows, result, outputs), "convolution", text);
      EXPECT_EQ(check_exact(all, totals), "") << all;
    }
  }
}

}  // namespace
}  // namespace plimsoll::jit::testing
