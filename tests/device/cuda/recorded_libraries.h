// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/executor/executable.h"
#include "runtime/ir/literal.h"
#include "tests/device/cuda/recorded_gpu.h"

namespace plimsoll::device::cuda {

// A recorded GPU with libraries, whose other kernels are emulated.
class RecordedLibraries : public ::testing::Test {
 protected:
  // Of which the libraries are; skips the test where nothing can be emulated.
  void open(RecordingOptions options);
  // Gives the GPU up: nothing may be left, and nothing may have been wrong.
  void close();
  void TearDown() override { close(); }
  // Runs the op cases whose names have `part` in them, close to the CPU: how many called the
  // library, of whose calls `calls` says how many there were, and how many did not.
  struct ByLibrary {
    std::int64_t cases = 0, others = 0;
  };
  ByLibrary compare_cases(std::string_view part, const std::function<std::int64_t()>& calls);
  static ir::Literal on_cpu(const ir::Module& module, std::span<const ir::Literal> arguments);
  // Runs the program without a limit, all of it made for the purpose.
  Result<ir::Literal> run(const ir::Module& module, std::span<const ir::Literal> arguments);
  struct Made {
    std::shared_ptr<memory::Budget> budget;
    std::shared_ptr<const executor::Executable> executable;
  };
  Result<Made> make(const ir::Module& module);
  // The n-th call of the driver or a library fails, for n = 1, 2, ... until a run makes fewer: an
  // error, or the same bits; `leaks` says what a library has, which stays the same.
  void fail_every_call(const ir::Module& module, const std::function<std::string()>& leaks);

  std::unique_ptr<RecordedGpu> gpu_;
};

}  // namespace plimsoll::device::cuda
