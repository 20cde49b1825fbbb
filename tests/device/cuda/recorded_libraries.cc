// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/recorded_libraries.h"

#include <algorithm>

#include "jit/gpu/gpu_kernel.h"
#include "runtime/backend/backends.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/residency.h"
#include "tests/cases/compare.h"
#include "tests/cases/op_cases.h"
#include "tests/device/cuda/emulated_kernels.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device::cuda {

void RecordedLibraries::open(RecordingOptions options) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not follow the fibers that emulate a GPU's threads";
#endif
  if (const auto compiler = jit::GpuCompiler::create({}); !compiler.ok()) {
    GTEST_SKIP() << compiler.status().message();
  }
  gpu_ = std::make_unique<RecordedGpu>(options, 0, create_emulated_kernels);
}

void RecordedLibraries::close() {
  if (gpu_ == nullptr) return;
  EXPECT_EQ(gpu_->close(), "");
  gpu_.reset();
}

RecordedLibraries::ByLibrary RecordedLibraries::compare_cases(
    std::string_view part, const std::function<std::int64_t()>& calls) {
  ByLibrary done;
  for (const cases::OpCase& op_case : cases::op_cases()) {
    if (op_case.name.find(part) == std::string::npos) continue;
    SCOPED_TRACE(op_case.name);
    const auto module = ir::parse_module(op_case.hlo, op_case.name).value();
    const auto arguments = cases::random_arguments(*module, 7, op_case.ranges);
    const ir::Literal expected = on_cpu(*module, arguments);
    const std::int64_t before = calls();
    std::string error;
    const ir::Literal result =
        testing::run_unlimited(*module, arguments, *gpu_->provider(), true, error);
    EXPECT_EQ(error, "");
    if (!error.empty()) return done;
    EXPECT_EQ(cases::compare_close(expected, result, std::max(op_case.tolerance, 1e-6), 1), "");
    (calls() > before ? done.cases : done.others) += 1;
  }
  return done;
}

ir::Literal RecordedLibraries::on_cpu(const ir::Module& module,
                                      std::span<const ir::Literal> arguments) {
  static const auto cpu = backend::create_kernels(cpu_device()).value();
  std::string error;
  ir::Literal result = testing::run_unlimited(module, arguments, *cpu, true, error);
  EXPECT_EQ(error, "");
  return result;
}

Result<RecordedLibraries::Made> RecordedLibraries::make(const ir::Module& module) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto program,
                            executor::Program::create(module.clone(), *gpu_->provider(), {}));
  planner::PlanOptions options;
  options.parameters = planner::default_residency(program->module());
  Made made;
  made.budget = memory::Budget::create(gpu_->device, planner::kUnlimited);
  PLIMSOLL_ASSIGN_OR_RETURN(made.executable,
                            executor::make_executable(program, options, options, *made.budget));
  return made;
}

Result<ir::Literal> RecordedLibraries::run(const ir::Module& module,
                                           std::span<const ir::Literal> arguments) {
  PLIMSOLL_ASSIGN_OR_RETURN(const Made made, make(module));
  return executor::run_on_host(*made.executable, *made.budget, arguments);
}

void RecordedLibraries::fail_every_call(const ir::Module& module,
                                        const std::function<std::string()>& leaks) {
  const auto arguments = cases::random_arguments(module, 3);
  const auto expected = run(module, arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  const std::string kept = leaks();
  int failures = 0;
  bool is_past_the_last = false;
  for (int n = 1; !is_past_the_last; n += 1 + n / 60) {
    gpu_->driver.fail(n);
    const auto result = run(module, arguments);
    is_past_the_last = gpu_->driver.is_failure_pending();
    gpu_->driver.fail(0);
    // Some things are done in another way where they fail.
    if (result.ok()) {
      EXPECT_EQ(cases::compare_bits(*expected, *result), "") << n;
    } else {
      ++failures;
      EXPECT_FALSE(is_past_the_last) << result.status().to_string();
      EXPECT_NE(result.status().message().find("cu"), std::string::npos)
          << result.status().to_string();
    }
    EXPECT_EQ(leaks(), kept) << n;
  }
  EXPECT_GT(failures, 40);
}

}  // namespace plimsoll::device::cuda
