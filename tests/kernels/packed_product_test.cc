// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/packed_product.h"
#include "kernels/cpu/products/prepared_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/tile_registers.h"
#include "runtime/ir/text/text.h"
#include "tests/kernels/kernel_harness.h"
#include "tests/kernels/product_operands.h"

namespace plimsoll::kernels {
namespace {

template <typename Out, typename T>
std::vector<Out> product_of(const PackedProduct<T>& product, const ProductOperand<T>& lhs,
                            const ProductOperand<T>& rhs, std::int64_t m, std::int64_t n,
                            const ProductLoops<T>& loops = product_loops<T>()) {
  return result_of<T, Out>(product, m, n, [&](const ProductResult<T>& out, std::byte* workspace) {
    product.run(MatrixRows<T>(lhs.numbers.data(), lhs.strides, loops), rhs.numbers.data(),
                rhs.strides, out, workspace);
  });
}

struct ProductSizes {
  std::int64_t m, n, k;
};

// Few rows, which are packed as a whole, and more; every size of a last panel, tile and block.
constexpr ProductSizes kProductSizes[] = {
    {1, 1, 1},      {3, 33, 17},    {12, 32, 16},    {61, 130, 401}, {5, 1100, 50},
    {49, 300, 770}, {250, 70, 401}, {301, 1050, 20}, {20, 70, 1200}, {260, 65, 2100}};

template <typename Types>
class PackedProducts : public ProductTest<Types> {};
TYPED_TEST_SUITE(PackedProducts, AllProductTypes);

TYPED_TEST(PackedProducts, SumExactlyWhateverLiesTogetherOnEveryInstructionSet) {
  using T = typename TypeParam::T;
  using Out = typename TypeParam::Out;
  for (const ProductLoops<T>* const loops : TypeParam::all_loops()) {
    for (const auto& [m, n, k] : kProductSizes) {
      const PackedProduct<T> product(m, n, k, *loops);
      for (const bool lhs_rows : {true, false}) {
        for (const bool rhs_rows : {true, false}) {
          const ProductOperand<T> lhs(m, k, lhs_rows, true, 1), rhs(k, n, rhs_rows, true, 2);
          const std::vector<Out> out = product_of<Out>(product, lhs, rhs, m, n, *loops);
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
          EXPECT_EQ(wrong, 0) << m << " " << n << " " << k << " " << lhs_rows << rhs_rows << " of "
                              << loops->columns << " columns";
        }
      }
    }
  }
}

TYPED_TEST(PackedProducts, WorkInASmallShareOfWhatTheyMultiply) {
  using T = typename TypeParam::T;
  for (const auto& [m, n, k] : {ProductSizes{256, 1024, 1024},
                                {128, 3072, 768},
                                {100, 4096, 4096},
                                {96, 1024, 1400},
                                {240, 64, 4096},
                                {4096, 4096, 4096},
                                {2048, 256, 1024},
                                {250, 400, 50000},
                                {64, 64, 64},
                                {20, 30, 100},
                                {100000, 64, 64}}) {
    for (const ProductLoops<T>* const loops : TypeParam::all_loops()) {
      const std::int64_t bytes = std::int64_t{sizeof(T)} * (m * k + k * n + m * n);
      const std::int64_t share = sizeof(T) < sizeof(ProductSum<T>) ? 4 : 8;
      const std::int64_t most = std::max<std::int64_t>(
          {bytes / share, std::min<std::int64_t>(bytes / 2, 768 << 10), 64 << 10});
      EXPECT_LE(PackedProduct<T>(m, n, k, *loops).workspace_bytes(), most)
          << m << " " << n << " " << k;
      EXPECT_LE(PreparedProduct<T>(m, n, k, *loops).workspace_bytes(), most)
          << m << " " << n << " " << k;
    }
  }
}

TYPED_TEST(PackedProducts, HaveTheSameBitsOnAnyNumberOfThreads) {
  using T = typename TypeParam::T;
  using Out = typename TypeParam::Out;
  for (const auto& [m, n, k] :
       {ProductSizes{130, 1100, 401}, {500, 70, 130}, {13, 2500, 90}, {300, 70, 2100}}) {
    const PackedProduct<T> product(m, n, k);
    for (const bool by_rows : {true, false}) {
      const ProductOperand<T> lhs(m, k, by_rows, false, 3), rhs(k, n, by_rows, false, 4);
      device::set_thread_count(1);
      const std::vector<Out> alone = product_of<Out>(product, lhs, rhs, m, n);
      for (const int threads : {2, 3, 7}) {
        device::set_thread_count(threads);
        EXPECT_TRUE(same_bits(product_of<Out>(product, lhs, rhs, m, n), alone))
            << threads << " threads";
      }
    }
  }
}

// An element's bits follow from its row, its column and the depth: not from what else is computed,
// nor from how operands lie.
TYPED_TEST(PackedProducts, HaveElementsThatDoNotDependOnTheirNeighbours) {
  using T = typename TypeParam::T;
  using Out = typename TypeParam::Out;
  for (const std::int64_t depth : {500, 1201}) {
    const ProductOperand<T> lhs(260, depth, true, false, 5), rhs(depth, 150, true, false, 6);
    ProductOperand<T> turned(depth, 150, false, false, 6);
    for (std::int64_t d = 0; d < depth; ++d) {
      for (std::int64_t j = 0; j < 150; ++j) {
        turned.numbers[static_cast<std::size_t>(j * depth + d)] =
            rhs.numbers[static_cast<std::size_t>(d * 150 + j)];
      }
    }
    const auto whole = product_of<Out>(PackedProduct<T>(260, 150, depth), lhs, rhs, 260, 150);
    EXPECT_TRUE(same_bits(product_of<Out>(PackedProduct<T>(260, 150, depth), lhs, turned, 260, 150),
                          whole));
    const auto part = product_of<Out>(PackedProduct<T>(7, 45, depth), lhs, rhs, 7, 45);
    // The first 45 columns of the right operand, whose rows are 150 apart.
    for (std::size_t i = 0; i < 7; ++i) {
      EXPECT_EQ(std::memcmp(&part[i * 45], &whole[i * 150], 45 * sizeof(Out)), 0) << i;
    }
  }
}

// The result by a right operand that was prepared before.
template <typename Out, typename T>
std::vector<Out> prepared_product_of(const ProductOperand<T>& lhs, const ProductOperand<T>& rhs,
                                     const ProductSizes& sizes, const ProductLoops<T>& loops) {
  const auto [m, n, k] = sizes;
  const PreparedProduct<T> product(m, n, k, loops);
  std::vector<T> prepared(static_cast<std::size_t>(product.prepared_bytes()) / sizeof(T));
  EXPECT_EQ(std::int64_t(prepared.size()), n * packed_depth<T>(k));
  product.prepare(rhs.numbers.data(), rhs.strides, prepared.data());
  return result_of<T, Out>(product, m, n, [&](const ProductResult<T>& out, std::byte* workspace) {
    product.run(MatrixRows<T>(lhs.numbers.data(), lhs.strides, loops), prepared.data(), out,
                workspace);
  });
}

// Few rows and many; columns that leave a panel nearly empty, half full or full.
constexpr ProductSizes kPreparedSizes[] = {{1, 32, 1},       {3, 33, 17},     {12, 64, 16},
                                           {61, 130, 401},   {5, 1100, 50},   {49, 303, 770},
                                           {250, 70, 401},   {301, 1050, 20}, {700, 48, 385},
                                           {260, 420, 1000}, {20, 300, 2100}, {260, 300, 2101}};

TYPED_TEST(PackedProducts, HaveTheSameBitsByAPreparedOperand) {
  using T = typename TypeParam::T;
  using Out = typename TypeParam::Out;
  for (const ProductLoops<T>* const loops : TypeParam::all_loops()) {
    for (const ProductSizes& sizes : kPreparedSizes) {
      const auto [m, n, k] = sizes;
      for (const bool by_rows : {true, false}) {
        const ProductOperand<T> lhs(m, k, by_rows, false, 7), rhs(k, n, by_rows, false, 8);
        const std::vector<Out> packed =
            product_of<Out>(PackedProduct<T>(m, n, k, *loops), lhs, rhs, m, n, *loops);
        for (const int threads : {1, 3}) {
          device::set_thread_count(threads);
          EXPECT_TRUE(same_bits(prepared_product_of<Out>(lhs, rhs, sizes, *loops), packed))
              << m << " " << n << " " << k << " of " << loops->columns << " columns";
        }
      }
    }
  }
}

// What tiles of bf16 add to a sum: of 16 pairs the first numbers and the second ones, each in
// order, then both.
float sum_by_tiles(const ProductOperand<Bfloat16>& lhs, const ProductOperand<Bfloat16>& rhs,
                   std::int64_t i, std::int64_t j, std::int64_t k) {
  float sum = 0;
  for (std::int64_t d = 0; d < k; d += 32) {
    float parts[2] = {};
    for (std::int64_t s = d; s < std::min(k, d + 32); ++s) {
      parts[s % 2] = std::fma(lhs.at(i, s), rhs.at(s, j), parts[s % 2]);
    }
    sum += parts[0] + parts[1];
  }
  return sum;
}

TEST(TiledProducts, AddInTheOrderThatIsTold) {
  const auto* const loops = product_loops<Bfloat16>(ProductInstructions::amx);
  if (loops == nullptr) GTEST_SKIP() << "this machine has no tiles of bf16, or may not use them";
  for (const auto& [m, n, k] : kProductSizes) {
    const ProductOperand<Bfloat16> lhs(m, k, true, false, 9), rhs(k, n, false, false, 10);
    const auto out =
        product_of<float>(PackedProduct<Bfloat16>(m, n, k, *loops), lhs, rhs, m, n, *loops);
    for (std::int64_t i = 0; i < m; i += 7) {
      for (std::int64_t j = 0; j < n; j += 5) {
        ASSERT_EQ(out[static_cast<std::size_t>(i * n + j)], sum_by_tiles(lhs, rhs, i, j, k))
            << m << " " << n << " " << k << " at " << i << " " << j;
      }
    }
  }
}

// What AVX512_BF16 adds up of a block of the depth: of every pair the second product, and then the
// first one.
float sum_by_pairs(const ProductOperand<Bfloat16>& lhs, const ProductOperand<Bfloat16>& rhs,
                   std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t block) {
  float sum = 0;
  for (std::int64_t k0 = 0; k0 < k; k0 += block) {
    float part = 0;
    for (std::int64_t d = k0; d < std::min(k, k0 + block); d += 2) {
      if (d + 1 < k) part = std::fma(lhs.at(i, d + 1), rhs.at(d + 1, j), part);
      part = std::fma(lhs.at(i, d), rhs.at(d, j), part);
    }
    sum += part;
  }
  return sum;
}

// As on machines without tiles, or where the system keeps them from the process.
TEST(PackedProductsOfPairs, AddInTheOrderOfTheInstructionWithoutTiles) {
  const auto* const loops = product_loops<Bfloat16>(ProductInstructions::avx512);
  if (loops == nullptr) GTEST_SKIP() << "this machine has no AVX512_BF16";
  EXPECT_FALSE(loops->uses_tiles);
  for (const auto& [m, n, k] : kProductSizes) {
    const ProductOperand<Bfloat16> lhs(m, k, true, false, 9), rhs(k, n, false, false, 10);
    const auto out =
        product_of<float>(PackedProduct<Bfloat16>(m, n, k, *loops), lhs, rhs, m, n, *loops);
    const std::int64_t block = PackedProduct<Bfloat16>::block_depth(k, *loops);
    for (std::int64_t i = 0; i < m; i += 7) {
      for (std::int64_t j = 0; j < n; j += 5) {
        ASSERT_EQ(out[static_cast<std::size_t>(i * n + j)], sum_by_pairs(lhs, rhs, i, j, k, block))
            << m << " " << n << " " << k << " at " << i << " " << j;
      }
    }
  }
}

#if defined(__x86_64__)
// XGETBV of 1 has a bit for each state that is not as at the start: 18 is the tiles' data.
bool are_tiles_in_use() {
  std::uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return (low >> 18 & 1) != 0;
}

TEST(TiledProducts, LeaveNoTilesInTheCallersThread) {
  const auto* const loops = product_loops<Bfloat16>(ProductInstructions::amx);
  if (loops == nullptr) GTEST_SKIP() << "this machine has no tiles of bf16, or may not use them";
  const int before = device::thread_count();
  device::set_thread_count(1);
  const ProductOperand<Bfloat16> lhs(300, 64, true, true, 1), rhs(64, 96, true, true, 2);
  for (const std::int64_t m : {20, 300}) {
    product_of<float>(PackedProduct<Bfloat16>(m, 96, 64, *loops), lhs, rhs, m, 96, *loops);
    EXPECT_FALSE(are_tiles_in_use());
    prepared_product_of<float>(lhs, rhs, {m, 96, 64}, *loops);
    EXPECT_FALSE(are_tiles_in_use());
  }
  device::set_thread_count(before);
}
#endif

// A dot of $ with results of #.
std::string large_dot(const char* lhs, const char* rhs, const char* out, const char* dims) {
  return std::string("ENTRY e {\n a = $") + lhs + " parameter(0)\n b = $" + rhs +
         " parameter(1)\n ROOT c = #" + out + " dot(a, b), " + dims + " }";
}

std::string of_dtypes(std::string text, std::string_view operands, std::string_view result) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$') text.replace(i, 1, operands);
    if (text[i] == '#') text.replace(i, 1, result);
  }
  return text;
}

// The kernel that a program gets: a batch, operands by columns, and one that is copied first.
TEST(PackedDots, LargeOnesArePacked) {
  const std::string programs[] = {
      large_dot("[330,1000]", "[1000,410]", "[330,410]",
                "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
      large_dot("[1000,330]", "[410,1000]", "[330,410]",
                "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
      large_dot("[2,330,1000]", "[2,1000,410]", "[2,330,410]",
                "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
                "rhs_contracting_dims={1}"),
      large_dot("[20,330,50]", "[20,50,410]", "[330,410]",
                "lhs_contracting_dims={0,2}, rhs_contracting_dims={0,1}")};
  const std::pair<const char*, const char*> dtypes[] = {
      {"f32", "f32"}, {"f64", "f64"}, {"s32", "s32"},   {"u32", "u32"},
      {"s64", "s64"}, {"u64", "u64"}, {"bf16", "bf16"}, {"bf16", "f32"}};
  for (const auto& [of, to] : dtypes) {
    for (const std::string& program : programs) {
      const std::string text = of_dtypes(program, of, to);
      auto module = ir::parse_module(text);
      ASSERT_TRUE(module.ok()) << module.status().to_string();
      const ir::Instruction& dot = *(*module)->entry()->root();
      const ir::Shape& a = dot.operand(0)->shape();
      const ir::Shape& b = dot.operand(1)->shape();
      std::string kernel;
      const std::vector<ir::Literal> operands = {small_integers(a, 1), small_integers(b, 2)};
      const auto got = run_instruction(dot, operands, &kernel);
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      const bool is_packed = std::string_view(of) != "bf16" ||
                             product_loops<Bfloat16>(ProductInstructions::avx512) != nullptr;
      EXPECT_EQ(kernel == "dot.packed", is_packed) << text << kernel;
      // Of some elements, by the definition.
      const std::int64_t batches = a.rank() == 3 && a.dim(0) == 2 ? 2 : 1;
      ir::Literal expected(ir::Shape(dot.shape().dtype(), {}));
      for (std::int64_t batch = 0; batch < batches; ++batch) {
        for (std::int64_t i = 0; i < 330; i += 23) {
          for (std::int64_t j = 0; j < 410; j += 29) {
            double sum = 0;
            for (std::int64_t d = 0; d < 1000; ++d) {
              const std::int64_t at_left = a.dim(0) == 1000 ? d * 330 + i
                                           : a.dim(0) == 20 ? (d / 50 * 330 + i) * 50 + d % 50
                                                            : (batch * 330 + i) * 1000 + d;
              const std::int64_t at_right =
                  b.dim(0) == 410 ? j * 1000 + d : (batch * 1000 + d) * 410 + j;
              sum += operands[0].at(at_left) * operands[1].at(at_right);
            }
            expected.set(0, sum);
            ASSERT_EQ(got->at((batch * 330 + i) * 410 + j), expected.at(0)) << text << i << j;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::kernels
