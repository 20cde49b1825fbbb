// SPDX-License-Identifier: Apache-2.0
#include "tests/executor/reference.h"

#include <cmath>
#include <complex>
#include <numbers>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/passes/passes.h"

namespace plimsoll::testing {
namespace {

using ir::Instruction;
using ir::Literal;
using ir::Opcode;

// `name = 76 : ui8` of a call's options, as the letter.
char letter(std::string_view options, const std::string& name) {
  const std::size_t at = options.find(name + " = ");
  if (at == std::string_view::npos) return 0;
  return static_cast<char>(std::stoi(std::string(options.substr(at + name.size() + 3))));
}

// Along the last dim, whose length is all that fft_length says.
Literal fourier_transform(const Instruction& call, const Literal& from) {
  const std::string_view type = call.attributes().find_extra("fft_type");
  const std::string_view text = call.attributes().find_extra("fft_length");
  const std::int64_t length = std::stoll(std::string(text.substr(text.find('{') + 1)));
  const bool reads_real = type == "RFFT", writes_real = type == "IRFFT";
  const double sign = type == "IFFT" || writes_real ? 1 : -1;
  const std::int64_t half = reads_real || writes_real ? length / 2 + 1 : length;
  Literal made(call.shape());
  const std::int64_t taken = reads_real ? length : 2 * half;
  const std::int64_t batch = from.shape().element_count() / taken;
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<std::complex<double>> x(static_cast<std::size_t>(length));
    for (std::int64_t j = 0; j < length; ++j) {
      // The other half of a real line's spectrum is the first one's conjugate, backwards.
      const bool mirrored = j >= half && !reads_real;
      const std::int64_t place = mirrored ? length - j : j;
      const double re = from.at(reads_real ? b * length + j : (b * half + place) * 2);
      double im = reads_real ? 0 : from.at((b * half + place) * 2 + 1);
      if (writes_real && (j == 0 || 2 * j == length)) im = 0;
      x[static_cast<std::size_t>(j)] = {re, mirrored ? -im : im};
    }
    for (std::int64_t k = 0; k < (writes_real ? length : half); ++k) {
      std::complex<double> sum;
      for (std::int64_t j = 0; j < length; ++j) {
        const double angle = sign * 2 * std::numbers::pi * static_cast<double>(j * k % length) /
                             static_cast<double>(length);
        sum += x[static_cast<std::size_t>(j)] * std::polar(1.0, angle);
      }
      if (sign > 0) sum /= static_cast<double>(length);
      if (writes_real) {
        made.set(b * length + k, sum.real());
      } else {
        made.set((b * half + k) * 2, sum.real());
        made.set((b * half + k) * 2 + 1, sum.imag());
      }
    }
  }
  return made;
}

// The factor, and that it succeeded. What is above (below) the diagonal stays as it was given.
Literal cholesky_factor(const Instruction& call, const Literal& a) {
  const bool lower = letter(call.attributes().find_extra("backend_config"), "uplo") == 'L';
  Literal factor = a;
  const std::int64_t n = a.shape().dim(a.shape().rank() - 1);
  for (std::int64_t first = 0; first < a.shape().element_count(); first += n * n) {
    const auto at = [&](std::int64_t i, std::int64_t j) {
      return first + (lower ? i * n + j : j * n + i);
    };
    std::vector<double> l(static_cast<std::size_t>(n * n));
    const auto of_l = [&](std::int64_t i, std::int64_t j) -> double& {
      return l[static_cast<std::size_t>(i * n + j)];
    };
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        double sum = a.at(at(i, j));
        for (std::int64_t k = 0; k < j; ++k) sum -= of_l(i, k) * of_l(j, k);
        of_l(i, j) = i == j ? std::sqrt(sum) : sum / of_l(j, j);
        factor.set(at(i, j), of_l(i, j));
      }
    }
  }
  return Literal::tuple({std::move(factor), Literal(call.shape().elements()[1])});
}

Literal triangular_solution(const Instruction& call, const Literal& a, const Literal& b) {
  const std::string_view options = call.attributes().find_extra("backend_config");
  const bool left = letter(options, "side") == 'L', lower = letter(options, "uplo") == 'L';
  const bool transposed = letter(options, "trans_x") != 'N', unit = letter(options, "diag") == 'U';
  const int rank = b.shape().rank();
  const std::int64_t m = b.shape().dim(rank - 2), n = b.shape().dim(rank - 1);
  const std::int64_t order = left ? m : n, count = left ? n : m;
  Literal x = b;
  for (std::int64_t batch = 0; batch < b.shape().element_count() / (m * n); ++batch) {
    // op(a)[i, j] of what is solved from the left: the transpose where x stands left of it.
    const auto of_a = [&](std::int64_t i, std::int64_t j) {
      if (transposed == left) std::swap(i, j);
      return i == j && unit ? 1 : a.at((batch * order + i) * order + j);
    };
    const auto place = [&](std::int64_t i, std::int64_t c) {
      return batch * m * n + (left ? i * n + c : c * n + i);
    };
    const bool forward = (lower != transposed) == left;
    std::vector<double> solution(static_cast<std::size_t>(order));
    for (std::int64_t c = 0; c < count; ++c) {
      for (std::int64_t step = 0; step < order; ++step) {
        const std::int64_t i = forward ? step : order - 1 - step;
        double sum = b.at(place(i, c));
        for (std::int64_t k = 0; k < step; ++k) {
          const std::int64_t j = forward ? k : order - 1 - k;
          sum -= of_a(i, j) * solution[static_cast<std::size_t>(j)];
        }
        solution[static_cast<std::size_t>(i)] = sum / of_a(i, i);
        x.set(place(i, c), solution[static_cast<std::size_t>(i)]);
      }
    }
  }
  return x;
}

Result<Literal> evaluate(const ir::Computation& computation, std::span<const Literal> arguments) {
  std::unordered_map<const Instruction*, Literal> values;
  for (const auto& instruction : computation.instructions()) {
    if (instruction->opcode() == Opcode::parameter) {
      values[instruction.get()] =
          arguments[static_cast<std::size_t>(instruction->attributes().parameter_number)];
      continue;
    }
    std::vector<Literal> operands;
    for (const Instruction* operand : instruction->operands()) {
      operands.push_back(values.at(operand));
    }
    Result<Literal> made = Literal();
    const std::string& target = instruction->attributes().custom_call_target;
    if (instruction->opcode() == Opcode::call) {
      made = evaluate(*instruction->to_apply(), operands);
    } else if (target == "plimsoll.fft") {
      made = fourier_transform(*instruction, operands[0]);
    } else if (target.ends_with("potrf_ffi")) {
      made = cholesky_factor(*instruction, operands[0]);
    } else if (target.ends_with("trsm_ffi")) {
      made = triangular_solution(*instruction, operands[0], operands[1]);
    } else {
      made = ir::interpret(*instruction, operands);
    }
    if (!made.ok()) return made;
    values[instruction.get()] = std::move(made).value();
  }
  return values.at(computation.root());
}

bool calls_libraries(const ir::Module& module) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() == Opcode::custom_call) return true;
    }
  }
  return false;
}

}  // namespace

Result<std::vector<Literal>> reference_results(const ir::Module& module,
                                               std::span<const std::vector<Literal>> arguments) {
  std::unique_ptr<ir::Module> expanded = module.clone();
  if (const Status status = passes::expand(*expanded); !status.ok()) return status;
  auto real = passes::expand_complex(std::move(expanded));
  if (!real.ok()) return real.status();
  auto wide = passes::expand_narrow(std::move(real).value());
  if (!wide.ok()) return wide.status();
  if (arguments.size() > 1 || !calls_libraries(**wide)) {
    return ir::interpret_together(**wide, arguments);
  }
  auto result = evaluate(*(*wide)->entry(), arguments[0]);
  if (!result.ok()) return result.status();
  return std::vector<Literal>(1, std::move(result).value());
}

}  // namespace plimsoll::testing
