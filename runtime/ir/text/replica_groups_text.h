// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/attributes.h"
#include "runtime/ir/text/cursor.h"

namespace plimsoll::ir {

// `{{0,1},{2,3}}`, `{}` or `[2,4]<=[8]T(1,0)`; fills replica_groups and groups_text.
Status read_replica_groups(Cursor& cursor, CollectiveAttributes& collective);
// `{{0,1},{1,0}}`
Status read_source_target_pairs(Cursor& cursor, CollectiveAttributes& collective);

}  // namespace plimsoll::ir
