// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/attributes.h"
#include "runtime/ir/text/cursor.h"

namespace plimsoll::ir {

// `{{0,1},{2,3}}`, `{}`, `[2,4]<=[8]T(1,0)` (which groups_text keeps, too) or
// `mesh['a'=2,'b'=4] {'a'}` (which prints back as the groups it means).
Status read_replica_groups(Cursor& cursor, CollectiveAttributes& collective);
// `{{0,1},{1,0}}`
Status read_value(Cursor& cursor, std::vector<std::pair<std::int64_t, std::int64_t>>& pairs);

}  // namespace plimsoll::ir
