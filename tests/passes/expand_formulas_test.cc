// SPDX-License-Identifier: Apache-2.0
// Operations that are expanded before anything runs, against what defines them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"

namespace plimsoll {
namespace {

using ir::Literal;

Result<Literal> run(const std::string& text, const std::vector<Literal>& arguments) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto module, ir::parse_module(text));
  PLIMSOLL_RETURN_IF_ERROR(passes::expand(*module));
  return ir::interpret(*module, arguments);
}

template <typename T>
std::vector<T> edges() {
  using L = std::numeric_limits<T>;
  std::vector<T> made = {0,
                         1,
                         2,
                         3,
                         L::max(),
                         L::min(),
                         static_cast<T>(L::max() - 1),
                         static_cast<T>(L::max() / 2),
                         static_cast<T>(L::min() + 1)};
  unsigned __int128 state = 88172645463325252ULL;
  for (int i = 0; i < 60; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    made.push_back(static_cast<T>(static_cast<std::uint64_t>(state >> 17)));
  }
  return made;
}

template <typename T>
void check_high_products(const std::string& dtype) {
  const std::vector<T> values = edges<T>();
  const auto count = static_cast<std::int64_t>(values.size() * values.size());
  const ir::Shape shape(*ir::parse_dtype(dtype), {count});
  Literal a(shape), b(shape);
  std::size_t at = 0;
  for (const T x : values) {
    for (const T y : values) {
      a.mutable_data<T>()[at] = x;
      b.mutable_data<T>()[at++] = y;
    }
  }
  const std::string type = shape.to_string();
  const auto made = run("ENTRY e { a = " + type + " parameter(0)\n b = " + type +
                            " parameter(1)\n ROOT r = " + type + " mulhi(a, b) }",
                        {a, b});
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  for (std::size_t i = 0; i < at; ++i) {
    const Wide product = static_cast<Wide>(a.data<T>()[i]) * static_cast<Wide>(b.data<T>()[i]);
    EXPECT_EQ(made->data<T>()[i], static_cast<T>(product >> (8 * sizeof(T))))
        << dtype << " " << +a.data<T>()[i] << " " << +b.data<T>()[i];
  }
}

TEST(Expand, HighProductsOfEveryWidth) {
  check_high_products<std::int8_t>("s8");
  check_high_products<std::uint8_t>("u8");
  check_high_products<std::int16_t>("s16");
  check_high_products<std::uint16_t>("u16");
  check_high_products<std::int32_t>("s32");
  check_high_products<std::uint32_t>("u32");
  check_high_products<std::int64_t>("s64");
  check_high_products<std::uint64_t>("u64");
}

// f64 arrays of [2,3,2] with features along dim 1.
struct Batch {
  static constexpr int kOuter = 2, kFeatures = 3, kInner = 2, kCount = kOuter * kInner;
  static std::size_t at(int outer, int feature, int inner) {
    return static_cast<std::size_t>((outer * kFeatures + feature) * kInner + inner);
  }
  template <typename F>
  static double sum(int feature, F&& f) {
    double made = 0;
    for (int i = 0; i < kOuter; ++i) {
      for (int k = 0; k < kInner; ++k) made += f(at(i, feature, k));
    }
    return made;
  }
};

Literal numbers(const ir::Shape& shape, double seed) {
  Literal made(shape);
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    made.set(i, std::sin(seed + 1.7 * static_cast<double>(i)) + 0.1 * seed);
  }
  return made;
}

const ir::Shape kArray(ir::DType::f64, {2, 3, 2}), kVector(ir::DType::f64, {3});
constexpr double kEpsilon = 0.01;
const std::string kEnd = ", epsilon=0.01, feature_index=1 }";

TEST(Expand, BatchNormTrainingAndInference) {
  const Literal x = numbers(kArray, 1), scale = numbers(kVector, 2), offset = numbers(kVector, 3);
  const auto trained = run(
      "ENTRY e { x = f64[2,3,2] parameter(0)\n s = f64[3] parameter(1)\n o = f64[3] parameter(2)\n"
      " ROOT r = (f64[2,3,2], f64[3], f64[3]) batch-norm-training(x, s, o)" +
          kEnd,
      {x, scale, offset});
  ASSERT_TRUE(trained.ok()) << trained.status().to_string();
  Literal means(kVector), variances(kVector);
  for (int f = 0; f < Batch::kFeatures; ++f) {
    const double mean = Batch::sum(f, [&](std::size_t i) { return x.data<double>()[i]; }) / 4;
    const double variance =
        Batch::sum(f, [&](std::size_t i) { return std::pow(x.data<double>()[i] - mean, 2); }) / 4;
    means.set(f, mean);
    variances.set(f, variance);
    EXPECT_NEAR(trained->elements()[1].at(f), mean, 1e-12);
    EXPECT_NEAR(trained->elements()[2].at(f), variance, 1e-12);
    (void)Batch::sum(f, [&](std::size_t i) {
      const double normal = (x.data<double>()[i] - mean) / std::sqrt(variance + kEpsilon);
      EXPECT_NEAR(trained->elements()[0].data<double>()[i], normal * scale.at(f) + offset.at(f),
                  1e-12);
      return 0.0;
    });
  }
  const auto inferred = run(
      "ENTRY e { x = f64[2,3,2] parameter(0)\n s = f64[3] parameter(1)\n o = f64[3] parameter(2)\n"
      " m = f64[3] parameter(3)\n v = f64[3] parameter(4)\n"
      " ROOT r = f64[2,3,2] batch-norm-inference(x, s, o, m, v)" +
          kEnd,
      {x, scale, offset, means, variances});
  ASSERT_TRUE(inferred.ok()) << inferred.status().to_string();
  for (std::int64_t i = 0; i < kArray.element_count(); ++i) {
    EXPECT_NEAR(inferred->at(i), trained->elements()[0].at(i), 1e-12);
  }
}

// Against differences of the training form's result, weighted by d.
TEST(Expand, BatchNormGradient) {
  const Literal x = numbers(kArray, 1), scale = numbers(kVector, 2), d = numbers(kArray, 4);
  const auto loss = [&](const Literal& from, const Literal& by) {
    double made = 0;
    for (int f = 0; f < Batch::kFeatures; ++f) {
      const double mean = Batch::sum(f, [&](std::size_t i) { return from.data<double>()[i]; }) / 4;
      const double variance =
          Batch::sum(f, [&](std::size_t i) { return std::pow(from.data<double>()[i] - mean, 2); }) /
          4;
      made += Batch::sum(f, [&](std::size_t i) {
        return d.data<double>()[i] * by.at(f) * (from.data<double>()[i] - mean) /
               std::sqrt(variance + kEpsilon);
      });
    }
    return made;
  };
  Literal means(kVector), variances(kVector);
  for (int f = 0; f < Batch::kFeatures; ++f) {
    means.set(f, Batch::sum(f, [&](std::size_t i) { return x.data<double>()[i]; }) / 4);
    variances.set(f, Batch::sum(f, [&](std::size_t i) {
                       return std::pow(x.data<double>()[i] - means.at(f), 2);
                     }) / 4);
  }
  const auto made = run(
      "ENTRY e { x = f64[2,3,2] parameter(0)\n s = f64[3] parameter(1)\n m = f64[3] parameter(2)\n"
      " v = f64[3] parameter(3)\n d = f64[2,3,2] parameter(4)\n"
      " ROOT r = (f64[2,3,2], f64[3], f64[3]) batch-norm-grad(x, s, m, v, d)" +
          kEnd,
      {x, scale, means, variances, d});
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const auto slope = [&](const Literal& of, std::int64_t i, const auto& loss_of) {
    constexpr double kStep = 1e-5;
    Literal more = of, less = of;
    more.set(i, of.at(i) + kStep);
    less.set(i, of.at(i) - kStep);
    return (loss_of(more) - loss_of(less)) / (2 * kStep);
  };
  for (std::int64_t i = 0; i < kArray.element_count(); ++i) {
    EXPECT_NEAR(made->elements()[0].at(i),
                slope(x, i, [&](const Literal& l) { return loss(l, scale); }), 1e-7);
  }
  for (std::int64_t f = 0; f < Batch::kFeatures; ++f) {
    EXPECT_NEAR(made->elements()[1].at(f),
                slope(scale, f, [&](const Literal& l) { return loss(x, l); }), 1e-7);
    EXPECT_NEAR(made->elements()[2].at(f),
                Batch::sum(static_cast<int>(f), [&](std::size_t i) { return d.data<double>()[i]; }),
                1e-12);
  }
}

TEST(Expand, RefusesBatchNormOfOtherVectors) {
  const auto module = ir::parse_module(
      "ENTRY e { x = f32[2,3] parameter(0)\n s = f32[2] parameter(1)\n"
      " ROOT r = (f32[2,3], f32[3], f32[3]) batch-norm-training(x, s, s), epsilon=0.01, "
      "feature_index=1 }");
  EXPECT_EQ(module.status().code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace plimsoll
