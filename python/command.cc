// SPDX-License-Identifier: Apache-2.0
#include "tools/command.h"

// The command, for main.c: both are files of one wheel, and this is no part of the C ABI.
extern "C" __attribute__((visibility("default"))) int plimsoll_command(int argc, char** argv) {
  return plimsoll::tools::run_command(argc, argv);
}
