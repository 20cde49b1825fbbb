// SPDX-License-Identifier: Apache-2.0
#include "tests/executor/random_program_check.h"

#include <vector>

#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "runtime/program/plan_within.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/cases/random_scan.h"
#include "tests/cases/random_skips.h"
#include "tests/cases/scanned_attention.h"
#include "tests/executor/limit_check.h"
#include "tests/executor/reference.h"

namespace plimsoll::testing {
namespace {

// Contractions and reductions add in another order than the interpreter does; sums may cancel.
constexpr double kTolerance = 2e-3;
constexpr double kSmallestScale = 1e-3;

// Programs of several participants are of 1, 2 or 4 replicas times 1, 2 or 4 partitions, all nine
// of them among 18 such programs; every other 18 add up whole numbers alone. Every
// other program is a plain training step, where a limit bites most.
cases::RandomModuleOptions options_of(std::uint64_t seed) {
  const std::string_view kind = kind_of_program(seed);
  cases::RandomModuleOptions options;
  options.large_constants = seed % 5 == 2;
  if (kind == "participants") {
    constexpr std::int64_t kCounts[] = {1, 2, 4};
    options.replicas = kCounts[seed / 16 % 3];
    options.partitions = kCounts[seed / 48 % 3];
    options.whole_sums = seed / 144 % 2 == 1;
    options.largest_bytes = 64 << 10;
  } else if (kind == "step") {
    options.instructions = 100;
    options.control_flow = false;
    options.mixed_dtypes = false;
    options.gates = seed / 2 % 2 == 1;
    options.whole_words = options.gates && seed / 4 % 2 == 1;
    options.smallest_bytes = 32 << 10;
    options.largest_bytes = 64 << 10;
  } else if (kind == "rare") {
    options.rare = true;
    options.instructions = 120;
    options.training_step = seed / 16 % 2 == 0;
    options.smallest_bytes = 16 << 10;
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
  options.excess_precision = seed % 7 == 5;
  const std::uint64_t kind = (seed / 2 + seed / 8) % 4;
  options.remedies.compress = kind == 1 || kind == 3;
  options.remedies.swap = kind >= 2;
  options.remedies.recompute = kind == 0 || seed / 32 % 2 == 0;
  if (kind >= 2) options.host_bytes = seed % 5 == 0 ? 64 << 10 : 64 << 20;
  options.synchronous = seed / 4 % 2 == 0;
  if (kind == 3) options.disk_bytes = 64 << 20;
  return options;
}

// Attention rounds otherwise in one kernel than as it is written.
bool has_attention(std::uint64_t seed) { return kind_of_program(seed) == "attention"; }

// No order of sums over participants makes a difference. What is cut to whole numbers may be
// others than the interpreter's, though, which adds up products in another order.
bool has_whole_sums(std::uint64_t seed) {
  return kind_of_program(seed) == "participants" && options_of(seed).whole_sums;
}

std::unique_ptr<ir::Module> simplified(const ir::Module& module) {
  auto other = module.clone();
  const bool is_done = passes::inline_calls(*other).ok() && passes::simplify(*other).ok() &&
                       passes::eliminate_dead_code(*other).ok();
  return is_done ? std::move(other) : nullptr;
}

// Products of transposes add up in the order of what is transposed.
bool turns_products(const ir::Module& module) {
  const auto other = simplified(module);
  if (other == nullptr) return false;
  const auto turned = passes::turn_products(*other);
  return turned.ok() && *turned;
}

// Products by what is computed from narrower numbers are sums in another order, or cut.
bool remakes_products(const ir::Module& module) {
  const auto other = simplified(module);
  if (other == nullptr) return false;
  const auto summed = passes::sum_narrow_products(*other);
  const auto tiled = passes::tile_narrow_products(*other);
  return (summed.ok() && *summed) || (tiled.ok() && *tiled);
}

// Sums over participants may be others than as written.
bool sums_otherwise(std::uint64_t seed, const ir::Module& module) {
  if (module.replica_count * module.num_partitions == 1 || has_whole_sums(seed)) return false;
  const auto other = simplified(module);
  if (other == nullptr) return false;
  const auto promoted = passes::promote_all_reduces(*other);
  return promoted.ok() && *promoted;
}

// All that a program meets others for, in order.
std::string meetings_of(const ir::Module& module) {
  std::string found;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      const ir::OpClass kind = ir::op_info(instruction->opcode()).op_class;
      if (kind != ir::OpClass::collective && kind != ir::OpClass::async) continue;
      found += std::string(ir::to_string(instruction->opcode())) + " " + instruction->name() + " " +
               instruction->shape().to_string() + "; ";
    }
  }
  return found;
}

// Participants that plan alone meet at the same collectives in whatever forms they run.
std::string check_forms(const ir::Module& module, device::KernelProvider& provider) {
  executor::ProgramOptions options;
  options.plans_alone = true;
  const auto program = executor::Program::create(module.clone(), provider, options);
  if (!program.ok()) return "planned alone: " + program.status().to_string();
  const std::string expected = meetings_of((*program)->module());
  for (const passes::Fusion fusion :
       {passes::Fusion::vertical, passes::Fusion::narrow, passes::Fusion::as_written}) {
    for (const passes::Residuals residuals :
         {passes::Residuals::cheaper, passes::Residuals::carried, passes::Residuals::segments}) {
      const auto form = (*program)->in_form({fusion, residuals});
      if (!form.ok()) return "planned alone: " + form.status().to_string();
      if (*form == nullptr) continue;
      const std::string got = meetings_of((*form)->module());
      if (got != expected) return "planned alone, a form meets at " + got + "not at " + expected;
    }
  }
  return {};
}

// Collectives that are combined keep more at a time, but only in forms that need not be chosen.
std::string check_combined(const ir::Module& module, device::KernelProvider& provider) {
  std::int64_t floors[2] = {0, 0};
  for (const bool combined : {false, true}) {
    executor::ProgramOptions options;
    if (!combined) options.collective_bucket_bytes = 0;
    const auto program = executor::Program::create(module.clone(), provider, options);
    if (!program.ok()) return "combined: " + program.status().to_string();
    const auto floor = executor::least_floor(**program, {});
    if (!floor.ok()) return "combined: " + floor.status().to_string();
    floors[combined ? 1 : 0] = floor->bytes;
  }
  if (floors[1] <= floors[0]) return {};
  return "combining collectives raises the floor from " + std::to_string(floors[0]) + " to " +
         std::to_string(floors[1]);
}

}  // namespace

std::string_view kind_of_program(std::uint64_t seed) {
  if (seed % 32 == 3) return "attention";
  if (seed % 8 == 3) return "scan";
  if (seed % 8 == 6) return "skips";
  if (seed % 16 == 9 || seed % 16 == 4) return "participants";
  if (seed % 2 == 1) return "step";
  return seed % 16 == 2 || seed % 16 == 8 || seed % 16 == 10 ? "rare" : "mixed";
}

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
  std::vector<std::vector<ir::Literal>> arguments;
  for (std::int64_t i = 0; i < module->replica_count * module->num_partitions; ++i) {
    arguments.push_back(
        cases::random_arguments(*module, seed + 1 + (static_cast<std::uint64_t>(i) << 40),
                                has_attention(seed) ? std::vector<cases::InputRange>(6, small)
                                                    : std::vector<cases::InputRange>()));
  }
  totals.instructions += module->instruction_count();
  const auto expected = reference_results(*module, arguments);
  if (!expected.ok()) return "reference: " + expected.status().to_string();
  std::string error;
  const auto results =
      run_unlimited_together(*module, arguments, provider, /*optimize=*/true, error);
  if (!error.empty()) return error;
  const auto unfused =
      run_unlimited_together(*module, arguments, provider, /*optimize=*/false, error);
  if (!error.empty()) return "as written: " + error;
  const bool is_turned = turns_products(*module) || remakes_products(*module);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!has_whole_sums(seed)) {
      error = cases::compare_close((*expected)[i], results[i], kTolerance, kSmallestScale);
    }
    if (!error.empty()) {
      return "participant " + std::to_string(i) + " against the interpreter: " + error;
    }
    if (is_turned && has_whole_sums(seed)) continue;
    error = has_attention(seed) || is_turned || sums_otherwise(seed, *module)
                ? cases::compare_close(results[i], unfused[i], kTolerance, kSmallestScale)
                : cases::compare_bits(results[i], unfused[i]);
    if (!error.empty()) return "participant " + std::to_string(i) + " fused and unfused: " + error;
  }
  if (arguments.size() > 1) {
    error = check_combined(*module, provider);
    if (!error.empty()) return error;
    error = check_forms(*module, provider);
    if (!error.empty()) return error;
  }
  LimitCheck report;
  error =
      check_limits_together(*module, arguments, provider, seed, limits, limits_of(seed), &report);
  if (!error.empty()) return error;
  totals.limits += report.limits;
  totals.recomputing_plans += report.recomputing_plans;
  totals.encoding_plans += report.encoding_plans;
  totals.encoding_kernels += report.encoding_kernels;
  totals.decoding_kernels += report.decoding_kernels;
  totals.swapping_plans += report.swapping_plans;
  totals.synchronous_plans += report.synchronous_plans;
  totals.slicing_plans += report.slicing_plans;
  totals.streaming_plans += report.streaming_plans;
  totals.joint_launches += report.joint_launches;
  totals.beside += report.beside;
  totals.floor_share += report.peak_bytes > 0 ? static_cast<double>(report.floor_bytes) /
                                                    static_cast<double>(report.peak_bytes)
                                              : 1;
  return {};
}

}  // namespace plimsoll::testing
