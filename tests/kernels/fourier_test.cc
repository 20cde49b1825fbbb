// SPDX-License-Identifier: Apache-2.0
// Fourier transforms against their definition, in lengths, kinds and ranks of every sort. Programs
// of JAX with JAX's results are in tests/c_api/jax_programs.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "kernels/cpu/fourier/transform.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/text/text.h"
#include "tests/kernels/kernel_harness.h"

namespace plimsoll::kernels {
namespace {

using Complex = std::complex<double>;
using Complexes = std::vector<Complex>;

Complexes by_definition(const Complexes& x, bool inverse) {
  const std::size_t n = x.size();
  Complexes made(n);
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t j = 0; j < n; ++j) {
      const double angle = (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(j * k % n) /
                           static_cast<double>(n);
      made[k] += x[j] * Complex(std::cos(angle), std::sin(angle));
    }
  }
  return made;
}

// Line `line` of some: other numbers each.
Complexes line_of(std::size_t n, std::size_t line) {
  Complexes x(n);
  for (std::size_t j = 0; j < n; ++j) {
    x[j] = {std::sin(static_cast<double>(3 * j + 1 + 7 * line)),
            std::cos(static_cast<double>(j * j + line))};
  }
  return x;
}

// The transforms of `lines` lines side by side, one after the other.
Complexes side_by_side(const LineTransform& transform, std::int64_t lines, bool inverse) {
  const std::size_t n = transform.length(), count = static_cast<std::size_t>(lines);
  std::vector<double> memory(2 * n * count), work(transform.work_doubles() * count);
  const ComplexLines data = ComplexLines::at(memory.data(), n, lines);
  for (std::size_t line = 0; line < count; ++line) {
    const Complexes x = line_of(n, line);
    for (std::size_t j = 0; j < n; ++j) {
      data.re[j * count + line] = x[j].real();
      data.im[j * count + line] = x[j].imag();
    }
  }
  ComplexLines made = inverse ? transform.run(data.exchanged(), lines, work.data()).exchanged()
                              : transform.run(data, lines, work.data());
  Complexes all;
  for (std::size_t line = 0; line < count; ++line) {
    for (std::size_t j = 0; j < n; ++j) {
      all.emplace_back(made.re[j * count + line], made.im[j * count + line]);
    }
  }
  return all;
}

TEST(Fourier, LinesAgreeWithTheirDefinitionAtEveryLength) {
  std::vector<std::size_t> lengths = {127, 128, 210, 242, 509, 625, 1009};
  for (std::size_t n = 1; n <= 70; ++n) lengths.push_back(n);
  for (const std::size_t n : lengths) {
    const LineTransform transform(n);
    for (const bool inverse : {false, true}) {
      const Complexes made = side_by_side(transform, 1, inverse);
      const Complexes expected = by_definition(line_of(n, 0), inverse);
      for (std::size_t k = 0; k < n; ++k) {
        EXPECT_LT(std::abs(made[k] - expected[k]), 1e-11 * static_cast<double>(n))
            << n << " at " << k << (inverse ? " inverse" : "");
      }
    }
  }
}

TEST(Fourier, ALineHasTheSameBitsBesideOthers) {
  for (const std::size_t n : {1, 2, 3, 5, 7, 8, 12, 30, 49, 64, 67, 100, 121, 256, 360}) {
    const LineTransform transform(n);
    const Complexes alone = side_by_side(transform, 1, false);
    for (const std::int64_t lines : {2, 8, 11}) {
      const Complexes made = side_by_side(transform, lines, false);
      EXPECT_EQ(std::memcmp(made.data(), alone.data(), n * sizeof(Complex)), 0)
          << n << " beside " << lines - 1;
    }
  }
}

std::string text_of(const std::vector<std::int64_t>& dims) {
  std::string text;
  for (const std::int64_t dim : dims) text += (text.empty() ? "" : ",") + std::to_string(dim);
  return text;
}

// A batch of transforms over all dims of `lengths`.
struct Transforms {
  std::string kind;
  std::string dtype;
  std::int64_t batch = 1;
  std::vector<std::int64_t> lengths;

  bool reads_real() const { return kind == "RFFT"; }
  bool writes_real() const { return kind == "IRFFT"; }
  std::vector<std::int64_t> spectrum() const {
    std::vector<std::int64_t> dims = lengths;
    if (reads_real() || writes_real()) dims.back() = lengths.back() / 2 + 1;
    return dims;
  }
  std::string array(bool is_real) const {
    std::vector<std::int64_t> dims = is_real ? lengths : spectrum();
    dims.insert(dims.begin(), batch);
    if (!is_real) dims.push_back(2);
    return dtype + "[" + text_of(dims) + "]";
  }
  std::string text() const {
    return "ENTRY e {\n  p = " + array(reads_real()) +
           " parameter(0)\n  ROOT r = " + array(writes_real()) +
           " custom-call(p), custom_call_target=\"plimsoll.fft\", fft_type=" + kind +
           ", fft_length={" + text_of(lengths) + "}\n}\n";
  }
};

std::int64_t count_of(const std::vector<std::int64_t>& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

// One transform of the batch, dim by dim, over the full spectrum.
Complexes dims_by_definition(const Transforms& of, Complexes grid, bool inverse) {
  std::int64_t stride = 1;
  for (std::size_t dim = of.lengths.size(); dim-- > 0;) {
    const std::int64_t length = of.lengths[dim];
    for (std::int64_t i = 0; i < count_of(of.lengths) / length; ++i) {
      const std::int64_t base = i / stride * length * stride + i % stride;
      Complexes line;
      for (std::int64_t j = 0; j < length; ++j) {
        line.push_back(grid[static_cast<std::size_t>(base + j * stride)]);
      }
      line = by_definition(line, inverse);
      for (std::int64_t j = 0; j < length; ++j) {
        grid[static_cast<std::size_t>(base + j * stride)] = line[static_cast<std::size_t>(j)];
      }
    }
    stride *= length;
  }
  return grid;
}

// Where number `i` of the full array stands in the half that is kept, and whether as a conjugate.
std::pair<std::int64_t, bool> place_in_half(const Transforms& of, std::int64_t i) {
  std::vector<std::int64_t> index;
  for (std::size_t dim = of.lengths.size(); dim-- > 0; i /= of.lengths[dim]) {
    index.insert(index.begin(), i % of.lengths[dim]);
  }
  const std::vector<std::int64_t> kept = of.spectrum();
  const bool mirrored = index.back() >= kept.back();
  std::int64_t place = 0;
  for (std::size_t dim = 0; dim < index.size(); ++dim) {
    const std::int64_t at =
        mirrored ? (of.lengths[dim] - index[dim]) % of.lengths[dim] : index[dim];
    place = place * kept[dim] + at;
  }
  return {place, mirrored};
}

// Of a spectrum that is a real array's, so that no imaginary part is left out.
Complexes expected_results(const Transforms& of, const Complexes& operand) {
  if (of.kind == "FFT") return dims_by_definition(of, operand, false);
  if (of.kind == "RFFT") {
    const Complexes full = dims_by_definition(of, operand, false);
    Complexes half(static_cast<std::size_t>(count_of(of.spectrum())));
    for (std::int64_t i = 0; i < count_of(of.lengths); ++i) {
      const auto [place, mirrored] = place_in_half(of, i);
      if (!mirrored) half[static_cast<std::size_t>(place)] = full[static_cast<std::size_t>(i)];
    }
    return half;
  }
  Complexes full = operand;
  if (of.writes_real()) {
    full.clear();
    for (std::int64_t i = 0; i < count_of(of.lengths); ++i) {
      const auto [place, mirrored] = place_in_half(of, i);
      const Complex number = operand[static_cast<std::size_t>(place)];
      full.push_back(mirrored ? std::conj(number) : number);
    }
  }
  Complexes made = dims_by_definition(of, full, true);
  for (Complex& number : made) number /= static_cast<double>(count_of(of.lengths));
  return made;
}

// Numbers of one transform of an array, real or complex.
Complexes numbers_of(const ir::Literal& array, bool is_real, std::int64_t entry,
                     std::int64_t count) {
  Complexes numbers;
  for (std::int64_t i = entry * count; i < (entry + 1) * count; ++i) {
    numbers.push_back(is_real ? Complex(array.at(i), 0)
                              : Complex(array.at(2 * i), array.at(2 * i + 1)));
  }
  return numbers;
}

// Random; a half spectrum is that of random real numbers.
ir::Literal random_operand(const Transforms& of, const ir::Shape& shape) {
  if (!of.writes_real()) return random_floats(shape, 3);
  ir::Literal operand(shape);
  const std::int64_t count = count_of(of.spectrum());
  Transforms forward = of;
  forward.kind = "RFFT";
  for (std::int64_t entry = 0; entry < of.batch; ++entry) {
    Complexes real;
    for (std::int64_t i = 0; i < count_of(of.lengths); ++i) {
      real.emplace_back(std::sin(static_cast<double>(i * i + 5 * entry + 1)), 0);
    }
    const Complexes half = expected_results(forward, real);
    for (std::int64_t i = 0; i < count; ++i) {
      const Complex number = half[static_cast<std::size_t>(i)];
      operand.set(2 * (entry * count + i), number.real());
      operand.set(2 * (entry * count + i) + 1, number.imag());
    }
  }
  return operand;
}

// The result at one thread, which is the same at three; checked against the definition.
void check(const Transforms& of) {
  SCOPED_TRACE(of.text());
  const auto module = ir::parse_module(of.text());
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const ir::Instruction& root = *(*module)->entry()->root();
  const ir::Literal operand = random_operand(of, root.operands()[0]->shape());
  const int threads = device::thread_count();
  device::set_thread_count(1);
  const auto alone = run_instruction(root, {&operand, 1});
  device::set_thread_count(3);
  const auto shared = run_instruction(root, {&operand, 1});
  device::set_thread_count(threads);
  ASSERT_TRUE(alone.ok()) << alone.status().to_string();
  ASSERT_TRUE(shared.ok()) << shared.status().to_string();
  EXPECT_EQ(*alone, *shared);
  const std::int64_t read = count_of(of.reads_real() ? of.lengths : of.spectrum());
  const std::int64_t written = count_of(of.writes_real() ? of.lengths : of.spectrum());
  const double bound = of.dtype == "f64" ? 1e-12 : 1e-6;
  for (std::int64_t entry = 0; entry < of.batch; ++entry) {
    const Complexes expected =
        expected_results(of, numbers_of(operand, of.reads_real(), entry, read));
    const Complexes made = numbers_of(*alone, of.writes_real(), entry, written);
    for (std::size_t i = 0; i < made.size(); ++i) {
      ASSERT_LT(std::abs(made[i] - expected[i]), bound * std::sqrt(static_cast<double>(read)) * 10)
          << "transform " << entry << " at " << i;
    }
  }
}

TEST(Fourier, KernelsAgreeWithTheDefinition) {
  const std::vector<std::vector<std::int64_t>> lengths = {
      {1},    {2},    {3},    {8},    {15},     {67},      {96},     {134},
      {1, 1}, {4, 6}, {5, 9}, {9, 2}, {12, 67}, {3, 4, 5}, {2, 3, 8}};
  for (const char* kind : {"FFT", "IFFT", "RFFT", "IRFFT"}) {
    for (const auto& dims : lengths) {
      for (const std::int64_t batch : {1, 3, 19})
        check({kind, batch == 3 ? "f64" : "f32", batch, dims});
    }
  }
}

// Threads share the lines of large ones, one after the other.
TEST(Fourier, LargeTransformsAgreeWithTheDefinition) {
  for (const char* kind : {"FFT", "IRFFT", "RFFT"}) {
    check({kind, "f32", 2, {160, 210}});
    check({kind, "f64", 1, {2, 96, 128}});
    check({kind, "f32", 1, {4096}});
  }
}

// A transform has the bits in a batch that it has alone.
TEST(Fourier, TheBatchChangesNoBit) {
  for (const std::vector<std::int64_t>& dims :
       {std::vector<std::int64_t>{30}, {6, 10}, {130, 130}}) {
    const Transforms many = {"RFFT", "f64", 9, dims}, one = {"RFFT", "f64", 1, dims};
    const auto batched = ir::parse_module(many.text()), alone = ir::parse_module(one.text());
    ASSERT_TRUE(batched.ok() && alone.ok());
    const ir::Instruction& root = *(*batched)->entry()->root();
    const ir::Instruction& single = *(*alone)->entry()->root();
    const ir::Literal operand = random_operand(many, root.operands()[0]->shape());
    const auto all = run_instruction(root, {&operand, 1});
    ASSERT_TRUE(all.ok()) << all.status().to_string();
    const std::int64_t count = count_of(dims), half = count_of(many.spectrum());
    ir::Literal last(single.operands()[0]->shape());
    for (std::int64_t i = 0; i < count; ++i) last.set(i, operand.at(8 * count + i));
    const auto made = run_instruction(single, {&last, 1});
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    EXPECT_EQ(numbers_of(*made, false, 0, half), numbers_of(*all, false, 8, half));
  }
}

// What is no number in one line stays there.
TEST(Fourier, LinesKeepWhatIsNoNumber) {
  const Transforms of = {"RFFT", "f32", 8, {16}};
  const auto module = ir::parse_module(of.text());
  ASSERT_TRUE(module.ok());
  const ir::Instruction& root = *(*module)->entry()->root();
  ir::Literal operand = random_operand(of, root.operands()[0]->shape());
  operand.set(3 * 16 + 5, std::numeric_limits<double>::quiet_NaN());
  const auto made = run_instruction(root, {&operand, 1});
  ASSERT_TRUE(made.ok());
  for (std::int64_t line = 0; line < 8; ++line) {
    for (const Complex number : numbers_of(*made, false, line, 9)) {
      EXPECT_EQ(std::isnan(number.real()), line == 3);
    }
  }
}

TEST(Fourier, TakesArraysWithoutElements) {
  check({"RFFT", "f32", 0, {8}});
  check({"FFT", "f32", 0, {4, 4}});
}

}  // namespace
}  // namespace plimsoll::kernels
