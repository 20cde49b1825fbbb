# SPDX-License-Identifier: Apache-2.0
# Read by ctest: tests plan by the built-in speeds, so that plans are the same on every machine.
if(NOT DEFINED ENV{PLIMSOLL_CALIBRATION})
  set(ENV{PLIMSOLL_CALIBRATION} off)
endif()
# Tests of kernels compile them; those of the cache name a folder of their own.
if(NOT DEFINED ENV{PLIMSOLL_JIT_CACHE})
  set(ENV{PLIMSOLL_JIT_CACHE} off)
endif()
