// SPDX-License-Identifier: Apache-2.0
#include "tests/executor/random_program_check.h"

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/cases/random_scan.h"
#include "tests/cases/random_skips.h"
#include "tests/cases/scanned_attention.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::testing {
namespace {

// Contractions and reductions add in another order than the interpreter does; sums may cancel.
constexpr double kTolerance = 2e-3;
constexpr double kSmallestScale = 1e-3;

// Every other program is a plain training step, where a limit bites most.
cases::RandomModuleOptions options_of(std::uint64_t seed) {
  cases::RandomModuleOptions options;
  if (seed % 2 == 1) {
    options.instructions = 100;
    options.control_flow = false;
    options.mixed_dtypes = false;
    options.gates = seed / 2 % 2 == 1;
    options.whole_words = options.gates && seed / 4 % 2 == 1;
    options.smallest_bytes = 32 << 10;
    options.largest_bytes = 64 << 10;
  }
  return options;
}

// Every fourth program may only recompute, and so on up to everything; tiers that are large or
// small for the program.
LimitOptions limits_of(std::uint64_t seed) {
  LimitOptions options;
  // Unfused programs keep more values, so a third of them is checked as written.
  options.optimize = seed % 3 != 0;
  const std::uint64_t kind = (seed / 2 + seed / 8) % 4;
  options.remedies.compress = kind == 1 || kind == 3;
  options.remedies.swap = kind >= 2;
  options.remedies.recompute = kind == 0 || seed / 32 % 2 == 0;
  if (kind >= 2) options.host_bytes = seed % 5 == 0 ? 64 << 10 : 64 << 20;
  if (kind == 3) options.disk_bytes = 64 << 20;
  return options;
}

// Attention rounds otherwise in one kernel than as it is written.
bool has_attention(std::uint64_t seed) { return seed % 32 == 3; }

}  // namespace

std::unique_ptr<ir::Module> random_program(std::uint64_t seed) {
  if (has_attention(seed)) {
    auto module = ir::parse_module(cases::scanned_attention(seed));
    return module.ok() ? std::move(*module) : nullptr;
  }
  if (seed % 8 == 3 || seed % 8 == 6) {
    auto module =
        ir::parse_module(seed % 8 == 3 ? cases::random_scan(seed) : cases::random_skips(seed));
    return module.ok() ? std::move(*module) : nullptr;
  }
  return cases::random_module(seed, options_of(seed));
}

std::string check_random_program(std::uint64_t seed, device::KernelProvider& provider, int limits,
                                 RandomProgramTotals& totals) {
  const auto module = random_program(seed);
  if (module == nullptr) return "the text of the program is not valid";
  // Large scores turn the last bits of the operands into others of the result.
  const cases::InputRange small{-0.4, 0.4};
  const auto arguments =
      cases::random_arguments(*module, seed + 1,
                              has_attention(seed) ? std::vector<cases::InputRange>(6, small)
                                                  : std::vector<cases::InputRange>());
  totals.instructions += module->instruction_count();
  const auto expected = ir::interpret(*module, arguments);
  if (!expected.ok()) return "interpreter: " + expected.status().to_string();
  std::string error;
  const ir::Literal result = run_unlimited(*module, arguments, provider, /*optimize=*/true, error);
  if (!error.empty()) return error;
  error = cases::compare_close(*expected, result, kTolerance, kSmallestScale);
  if (!error.empty()) return "against the interpreter: " + error;
  const ir::Literal unfused =
      run_unlimited(*module, arguments, provider, /*optimize=*/false, error);
  if (!error.empty()) return "as written: " + error;
  error = has_attention(seed) ? cases::compare_close(result, unfused, kTolerance, kSmallestScale)
                              : cases::compare_bits(result, unfused);
  if (!error.empty()) return "fused and unfused: " + error;
  LimitCheck report;
  error = check_limits(*module, arguments, provider, seed, limits, limits_of(seed), &report);
  if (!error.empty()) return error;
  totals.limits += report.limits;
  totals.recomputing_plans += report.recomputing_plans;
  totals.encoding_plans += report.encoding_plans;
  totals.encoding_kernels += report.encoding_kernels;
  totals.decoding_kernels += report.decoding_kernels;
  totals.swapping_plans += report.swapping_plans;
  totals.slicing_plans += report.slicing_plans;
  totals.joint_launches += report.joint_launches;
  totals.floor_share += report.peak_bytes > 0 ? static_cast<double>(report.floor_bytes) /
                                                    static_cast<double>(report.peak_bytes)
                                              : 1;
  return {};
}

}  // namespace plimsoll::testing
