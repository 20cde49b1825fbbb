// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/cases/random.h"

namespace plimsoll::cases {
namespace {

using ir::DType;
using ir::Literal;
using ir::Shape;

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;
template <typename T>
inline constexpr bool kIsFloat = kIsHalf<T> || std::is_floating_point_v<T>;

template <typename T>
T special(Random& random) {
  if constexpr (kIsFloat<T>) {
    using N = std::conditional_t<kIsHalf<T>, float, T>;
    using L = std::numeric_limits<N>;
    // 1e-40 and 6e-8 are subnormal in bf16/f32 and in f16.
    const N values[] = {L::quiet_NaN(), L::infinity(), -L::infinity(), N(0.0),     N(-0.0),
                        N(1),           N(-1),         N(1e-40),       N(-6e-8),   L::denorm_min(),
                        L::max(),       L::lowest(),   N(65504),       N(1e10),    N(-3e5),
                        N(0.5),         N(-0.5),       N(1.5),         N(2.5),     L::min(),
                        N(2147483648.), N(-88.5),      N(88.8),        N(16777216)};
    return static_cast<T>(values[random.below(std::size(values))]);
  } else {
    using L = std::numeric_limits<T>;
    const T values[] = {L::min(), L::max(),           T(0),
                        T(1),     static_cast<T>(-1), static_cast<T>(L::max() - 1)};
    return values[random.below(std::size(values))];
  }
}

template <typename T>
T drawn(Random& random, const InputRange& range) {
  if constexpr (std::is_same_v<T, bool>) {
    return random.below(2) != 0;
  } else if constexpr (kIsFloat<T>) {
    using N = std::conditional_t<kIsHalf<T>, float, T>;
    return static_cast<T>(static_cast<N>(range.low + (range.high - range.low) * random.unit()));
  } else {
    using L = std::numeric_limits<T>;
    const double low = std::max(std::ceil(range.low), static_cast<double>(L::min()));
    const double high = std::min(std::floor(range.high), static_cast<double>(L::max()) - 1);
    if (high <= low) return static_cast<T>(low);
    const auto width = static_cast<std::uint64_t>(high - low) + 1;
    return static_cast<T>(static_cast<std::int64_t>(low) +
                          static_cast<std::int64_t>(random.below(width)));
  }
}

std::string place(const Shape& shape, std::int64_t index, const std::string& path) {
  std::string text = path + "[";
  const ir::Dims strides = ir::row_major_strides(shape.dims());
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(shape.dim(i) == 0 ? 0 : index / strides[i] % shape.dim(i));
  }
  return text + "]";
}

std::string number(const Literal& literal, std::int64_t index) {
  return ir::visit_dtype(literal.shape().dtype(), [&](auto tag) -> std::string {
    using T = decltype(tag);
    const T value = literal.data<T>()[index];
    char text[64];
    if constexpr (kIsFloat<T>) {
      const auto wide =
          static_cast<double>(static_cast<std::conditional_t<kIsHalf<T>, float, T>>(value));
      std::snprintf(text, sizeof text, "%.17g (%a)", wide, wide);
      return text;
    } else {
      return std::to_string(value);
    }
  });
}

std::string difference(const Literal& expected, const Literal& actual, std::int64_t index,
                       const std::string& path, std::int64_t count) {
  return "element " + place(expected.shape(), index, path) + " of " + expected.shape().to_string() +
         ": expected " + number(expected, index) + ", got " + number(actual, index) + " (" +
         std::to_string(count) + " elements differ)";
}

// `agree(tag, index)` is asked for each element of each array leaf.
template <typename F>
std::string compare_leaves(const Literal& expected, const Literal& actual, const std::string& path,
                           F make_agree) {
  if (!(expected.shape() == actual.shape())) {
    return "shape: expected " + expected.shape().to_string() + ", got " +
           actual.shape().to_string();
  }
  if (expected.shape().is_tuple()) {
    for (std::size_t i = 0; i < expected.elements().size(); ++i) {
      const std::string message = compare_leaves(expected.elements()[i], actual.elements()[i],
                                                 path + "{" + std::to_string(i) + "}", make_agree);
      if (!message.empty()) return message;
    }
    return "";
  }
  if (!expected.shape().is_array()) return "";
  const std::int64_t count = expected.shape().element_count();
  std::int64_t first = -1, differing = 0;
  ir::visit_dtype(expected.shape().dtype(), [&](auto tag) {
    using T = decltype(tag);
    auto agree = make_agree(expected, tag);
    const T* a = expected.data<T>();
    const T* b = actual.data<T>();
    for (std::int64_t i = 0; i < count; ++i) {
      if (agree(a[i], b[i])) continue;
      if (first < 0) first = i;
      ++differing;
    }
  });
  return first < 0 ? "" : difference(expected, actual, first, path, differing);
}

template <typename T>
double wide(T value) {
  if constexpr (kIsHalf<T>) {
    return static_cast<float>(value);
  } else {
    return static_cast<double>(value);
  }
}

template <typename T>
bool same_bits(T a, T b) {
  if constexpr (kIsFloat<T>) {
    if (std::isnan(wide(a)) && std::isnan(wide(b))) return true;
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Floats in the order of their values as consecutive integers; both zeros are 0.
template <typename T>
std::int64_t rank_of(T value) {
  using Bits = std::conditional_t<sizeof(T) == 2, std::int16_t,
                                  std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>>;
  Bits bits;
  std::memcpy(&bits, &value, sizeof(T));
  return bits >= 0 ? std::int64_t{bits}
                   : std::int64_t{std::numeric_limits<Bits>::min()} - std::int64_t{bits};
}

}  // namespace

Literal random_literal(const Shape& shape, std::uint64_t seed, const InputRange& range) {
  if (shape.is_tuple()) {
    std::vector<Literal> elements;
    for (const Shape& element : shape.elements()) {
      elements.push_back(random_literal(element, seed * 31 + elements.size() + 1, range));
    }
    return Literal::tuple(std::move(elements));
  }
  Literal literal(shape);
  if (!shape.is_array()) return literal;
  Random random(seed);
  ir::visit_dtype(shape.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* data = literal.mutable_data<T>();
    for (std::int64_t i = 0; i < shape.element_count(); ++i) {
      const bool is_special = range.specials && random.below(3) == 0;
      data[i] = is_special ? special<T>(random) : drawn<T>(random, range);
    }
  });
  return literal;
}

std::vector<Literal> random_arguments(const ir::Module& module, std::uint64_t seed,
                                      const std::vector<InputRange>& ranges) {
  std::vector<Literal> arguments;
  for (const ir::Instruction* parameter : module.entry()->parameters()) {
    const std::size_t i = arguments.size();
    arguments.push_back(random_literal(parameter->shape(), seed * 1009 + i,
                                       i < ranges.size() ? ranges[i] : InputRange{}));
  }
  return arguments;
}

std::string compare_bits(const Literal& expected, const Literal& actual) {
  return compare_leaves(expected, actual, "", [](const Literal&, auto tag) {
    using T = decltype(tag);
    return [](T a, T b) { return same_bits(a, b); };
  });
}

std::string compare_close(const Literal& expected, const Literal& actual, double relative,
                          double smallest_scale) {
  return compare_leaves(expected, actual, "", [&](const Literal& array, auto tag) {
    using T = decltype(tag);
    double largest = smallest_scale;
    if constexpr (kIsFloat<T>) {
      for (std::int64_t i = 0; i < array.shape().element_count(); ++i) {
        const double magnitude = std::fabs(wide(array.data<T>()[i]));
        if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
      }
    }
    return [bound = relative * largest](T a, T b) {
      if (same_bits(a, b)) return true;
      if constexpr (!kIsFloat<T>) return false;
      return std::isfinite(wide(a)) && std::fabs(wide(a) - wide(b)) <= bound;
    };
  });
}

std::string compare_ulps(const Literal& expected, const Literal& actual, std::int64_t ulps) {
  return compare_leaves(expected, actual, "", [&](const Literal&, auto tag) {
    using T = decltype(tag);
    return [ulps](T a, T b) {
      if (same_bits(a, b)) return true;
      if constexpr (!kIsFloat<T>) {
        return false;
      } else {
        if (!std::isfinite(wide(a)) || !std::isfinite(wide(b))) return false;
        std::int64_t apart = 0;
        return !__builtin_sub_overflow(rank_of(a), rank_of(b), &apart) && std::llabs(apart) <= ulps;
      }
    };
  });
}

std::string compare(const Literal& expected, const Literal& actual, double relative) {
  return relative == 0 ? compare_bits(expected, actual) : compare_close(expected, actual, relative);
}

}  // namespace plimsoll::cases
