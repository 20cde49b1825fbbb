// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include "plugins/pjrt/error.h"

namespace plimsoll::pjrt {

// kInvalid for a dtype that the interface has none for.
abi::ElementType element_type(plm_dtype dtype);
// UNIMPLEMENTED, with its name, for one that the library has none for.
Error* find_dtype(abi::ElementType type, plm_dtype& out);

}  // namespace plimsoll::pjrt
