// SPDX-License-Identifier: Apache-2.0
// Host memory that ends while a kernel is compiled. `operator new` of this program fails at a
// chosen call from the program's own code; that of LLVM, which can't fail, goes on.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "tests/jit/jit_harness.h"

namespace {

std::atomic<long> calls_until_failure{0};  // of the program's own code; 0: none fails

bool is_own_code(const void* address) {
  static const void* const program = [] {
    Dl_info where = {};
    dladdr(&calls_until_failure, &where);
    return static_cast<const void*>(where.dli_fbase);
  }();
  Dl_info where = {};
  return dladdr(address, &where) != 0 && where.dli_fbase == program;
}

bool fails_now(const void* caller) {
  return calls_until_failure.load(std::memory_order_relaxed) > 0 && is_own_code(caller) &&
         calls_until_failure.fetch_sub(1) == 1;
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* const made = fails_now(__builtin_return_address(0)) ? nullptr : std::malloc(bytes);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // both are here
void operator delete(void* address) noexcept { std::free(address); }
void operator delete(void* address, std::size_t /*bytes*/) noexcept { std::free(address); }

namespace plimsoll::jit {
namespace {

using namespace testing;

TEST(AllocationFailure, LeavesNoKernelThatOthersWaitForInVain) {
  const auto compiler = std::move(Compiler::create({})).value();
  int failures = 0;
  for (long n = 1;; n += 1 + n / 3) {
    const std::string shape = "f32[" + std::to_string(100 + n) + "]";
    const auto module = parse("x = " + shape + " parameter(0)\nROOT y = " + shape + " tanh(x)");
    const ir::Instruction& root = *module->entry()->root();
    bool failed = false;
    calls_until_failure = n;
    try {
      EXPECT_TRUE(compiler->compile(root).ok());
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    const bool is_done = calls_until_failure.exchange(0) > 0;
    failures += failed ? 1 : 0;
    const auto again = compiler->compile(root);
    ASSERT_TRUE(again.ok()) << n << ": " << again.status().to_string();
    if (is_done) break;
  }
  EXPECT_GT(failures, 5);
}

}  // namespace
}  // namespace plimsoll::jit
#pragma GCC diagnostic pop
