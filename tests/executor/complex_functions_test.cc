// SPDX-License-Identifier: Apache-2.0
// Functions of complex numbers against the C++ library's in f64, and where parts are infinite.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <string>

#include "runtime/ir/text/text.h"
#include "tests/executor/limit_check.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

using ir::Literal;
using ir::Shape;
using Complex = std::complex<float>;
using Wide = std::complex<double>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Complex> run(const std::string& opcode, const std::vector<Complex>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  const std::string type = "c64[" + std::to_string(count) + "]";
  auto module = ir::parse_module(
      "ENTRY e { a = " + type + " parameter(0)\n ROOT r = " + type + " " + opcode + "(a) }",
      "program");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  if (!module.ok()) return {};
  // At the door a complex array is its parts.
  const Literal argument = Literal::from_bytes(
      Shape(ir::DType::f32, {count, 2}),
      {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(Complex)});
  std::string error;
  const Literal result =
      testing::run_unlimited(**module, {&argument, 1}, provider(), /*optimize=*/true, error);
  EXPECT_EQ(error, "");
  std::vector<Complex> out(values.size());
  EXPECT_EQ(result.bytes().size(), out.size() * sizeof(Complex));
  if (error.empty()) std::memcpy(out.data(), result.bytes().data(), result.bytes().size());
  return out;
}

TEST(ComplexFunctions, AreThoseOfTheLibrary) {
  std::vector<Complex> values;
  for (int i = -12; i <= 12; ++i) {
    for (int j = -12; j <= 12; ++j) {
      values.emplace_back(0.37F * static_cast<float>(i) + 0.01F, 0.41F * static_cast<float>(j));
    }
  }
  const std::pair<const char*, Wide (*)(const Wide&)> functions[] = {
      {"tanh", std::tanh}, {"tan", std::tan},         {"sine", std::sin}, {"cosine", std::cos},
      {"log", std::log},   {"exponential", std::exp}, {"sqrt", std::sqrt}};
  for (const auto& [opcode, function] : functions) {
    const std::vector<Complex> got = run(opcode, values);
    ASSERT_EQ(got.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Wide expected = function(Wide(values[i]));
      EXPECT_LE(std::abs(Wide(got[i]) - expected), 3e-6 * (1 + std::abs(expected)))
          << opcode << values[i] << ": " << got[i] << ", must be " << expected;
    }
  }
}

TEST(ComplexFunctions, HaveNoValueAtAnInfiniteAngle) {
  for (const float re : {-3e38F, -25.F, 2.F, 1e23F}) {
    const Complex got = run("tanh", {{re, kInfinity}})[0];
    EXPECT_TRUE(std::isnan(got.real()) && std::isnan(got.imag())) << re << ": " << got;
    const Complex turned = run("tan", {{-kInfinity, re}})[0];
    EXPECT_TRUE(std::isnan(turned.real()) && std::isnan(turned.imag())) << re << ": " << turned;
  }
  EXPECT_EQ(run("tanh", {{kInfinity, 2}})[0].real(), 1);
  EXPECT_EQ(run("tanh", {{-kInfinity, kInfinity}})[0], Complex(-1, 0));
  EXPECT_EQ(run("tan", {{kInfinity, kInfinity}})[0], Complex(0, 1));
}

}  // namespace
}  // namespace plimsoll
