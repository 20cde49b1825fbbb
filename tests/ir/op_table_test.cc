// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <type_traits>

#include "runtime/ir/scalar_function.h"
#include "runtime/ir/shapes/shape_inference.h"

namespace plimsoll::ir {
namespace {

template <typename F>
void for_each_opcode(F f) {
  for (int i = 0; i < opcode_count(); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    SCOPED_TRACE(to_string(opcode));
    f(opcode, op_info(opcode));
  }
}

TEST(OpTable, GivesEveryOpATextOfItsOwn) {
  for_each_opcode(
      [](Opcode opcode, const OpInfo& info) { EXPECT_EQ(parse_opcode(info.text), opcode); });
}

TEST(OpTable, AgreesOnWhatIsElementwise) {
  for_each_opcode([](Opcode opcode, const OpInfo& info) {
    EXPECT_EQ(is_elementwise(opcode), info.loop_role == LoopRole::element);
    if (!is_elementwise(opcode)) return;
    EXPECT_GE(info.work, 1);
    EXPECT_TRUE(info.is_recordable);
    EXPECT_FALSE(info.has_side_effect);
  });
}

// The value type that holds a number of a dtype.
template <typename T>
struct ValueOf {
  using type = math::ScalarInteger<T>;
};
template <>
struct ValueOf<bool> {
  using type = math::ScalarMask;
};
template <>
struct ValueOf<double> {
  using type = math::ScalarF64;
};
template <typename T>
  requires std::is_same_v<T, float> || std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>
struct ValueOf<T> {
  using type = math::ScalarF32;
};

// Those whose rows name a function, told by the one dtype or the other that they accept.
bool has_function(Opcode opcode, DType dtype) {
  return visit_dtype(dtype, [&]<typename T>(T) {
    using V = typename ValueOf<T>::type;
    return visit_unary<V>(opcode, [](auto) {}) || visit_binary<V>(opcode, [](auto) {});
  });
}

TEST(OpTable, HasAFunctionForExactlyTheDtypesThatShapesAreInferredFor) {
  constexpr std::array kDTypes = {
#define PLIMSOLL_DTYPE(name, text, type, bytes, kind) DType::name,
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
  };
  int functions = 0;
  for_each_opcode([&](Opcode opcode, const OpInfo& info) {
    const bool found = std::any_of(kDTypes.begin(), kDTypes.end(),
                                   [&](DType dtype) { return has_function(opcode, dtype); });
    if (!found) return;
    ++functions;
    for (const DType dtype : kDTypes) {
      const Shape shape(dtype, {3});
      const Shape* const operands[] = {&shape, &shape};
      const auto count = static_cast<std::size_t>(info.fewest_operands);
      const auto inferred = infer_shape(opcode, std::span(operands).first(count), {}, {}, nullptr);
      EXPECT_EQ(has_function(opcode, dtype), inferred.ok()) << to_string(dtype);
    }
  });
  EXPECT_GE(functions, 38);
}

TEST(OpTable, AppliesAFunctionByItsOpcode) {
  using math::ScalarF32;
  EXPECT_EQ(apply(Opcode::add, ScalarF32{2}, ScalarF32{3})->value, 5);
  EXPECT_EQ(apply(Opcode::negate, math::ScalarInteger<std::int8_t>{-128})->value, -128);
  EXPECT_TRUE(apply(Opcode::add, math::ScalarMask{true}, math::ScalarMask{false})->value);
  EXPECT_FALSE(apply(Opcode::tanh, math::ScalarInteger<std::int32_t>{1}).has_value());
  EXPECT_FALSE(apply(Opcode::reshape, ScalarF32{1}).has_value());
}

std::string text_of(const char* path) {
  std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR) + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(OpTable, HoldsTheRowThatContributingShows) {
  const std::string page = text_of("/docs/contributing.md");
  const std::string indent = "   ";
  const std::size_t first = page.find(indent + "PLIMSOLL_UNARY_OP(");
  ASSERT_NE(first, std::string::npos);
  std::string row;
  for (std::size_t at = first; page.compare(at, 6, "   ```") != 0;) {
    const std::size_t end = page.find('\n', at) + 1;
    row += page.substr(at + indent.size(), end - at - indent.size());
    at = end;
  }
  EXPECT_NE(text_of("/runtime/ir/ops.def").find(row), std::string::npos) << row;
}

}  // namespace
}  // namespace plimsoll::ir
