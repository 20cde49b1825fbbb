# SPDX-License-Identifier: Apache-2.0
# Copied into the build tree and read by ctest, once a run. What is set already stays.
# Tests plan by the built-in speeds, so that plans are the same on every machine.
if(NOT DEFINED ENV{PLIMSOLL_CALIBRATION})
  set(ENV{PLIMSOLL_CALIBRATION} off)
endif()
# ... and before the first run, so that no test depends on what the background has got to. Tests of the background say
# that they want it, and wait for it.
if(NOT DEFINED ENV{PLIMSOLL_PLANNING})
  set(ENV{PLIMSOLL_PLANNING} full)
endif()
# Tests share compiled kernels within a run, which begins without any: every run compiles each kernel that it needs,
# with the compiler that it tests. Tests of the compiler itself do not look at the environment and compile all of theirs.
if(NOT DEFINED ENV{PLIMSOLL_JIT_CACHE} AND NOT DEFINED ENV{PLIMSOLL_JIT_CACHE_DIR})
  set(plimsoll_kernels ${CMAKE_CURRENT_LIST_DIR}/kernels_of_this_run)
  file(REMOVE_RECURSE ${plimsoll_kernels})
  set(ENV{PLIMSOLL_JIT_CACHE} rw)
  set(ENV{PLIMSOLL_JIT_CACHE_DIR} ${plimsoll_kernels})
endif()
