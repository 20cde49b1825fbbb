// SPDX-License-Identifier: Apache-2.0
// Sorts as a GPU's kernels: the CPU's bits, and with them the order of equal elements.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jit/gpu/gpu_code.h"
#include "kernels/kernels.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/jit/gpu/gpu_check.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

struct Comparator {
  const char* name;
  std::vector<std::string> dtypes;  // of the operands
  const char* body;                 // of a0, b0, a1, b1, ...
};

// The last operand numbers the elements, so that which of the equal ones came first shows.
const std::vector<Comparator>& comparators() {
  static const std::vector<Comparator> all = {
      {"total", {"f32", "s32"}, "ROOT r = pred[] compare(a0, b0), direction=LT, type=TOTALORDER"},
      {"natural", {"f32", "s32"}, "ROOT r = pred[] compare(a0, b0), direction=LT"},
      {"natural.bf16", {"bf16", "s32"}, "ROOT r = pred[] compare(b0, a0), direction=LE"},
      {"bytes", {"u8", "s32"}, "ROOT r = pred[] compare(a0, b0), direction=GT"},
      {"greater-or-equal", {"s8", "s32"}, "ROOT r = pred[] compare(a0, b0), direction=GE"},
      {"truths", {"pred", "s32"}, "ROOT r = pred[] compare(a0, b0), direction=LT"},
      {"second", {"s64", "u16", "s32"}, "ROOT r = pred[] compare(b1, a1), direction=GT"},
      {"computed",
       {"s32", "s32"},
       "k = s32[] constant(7)\n  a = s32[] remainder(a0, k)\n  b = s32[] remainder(b0, k)\n  ROOT "
       "r = pred[] compare(a, b), direction=LT"},
      {"several",
       {"s8", "f32", "s32"},
       "x = pred[] compare(a0, b0), direction=LT\n  e = pred[] compare(a0, b0), direction=EQ\n  y "
       "= pred[] compare(a1, b1), direction=GT, type=TOTALORDER\n  n = pred[] and(e, y)\n  ROOT r "
       "= pred[] or(x, n)"},
      {"no-order", {"s8", "s32"}, "ROOT r = pred[] compare(a0, b0), direction=NE"},
      {"no-order.sum",
       {"s8", "u8", "s32"},
       "k = u8[] constant(3)\n  s = u8[] add(a1, b1)\n  t = u8[] and(s, k)\n  ROOT r = pred[] "
       "compare(t, k), direction=EQ"},
  };
  return all;
}

std::string text_of(const Comparator& c, const std::string& dims, int along) {
  std::string head = "order {\n", entry = "ENTRY e {\n", names, types;
  for (std::size_t i = 0; i < c.dtypes.size(); ++i) {
    const std::string n = std::to_string(i), type = c.dtypes[i] + "[" + dims + "]";
    for (const char* which : {"a", "b"}) {
      head += "  " + std::string(which) + n + " = " + c.dtypes[i] + "[] parameter(" +
              std::to_string(2 * i + (*which == 'b' ? 1 : 0)) + ")\n";
    }
    entry += "  p" + n + " = " + type + " parameter(" + n + ")\n";
    names += (i == 0 ? "p" : ", p") + n;
    types += (i == 0 ? "" : ", ") + type;
  }
  return head + "  " + c.body + "\n}\n" + entry + "  ROOT r = (" + types + ") sort(" + names +
         "), dimensions={" + std::to_string(along) + "}, to_apply=order\n}\n";
}

std::string check_sort(const Comparator& c, const std::string& dims, int along, GpuCheck& totals) {
  const auto module = parse(text_of(c, dims, along));
  if (module == nullptr) return "no module";
  cases::InputRange range;
  range.specials = true;
  auto arguments =
      cases::random_arguments(*module, 3, std::vector<cases::InputRange>(c.dtypes.size(), range));
  ir::Literal& numbers = arguments.back();
  for (std::int64_t i = 0; i < numbers.shape().element_count(); ++i) {
    numbers.set(i, static_cast<double>(i));
  }
  const ir::Instruction& root = *module->entry()->root();
  const auto kernel = kernels::make_kernel(root);
  if (!kernel.ok()) return "on the CPU: " + kernel.status().to_string();
  const auto expected = run_on_cpu(**kernel, root, arguments);
  if (!expected.ok()) return "on the CPU: " + expected.status().to_string();
  return check_on_gpu(root, arguments, totals, [&](const std::vector<ir::Literal>& results) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string message = cases::compare_bits((*expected)[i], results[i]);
      if (!message.empty()) return "result " + std::to_string(i) + ": " + message;
    }
    return std::string();
  });
}

class GpuSort : public ::testing::TestWithParam<std::size_t> {};

// Lines that share a block, that fill one, and that several blocks sort; next to each other in
// memory or not.
TEST_P(GpuSort, PutsElementsWhereTheCpuDoes) {
  const Comparator& c = comparators()[GetParam()];
  GpuCheck totals;
  for (const auto& [dims, along] : {std::pair{"1", 0},
                                    {"2", 0},
                                    {"0,3", 0},
                                    {"5,0", 1},
                                    {"7,13", 1},
                                    {"13,7", 0},
                                    {"70,1", 1},
                                    {"3,100,2", 1},
                                    {"1000", 0},
                                    {"1024,2", 0},
                                    {"2,1025", 1},
                                    {"3000", 0},
                                    {"4100,2", 0}}) {
    EXPECT_EQ(check_sort(c, dims, along, totals), "") << c.name << " of " << dims;
  }
  EXPECT_EQ(totals.kernels, 13);
}

INSTANTIATE_TEST_SUITE_P(Comparators, GpuSort, ::testing::Range(std::size_t{0}, std::size_t{11}),
                         [](const auto& info) {
                           std::string name = comparators()[info.param].name;
                           for (char& letter : name) {
                             if (letter == '.' || letter == '-') letter = '_';
                           }
                           return name;
                         });

// A comparator that is an order is shared out: no thread merges more than its own entries.
TEST(GpuSorts, ShareOutMergesOfOrders) {
  const auto entries = [](const Comparator& c) {
    const auto module = parse(text_of(c, "5000", 0));
    const auto code = write_gpu_code(*module->entry()->root());
    EXPECT_TRUE(code.ok()) << code.status().to_string();
    return code->launches.size();
  };
  // Sorted by blocks, then 1,024, 2,048 and 4,096 wide; two launches more look for NaNs.
  EXPECT_EQ(entries(comparators()[0]), 4u);
  EXPECT_EQ(entries(comparators()[1]), 6u);
}

TEST(GpuSorts, RefuseComparatorsOfMoreThanScalars) {
  const auto module = parse(
      "f { x = s32[] parameter(0)\n ROOT y = s32[] negate(x) }\n"
      "order { a = s32[] parameter(0)\n b = s32[] parameter(1)\n c = s32[] call(a), to_apply=f\n "
      "ROOT r = pred[] compare(c, b), direction=LT }\n"
      "ENTRY e { p = s32[9] parameter(0)\n ROOT r = s32[9] sort(p), dimensions={0}, "
      "to_apply=order }");
  ASSERT_NE(module, nullptr);
  const auto refused = write_gpu_code(*module->entry()->root());
  EXPECT_EQ(refused.status().code(), StatusCode::unimplemented);
  EXPECT_NE(refused.status().message().find("'order'"), std::string::npos)
      << refused.status().message();
}

}  // namespace
}  // namespace plimsoll::jit::testing
