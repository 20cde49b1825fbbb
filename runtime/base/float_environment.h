// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace plimsoll {

// As long as it lives, the calling thread computes with floats as IEEE 754 has it: rounds to
// nearest even, keeps subnormal numbers, and no exception traps. Then its caller's modes are back,
// flags of exceptions included. A library built for speed may have changed them for every thread
// that was made since, or the caller itself for its own: bits must not depend on who calls, or on
// which thread a piece of work falls to. May be nested; destroyed on the thread that made it.
class FloatEnvironment {
 public:
#if defined(__x86_64__)
  FloatEnvironment() : before_(_mm_getcsr()) {
    if (before_ != kDefault) _mm_setcsr(kDefault);
  }
  ~FloatEnvironment() {
    if (_mm_getcsr() != before_) _mm_setcsr(before_);
  }

 private:
  static constexpr std::uint32_t kDefault = 0x1f80;  // all exceptions masked, nothing else
  std::uint32_t before_;
#elif defined(__aarch64__)
  FloatEnvironment() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    if (before_ != 0) asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
  }
  ~FloatEnvironment() {
    if (before_ != 0) asm volatile("msr fpcr, %0" : : "r"(before_));
  }

 private:
  std::uint64_t before_ = 0;
#else
  FloatEnvironment() = default;
  ~FloatEnvironment() {}
#endif

 public:
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;
};

}  // namespace plimsoll
