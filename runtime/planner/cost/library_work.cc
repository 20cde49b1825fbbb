// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/library_work.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

using ir::Instruction;
using ir::Opcode;

// What an operation takes beside an addition of an elementwise kernel. f32, measured: transforms in
// f64 20 to 25 Gflop/s, substitution 70, factorizations 25 to 80, spectra 10 and less.
constexpr double kTransform = 2.5, kSubstitution = 1, kFactorization = 2.5, kSpectrum = 8;

double count_of(const ir::Shape& shape) { return static_cast<double>(shape.element_count()); }

// The product of the numbers in `{64,32}`.
double product_of(std::string_view list) {
  double product = 1;
  std::int64_t number = 0;
  for (std::size_t at = list.find_first_of("0123456789"); at < list.size();) {
    const auto [stop, error] = std::from_chars(&list[at], list.data() + list.size(), number);
    if (error == std::errc()) product *= static_cast<double>(number);
    at = list.find_first_of("0123456789", static_cast<std::size_t>(stop - list.data()));
  }
  return product;
}

// 5 n log2 n a line of every dimension that is transformed; half of that where one side is real.
double transform_work(const Instruction& fft) {
  const double length = product_of(fft.attributes().find_extra("fft_length"));
  if (!fft.shape().is_array() || fft.operand_count() == 0) return 0;
  const double places = std::max(count_of(fft.shape()), count_of(fft.operand(0)->shape()));
  const bool is_half =
      ir::is_complex(fft.shape().dtype()) != ir::is_complex(fft.operand(0)->shape().dtype());
  return kTransform * (is_half ? 2.5 : 5) * places * std::log2(std::max(2.0, length));
}

// Operations are `times` m n min(m, n) of m x n matrices.
struct Function {
  std::string_view name;
  double times;
  double each;
};
constexpr std::array<Function, 16> kFunctions{{{"getrf", 2.0 / 3, kFactorization},
                                               {"potrf", 1.0 / 3, kFactorization},
                                               {"geqrf", 2, kFactorization},
                                               {"geqp3", 2, kFactorization},
                                               {"orgqr", 4.0 / 3, kFactorization},
                                               {"ungqr", 4.0 / 3, kFactorization},
                                               {"gehrd", 10.0 / 3, kFactorization},
                                               {"sytrd", 4.0 / 3, kFactorization},
                                               {"hetrd", 4.0 / 3, kFactorization},
                                               {"ormqr", 2, kFactorization},
                                               {"unmqr", 2, kFactorization},
                                               {"gesdd", 12, kSpectrum},
                                               {"gesvd", 12, kSpectrum},
                                               {"syevd", 9, kSpectrum},
                                               {"heevd", 9, kSpectrum},
                                               {"geev", 25, kSpectrum}}};

double matrix_work(const ir::Shape& matrices, double times) {
  const int rank = matrices.rank();
  if (rank < 2) return 0;
  return times * count_of(matrices) *
         static_cast<double>(std::min(matrices.dim(rank - 2), matrices.dim(rank - 1)));
}

// Triangular matrices and right-hand sides: each of these takes as many products as there are rows
// of a matrix.
double substitution_work(const Instruction& solve) {
  const ir::Shape& matrices = solve.operand(0)->shape();
  return matrices.rank() < 2 ? 0
                             : kSubstitution * count_of(solve.operand(1)->shape()) *
                                   static_cast<double>(matrices.dim(matrices.rank() - 1));
}

// `lapack_spotrf_ffi`: a letter for the dtype between.
std::optional<double> call_work(const Instruction& call) {
  constexpr std::string_view kPrefix = "lapack_", kSuffix = "_ffi";
  std::string_view name = call.attributes().custom_call_target;
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) || call.operand_count() == 0 ||
      !call.operand(0)->shape().is_array() || name.size() < kPrefix.size() + kSuffix.size() + 2) {
    return std::nullopt;
  }
  name.remove_prefix(kPrefix.size() + 1);
  name.remove_suffix(kSuffix.size());
  if (name == "trsm") return call.operand_count() < 2 ? 0 : substitution_work(call);
  if (name == "gees") return kSpectrum * matrix_work(call.operand(0)->shape(), 25);
  for (const Function& function : kFunctions) {
    if (name == function.name) {
      return function.each * matrix_work(call.operand(0)->shape(), function.times);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> library_work(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::fft:
      return transform_work(instruction);
    case Opcode::cholesky:
      return kFactorization * matrix_work(instruction.operand(0)->shape(), 1.0 / 3);
    case Opcode::triangular_solve:
      return substitution_work(instruction);
    case Opcode::custom_call:
      return instruction.attributes().custom_call_target == "plimsoll.fft"
                 ? transform_work(instruction)
                 : call_work(instruction);
    default:
      return std::nullopt;
  }
}

}  // namespace plimsoll::planner
