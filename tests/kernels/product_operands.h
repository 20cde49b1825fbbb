// SPDX-License-Identifier: Apache-2.0
// What tests of kernels/cpu/products multiply, in every dtype and on every instruction set.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/cpu/products/packed_product.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {

// A matrix of small whole numbers or of any numbers, by rows or by columns.
template <typename T>
struct ProductOperand {
  ProductOperand(std::int64_t rows, std::int64_t columns, bool by_rows, bool whole, unsigned seed)
      : strides(by_rows ? MatrixStrides{columns, 1} : MatrixStrides{1, rows}) {
    std::mt19937 random(seed);
    numbers.resize(at_index(rows * columns));
    for (T& x : numbers) {
      const int drawn = static_cast<int>(random() % 4096u);
      if constexpr (std::is_integral_v<T>) {
        x = static_cast<T>(drawn % 7 - 3) * (whole ? 1 : T{1} << (8 * sizeof(T) - 4));
      } else {
        x = static_cast<T>(whole ? static_cast<float>(drawn % 7 - 3)
                                 : static_cast<float>(drawn - 2000) / 1999.0f);
      }
    }
  }
  static std::size_t at_index(std::int64_t i) { return static_cast<std::size_t>(i); }
  ProductSum<T> at(std::int64_t i, std::int64_t j) const {
    return static_cast<ProductSum<T>>(numbers[at_index(i * strides.row + j * strides.column)]);
  }

  MatrixStrides strides;
  std::vector<T> numbers;
};

// What `run` writes given where, and a workspace, between columns that must stay as they are.
// `Out` is T, or what it is added up in.
template <typename T, typename Out, typename Product, typename Run>
std::vector<Out> result_of(const Product& product, std::int64_t m, std::int64_t n, const Run& run) {
  const std::int64_t stride = n + 3;
  const auto untouched = static_cast<Out>(1e18f);
  std::vector<Out> out(static_cast<std::size_t>(m * stride), untouched);
  std::vector<std::byte> memory(static_cast<std::size_t>(product.workspace_bytes()) + 64);
  std::byte* workspace = memory.data();
  workspace += 63 - (reinterpret_cast<std::uintptr_t>(workspace) + 63) % 64;
  std::memset(workspace, 0xff, static_cast<std::size_t>(product.workspace_bytes()));  // NaNs
  if constexpr (std::is_same_v<Out, ProductSum<T>>) {
    run(ProductResult<T>{out.data(), stride}, workspace);
  } else {
    run(ProductResult<T>{nullptr, stride, out.data()}, workspace);
  }
  std::vector<Out> dense;
  for (std::int64_t i = 0; i < m; ++i) {
    const Out* const row = out.data() + i * stride;
    dense.insert(dense.end(), row, row + n);
    for (std::int64_t j = n; j < stride; ++j) {
      EXPECT_EQ(std::memcmp(row + j, &untouched, sizeof untouched), 0) << i << " " << j;
    }
  }
  return dense;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

inline constexpr ProductInstructions kProductInstructions[] = {
    ProductInstructions::baseline, ProductInstructions::avx2, ProductInstructions::avx512,
    ProductInstructions::amx};

// Operands of T, results of Out.
template <typename Operand, typename Result>
struct ProductTypes {
  using T = Operand;
  using Out = Result;
  // Loops there may be none of on this machine; those there are.
  static std::vector<const ProductLoops<T>*> all_loops() {
    std::vector<const ProductLoops<T>*> found;
    for (const ProductInstructions instructions : kProductInstructions) {
      if (const auto* loops = product_loops<T>(instructions)) found.push_back(loops);
    }
    return found;
  }
};

template <typename Types>
class ProductTest : public testing::Test {
 protected:
  void SetUp() override {
    if (Types::all_loops().empty()) GTEST_SKIP() << "this machine has no products of these";
  }
  void TearDown() override { device::set_thread_count(before_); }

 private:
  int before_ = device::thread_count();
};
using AllProductTypes =
    testing::Types<ProductTypes<float, float>, ProductTypes<double, double>,
                   ProductTypes<std::uint32_t, std::uint32_t>,
                   ProductTypes<std::uint64_t, std::uint64_t>, ProductTypes<Bfloat16, float>,
                   ProductTypes<Bfloat16, Bfloat16>, ProductTypes<std::uint8_t, std::uint32_t>,
                   ProductTypes<std::uint8_t, std::uint8_t>>;
using FewRowsProductTypes =
    testing::Types<ProductTypes<float, float>, ProductTypes<double, double>,
                   ProductTypes<std::uint32_t, std::uint32_t>,
                   ProductTypes<std::uint64_t, std::uint64_t>, ProductTypes<Bfloat16, float>,
                   ProductTypes<Bfloat16, Bfloat16>>;

}  // namespace plimsoll::kernels
