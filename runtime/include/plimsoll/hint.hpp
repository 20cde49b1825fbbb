// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/plimsoll.h"

namespace plimsoll {

// What is to be done with a value while nobody reads it (plm_hint).
enum class Hint : int {
  none = PLM_HINT_NONE,
  keep = PLM_HINT_KEEP,
  recompute = PLM_HINT_RECOMPUTE,
  compress = PLM_HINT_COMPRESS,
  swap = PLM_HINT_SWAP,
};

}  // namespace plimsoll
