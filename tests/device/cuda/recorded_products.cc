// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/recorded_products.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "runtime/base/float16.h"

namespace plimsoll::device::cuda {
namespace {

template <typename T>
struct Tag {
  using Type = T;
};

template <typename T>
auto number_of(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else {
    return static_cast<float>(value);
  }
}

template <typename Body>
void with_type(BlasType type, Body&& body) {
  switch (type) {
    case BlasType::f32:
      return body(Tag<float>());
    case BlasType::f64:
      return body(Tag<double>());
    case BlasType::f16:
      return body(Tag<Float16>());
    case BlasType::bf16:
      return body(Tag<Bfloat16>());
    case BlasType::s8:
      return body(Tag<std::int8_t>());
    case BlasType::s32:
      return body(Tag<std::int32_t>());
  }
}

// As one matrix after the other, each dense, row by row.
template <typename Sum>
std::vector<Sum> read(const RecordedMatrix& matrix, bool is_transposed, const void* from) {
  std::vector<Sum> values;
  with_type(matrix.type, [&](auto tag) {
    const auto* const elements = static_cast<const typename decltype(tag)::Type*>(from);
    const std::int64_t rows = is_transposed ? matrix.columns : matrix.rows;
    const std::int64_t columns = is_transposed ? matrix.rows : matrix.columns;
    for (std::int64_t i = 0; i < matrix.batch; ++i) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          const std::int64_t at =
              is_transposed ? column + row * matrix.leading : row + column * matrix.leading;
          values.push_back(static_cast<Sum>(number_of(elements[i * matrix.batch_stride + at])));
        }
      }
    }
  });
  return values;
}

template <typename Sum>
void compute(const RecordedProduct& product, int parts, const void* a, const void* b, void* d,
             void* workspace) {
  const auto left = read<Sum>(product.a, product.is_a_transposed, a);
  const auto right = read<Sum>(product.b, product.is_b_transposed, b);
  const std::int64_t rows = product.d.rows, columns = product.d.columns, depth = product.depth();
  const std::int64_t part = (depth + parts - 1) / parts;
  const auto sum = [&](std::int64_t batch, std::int64_t row, std::int64_t column,
                       std::int64_t from) {
    Sum total = 0;
    for (std::int64_t k = from; k < std::min(from + part, depth); ++k) {
      total += left[static_cast<std::size_t>((batch * rows + row) * depth + k)] *
               right[static_cast<std::size_t>((batch * depth + k) * columns + column)];
    }
    return total;
  };
  with_type(product.d.type, [&](auto tag) {
    using Result = typename decltype(tag)::Type;
    auto* const results = static_cast<Result*>(d);
    auto* kept = static_cast<Sum*>(workspace);
    const auto for_each = [&](auto&& body) {
      for (std::int64_t batch = 0; batch < product.d.batch; ++batch) {
        for (std::int64_t column = 0; column < columns; ++column) {
          for (std::int64_t row = 0; row < rows; ++row) body(batch, row, column);
        }
      }
    };
    const auto put = [&](std::int64_t batch, std::int64_t row, std::int64_t column, Sum total) {
      results[batch * product.d.batch_stride + column * product.d.leading + row] =
          static_cast<Result>(total);
    };
    if (parts == 1) {
      for_each([&](auto batch, auto row, auto column) {
        put(batch, row, column, sum(batch, row, column, 0));
      });
      return;
    }
    for_each([&](auto batch, auto row, auto column) {
      for (int i = 0; i < parts; ++i) *kept++ = sum(batch, row, column, i * part);
    });
    kept = static_cast<Sum*>(workspace);
    for_each([&](auto batch, auto row, auto column) {
      Sum total = 0;
      for (int i = 0; i < parts; ++i) total += *kept++;
      put(batch, row, column, total);
    });
  });
}

}  // namespace

void compute_product(const RecordedProduct& product, int parts, const void* a, const void* b,
                     void* d, void* workspace) {
  switch (product.a.type) {
    case BlasType::f64:
      return compute<double>(product, parts, a, b, d, workspace);
    case BlasType::s8:
      return compute<std::int32_t>(product, parts, a, b, d, workspace);
    default:
      return compute<float>(product, parts, a, b, d, workspace);
  }
}

bool is_number(const void* factor, BlasType type, int number) {
  bool is = false;
  with_type(type, [&](auto tag) {
    using Type = typename decltype(tag)::Type;
    is = static_cast<double>(number_of(*static_cast<const Type*>(factor))) == number;
  });
  return is;
}

}  // namespace plimsoll::device::cuda
