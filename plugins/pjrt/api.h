// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plugins/pjrt/abi.h"

// The functions of the table that this plugin defines: each says in `args` what it found, and gives
// an error that the caller destroys, or NULL. Any thread may call any of them at any time.
namespace plimsoll::pjrt {

void Error_Destroy(abi::Error_Destroy_Args* args);
void Error_Message(abi::Error_Message_Args* args);

// The two above return nothing; here all others are declared.
#define PLIMSOLL_PJRT(name) abi::Error* name(abi::name##_Args* args);
#define PLIMSOLL_PJRT_VOID(name)
#define PLIMSOLL_PJRT_MISSING(name)
#include "plugins/pjrt/functions.def"
#undef PLIMSOLL_PJRT
#undef PLIMSOLL_PJRT_VOID
#undef PLIMSOLL_PJRT_MISSING

}  // namespace plimsoll::pjrt
