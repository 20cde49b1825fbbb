// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/vector_product.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "runtime/base/index.h"

namespace plimsoll::kernels {
namespace {

std::vector<float> drawn(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> numbers(at(count));
  for (float& x : numbers) x = static_cast<float>(static_cast<int>(random() % 4096u) - 2000) / 1999;
  return numbers;
}

// The definition of the order, element by element.
TEST(VectorProduct, SumsInTheOrderThatItSays) {
  for (const std::int64_t rows : {1, 15, 16, 33}) {
    for (const std::int64_t count : {1, 16, 63, 64, 130}) {
      const std::int64_t stride = count + 5;
      const auto matrix = drawn(rows * stride, 9), x = drawn(count, 10);
      std::vector<float> got(at(rows + 1), 1e30f);
      multiply_rows_by_vector(matrix.data(), stride, rows, x.data(), count, got.data());
      EXPECT_EQ(got.back(), 1e30f);
      for (std::int64_t r = 0; r < rows; ++r) {
        float lanes[64] = {};
        for (std::int64_t i = 0; i < count; ++i) {
          const float product = matrix[at(r * stride + i)] * x[at(i)];
          lanes[i % 64] += product;
        }
        for (int width = 32; width > 0; width /= 2) {
          for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
        }
        EXPECT_EQ(got[at(r)], lanes[0]) << rows << " " << count << " " << r;
      }
    }
  }
  for (const std::int64_t columns : {1, 16, 31, 128, 300, 2167}) {
    constexpr std::int64_t kDepth = 21;
    const std::int64_t stride = columns + 3;
    const auto matrix = drawn(kDepth * stride, 11), x = drawn(kDepth, 12);
    std::vector<float> got(at(columns + 1), 1e30f);
    multiply_vector_by_columns(matrix.data(), stride, columns, x.data(), kDepth, got.data());
    EXPECT_EQ(got.back(), 1e30f);
    for (std::int64_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < kDepth; ++k) {
        const float product = x[at(k)] * matrix[at(k * stride + j)];
        sum += product;
      }
      EXPECT_EQ(got[at(j)], sum) << columns << " " << j;
    }
  }
}

}  // namespace
}  // namespace plimsoll::kernels
