// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "runtime/base/status.h"
#include "runtime/ir/literal.h"

namespace plimsoll::hlo_proto {

// A LiteralProto of a value of this shape. INVALID_ARGUMENT for one of another shape, and where
// the values are more or fewer than the shape says.
Result<ir::Literal> read_literal(std::string_view message, const ir::Shape& shape);

}  // namespace plimsoll::hlo_proto
