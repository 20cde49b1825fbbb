// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/products/packed_product.h"
#include "kernels/cpu/products/prepared_product.h"
#include "runtime/ir/text/text.h"
#include "tests/kernels/kernel_harness.h"
#include "tests/kernels/product_operands.h"

namespace plimsoll::kernels {
namespace {

// Any bytes, the extreme ones often.
ProductOperand<std::uint8_t> any_bytes(std::int64_t rows, std::int64_t columns, bool by_rows,
                                       unsigned seed) {
  ProductOperand<std::uint8_t> operand(rows, columns, by_rows, false, seed);
  std::mt19937 random(seed);
  constexpr std::uint8_t kExtremes[] = {0, 0x7f, 0x80, 0xff};
  for (std::uint8_t& x : operand.numbers) {
    const auto drawn = static_cast<std::uint32_t>(random());
    x = drawn % 3 == 0 ? kExtremes[drawn / 3 % 4] : static_cast<std::uint8_t>(drawn >> 8);
  }
  return operand;
}

std::int64_t value_of(std::uint32_t byte, bool has_sign) {
  return has_sign ? std::int64_t{static_cast<std::int8_t>(byte)} : std::int64_t{byte};
}

struct ByteSizes {
  std::int64_t m, n, k;
};
constexpr ByteSizes kByteSizes[] = {{1, 1, 1},      {1, 70, 130},   {17, 33, 63},   {32, 32, 64},
                                    {33, 50, 65},   {61, 130, 401}, {5, 1100, 50},  {300, 70, 1200},
                                    {301, 1050, 7}, {20, 70, 4100}, {260, 65, 2100}};

TEST(ByteProducts, AreExactOfAllSignsOnEveryInstructionSet) {
  int tried = 0;
  for (const ProductInstructions instructions : kProductInstructions) {
    for (const int signs : {0, 1, 2, 3}) {
      const bool lhs_has_sign = (signs & 1) != 0, rhs_has_sign = (signs & 2) != 0;
      const auto* const loops = byte_product_loops(lhs_has_sign, rhs_has_sign, instructions);
      if (loops == nullptr) continue;
      ++tried;
      for (const auto& [m, n, k] : kByteSizes) {
        for (const int order : {0, 1, 2, 3}) {
          const auto lhs = any_bytes(m, k, (order & 1) != 0, 1);
          const auto rhs = any_bytes(k, n, (order & 2) != 0, 2);
          const PackedProduct<std::uint8_t> product(m, n, k, *loops);
          const MatrixRows<std::uint8_t> rows(lhs.numbers.data(), lhs.strides, *loops);
          const auto run = [&](const ProductResult<std::uint8_t>& out, std::byte* workspace) {
            product.run(rows, rhs.numbers.data(), rhs.strides, out, workspace);
          };
          const auto sums = result_of<std::uint8_t, std::uint32_t>(product, m, n, run);
          const auto low = result_of<std::uint8_t, std::uint8_t>(product, m, n, run);
          std::vector<std::uint32_t> prepared_sums = sums;
          if (n >= PreparedProduct<std::uint8_t>::kLeastColumns) {
            const PreparedProduct<std::uint8_t> by_prepared(m, n, k, *loops);
            std::vector<std::uint8_t> prepared(
                static_cast<std::size_t>(by_prepared.prepared_bytes() + 4 * 32));
            by_prepared.prepare(rhs.numbers.data(), rhs.strides, prepared.data());
            prepared_sums = result_of<std::uint8_t, std::uint32_t>(
                by_prepared, m, n,
                [&](const ProductResult<std::uint8_t>& out, std::byte* workspace) {
                  by_prepared.run(rows, prepared.data(), out, workspace);
                });
          }
          std::int64_t wrong = 0;
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              std::int64_t sum = 0;
              for (std::int64_t d = 0; d < k; ++d) {
                sum += value_of(lhs.at(i, d), lhs_has_sign) * value_of(rhs.at(d, j), rhs_has_sign);
              }
              const auto at = static_cast<std::size_t>(i * n + j);
              wrong += sums[at] != static_cast<std::uint32_t>(sum) ||
                       prepared_sums[at] != sums[at] || low[at] != static_cast<std::uint8_t>(sum);
            }
          }
          EXPECT_EQ(wrong, 0) << m << " " << n << " " << k << ", signs " << signs << ", order "
                              << order << ", panels of " << loops->rows << " rows";
        }
      }
    }
  }
  if (tried == 0) GTEST_SKIP() << "this machine has no products of four bytes";
}

// The kernel that a program gets: of all dtypes, by the definition on the same numbers in s32.
TEST(ByteDots, WrapAsTheirResultsSay) {
  struct Case {
    const char *lhs, *rhs, *result;
  };
  constexpr Case kCases[] = {{"s8", "s8", "s32"}, {"s8", "s8", "s8"}, {"u8", "u8", "u32"},
                             {"u8", "u8", "s32"}, {"u8", "u8", "u8"}, {"s8", "u8", "s32"},
                             {"u8", "s8", "s32"}, {"u8", "s8", "u8"}, {"s8", "s8", "u32"}};
  for (const Case& c : kCases) {
    for (const std::string dims : {"[3,37,90]", "[3,90,37]"}) {
      const bool by_columns = dims[3] == '9';
      const std::string text =
          std::string("ENTRY e {\n a = ") + c.lhs + dims + " parameter(0)\n b = " + c.rhs +
          "[3,90,41] parameter(1)\n ROOT c = " + c.result +
          "[3,37,41] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, " +
          "lhs_contracting_dims={" + (by_columns ? "1" : "2") + "}, rhs_contracting_dims={1} }";
      auto module = ir::parse_module(text);
      ASSERT_TRUE(module.ok()) << module.status().to_string();
      const ir::Instruction& dot = *(*module)->entry()->root();
      std::vector<ir::Literal> operands;
      for (int side = 0; side < 2; ++side) {
        ir::Literal literal(dot.operand(side)->shape());
        std::mt19937 random(static_cast<unsigned>(side));
        const bool has_sign = std::string(side == 0 ? c.lhs : c.rhs) == "s8";
        for (std::int64_t i = 0; i < literal.shape().element_count(); ++i) {
          literal.set(i, static_cast<double>(random() % 256) - (has_sign ? 128 : 0));
        }
        operands.push_back(std::move(literal));
      }
      std::string kernel;
      const auto got = run_instruction(dot, operands, &kernel);
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      EXPECT_EQ(kernel == "dot.packed", byte_product_loops(true, true) != nullptr) << kernel;
      for (std::int64_t b = 0; b < 3; ++b) {
        for (std::int64_t i = 0; i < 37; ++i) {
          for (std::int64_t j = 0; j < 41; ++j) {
            std::int64_t sum = 0;
            for (std::int64_t d = 0; d < 90; ++d) {
              const std::int64_t left = by_columns ? (b * 90 + d) * 37 + i : (b * 37 + i) * 90 + d;
              sum += static_cast<std::int64_t>(operands[0].at(left)) *
                     static_cast<std::int64_t>(operands[1].at((b * 90 + d) * 41 + j));
            }
            const std::string to = c.result;
            const double expected =
                to == "s8"    ? static_cast<double>(static_cast<std::int8_t>(sum))
                : to == "u8"  ? static_cast<double>(static_cast<std::uint8_t>(sum))
                : to == "u32" ? static_cast<double>(static_cast<std::uint32_t>(sum))
                              : static_cast<double>(sum);
            ASSERT_EQ(got->at((b * 37 + i) * 41 + j), expected) << text << i << " " << j;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::kernels
