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

Literal floats(const ir::Dims& dims, int seed) {
  Literal made(ir::Shape(ir::DType::f32, dims));
  for (std::int64_t i = 0; i < made.shape().element_count(); ++i) {
    made.mutable_data<float>()[i] = static_cast<float>((i * 7 + seed) % 11 - 5);
  }
  return made;
}

Literal integers(const ir::Dims& dims, const std::vector<std::int32_t>& values) {
  Literal made(ir::Shape(ir::DType::s32, dims));
  std::copy(values.begin(), values.end(), made.mutable_data<std::int32_t>());
  return made;
}

// Sums so far of rows, forwards and backwards, beside the last sum and products with what is left.
TEST(Expand, ScansStackWhatARoundGives) {
  for (const bool is_reverse : {false, true}) {
    const auto made =
        run(std::string(
                "round { x = f32[3] parameter(0)\n sum = f32[3] parameter(1)\n"
                " next = f32[3] add(sum, x)\n p = f32[3] multiply(sum, x)\n"
                " ROOT r = (f32[3], f32[3], f32[3]) tuple(next, p, next) }\n"
                "ENTRY e { x = f32[3,4] parameter(0)\n z = f32[3] parameter(1)\n"
                " s = (f32[3,4], f32[3,4], f32[3]) scan(x, z), dimensions={1}, num_carries=1,") +
                (is_reverse ? " is_reverse=true," : "") +
                " to_apply=round\n a = f32[3,4] get-tuple-element(s), index=0\n"
                " b = f32[3,4] get-tuple-element(s), index=1\n c = f32[3] get-tuple-element(s), "
                "index=2\n d = f32[3,1] reshape(c)\n"
                " ROOT r = f32[3,9] concatenate(a, b, d), dimensions={1} }",
            {floats({3, 4}, 1), floats({3}, 2)});
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    const Literal x = floats({3, 4}, 1), first = floats({3}, 2);
    for (int row = 0; row < 3; ++row) {
      float sum = first.data<float>()[row];
      for (int round = 0; round < 4; ++round) {
        const int at = is_reverse ? 3 - round : round;
        const float value = x.data<float>()[row * 4 + at];
        EXPECT_EQ(made->data<float>()[row * 9 + 4 + at], sum * value);
        sum += value;
        EXPECT_EQ(made->data<float>()[row * 9 + at], sum);
      }
      EXPECT_EQ(made->data<float>()[row * 9 + 8], sum);
    }
  }
  const auto wrong =
      run("round { x = f32[] parameter(0)\n ROOT r = (f32[], f32[]) tuple(x, x) }\n"
          "ENTRY e { x = f32[4] parameter(0)\n z = f32[] constant(0)\n"
          " ROOT s = (f32[4], f32[]) scan(x, z), dimensions={0}, num_carries=1, to_apply=round }",
          {floats({4}, 1)});
  EXPECT_EQ(wrong.status().code(), StatusCode::invalid_argument) << wrong.status().to_string();
}

TEST(Expand, RaggedRowsMeetTheirGroupsMatrix) {
  // One list of sizes for all rows, and one for each of the leading dims; the last row is in none.
  const std::vector<std::int32_t> all = {2, 0, 3}, each = {2, 0, 3, 1, 4, 1};
  for (const bool has_lead : {false, true}) {
    const auto made = run(
        std::string("ENTRY e { a = f32[2,6,4] parameter(0)\n b = f32[4,3,5] parameter(1)\n g = ") +
            (has_lead ? "s32[2,3]" : "s32[3]") +
            " parameter(2)\n ROOT r = f32[2,6,5] ragged-dot(a, b, g), lhs_contracting_dims={2}, "
            "rhs_contracting_dims={0}, lhs_ragged_dims={1}, rhs_group_dims={1} }",
        {floats({2, 6, 4}, 1), floats({4, 3, 5}, 3),
         has_lead ? integers({2, 3}, each) : integers({3}, all)});
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    const Literal a = floats({2, 6, 4}, 1), b = floats({4, 3, 5}, 3);
    for (int lead = 0; lead < 2; ++lead) {
      const std::int32_t* sizes = has_lead ? each.data() + std::ptrdiff_t{3} * lead : all.data();
      for (int row = 0; row < 6; ++row) {
        int group = 0, end = sizes[0];
        while (group < 3 && row >= end) end += ++group < 3 ? sizes[group] : 0;
        for (int column = 0; column < 5; ++column) {
          float sum = 0;
          for (int k = 0; k < 4 && group < 3; ++k) {
            sum += a.data<float>()[(lead * 6 + row) * 4 + k] *
                   b.data<float>()[(k * 3 + group) * 5 + column];
          }
          EXPECT_EQ(made->data<float>()[(lead * 6 + row) * 5 + column], sum) << row;
        }
      }
    }
  }
}

TEST(Expand, RaggedSumsAreProductsOfGroups) {
  const std::vector<std::int32_t> sizes = {2, 0, 3};
  const auto made =
      run("ENTRY e { a = f32[4,6] parameter(0)\n b = f32[6,5] parameter(1)\n g = s32[3] "
          "parameter(2)\n ROOT r = f32[3,4,5] ragged-dot(a, b, g), lhs_contracting_dims={1}, "
          "rhs_contracting_dims={0}, lhs_ragged_dims={1} }",
          {floats({4, 6}, 1), floats({6, 5}, 3), integers({3}, sizes)});
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const Literal a = floats({4, 6}, 1), b = floats({6, 5}, 3);
  int start = 0;
  for (int group = 0; group < 3; ++group) {
    for (int i = 0; i < 20; ++i) {
      float sum = 0;
      for (int k = start; k < start + sizes[static_cast<std::size_t>(group)]; ++k) {
        sum += a.data<float>()[i / 5 * 6 + k] * b.data<float>()[k * 5 + i % 5];
      }
      EXPECT_EQ(made->data<float>()[group * 20 + i], sum) << group << " " << i;
    }
    start += sizes[static_cast<std::size_t>(group)];
  }
  const auto batches =
      run("ENTRY e { a = f32[3,2,4] parameter(0)\n b = f32[3,4,5] parameter(1)\n g = s32[2] "
          "parameter(2)\n ROOT r = f32[3,2,5] ragged-dot(a, b, g), lhs_batch_dims={0}, "
          "rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}, "
          "lhs_ragged_dims={0} }",
          {floats({3, 2, 4}, 1), floats({3, 4, 5}, 3), integers({2}, {1, 2})});
  EXPECT_TRUE(batches.ok()) << batches.status().to_string();
  const auto wrong =
      run("ENTRY e { a = f32[6,4] parameter(0)\n b = f32[2,4,5] parameter(1)\n g = s32[3] "
          "parameter(2)\n ROOT r = f32[6,5] ragged-dot(a, b, g), lhs_contracting_dims={1}, "
          "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0} }",
          {floats({6, 4}, 1), floats({2, 4, 5}, 3), integers({3}, sizes)});
  EXPECT_EQ(wrong.status().code(), StatusCode::invalid_argument) << wrong.status().to_string();
}

TEST(Expand, ScalesHoldForBlocks) {
  const auto made =
      run("ENTRY e { a = f32[2,8] parameter(0)\n b = f32[8,3] parameter(1)\n s = f32[2,2] "
          "parameter(2)\n t = f32[] parameter(3)\n ROOT r = f32[2,3] scaled-dot(a, b, s, t), "
          "lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
          {floats({2, 8}, 1), floats({8, 3}, 3), floats({2, 2}, 5), floats({}, 8)});
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const Literal a = floats({2, 8}, 1), b = floats({8, 3}, 3), s = floats({2, 2}, 5);
  const float t = floats({}, 8).data<float>()[0];
  for (int i = 0; i < 6; ++i) {
    float sum = 0;
    for (int k = 0; k < 8; ++k) {
      sum += a.data<float>()[i / 3 * 8 + k] * s.data<float>()[i / 3 * 2 + k / 4] *
             b.data<float>()[k * 3 + i % 3] * t;
    }
    EXPECT_EQ(made->data<float>()[i], sum) << i;
  }
}

TEST(Expand, BlockScaledCallsAreScaledDots) {
  const Literal a = floats({2, 3, 8}, 1), b = floats({2, 4, 8}, 3), s = floats({2, 3, 2}, 5),
                t = floats({2, 4, 4}, 8), u = floats({}, 2);
  const std::string head =
      "ENTRY e { a = f32[2,3,8] parameter(0)\n b = f32[2,4,8] parameter(1)\n s = f32[2,3,2] "
      "parameter(2)\n t = f32[2,4,4] parameter(3)\n u = f32[] parameter(4)\n";
  const auto call = [&](const std::string& operands) {
    return run(head + " ROOT r = f32[2,3,4] custom-call(" + operands +
                   "), custom_call_target=\"__op$block_scaled_dot\" }",
               {a, b, s, t, u});
  };
  const auto dot = [&](const std::string& scale) {
    return run(head + " one = f32[] constant(1)\n d = f32[2,3,4] scaled-dot(a, b, s, " + scale +
                   "), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
                   "rhs_contracting_dims={2}\n us = f32[2,3,4] broadcast(u), dimensions={}\n "
                   "ROOT r = (f32[2,3,4], f32[2,3,4]) tuple(d, f32[2,3,4] multiply(d, us)) }",
               {a, b, s, t, u});
  };
  const auto plain = dot("t"), unscaled = dot("one");
  ASSERT_TRUE(plain.ok() && unscaled.ok()) << plain.status().to_string();
  const auto expect = [&](const std::string& operands, const Literal& expected) {
    const auto made = call(operands);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    EXPECT_EQ(*made, expected) << operands;
  };
  expect("a, b, s, t", plain->elements()[0]);
  expect("a, b, s, t, u", plain->elements()[1]);
  expect("a, b, s", unscaled->elements()[0]);
  for (const char* operands : {"a, b", "a, u, s", "a, b, s, t, s", "a, b, t, s"}) {
    EXPECT_EQ(call(operands).status().code(), StatusCode::invalid_argument) << operands;
  }
}

TEST(Expand, RandomBitsRoundUpOrDown) {
  const float values[] = {2.25F, -2.25F, 7, -0.5F, 1e10F, -1e10F, std::nanf(""), 0.75F};
  const std::uint32_t bits[] = {0x3FFFFFFF, 0x40000000, 0, 0x7FFFFFFF, 0, 0, 0, 0xFFFFFFFF};
  const std::int32_t expected[] = {3,
                                   -2,
                                   7,
                                   -1,
                                   std::numeric_limits<std::int32_t>::max(),
                                   std::numeric_limits<std::int32_t>::min(),
                                   0,
                                   0};
  Literal value(ir::Shape(ir::DType::f32, {8})), random(ir::Shape(ir::DType::u32, {8}));
  std::copy(std::begin(values), std::end(values), value.mutable_data<float>());
  std::copy(std::begin(bits), std::end(bits), random.mutable_data<std::uint32_t>());
  const std::string text =
      "ENTRY e { a = f32[8] parameter(0)\n b = u32[8] parameter(1)\n ROOT r = TYPE[8] "
      "stochastic-convert(a, b) }";
  const auto of_type = [&](const char* type) {
    return std::string(text).replace(text.find("TYPE"), 4, type);
  };
  const auto made = run(of_type("s32"), {value, random});
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(made->data<std::int32_t>()[i], expected[i]) << i;
  EXPECT_EQ(run(of_type("bf16"), {value, random}).status().code(), StatusCode::unimplemented);
}

}  // namespace
}  // namespace plimsoll
