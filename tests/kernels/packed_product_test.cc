// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/packed_product.h"
#include "kernels/cpu/products/prepared_product.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/ir/text/text.h"
#include "tests/kernels/kernel_harness.h"

namespace plimsoll::kernels {
namespace {

// A matrix of small whole numbers or of any floats, by rows or by columns.
struct ProductOperand {
  ProductOperand(std::int64_t rows, std::int64_t columns, bool by_rows, bool whole, unsigned seed)
      : strides(by_rows ? MatrixStrides{columns, 1} : MatrixStrides{1, rows}) {
    std::mt19937 random(seed);
    numbers.resize(static_cast<std::size_t>(rows * columns));
    for (float& x : numbers) {
      const int drawn = static_cast<int>(random() % 4096u);
      x = whole ? static_cast<float>(drawn % 7 - 3) : static_cast<float>(drawn - 2000) / 1999.0f;
    }
  }
  float at(std::int64_t i, std::int64_t j) const {
    return numbers[static_cast<std::size_t>(i * strides.row + j * strides.column)];
  }

  MatrixStrides strides;
  std::vector<float> numbers;
};

// What `run` writes given rows of `out`, their stride and a workspace, between columns that must
// stay as they are.
template <typename Product, typename Run>
std::vector<float> result_of(const Product& product, std::int64_t m, std::int64_t n,
                             const Run& run) {
  const std::int64_t stride = n + 3;
  std::vector<float> out(static_cast<std::size_t>(m * stride), 1e30f);
  std::vector<std::byte> memory(static_cast<std::size_t>(product.workspace_bytes()) + 64);
  std::byte* workspace = memory.data();
  workspace += 63 - (reinterpret_cast<std::uintptr_t>(workspace) + 63) % 64;
  std::memset(workspace, 0xff, static_cast<std::size_t>(product.workspace_bytes()));  // NaNs
  run(out.data(), stride, workspace);
  std::vector<float> dense;
  for (std::int64_t i = 0; i < m; ++i) {
    const float* const row = out.data() + i * stride;
    dense.insert(dense.end(), row, row + n);
    for (std::int64_t j = n; j < stride; ++j) EXPECT_EQ(row[j], 1e30f) << i << " " << j;
  }
  return dense;
}

std::vector<float> product_of(const PackedProduct& product, const ProductOperand& lhs,
                              const ProductOperand& rhs, std::int64_t m, std::int64_t n,
                              const ProductLoops& loops = product_loops()) {
  return result_of(product, m, n, [&](float* out, std::int64_t stride, std::byte* workspace) {
    product.run(MatrixRows(lhs.numbers.data(), lhs.strides, loops), rhs.numbers.data(), rhs.strides,
                out, stride, workspace);
  });
}

struct ProductSizes {
  std::int64_t m, n, k;
};

// Few rows, which are packed as a whole, and more; every size of a last panel, tile and block.
constexpr ProductSizes kProductSizes[] = {{1, 1, 1},      {3, 33, 17},    {12, 32, 16},
                                          {61, 130, 401}, {5, 1100, 50},  {49, 300, 770},
                                          {250, 70, 401}, {301, 1050, 20}};

constexpr ProductInstructions kProductInstructions[] = {
    ProductInstructions::baseline, ProductInstructions::avx2, ProductInstructions::avx512};

TEST(PackedProduct, SumsExactlyWhateverLiesTogetherOnEveryInstructionSet) {
  for (const ProductInstructions instructions : kProductInstructions) {
    const ProductLoops* const loops = product_loops(instructions);
    if (loops == nullptr) continue;  // this machine lacks them
    for (const auto& [m, n, k] : kProductSizes) {
      const PackedProduct product(m, n, k, *loops);
      for (const bool lhs_rows : {true, false}) {
        for (const bool rhs_rows : {true, false}) {
          const ProductOperand lhs(m, k, lhs_rows, true, 1), rhs(k, n, rhs_rows, true, 2);
          const std::vector<float> out = product_of(product, lhs, rhs, m, n, *loops);
          std::int64_t wrong = 0;
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              float sum = 0;
              for (std::int64_t d = 0; d < k; ++d) sum += lhs.at(i, d) * rhs.at(d, j);
              wrong += out[static_cast<std::size_t>(i * n + j)] != sum;
            }
          }
          EXPECT_EQ(wrong, 0) << m << " " << n << " " << k << " " << lhs_rows << rhs_rows << " of "
                              << loops->columns << " columns";
        }
      }
    }
  }
}

TEST(PackedProduct, WorksInASmallShareOfWhatItMultiplies) {
  for (const auto& [m, n, k] : {ProductSizes{256, 1024, 1024},
                                {128, 3072, 768},
                                {100, 4096, 4096},
                                {96, 1024, 1400},
                                {4096, 4096, 4096},
                                {2048, 256, 1024}}) {
    for (const ProductInstructions instructions : kProductInstructions) {
      const ProductLoops* const loops = product_loops(instructions);
      if (loops == nullptr) continue;
      const std::int64_t bytes = 4 * (m * k + k * n + m * n);
      EXPECT_LE(PackedProduct(m, n, k, *loops).workspace_bytes(),
                std::max<std::int64_t>(bytes / 8, 768 << 10))
          << m << " " << n << " " << k;
    }
  }
}

TEST(PackedProduct, HasTheSameBitsOnAnyNumberOfThreads) {
  const int before = device::thread_count();
  for (const auto& [m, n, k] : {ProductSizes{130, 1100, 401}, {500, 70, 130}, {13, 2500, 90}}) {
    const PackedProduct product(m, n, k);
    for (const bool by_rows : {true, false}) {
      const ProductOperand lhs(m, k, by_rows, false, 3), rhs(k, n, by_rows, false, 4);
      device::set_thread_count(1);
      const std::vector<float> alone = product_of(product, lhs, rhs, m, n);
      for (const int threads : {2, 3, 7}) {
        device::set_thread_count(threads);
        EXPECT_EQ(product_of(product, lhs, rhs, m, n), alone) << threads << " threads";
      }
    }
  }
  device::set_thread_count(before);
}

// An element's bits follow from its row, its column and the depth: not from what else is computed,
// nor from how operands lie.
TEST(PackedProduct, ElementsDoNotDependOnTheirNeighbours) {
  constexpr std::int64_t kDepth = 500;
  const ProductOperand lhs(260, kDepth, true, false, 5), rhs(kDepth, 150, true, false, 6);
  ProductOperand turned(kDepth, 150, false, false, 6);
  for (std::int64_t d = 0; d < kDepth; ++d) {
    for (std::int64_t j = 0; j < 150; ++j) {
      turned.numbers[static_cast<std::size_t>(j * kDepth + d)] = rhs.at(d, j);
    }
  }
  const auto whole = product_of(PackedProduct(260, 150, kDepth), lhs, rhs, 260, 150);
  EXPECT_EQ(product_of(PackedProduct(260, 150, kDepth), lhs, turned, 260, 150), whole);
  const auto part = product_of(PackedProduct(7, 45, kDepth), lhs, rhs, 7, 45);
  for (std::size_t i = 0; i < 7; ++i) {
    for (std::size_t j = 0; j < 45; ++j) EXPECT_EQ(part[i * 45 + j], whole[i * 150 + j]);
  }
}

// The result by a right operand that was prepared before.
std::vector<float> prepared_product_of(const ProductOperand& lhs, const ProductOperand& rhs,
                                       const ProductSizes& sizes, const ProductLoops& loops) {
  const auto [m, n, k] = sizes;
  const PreparedProduct product(m, n, k, loops);
  std::vector<float> prepared(static_cast<std::size_t>(n * k), 1e30f);
  product.prepare(rhs.numbers.data(), rhs.strides, prepared.data());
  return result_of(product, m, n, [&](float* out, std::int64_t stride, std::byte* workspace) {
    product.run(MatrixRows(lhs.numbers.data(), lhs.strides, loops), prepared.data(), out, stride,
                workspace);
  });
}

// Few rows and many; columns that leave a panel nearly empty, half full or full.
constexpr ProductSizes kPreparedSizes[] = {
    {1, 32, 1},     {3, 33, 17},    {12, 64, 16},    {61, 130, 401}, {5, 1100, 50},
    {49, 303, 770}, {250, 70, 401}, {301, 1050, 20}, {700, 48, 385}, {260, 420, 1000}};

TEST(PreparedProduct, HasTheBitsOfThePackedOne) {
  const int before = device::thread_count();
  for (const ProductInstructions instructions : kProductInstructions) {
    const ProductLoops* const loops = product_loops(instructions);
    if (loops == nullptr) continue;
    for (const ProductSizes& sizes : kPreparedSizes) {
      const auto [m, n, k] = sizes;
      for (const bool by_rows : {true, false}) {
        const ProductOperand lhs(m, k, by_rows, false, 7), rhs(k, n, by_rows, false, 8);
        const std::vector<float> packed =
            product_of(PackedProduct(m, n, k, *loops), lhs, rhs, m, n, *loops);
        for (const int threads : {1, 3}) {
          device::set_thread_count(threads);
          EXPECT_EQ(prepared_product_of(lhs, rhs, sizes, *loops), packed)
              << m << " " << n << " " << k << " of " << loops->columns << " columns";
        }
      }
    }
  }
  device::set_thread_count(before);
}

TEST(PreparedProduct, WorksInASmallShareOfWhatItMultiplies) {
  for (const auto& [m, n, k] : {ProductSizes{256, 1024, 1024},
                                {128, 3072, 768},
                                {240, 64, 4096},
                                {4096, 4096, 4096},
                                {100000, 64, 64}}) {
    const std::int64_t bytes = 4 * (m * k + k * n + m * n);
    EXPECT_LE(PreparedProduct(m, n, k).workspace_bytes(),
              std::max<std::int64_t>(bytes / 8, 768 << 10))
        << m << " " << n << " " << k;
  }
}

std::string large_dot(const char* lhs, const char* rhs, const char* out, const char* dims) {
  return std::string("ENTRY e {\n a = ") + lhs + " parameter(0)\n b = " + rhs +
         " parameter(1)\n ROOT c = " + out + " dot(a, b), " + dims + " }";
}

// The kernel that a program gets: a batch, operands by columns, and one that is copied first.
TEST(PackedProduct, LargeDotsOfFloatsRunOnIt) {
  const std::string programs[] = {
      large_dot("f32[330,1000]", "f32[1000,410]", "f32[330,410]",
                "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
      large_dot("f32[1000,330]", "f32[410,1000]", "f32[330,410]",
                "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
      large_dot("f32[2,330,1000]", "f32[2,1000,410]", "f32[2,330,410]",
                "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
                "rhs_contracting_dims={1}"),
      large_dot("f32[20,330,50]", "f32[20,50,410]", "f32[330,410]",
                "lhs_contracting_dims={0,2}, rhs_contracting_dims={0,1}")};
  for (const std::string& text : programs) {
    auto module = ir::parse_module(text);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const ir::Instruction& dot = *(*module)->entry()->root();
    const ir::Shape& a = dot.operand(0)->shape();
    const ir::Shape& b = dot.operand(1)->shape();
    std::string kernel;
    const std::vector<ir::Literal> operands = {small_integers(a, 1), small_integers(b, 2)};
    const auto got = run_instruction(dot, operands, &kernel);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ(kernel, "dot.packed");
    // Of some elements, by the definition.
    const auto left = operands[0].data<float>(), right = operands[1].data<float>();
    const std::int64_t batches = a.rank() == 3 && a.dim(0) == 2 ? 2 : 1;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      for (std::int64_t i = 0; i < 330; i += 23) {
        for (std::int64_t j = 0; j < 410; j += 29) {
          float sum = 0;
          for (std::int64_t d = 0; d < 1000; ++d) {
            const std::int64_t at_left = a.dim(0) == 1000 ? d * 330 + i
                                         : a.dim(0) == 20 ? (d / 50 * 330 + i) * 50 + d % 50
                                                          : (batch * 330 + i) * 1000 + d;
            const std::int64_t at_right =
                b.dim(0) == 410 ? j * 1000 + d : (batch * 1000 + d) * 410 + j;
            sum +=
                left[static_cast<std::size_t>(at_left)] * right[static_cast<std::size_t>(at_right)];
          }
          ASSERT_EQ(got->data<float>()[static_cast<std::size_t>((batch * 330 + i) * 410 + j)], sum)
              << text << i << " " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::kernels
