// SPDX-License-Identifier: Apache-2.0
// Integers of less than a byte and floats of at most one through the whole stack, against scalar
// arithmetic on their numbers and, where values only move, against bytes; the same bits at every
// limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "runtime/ir/narrow.h"
#include "runtime/ir/text/text.h"
#include "tests/executor/limit_check.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

using ir::Dims;
using ir::DType;
using ir::Literal;
using ir::Shape;

constexpr DType kIntegers[] = {DType::s2, DType::u2, DType::s4, DType::u4};
constexpr DType kFloats[] = {
#define PLIMSOLL_DTYPE(...)
#define PLIMSOLL_NARROW_FLOAT_DTYPE(name, ...) DType::name,
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
};

std::string with_dtype(std::string text, std::string_view dtype) {
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at)) {
    text.replace(at, 1, dtype);
  }
  return text;
}

std::unique_ptr<ir::Module> parsed(const std::string& text) {
  auto module = ir::parse_module(text, "program");
  EXPECT_TRUE(module.ok()) << module.status().to_string() << "\n" << text;
  return module.ok() ? std::move(*module) : nullptr;
}

// The result, as the shape that the program has for it.
Literal run(const std::string& text, const std::vector<Literal>& arguments, bool optimize = true) {
  const auto module = parsed(text);
  if (module == nullptr) return {};
  std::string error;
  const Literal result = testing::run_unlimited(*module, arguments, provider(), optimize, error);
  EXPECT_EQ(error, "") << text;
  if (!error.empty()) return {};
  return Literal::from_bytes(module->entry()->root()->shape(), result.bytes());
}

// Every code in turn.
Literal codes(DType dtype, const Dims& dims, int step = 1, int start = 0) {
  Literal literal(Shape(dtype, dims));
  for (std::int64_t i = 0; i < literal.shape().element_count(); ++i) {
    ir::set_code_at(dtype, literal.mutable_bytes(), i, static_cast<std::uint8_t>(start + i * step));
  }
  return literal;
}

std::uint8_t code(const Literal& literal, std::int64_t i) {
  return ir::code_at(literal.shape().dtype(), literal.bytes(), i);
}

std::string shape_text(DType dtype, std::int64_t count) {
  return Shape(dtype, {count}).to_string();
}

// f32 all over, and next to all that decides how a number is rounded.
std::vector<double> numbers_for(DType dtype) {
  std::vector<double> numbers;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 65521) {
    numbers.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (int a = 0; a + 1 < 1 << ir::dtype_bits(dtype); ++a) {
    const double number = ir::narrow_number(dtype, static_cast<std::uint8_t>(a));
    const double next = ir::narrow_number(dtype, static_cast<std::uint8_t>(a + 1));
    numbers.insert(numbers.end(), {number, -number, (number + next) / 2, -(number + next) / 2});
  }
  for (std::size_t i = numbers.size() - 1024; i < numbers.size() && numbers.size() < 70000; ++i) {
    const auto near = static_cast<float>(numbers[i]);
    numbers.push_back(std::nextafter(near, std::numeric_limits<float>::infinity()));
    numbers.push_back(std::nextafter(near, -std::numeric_limits<float>::infinity()));
  }
  return numbers;
}

// Signs of NaNs are not compared.
void expect_code(DType dtype, std::uint8_t got, double number, const std::string& what) {
  const std::uint8_t wanted = ir::narrow_code(dtype, number);
  if (got == wanted) return;
  EXPECT_TRUE(std::isnan(number) && std::isnan(ir::narrow_number(dtype, got)))
      << what << " of " << number << " to " << ir::to_string(dtype) << ": " << int{got} << " for "
      << int{wanted};
}

TEST(NarrowTypes, NumbersAreRoundedOnce) {
  for (const DType dtype : kFloats) {
    const std::vector<double> numbers = numbers_for(dtype);
    const auto count = static_cast<std::int64_t>(numbers.size());
    for (const DType from : {DType::f32, DType::f64}) {
      Literal argument(Shape(from, {count}));
      for (std::int64_t i = 0; i < count; ++i) {
        double number = numbers[static_cast<std::size_t>(i)];
        // Beside what f32 holds: rounded to it first, half of them would become ties.
        if (from == DType::f64) number *= 1 + 0x1p-40 * (i % 3 - 1);
        argument.set(i, number);
      }
      const Literal result =
          run("ENTRY e { x = " + argument.shape().to_string() +
                  " parameter(0)\n ROOT r = " + shape_text(dtype, count) + " convert(x) }",
              {argument});
      for (std::int64_t i = 0; i < count; ++i) {
        expect_code(dtype, code(result, i), argument.at(i), std::string(ir::to_string(from)));
      }
    }
  }
}

TEST(NarrowTypes, EveryCodeIsItsNumberInEveryDtype) {
  for (const std::span<const DType> dtypes :
       {std::span<const DType>(kFloats), std::span<const DType>(kIntegers)}) {
    for (const DType dtype : dtypes) {
      const std::int64_t count = 1 << ir::dtype_bits(dtype);
      const Literal all = codes(dtype, {count});
      for (const DType to : {DType::f32, DType::f64, DType::bf16, DType::s32, DType::s8,
                             DType::f8e5m2, DType::f4e2m1fn, DType::s4, DType::pred}) {
        const Literal result =
            run("ENTRY e { x = " + all.shape().to_string() +
                    " parameter(0)\n ROOT r = " + shape_text(to, count) + " convert(x) }",
                {all});
        for (std::int64_t i = 0; i < count; ++i) {
          const float number = ir::narrow_number(dtype, static_cast<std::uint8_t>(i));
          const std::string what = std::string(ir::to_string(dtype)) + " code " +
                                   std::to_string(i) + " to " + std::string(ir::to_string(to));
          if (to == DType::pred) {
            EXPECT_EQ(result.at(i), number != 0) << what;
          } else if (ir::is_narrow(to) && (ir::is_floating(to) || ir::is_floating(dtype))) {
            expect_code(to, code(result, i), number, what);
          } else if (ir::is_narrow(to)) {  // integers wrap
            EXPECT_EQ(code(result, i), static_cast<int>(number) & 15) << what;
          } else if (std::isnan(number)) {
            EXPECT_TRUE(ir::is_floating(to) ? std::isnan(result.at(i)) : result.at(i) == 0) << what;
          } else if (ir::is_integer(to)) {
            const double most = to == DType::s8 ? 127 : 2147483647;
            EXPECT_EQ(result.at(i), std::clamp(std::trunc(double{number}), -most - 1, most))
                << what;
          } else {
            EXPECT_EQ(result.at(i), number) << what;
            EXPECT_EQ(std::signbit(result.at(i)), std::signbit(number)) << what;
          }
        }
      }
    }
  }
}

struct Operation {
  const char* name;
  std::function<float(float, float)> apply;
};

float larger(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b); }

TEST(NarrowTypes, FloatsAreComputedInF32AndRoundedAfterEachOperation) {
  const Operation operations[] = {
      {"add", [](float a, float b) { return a + b; }},
      {"multiply", [](float a, float b) { return a * b; }},
      {"divide", [](float a, float b) { return a / b; }},
      {"maximum", larger},
  };
  for (const DType dtype : kFloats) {
    const std::int64_t count = 1 << ir::dtype_bits(dtype);
    const Literal a = codes(dtype, {count, count});
    const std::string shape = a.shape().to_string();
    for (const Operation& operation : operations) {
      const std::string name = operation.name;
      const Literal result = run("ENTRY e { a = " + shape + " parameter(0)\n b = " + shape +
                                     " transpose(a), dimensions={1,0}\n c = " + shape + " " + name +
                                     "(a, b)\n ROOT r = " + shape + " " + name + "(c, b) }",
                                 {a});
      for (std::int64_t i = 0; i < count * count; i += 3) {
        const auto x = static_cast<std::uint8_t>(i % count),
                   y = static_cast<std::uint8_t>(i / count);
        const float b = ir::narrow_number(dtype, y);
        const float once = operation.apply(ir::narrow_number(dtype, x), b);
        const float c = ir::narrow_number(dtype, ir::narrow_code(dtype, once));
        const float twice = operation.apply(c, b);
        if (name == "maximum" && twice == 0) continue;  // -0 is below +0, not so in C
        expect_code(dtype, code(result, i), twice, name);
      }
    }
  }
}

TEST(NarrowTypes, IntegersWrap) {
  const struct {
    const char* name;
    std::function<int(int, int, int)> apply;  // of numbers, or of codes without sign, and bits
    bool of_codes = false;
  } operations[] = {
      {"add", [](int a, int b, int) { return a + b; }},
      {"subtract", [](int a, int b, int) { return a - b; }},
      {"multiply", [](int a, int b, int) { return a * b; }},
      {"divide", [](int a, int b, int) { return b == 0 ? -1 : a / b; }},
      {"remainder", [](int a, int b, int) { return b == 0 ? a : a % b; }},
      {"maximum", [](int a, int b, int) { return std::max(a, b); }},
      {"and", [](int a, int b, int) { return a & b; }},
      {"xor", [](int a, int b, int) { return a ^ b; }},
      {"shift-left", [](int a, int b, int bits) { return b >= bits ? 0 : a << b; }, true},
      {"shift-right-logical", [](int a, int b, int bits) { return b >= bits ? 0 : a >> b; }, true},
  };
  for (const DType dtype : kIntegers) {
    const int bits = ir::dtype_bits(dtype);
    const std::int64_t count = 1 << bits;
    const Literal a = codes(dtype, {count, count});
    const std::string shape = a.shape().to_string();
    for (const auto& operation : operations) {
      const Literal result = run("ENTRY e { a = " + shape + " parameter(0)\n b = " + shape +
                                     " transpose(a), dimensions={1,0}\n ROOT r = " + shape + " " +
                                     operation.name + "(a, b) }",
                                 {a});
      for (std::int64_t i = 0; i < count * count; ++i) {
        const auto x = static_cast<std::uint8_t>(i % count),
                   y = static_cast<std::uint8_t>(i / count);
        const auto number = [&](std::uint8_t one) {
          return operation.of_codes ? one : static_cast<int>(ir::narrow_number(dtype, one));
        };
        const int wanted = operation.apply(number(x), number(y), bits);
        EXPECT_EQ(code(result, i), wanted & (static_cast<int>(count) - 1))
            << ir::to_string(dtype) << " " << operation.name << " of " << int{x} << ", " << int{y};
      }
    }
  }
}

TEST(NarrowTypes, BitsAreCountedInTheDtypesWidth) {
  for (const DType dtype : kIntegers) {
    const int bits = ir::dtype_bits(dtype);
    const std::int64_t count = 1 << bits;
    const std::string shape = shape_text(dtype, count);
    const auto result = [&](const std::string& operation) {
      return run("ENTRY e { a = " + shape + " parameter(0)\n ROOT r = " + shape + " " + operation +
                     "(a) }",
                 {codes(dtype, {count})});
    };
    const Literal ones = result("popcnt"), zeros = result("count-leading-zeros");
    const Literal inverse = result("not"), negative = result("negate");
    for (std::int64_t i = 0; i < count; ++i) {
      const auto byte = static_cast<std::uint8_t>(i);
      const int mask = static_cast<int>(count) - 1;
      EXPECT_EQ(code(ones, i), std::popcount(byte) & mask) << shape << i;
      EXPECT_EQ(code(zeros, i), (std::countl_zero(byte) - 8 + bits) & mask) << shape << i;
      EXPECT_EQ(code(inverse, i), ~byte & mask) << shape << i;
      EXPECT_EQ(code(negative, i), -byte & mask) << shape << i;
    }
    const Literal shifted =
        run("ENTRY e { a = " + shape + " parameter(0)\n one = " + shape +
                " constant(1)\n ROOT r = " + shape + " shift-right-arithmetic(a, one) }",
            {codes(dtype, {count})});
    for (std::int64_t i = 0; i < count; ++i) {
      const auto sign = i & count / 2;
      EXPECT_EQ(code(shifted, i), i / 2 | sign) << shape << i;
    }
  }
}

// What only moves values, with $ for the dtype; the bytes are to move as those of u8 do.
constexpr const char* kMovements[] = {
    "ENTRY e { x = $[6,7] parameter(0)\n ROOT r = $[7,6] transpose(x), dimensions={1,0} }",
    "ENTRY e { x = $[6,7] parameter(0)\n ROOT r = $[2,3] slice(x), slice={[1:5:2], [0:7:3]} }",
    "ENTRY e { x = $[6,7] parameter(0)\n z = $[] constant(1)\n ROOT r = $[9,8] pad(x, z), "
    "padding=1_2x0_1 }",
    "ENTRY e { x = $[6,7] parameter(0)\n y = $[6,7] reverse(x), dimensions={1}\n ROOT r = $[12,7] "
    "concatenate(x, y), dimensions={0} }",
    "ENTRY e { x = $[6,7] parameter(0)\n i = s32[3,1] constant({{4}, {0}, {5}})\n ROOT r = $[3,7] "
    "gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,7} }",
    "f { a = $[] parameter(0)\n ROOT b = $[] parameter(1) }\n"
    "ENTRY e { x = $[6,7] parameter(0)\n i = s32[2,1] constant({{4}, {0}})\n u = $[2,7] slice(x), "
    "slice={[2:4], [0:7]}\n ROOT r = $[6,7] scatter(x, i, u), update_window_dims={1}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }",
    "ENTRY e { x = $[6,7] parameter(0)\n i = s32[] constant(2)\n u = $[2,2] dynamic-slice(x, i, "
    "i), dynamic_slice_sizes={2,2}\n z = s32[] constant(0)\n ROOT r = $[6,7] "
    "dynamic-update-slice(x, u, z, i) }",
    "c { p = (s32[], $[6,7]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n n = s32[] "
    "constant(3)\n ROOT r = pred[] compare(i, n), direction=LT }\n"
    "b { p = (s32[], $[6,7]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n one = s32[] "
    "constant(1)\n j = s32[] add(i, one)\n x = $[6,7] get-tuple-element(p), index=1\n y = $[6,7] "
    "reverse(x), dimensions={0}\n ROOT r = (s32[], $[6,7]) tuple(j, y) }\n"
    "ENTRY e { x = $[6,7] parameter(0)\n z = s32[] constant(0)\n s = (s32[], $[6,7]) tuple(z, x)\n "
    "w = (s32[], $[6,7]) while(s), condition=c, body=b\n ROOT r = $[6,7] get-tuple-element(w), "
    "index=1 }",
    "ENTRY e { x = $[6,7] parameter(0)\n k = s32[6,7] iota(), iota_dimension=1\n n = s32[6,7] "
    "constant(3)\n p = pred[6,7] compare(k, n), direction=LT\n y = $[6,7] reverse(x), "
    "dimensions={0}\n ROOT r = $[6,7] select(p, x, y) }",
};

TEST(NarrowTypes, MovedValuesKeepTheirCodes) {
  for (const char* const text : kMovements) {
    for (const DType dtype : {DType::s2, DType::u4, DType::s4, DType::f4e2m1fn, DType::f8e4m3fn,
                              DType::f8e5m2, DType::f8e5m2fnuz}) {
      const Literal result =
          run(with_dtype(text, ir::to_string(dtype)), {codes(dtype, {6, 7}, 37, 11)});
      // The same on bytes, the padding's constant apart.
      std::string bytes = with_dtype(text, "u8");
      const std::string one = "u8[] constant(1)";
      if (const auto at = bytes.find(one); at != std::string::npos) {
        bytes.replace(at, one.size(),
                      "u8[] constant(" + std::to_string(ir::narrow_code(dtype, 1)) + ")");
      }
      const Literal wanted = run(bytes, {codes(DType::u8, {6, 7}, 37, 11)});
      const int mask = (1 << ir::dtype_bits(dtype)) - 1;
      for (std::int64_t i = 0; i < wanted.shape().element_count(); ++i) {
        ASSERT_EQ(code(result, i), static_cast<int>(wanted.at(i)) & mask)
            << with_dtype(text, ir::to_string(dtype));
      }
    }
  }
}

TEST(NarrowTypes, BitsOfOneDtypeAreThoseOfAnother) {
  const struct {
    const char *from, *to;
  } pairs[] = {
      {"u8[6]", "f8e4m3fn[6]"},   {"f8e5m2[6]", "s8[6]"},    {"f8e5m2[6]", "f8e8m0fnu[6]"},
      {"s4[6]", "u4[6]"},         {"u4[6]", "f4e2m1fn[6]"},  {"u8[6]", "s4[6,2]"},
      {"s4[6,2]", "u8[6]"},       {"f32[3]", "f8e5m2[3,4]"}, {"f8e5m2[3,4]", "f32[3]"},
      {"s2[3,4]", "f8e4m3fn[3]"}, {"u16[3]", "u4[3,4]"},     {"u4[3,4]", "u16[3]"},
      {"u4[5]", "u2[5,2]"},       {"s2[5,2]", "s4[5]"},      {"s2[5]", "u2[5]"},
  };
  for (const auto& pair : pairs) {
    const std::string text = "ENTRY e { x = " + std::string(pair.from) +
                             " parameter(0)\n ROOT r = " + pair.to + " bitcast-convert(x) }";
    const auto module = parsed(text);
    ASSERT_NE(module, nullptr);
    Literal argument(module->entry()->parameters()[0]->shape());
    int next = 0;
    for (std::byte& byte : argument.mutable_bytes()) byte = std::byte(next += 89);
    // The bits left over at the end are zeros.
    const std::int64_t count = argument.shape().element_count();
    const int bits = ir::dtype_bits(argument.shape().dtype());
    if (count * bits % 8 != 0)
      argument.mutable_bytes().back() &= std::byte((1 << count * bits % 8) - 1);
    const Literal result = run(text, {argument});
    EXPECT_TRUE(std::equal(result.bytes().begin(), result.bytes().end(), argument.bytes().begin(),
                           argument.bytes().end()))
        << text;
  }
}

TEST(NarrowTypes, ProductsAndSumsAreRoundedOnce) {
  for (const DType dtype : {DType::f8e4m3fn, DType::f8e5m2fnuz, DType::f4e2m1fn}) {
    Literal a(Shape(dtype, {5, 9})), b(Shape(dtype, {9, 4}));
    for (int i = 0; i < 45; ++i) a.set(i, (i * 7 % 11 - 5) / 4.0);
    for (int i = 0; i < 36; ++i) b.set(i, (i * 5 % 13 - 6) / 2.0);
    const Literal product =
        run(with_dtype("ENTRY e { a = $[5,9] parameter(0)\n b = $[9,4] parameter(1)\n ROOT r = "
                       "$[5,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
                       ir::to_string(dtype)),
            {a, b});
    const Literal wide =
        run(with_dtype("ENTRY e { a = $[5,9] parameter(0)\n b = $[9,4] parameter(1)\n ROOT r = "
                       "f32[5,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
                       ir::to_string(dtype)),
            {a, b});
    const Literal sums = run(
        with_dtype("add { x = $[] parameter(0)\n y = $[] parameter(1)\n ROOT s = $[] add(x, y) }\n"
                   "ENTRY e { a = $[5,9] parameter(0)\n z = $[] constant(0)\n ROOT r = $[5] "
                   "reduce(a, z), dimensions={1}, to_apply=add }",
                   ir::to_string(dtype)),
        {a});
    for (int i = 0; i < 5; ++i) {
      double sum = 0;
      for (int k = 0; k < 9; ++k) sum += a.at(i * 9 + k);
      expect_code(dtype, code(sums, i), sum, "sum");
      for (int j = 0; j < 4; ++j) {
        double dot = 0;
        for (int k = 0; k < 9; ++k) dot += a.at(i * 9 + k) * b.at(k * 4 + j);
        EXPECT_EQ(wide.at(i * 4 + j), dot);
        expect_code(dtype, code(product, i * 4 + j), dot, "product");
      }
    }
  }
}

TEST(NarrowTypes, ProductsOfIntegersWrapOrWiden) {
  const Literal a = codes(DType::s4, {5, 9}, 5), b = codes(DType::s4, {9, 4}, 3);
  for (const DType dtype : {DType::s4, DType::s8, DType::s32}) {
    const std::string to(ir::to_string(dtype));
    const Literal product =
        run("ENTRY e { a = s4[5,9] parameter(0)\n b = s4[9,4] parameter(1)\n "
            "ROOT r = " +
                to +
                "[5,4] dot(a, b), lhs_contracting_dims={1}, "
                "rhs_contracting_dims={0} }",
            {a, b});
    for (int i = 0; i < 5; ++i) {
      for (int j = 0; j < 4; ++j) {
        int dot = 0;
        for (int k = 0; k < 9; ++k) {
          dot += static_cast<int>(a.at(i * 9 + k) * b.at(k * 4 + j));
        }
        const int wanted = dtype == DType::s32  ? dot
                           : dtype == DType::s8 ? static_cast<std::int8_t>(dot)
                                                : (dot & 15) - ((dot & 8) != 0 ? 16 : 0);
        EXPECT_EQ(product.at(i * 4 + j), wanted) << to;
      }
    }
  }
  const Literal sums =
      run("add { x = s4[] parameter(0)\n y = s4[] parameter(1)\n ROOT s = s4[] add(x, y) }\n"
          "ENTRY e { a = s4[5,9] parameter(0)\n z = s4[] constant(0)\n ROOT r = s4[5] reduce(a, "
          "z), dimensions={1}, to_apply=add }",
          {a});
  for (int i = 0; i < 5; ++i) {
    int sum = 0;
    for (int k = 0; k < 9; ++k) sum += static_cast<int>(a.at(i * 9 + k));
    EXPECT_EQ(code(sums, i), sum & 15);
  }
}

TEST(NarrowTypes, SortsByNumbersAndKeepsCodes) {
  const Literal a = codes(DType::f8e5m2fnuz, {100}, 97, 1);
  const Literal sorted =
      run("less { a = f8e5m2fnuz[] parameter(0)\n b = f8e5m2fnuz[] parameter(1)\n ROOT r = pred[] "
          "compare(a, b), direction=LT }\n"
          "ENTRY e { a = f8e5m2fnuz[100] parameter(0)\n ROOT r = f8e5m2fnuz[100] sort(a), "
          "dimensions={0}, to_apply=less }",
          {a});
  for (int i = 1; i < 100; ++i) EXPECT_LE(sorted.at(i - 1), sorted.at(i));
}

TEST(NarrowTypes, ConstantsAndCounters) {
  const Literal made =
      run("ENTRY e { c = f8e4m3fn[4] constant({1, -2.5, nan, 448})\n i = f8e4m3fn[4] iota(), "
          "iota_dimension=0\n ROOT r = f8e4m3fn[4] add(c, i) }",
          {});
  EXPECT_EQ(made.at(0), 1);
  EXPECT_EQ(made.at(1), -1.5);
  EXPECT_TRUE(std::isnan(made.at(2)));
  EXPECT_EQ(made.at(3), 448);  // 451, rounded
  const Literal counted = run("ENTRY e { ROOT i = s4[20] iota(), iota_dimension=0 }", {});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(code(counted, i), i & 15);
}

// A step that keeps, moves and computes with narrow values, for limits to bite.
constexpr const char* kStep =
    "add { x = $[] parameter(0)\n y = $[] parameter(1)\n ROOT s = $[] add(x, y) }\n"
    "ENTRY e { a = $[64,65] parameter(0)\n w = $[65,64] parameter(1)\n"
    "p = $[64,64] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "q = $[64,64] add(p, p)\n t = $[64,64] transpose(q), dimensions={1,0}\n"
    "m = $[64,64] multiply(t, p)\n"
    "n = $[64,64] dot(m, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "o = $[64,64] maximum(n, t)\n z = $[] constant(1)\n"
    "s = $[64] reduce(o, z), dimensions={0}, to_apply=add\n"
    "f = f32[64,64] convert(o)\n ROOT r = ($[64], $[64,64], f32[64,64]) tuple(s, m, f) }";

TEST(NarrowTypes, HaveTheSameBitsAtEveryLimit) {
  for (const DType dtype : {DType::s2, DType::u4, DType::s4, DType::f4e2m1fn, DType::f8e4m3fn,
                            DType::f8e5m2, DType::f8e8m0fnu}) {
    const auto module = parsed(with_dtype(kStep, ir::to_string(dtype)));
    ASSERT_NE(module, nullptr);
    const std::vector<Literal> arguments = {codes(dtype, {64, 65}, 37, 1),
                                            codes(dtype, {65, 64}, 11, 2)};
    EXPECT_EQ(testing::check_limits(*module, arguments, provider(), 5, 3), "")
        << ir::to_string(dtype);
  }
}

TEST(NarrowTypes, WhatHasNoFormIsNamed) {
  const auto module = parsed(
      "ENTRY e { x = f8e5m2[4] parameter(0)\n ROOT called = f8e5m2[4] custom-call(x), "
      "custom_call_target=\"anything\" }");
  ASSERT_NE(module, nullptr);
  std::string error;
  (void)testing::run_unlimited(*module, {}, provider(), true, error);
  EXPECT_NE(error.find("'called': custom-call"), std::string::npos) << error;
}

}  // namespace
}  // namespace plimsoll
