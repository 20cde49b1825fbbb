// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/few_rows_product.h"

#include <string>
#include <utility>
#include <vector>

#include "runtime/ir/text/text.h"
#include "tests/kernels/kernel_harness.h"
#include "tests/kernels/product_operands.h"

namespace plimsoll::kernels {
namespace {

template <typename Types>
class FewRowsProducts : public ProductTest<Types> {};
TYPED_TEST_SUITE(FewRowsProducts, FewRowsProductTypes);

template <typename Out, typename T>
std::vector<Out> few_rows_product_of(const ProductOperand<T>& lhs, const ProductOperand<T>& rhs,
                                     std::int64_t m, std::int64_t n, std::int64_t k,
                                     const ProductLoops<T>& loops) {
  const FewRowsProduct<T> product(m, n, k, loops);
  return result_of<T, Out>(product, m, n, [&](const ProductResult<T>& out, std::byte* workspace) {
    product.run(lhs.numbers.data(), lhs.strides, rhs.numbers.data(), rhs.strides, out, workspace);
  });
}

struct FewRowsSizes {
  std::int64_t m, n, k;
};

// Columns that are no panel's and more than one task's, depths that are no whole steps.
constexpr FewRowsSizes kFewRowsSizes[] = {{1, 4, 1},     {1, 600, 64}, {3, 33, 17},
                                          {4, 1100, 50}, {5, 70, 401}, {8, 512, 100},
                                          {12, 1300, 9}, {12, 95, 8},  {7, 66, 2100}};

TYPED_TEST(FewRowsProducts, SumExactlyOnEveryInstructionSet) {
  using T = typename TypeParam::T;
  using Out = typename TypeParam::Out;
  for (const ProductLoops<T>* const loops : TypeParam::all_loops()) {
    for (const auto& [m, n, k] : kFewRowsSizes) {
      if (m > loops->rows || loops->add_steps == nullptr) continue;
      for (const auto& [lhs_rows, rhs_rows] :
           {std::pair(true, true), {false, true}, {true, false}, {false, false}}) {
        const ProductOperand<T> lhs(m, k, lhs_rows, true, 1), rhs(k, n, rhs_rows, true, 2);
        const std::vector<Out> out = few_rows_product_of<Out>(lhs, rhs, m, n, k, *loops);
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            ProductSum<T> sum = 0;
            for (std::int64_t d = 0; d < k; ++d) sum += lhs.at(i, d) * rhs.at(d, j);
            const Out rounded = static_cast<Out>(sum);
            wrong += std::memcmp(&out[static_cast<std::size_t>(i * n + j)], &rounded,
                                 sizeof rounded) != 0;
          }
        }
        EXPECT_EQ(wrong, 0) << m << " " << n << " " << k << " " << rhs_rows << " of "
                            << loops->columns << " columns";
      }
    }
  }
}

// Nor on what else is computed.
TYPED_TEST(FewRowsProducts, HaveBitsThatDoNotDependOnThreads) {
  using T = typename TypeParam::T;
  using Out = typename TypeParam::Out;
  const std::int64_t m = few_rows_loops<T>().rows, n = 2100, k = 1333;
  for (const bool rhs_rows : {true, false}) {
    const ProductOperand<T> lhs(m, k, true, false, 3), rhs(k, n, rhs_rows, false, 4);
    device::set_thread_count(1);
    const auto alone = few_rows_product_of<Out>(lhs, rhs, m, n, k, few_rows_loops<T>());
    for (const int threads : {2, 3, 7}) {
      device::set_thread_count(threads);
      EXPECT_TRUE(
          same_bits(few_rows_product_of<Out>(lhs, rhs, m, n, k, few_rows_loops<T>()), alone))
          << threads << " threads";
    }
    const auto one = few_rows_product_of<Out>(lhs, rhs, 1, n, k, few_rows_loops<T>());
    EXPECT_EQ(std::memcmp(one.data(), alone.data(), one.size() * sizeof(Out)), 0) << rhs_rows;
  }
}

// The kernel that a program gets.
TEST(FewRowsDots, ReadALargeMatrixAsItLies) {
  const std::pair<std::string, std::string> dtypes[] = {{"f32", "f32"},   {"f64", "f64"},
                                                        {"s32", "s32"},   {"u64", "u64"},
                                                        {"bf16", "bf16"}, {"bf16", "f32"}};
  for (const auto& [of, to] : dtypes) {
    for (const bool by_rows : {true, false}) {
      const std::string text =
          "ENTRY e {\n a = " + of + "[7,2048] parameter(0)\n b = " + of +
          (by_rows ? "[2048,2051]" : "[2051,2048]") + " parameter(1)\n ROOT c = " + to +
          "[7,2051] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={" +
          (by_rows ? "0" : "1") + "} }";
      auto module = ir::parse_module(text);
      ASSERT_TRUE(module.ok()) << module.status().to_string();
      const ir::Instruction& dot = *(*module)->entry()->root();
      const std::vector<ir::Literal> operands = {small_integers(dot.operand(0)->shape(), 1),
                                                 small_integers(dot.operand(1)->shape(), 2)};
      std::string kernel;
      const auto got = run_instruction(dot, operands, &kernel);
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      // Elsewhere panels are narrower than seven rows.
      const bool is_few =
          of == "bf16" ? product_loops<Bfloat16>(ProductInstructions::avx512) != nullptr
                       : product_loops<std::uint64_t>(ProductInstructions::avx512) != nullptr;
      EXPECT_EQ(kernel == "dot.few_rows", is_few) << text << kernel;
      ir::Literal expected(ir::Shape(dot.shape().dtype(), {}));
      for (std::int64_t i = 0; i < 7; ++i) {
        for (std::int64_t j = 0; j < 2051; j += 41) {
          double sum = 0;
          for (std::int64_t d = 0; d < 2048; ++d) {
            sum += operands[0].at(i * 2048 + d) *
                   operands[1].at(by_rows ? d * 2051 + j : j * 2048 + d);
          }
          expected.set(0, sum);
          ASSERT_EQ(got->at(i * 2051 + j), expected.at(0)) << text << i << " " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::kernels
