// SPDX-License-Identifier: Apache-2.0
// Functions of linear algebra against what they promise. Programs of JAX with JAX's results are in
// tests/c_api/jax_programs.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/calls/call.h"
#include "kernels/kernels.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/text/text.h"
#include "tests/kernels/kernel_harness.h"

namespace plimsoll::kernels {
namespace {

TEST(LibraryCall, ReadsOptionsOfTypedCalls) {
  const auto options =
      parse_call_options(" {uplo = 76 : ui8, left = true,transpose=false, k = -3 : i32} ");
  const std::vector<std::pair<std::string, std::int64_t>> expected = {
      {"uplo", 76}, {"left", 1}, {"transpose", 0}, {"k", -3}};
  EXPECT_EQ(options, expected);
  for (const char* text : {"", "{}", "{", "\"text\"", "{=}", "{,,}"}) {
    EXPECT_TRUE(parse_call_options(text).empty()) << text;
  }
}

struct Call {
  std::string result, operands, target, options;
};

// A batch of five problems each.
const Call kCalls[] = {
    {"f32[5,7,4]", "f32[5,7,7] f32[5,7,4]", "lapack_strsm_ffi", "{uplo = 85 : ui8}"},
    {"(f64[5,6,4], s32[5,4], s32[5])", "f64[5,6,4]", "lapack_dgetrf_ffi", "{}"},
    {"(f32[5,6,6], s32[5])", "f32[5,6,6]", "lapack_spotrf_ffi", "{uplo = 76 : ui8}"},
    {"(f32[5,6,4], f32[5,4])", "f32[5,6,4]", "lapack_sgeqrf_ffi", "{}"},
    {"(f32[5,6,4], s32[5,4], f32[5,4])", "f32[5,6,4] s32[5,4]", "lapack_sgeqp3_ffi", "{}"},
    {"f32[5,6,4]", "f32[5,6,4] f32[5,3]", "lapack_sorgqr_ffi", "{}"},
    {"f32[5,6,2]", "f32[5,6,4] f32[5,4] f32[5,6,2]", "lapack_sormqr_ffi", "{transpose = true}"},
    {"(f32[5,6,6], f32[5,5], s32[5])", "f32[5,6,6]", "lapack_sgehrd_ffi", "{}"},
    {"(f64[5,6,6,2], f64[5,6], f64[5,5], f64[5,5,2], s32[5])", "f64[5,6,6,2]", "lapack_zhetrd_ffi",
     "{uplo = 76 : ui8}"},
    {"(f32[5,9], f32[5,9], f32[5,9], f32[5,9,2], s32[5])", "f32[5,9] f32[5,9] f32[5,9] f32[5,9,2]",
     "lapack_sgtsv_ffi", "{}"},
    {"f32[5,9,2]", "f32[5,9] f32[5,9] f32[5,9] f32[5,9,2]", "tridiagonal_solve_perturbed_ffi",
     "{}"},
    {"(f32[5,6,4], f32[5,4], f32[5,6,6], f32[5,4,4], s32[5])", "f32[5,6,4]", "lapack_sgesdd_ffi",
     "{mode = 65 : ui8}"},
    {"(f32[5,4,6,2], f32[5,4], f32[5,4,4,2], f32[5,4,6,2], s32[5])", "f32[5,4,6,2]",
     "lapack_cgesdd_ffi", "{mode = 83 : ui8}"},
    {"(f64[5,6,4], f64[5,4], f64[5,6,4], f64[5,4,4], s32[5])", "f64[5,6,4]", "lapack_dgesvd_ffi",
     "{mode = 78 : ui8}"},
    {"(f32[5,6,6], f32[5,6], s32[5])", "f32[5,6,6]", "lapack_ssyevd_ffi", "{uplo = 85 : ui8}"},
    {"(f32[5,6,6,2], f32[5,6], s32[5])", "f32[5,6,6,2]", "lapack_cheevd_ffi", "{}"},
    {"(f32[5,6], f32[5,6], f32[5,6,6,2], f32[5,6,6,2], s32[5])", "f32[5,6,6]", "lapack_sgeev_ffi",
     "{compute_left = 78 : ui8}"},
    {"(f64[5,6,2], f64[5,6,6,2], f64[5,6,6,2], s32[5])", "f64[5,6,6,2]", "lapack_zgeev_ffi", "{}"},
    {"(f32[5,6,6], f32[5,6,6], f32[5,6], f32[5,6], s32[5], s32[5])", "f32[5,6,6]",
     "lapack_sgees_ffi", "{mode = 86 : ui8}"},
    {"(f32[5,6,6,2], f32[5,6,6,2], f32[5,6,2], s32[5], s32[5])", "f32[5,6,6,2]", "lapack_cgees_ffi",
     "{}"},
};

std::string text_of(const Call& call) {
  std::string text = "ENTRY e {\n", names;
  std::size_t from = 0;
  for (int i = 0; from < call.operands.size(); ++i) {
    const std::size_t to = std::min(call.operands.find(' ', from), call.operands.size());
    const std::string name = "p" + std::to_string(i);
    text += "  " + name + " = " + call.operands.substr(from, to - from) + " parameter(" +
            std::to_string(i) + ")\n";
    names += (names.empty() ? "" : ", ") + name;
    from = to + 1;
  }
  return text + "  ROOT r = " + call.result + " custom-call(" + names + "), custom_call_target=\"" +
         call.target + "\", backend_config=" + call.options + "\n}\n";
}

bool all_finite(const ir::Literal& literal) {
  if (literal.shape().is_tuple()) {
    return std::all_of(literal.elements().begin(), literal.elements().end(), all_finite);
  }
  for (std::int64_t i = 0; i < literal.shape().element_count(); ++i) {
    if (!std::isfinite(literal.at(i))) return false;
  }
  return true;
}

TEST(LinearAlgebra, GivesTheSameBitsAtEveryNumberOfThreads) {
  for (const Call& call : kCalls) {
    auto module = ir::parse_module(text_of(call));
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const ir::Instruction& root = *(*module)->entry()->root();
    std::vector<ir::Literal> operands;
    for (const ir::Instruction* operand : root.operands()) {
      ir::Literal made(operand->shape());
      if (ir::is_floating(operand->shape().dtype())) {
        made = random_floats(operand->shape(), static_cast<unsigned>(operands.size() + 1));
      }
      operands.push_back(std::move(made));
    }
    const int threads = device::thread_count();
    device::set_thread_count(1);
    const auto alone = run_instruction(root, operands);
    device::set_thread_count(3);
    const auto shared = run_instruction(root, operands);
    device::set_thread_count(threads);
    ASSERT_TRUE(alone.ok()) << call.target << ": " << alone.status().to_string();
    ASSERT_TRUE(shared.ok()) << shared.status().to_string();
    EXPECT_EQ(*alone, *shared) << call.target;
    EXPECT_TRUE(all_finite(*alone)) << call.target;
  }
}

Result<ir::Literal> triangular_solve(char side, char uplo, char trans, char diag,
                                     const ir::Literal& a, const ir::Literal& b) {
  const auto option = [](std::string_view name, char letter) {
    return std::string(name) + " = " + std::to_string(static_cast<int>(letter)) + " : ui8";
  };
  const std::string shape = b.shape().to_string();
  const auto module = ir::parse_module(
      text_of({shape, a.shape().to_string() + " " + shape,
               b.shape().dtype() == ir::DType::f64 ? "lapack_dtrsm_ffi" : "lapack_strsm_ffi",
               "{" + option("side", side) + ", " + option("uplo", uplo) + ", " +
                   option("trans_x", trans) + ", " + option("diag", diag) + "}"}));
  if (!module.ok()) return module.status();
  const ir::Literal operands[] = {a, b};
  return run_instruction(*(*module)->entry()->root(), operands);
}

// Over several blocks, of which the last is a part, and in a batch, whose second matrix begins at
// an odd place.
TEST(LinearAlgebra, SquareMatricesAreFactoredInTheResultWithoutOtherMemory) {
  constexpr std::int64_t kOrder = 37, kSize = kOrder * kOrder;
  auto module = ir::parse_module(
      text_of({"(f64[2,37,37], s32[2,37], s32[2])", "f64[2,37,37]", "lapack_dgetrf_ffi", "{}"}));
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const ir::Instruction& root = *(*module)->entry()->root();
  const auto kernel = make_kernel(root);
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  EXPECT_EQ((*kernel)->workspace_bytes(), 0);
  const ir::Literal a = random_floats(root.operand(0)->shape(), 1);
  const auto made = run_instruction(root, std::span(&a, 1));
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const ir::Literal& lu = made->elements()[0];
  for (std::int64_t b = 0; b < 2; ++b) {
    std::vector<std::int64_t> rows(kOrder);
    for (std::int64_t i = 0; i < kOrder; ++i) rows[at(i)] = i;
    for (std::int64_t i = 0; i < kOrder; ++i) {
      const auto pivot = static_cast<std::int64_t>(made->elements()[1].at(b * kOrder + i)) - 1;
      std::swap(rows[at(i)], rows[at(pivot)]);
    }
    for (std::int64_t i = 0; i < kOrder; ++i) {
      for (std::int64_t j = 0; j < kOrder; ++j) {
        double product = i <= j ? lu.at(b * kSize + i * kOrder + j) : 0;
        for (std::int64_t k = 0; k < i && k <= j; ++k) {
          product += lu.at(b * kSize + i * kOrder + k) * lu.at(b * kSize + k * kOrder + j);
        }
        EXPECT_NEAR(product, a.at(b * kSize + rows[at(i)] * kOrder + j), 1e-12) << i << ' ' << j;
      }
    }
  }
}

TEST(LinearAlgebra, SolvesTrianglesOfEverySideAndForm) {
  for (const std::int64_t order : {1, 3, 4, 11}) {
    for (const std::int64_t count : {1, 5, 8, 19}) {
      for (int form = 0; form < 16; ++form) {
        const bool is_left = form % 2 == 0, is_lower = form / 2 % 2 == 0,
                   is_transposed = form / 4 % 2 == 1, is_unit = form / 8 % 2 == 1;
        ir::Literal a = random_floats(ir::Shape(ir::DType::f64, {order, order}), 1);
        for (std::int64_t i = 0; i < order; ++i) a.set(i * order + i, 3 + a.at(i * order + i));
        const std::int64_t m = is_left ? order : count, n = is_left ? count : order;
        const ir::Literal b = random_floats(ir::Shape(ir::DType::f64, {m, n}), 2);
        const auto x = triangular_solve(is_left ? 'L' : 'R', is_lower ? 'L' : 'U',
                                        is_transposed ? 'T' : 'N', is_unit ? 'U' : 'N', a, b);
        ASSERT_TRUE(x.ok()) << x.status().to_string();
        // op(a)[i, j]
        const auto of_a = [&](std::int64_t i, std::int64_t j) -> double {
          if (is_transposed) std::swap(i, j);
          if (i == j && is_unit) return 1;
          return (is_lower ? i >= j : i <= j) ? a.at(i * order + j) : 0;
        };
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            double product = 0;
            for (std::int64_t k = 0; k < order; ++k) {
              product += is_left ? of_a(i, k) * x->at(k * n + j) : x->at(i * n + k) * of_a(k, j);
            }
            EXPECT_NEAR(product, b.at(i * n + j), 1e-9)
                << form << ' ' << order << ' ' << count << " at " << i << ", " << j;
          }
        }
      }
    }
  }
}

TEST(LinearAlgebra, TrianglesKeepWhatIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto expect_nan = [](const Result<ir::Literal>& x, std::initializer_list<bool> which) {
    ASSERT_TRUE(x.ok()) << x.status().to_string();
    std::int64_t i = 0;
    for (const bool is_nan : which) {
      EXPECT_EQ(std::isnan(x->at(i)), is_nan) << i;
      ++i;
    }
  };
  const float all[] = {nan, nan, nan, nan}, corner[] = {1, 0, nan, 1}, none[] = {0, 0, 0, 0},
              last[] = {0, 1}, one[] = {1, 0, 0, 1};
  const auto matrix = [](const float(&x)[4]) { return ir::Literal::array<float>({2, 2}, x); };
  expect_nan(triangular_solve('L', 'L', 'N', 'N', matrix(all), matrix(none)), {1, 1, 1, 1});
  expect_nan(
      triangular_solve('L', 'L', 'N', 'N', matrix(corner), ir::Literal::array<float>({2, 1}, last)),
      {0, 1});
  // As the inverse of zeros.
  expect_nan(triangular_solve('L', 'U', 'N', 'N', matrix(none), matrix(one)), {1, 1, 1, 0});
  expect_nan(triangular_solve('R', 'L', 'N', 'U', matrix(corner), matrix(none)), {1, 0, 1, 0});
}

TEST(LinearAlgebra, TakesMatricesWithoutElements) {
  const Call empty[] = {
      {"f32[2,0,4]", "f32[2,0,0] f32[2,0,4]", "lapack_strsm_ffi", "{}"},
      {"(f32[2,0,0], s32[2])", "f32[2,0,0]", "lapack_spotrf_ffi", "{}"},
      {"(f32[2,3,0], s32[2,0], s32[2])", "f32[2,3,0]", "lapack_sgetrf_ffi", "{}"},
      {"(f32[2,0,0], f32[2,0], s32[2])", "f32[2,0,0]", "lapack_ssyevd_ffi", "{}"},
      {"(f32[0,3,3], s32[0])", "f32[0,3,3]", "lapack_spotrf_ffi", "{}"},
  };
  for (const Call& call : empty) {
    auto module = ir::parse_module(text_of(call));
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const ir::Instruction& root = *(*module)->entry()->root();
    std::vector<ir::Literal> operands;
    for (const ir::Instruction* operand : root.operands()) operands.emplace_back(operand->shape());
    const auto got = run_instruction(root, operands);
    EXPECT_TRUE(got.ok()) << call.target << ": " << got.status().to_string();
  }
}

TEST(LinearAlgebra, RefusesArraysThatAFunctionDoesNotTake) {
  const Call wrong[] = {
      {"f32[5,7,4]", "f32[5,6,6] f32[5,7,4]", "lapack_strsm_ffi", "{}"},
      {"f64[5,7,4]", "f32[5,7,7] f64[5,7,4]", "lapack_strsm_ffi", "{}"},
      {"f32[5,7,4]", "f32[5,7,7] f32[5,7,4]", "lapack_strsm_ffi", "{side = 88 : ui8}"},
      {"(f32[5,6,4], s32[5])", "f32[5,6,4]", "lapack_spotrf_ffi", "{}"},
      {"f32[5,6,6]", "f32[5,6,6]", "lapack_spotrf_ffi", "{}"},
      {"(f32[5,6,4], f32[5,4], f32[5,6,4], f32[5,4,4], s32[5])", "f32[5,6,4]", "lapack_sgesdd_ffi",
       "{mode = 65 : ui8}"},
      {"f32[5,3,4]", "f32[5,3,4] f32[5,3]", "lapack_sorgqr_ffi", "{}"},
      {"(f32[6,6], f32[5], s32[])", "f32[6,6]", "lapack_sgehrd_ffi", "{low = 0 : i32}"},
  };
  for (const Call& call : wrong) {
    auto module = ir::parse_module(text_of(call));
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const Status status = make_kernel(*(*module)->entry()->root()).status();
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << call.target << " " << call.result;
    EXPECT_NE(status.message().find(call.target), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace plimsoll::kernels
