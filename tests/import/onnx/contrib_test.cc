// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft beside their formulas.
#include <algorithm>
#include <cmath>

#include "tests/import/onnx/one_node.h"

namespace plimsoll::testing {
namespace {

using ir::DType;

OneNode contrib(const char* op) { return OneNode(op, "com.microsoft", 17); }

using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

ir::Literal scale(float value) { return array<float>({}, {value}); }
ir::Literal zero(std::uint8_t value) { return array<std::uint8_t>({}, {value}); }

const Bytes kA{0, 100, 128, 200, 255, 77}, kB{255, 3, 128, 90, 1, 200};

double real(std::uint8_t q, double scale, int zero) { return (q - zero) * scale; }
double byte(double x, double scale, int zero) {
  return std::clamp(std::nearbyint(x / scale) + zero, 0.0, 255.0);
}

TEST(OnnxContrib, QuantizedOperatorsAreThoseOfFloatsBetweenTheirScales) {
  const ir::Dims dims{2, 3};
  const auto binary = [&](const char* op) {
    OneNode made = contrib(op);
    made.input(array(dims, kA)).input(scale(0.02F)).input(zero(100));
    made.input(array(dims, kB)).input(scale(0.03F)).input(zero(120));
    made.input(scale(0.05F)).input(zero(110));
    return made.result(DType::u8);
  };
  std::vector<double> sums, products, shares, leaky;
  for (std::size_t i = 0; i < kA.size(); ++i) {
    const double a = real(kA[i], 0.02, 100), b = real(kB[i], 0.03, 120);
    sums.push_back(byte(a + b, 0.05, 110));
    products.push_back(byte(a * b, 0.05, 110));
    shares.push_back(byte(1 / (1 + std::exp(-a)), 1.0 / 256, 0));
    leaky.push_back(byte(a < 0 ? a * 0.1 : a, 0.02, 10));
  }
  expect_near(binary("QLinearAdd"), dims, sums, 0);
  expect_near(binary("QLinearMul"), dims, products, 0);
  OneNode sigmoid = contrib("QLinearSigmoid");
  sigmoid.input(array(dims, kA)).input(scale(0.02F)).input(zero(100));
  sigmoid.input(scale(1.0F / 256)).input(zero(0));
  expect_near(sigmoid.result(DType::u8), dims, shares, 0);
  OneNode slope = contrib("QLinearLeakyRelu");
  slope.input(array(dims, kA)).input(scale(0.02F)).input(zero(100));
  slope.input(scale(0.02F)).input(zero(10)).with(real_attribute("alpha", 0.1F));
  expect_near(slope.result(DType::u8), dims, leaky, 0);
}

TEST(OnnxContrib, QuantizedArraysAreConcatenatedChosenAndPooled) {
  OneNode both = contrib("QLinearConcat");
  both.input(scale(0.05F)).input(zero(110));
  both.input(array<std::uint8_t>({1, 2}, {0, 200})).input(scale(0.02F)).input(zero(100));
  both.input(array<std::uint8_t>({1, 1}, {77})).input(scale(0.03F)).input(zero(120));
  both.with(attribute("axis", 1));
  expect_near(both.result(DType::u8), {1, 3},
              {byte(real(0, 0.02, 100), 0.05, 110), byte(real(200, 0.02, 100), 0.05, 110),
               byte(real(77, 0.03, 120), 0.05, 110)},
              0);
  OneNode chosen = contrib("QLinearWhere");
  chosen.input(ir::Literal::array<bool>({2}, std::array{true, false}));
  chosen.input(array<std::uint8_t>({2}, {50, 60})).input(scale(0.02F)).input(zero(100));
  chosen.input(array<std::uint8_t>({2}, {70, 80})).input(scale(0.03F)).input(zero(120));
  chosen.input(scale(0.05F)).input(zero(110));
  expect_near(chosen.result(DType::u8), {2},
              {byte(real(50, 0.02, 100), 0.05, 110), byte(real(80, 0.03, 120), 0.05, 110)}, 0);
  const std::vector<double> means{byte((real(0, 0.02, 100) + real(200, 0.02, 100)) / 2, 0.02, 90),
                                  byte((real(10, 0.02, 100) + real(30, 0.02, 100)) / 2, 0.02, 90)};
  for (const bool channels_last : {false, true}) {
    OneNode pool = contrib("QLinearGlobalAveragePool");
    pool.input(channels_last ? array<std::uint8_t>({1, 1, 2, 2}, {0, 10, 200, 30})
                             : array<std::uint8_t>({1, 2, 1, 2}, {0, 200, 10, 30}));
    pool.input(scale(0.02F)).input(zero(100)).input(scale(0.02F)).input(zero(90));
    pool.with(attribute("channels_last", std::int64_t{channels_last}));
    const ir::Dims dims = channels_last ? ir::Dims{1, 1, 1, 2} : ir::Dims{1, 2, 1, 1};
    expect_near(pool.result(DType::u8), dims, means, 0);
  }
}

TEST(OnnxContrib, ProductsOfIntegersAreScaledByTheirColumns) {
  OneNode gemm = contrib("QGemm");
  gemm.input(array<std::uint8_t>({1, 2}, {130, 120})).input(scale(0.5F)).input(zero(128));
  gemm.input(array<std::int8_t>({2, 2}, {1, -2, 3, 4})).input(array<float>({2}, {1, 0.25F}));
  gemm.input(array<std::int8_t>({2}, {0, 1})).input(array<std::int32_t>({2}, {7, -7}));
  gemm.with(attribute("transB", 1));
  // Rows of the second are columns, the second of them one too high: (2, 3).
  expect_near(gemm.result(DType::f32), {1, 2},
              {(2 * 1 - 8 * -2 + 7) * 0.5, (2 * 2 - 8 * 3 - 7) * 0.5 * 0.25}, 1e-6);
  OneNode floats = contrib("MatMulIntegerToFloat");
  floats.input(array<std::uint8_t>({1, 2}, {130, 120})).input(array<std::uint8_t>({2, 1}, {9, 5}));
  floats.input(scale(0.5F)).input(scale(2)).input(zero(128)).input(zero(4));
  floats.input(array<float>({1}, {100}));
  expect_near(floats.result(DType::f32), {1, 1}, {2 * 5 - 8 * 1 + 100}, 1e-6);
  OneNode dynamic = contrib("DynamicQuantizeMatMul");
  dynamic.input(array<float>({1, 2}, {0, 2.55F})).input(array<std::uint8_t>({2, 1}, {9, 5}));
  dynamic.input(scale(2)).input(zero(4));
  expect_near(dynamic.result(DType::f32), {1, 1}, {2.55 * 2}, 1e-5);
}

// Of weights that are known the products are of the bytes themselves, whatever their signs.
TEST(OnnxContrib, ProductsWithKnownWeightsAreThoseOfNumbersLessTheirZeros) {
  const Bytes a{0, 255, 7, 100, 130, 99};                    // [1,2,3]
  const std::vector<std::int8_t> w{1, -128, 127, 5, -6, 7};  // [3,2]
  for (const bool is_signed : {true, false}) {
    for (const std::uint8_t weight_zero : {0, 3}) {
      OneNode product("MatMulInteger", "", 17);
      product.input(array<std::uint8_t>({1, 2, 3}, a));
      if (is_signed) {
        product.constant(array<std::int8_t>({3, 2}, w));
      } else {
        product.constant(array<std::uint8_t>({3, 2}, Bytes(w.begin(), w.end())));
      }
      product.input(zero(100));
      if (is_signed) {
        product.constant(array<std::int8_t>({}, {static_cast<std::int8_t>(weight_zero)}));
      } else {
        product.constant(zero(weight_zero));
      }
      std::vector<double> wanted;
      for (std::size_t i = 0; i < 2; ++i) {
        for (std::size_t k = 0; k < 2; ++k) {
          int sum = 0;
          for (std::size_t d = 0; d < 3; ++d) {
            const int weight = is_signed ? w[2 * d + k] : static_cast<std::uint8_t>(w[2 * d + k]);
            sum += (a[3 * i + d] - 100) * (weight - weight_zero);
          }
          wanted.push_back(sum);
        }
      }
      expect_near(product.result(DType::s32), {1, 2, 2}, wanted, 0);
    }
  }
}

// Of any number of rows, and where each column has a zero point of its own.
TEST(OnnxContrib, ProductsOfManyRowsReadTheirBytesAsTheyLie) {
  constexpr int kRows = 100, kColumns = 3;
  Bytes a, w;
  for (int i = 0; i < kRows * 2; ++i) a.push_back(static_cast<std::uint8_t>(i * 37));
  for (int i = 0; i < 2 * kColumns; ++i) w.push_back(static_cast<std::uint8_t>(i * 91));
  const Bytes zeros{0, 200, 7};
  OneNode product("MatMulInteger", "", 17);
  product.input(array<std::uint8_t>({kRows, 2}, a)).constant(array<std::uint8_t>({2, kColumns}, w));
  product.input(zero(100)).constant(array<std::uint8_t>({kColumns}, zeros));
  EXPECT_EQ(products_of(product.bytes(DType::s32)), std::make_pair(1, 0));
  std::vector<double> wanted;
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t k = 0; k < kColumns; ++k) {
      wanted.push_back((a[2 * i] - 100) * (w[k] - zeros[k]) +
                       (a[2 * i + 1] - 100) * (w[kColumns + k] - zeros[k]));
    }
  }
  expect_near(product.result(DType::s32), {kRows, kColumns}, wanted, 0);
}

// Few products are exact in f32; of many the bytes are read as they lie, with the zero point of the
// input where windows reach beyond it. Sums here are above 2^24, where f32 has even numbers only.
TEST(OnnxContrib, ConvolutionsOfBytesAreExact) {
  struct Case {
    int channels, size, pad;
    bool in_bytes, shifts = false;
  };
  for (const Case& c : {Case{2, 1, 0, false}, Case{600, 1, 0, true}, Case{600, 3, 1, true},
                        Case{600, 3, 1, true, true}}) {
    const int taps = c.size * c.size;
    Bytes x(static_cast<std::size_t>(c.channels) * 4, 255);
    x[0] = 3;
    std::vector<std::int8_t> w(static_cast<std::size_t>(2 * c.channels * taps), 127);
    w[1] = -128;
    for (std::size_t i = w.size() / 2; i < w.size(); ++i) w[i] = static_cast<std::int8_t>(i);
    OneNode made("ConvInteger", "", 17);
    made.input(array<std::uint8_t>({1, c.channels, 2, 2}, x));
    made.constant(array<std::int8_t>({2, c.channels, c.size, c.size}, w)).input(zero(5));
    if (c.shifts) made.constant(array<std::int8_t>({2}, {3, -4}));
    made.with(attribute("pads", std::vector<std::int64_t>(4, c.pad)));
    EXPECT_EQ(products_of(made.bytes(DType::s32)),
              std::make_pair(c.in_bytes ? 1 : 0, c.in_bytes && !c.shifts ? 0 : 1));
    std::vector<double> wanted;
    for (int filter = 0; filter < 2; ++filter) {
      for (int place = 0; place < 4; ++place) {
        std::int64_t sum = 0;
        for (int channel = 0; channel < c.channels; ++channel) {
          for (int tap = 0; tap < taps; ++tap) {
            const int row = place / 2 + tap / c.size - c.pad;
            const int column = place % 2 + tap % c.size - c.pad;
            if (row < 0 || row > 1 || column < 0 || column > 1) continue;
            const auto at_x = static_cast<std::size_t>(channel * 4 + row * 2 + column);
            const auto at_w =
                static_cast<std::size_t>((filter * c.channels + channel) * taps + tap);
            sum += (x[at_x] - 5) * (w[at_w] - (c.shifts ? (filter == 0 ? 3 : -4) : 0));
          }
        }
        wanted.push_back(static_cast<double>(sum));
      }
    }
    expect_near(made.result(DType::s32), {1, 2, 2, 2}, wanted, 0);
  }
}

TEST(OnnxContrib, FusedOperatorsDoOneBehindTheOther) {
  OneNode product = contrib("FusedMatMul");
  product.input(array<float>({2, 1}, {1, 2})).input(array<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  product.with(attribute("transA", 1)).with(attribute("transB", 1));
  product.with(real_attribute("alpha", 0.5F));
  expect_near(product.result(DType::f32), {1, 3}, {2.5, 5.5, 8.5}, 1e-6);
  OneNode convolution = contrib("FusedConv");
  convolution.input(array<float>({1, 1, 2, 2}, {1, -2, 3, -4}));
  convolution.input(array<float>({1, 1, 1, 1}, {2})).input(array<float>({1}, {1}));
  convolution.input(array<float>({1, 1, 2, 2}, {0, 1, 2, 20}));
  convolution.with(text_attribute("activation", "Relu"));
  expect_near(convolution.result(DType::f32), {1, 1, 2, 2}, {3, 0, 9, 13}, 1e-6);
  OneNode unknown = contrib("FusedConv");
  unknown.input(array<float>({1, 1, 1, 1}, {1})).input(array<float>({1, 1, 1, 1}, {2}));
  unknown.with(text_attribute("activation", "Elsewhere"));
  EXPECT_NE(unknown.error(DType::f32).find("'Elsewhere'"), std::string::npos);
}

TEST(OnnxContrib, NormalizesSums) {
  const auto row = [](const Floats& values) { return array<float>({1, 2}, values); };
  OneNode centered = contrib("SkipLayerNormalization");
  centered.input(row({1, 2})).input(row({2, 3})).input(array<float>({2}, {2, 3}));
  centered.input(array<float>({2}, {1, 1})).with(real_attribute("epsilon", 0));
  expect_near(centered.result(DType::f32), {1, 2}, {1 - 2, 1 + 3}, 1e-5);
  expect_near(centered.result(DType::f32, 3), {1, 2}, {3, 5}, 0);
  OneNode root = contrib("SkipSimplifiedLayerNormalization");
  root.input(row({1, 2})).input(row({2, 2})).input(array<float>({2}, {2, 3}));
  root.with(real_attribute("epsilon", 0));
  expect_near(root.result(DType::f32), {1, 2}, {2 * 3 / std::sqrt(12.5), 3 * 4 / std::sqrt(12.5)},
              1e-5);
}

TEST(OnnxContrib, NormalizesRowsOfTables) {
  OneNode made = contrib("EmbedLayerNormalization");
  made.input(array<std::int32_t>({1, 2}, {2, 0})).input(array<std::int32_t>({1, 2}, {1, 0}));
  made.input(array<float>({3, 2}, {1, 2, 3, 4, 5, 7})).input(array<float>({2, 2}, {0, 1, 2, 4}));
  made.input(array<float>({2, 2}, {10, 20, 30, 40})).input(array<float>({2}, {2, 3}));
  made.input(array<float>({2}, {1, -1})).input(array<std::int32_t>({1, 2}, {1, 0}));
  // Sums {5 + 0 + 30, 7 + 1 + 40} and {1 + 2 + 10, 2 + 4 + 20}, whose second elements are larger.
  expect_near(made.result(DType::f32, 2), {1, 2, 2}, {35, 48, 13, 26}, 0);
  expect_near(made.result(DType::f32), {1, 2, 2}, {1 - 2, -1 + 3, 1 - 2, -1 + 3}, 1e-5);
  expect_near(made.result(DType::s32, 1), {1}, {1}, 0);
}

// One step of one unit: weights lie transposed, and gates are i, o, f, c.
TEST(OnnxContrib, ARecurrentLayerOfBytesIsThatOfItsFloats) {
  OneNode made = contrib("DynamicQuantizeLSTM");
  made.input(array<float>({1, 1, 1}, {0.5F}));
  made.input(array<std::uint8_t>({1, 1, 4}, {130, 126, 129, 132}));
  made.input(array<std::uint8_t>({1, 1, 4}, {128, 128, 128, 128}));
  for (int i = 0; i < 5; ++i) made.no_input();
  made.input(array<float>({1}, {0.5F})).input(array<std::uint8_t>({1}, {128}));
  made.input(array<float>({1}, {0.5F})).input(array<std::uint8_t>({1}, {128}));
  made.with(attribute("hidden_size", 1));
  const auto share = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double cell = share(0.5) * std::tanh(1.0);
  expect_near(made.result(DType::f32), {1, 1, 1, 1}, {share(-0.5) * std::tanh(cell)}, 1e-6);
}

}  // namespace
}  // namespace plimsoll::testing
