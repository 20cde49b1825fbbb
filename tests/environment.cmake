# SPDX-License-Identifier: Apache-2.0
# Read by ctest: tests plan by the built-in speeds, so that plans are the same on every machine.
if(NOT DEFINED ENV{PLIMSOLL_CALIBRATION})
  set(ENV{PLIMSOLL_CALIBRATION} off)
endif()
