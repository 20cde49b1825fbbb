// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/fork.h"

// A static of a function that is initialized while another thread forks would stay "being
// initialized" in the child for ever, and whoever needs it there would wait for a thread that is
// not there. So the linker (compilation.cmake, --wrap) leads the calls that the compiler makes
// around such initializations (Itanium C++ ABI, 3.3.3 "One-time Construction API") through here.
// Code that finds a static initialized makes none of them.
extern "C" {

int __real___cxa_guard_acquire(void* guard);   // NOLINT: the linker's names
void __real___cxa_guard_release(void* guard);  // NOLINT
void __real___cxa_guard_abort(void* guard);    // NOLINT

int __wrap___cxa_guard_acquire(void* guard) {  // NOLINT
  plimsoll::NoForkScope::enter();
  const int must_initialize = __real___cxa_guard_acquire(guard);
  if (must_initialize == 0) plimsoll::NoForkScope::leave();
  return must_initialize;
}

void __wrap___cxa_guard_release(void* guard) {  // NOLINT
  __real___cxa_guard_release(guard);
  plimsoll::NoForkScope::leave();
}

void __wrap___cxa_guard_abort(void* guard) {  // NOLINT
  __real___cxa_guard_abort(guard);
  plimsoll::NoForkScope::leave();
}
}
