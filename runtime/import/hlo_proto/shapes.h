// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "runtime/base/status.h"
#include "runtime/ir/shape.h"

namespace plimsoll::hlo_proto {

// A ShapeProto. INVALID_ARGUMENT for what is none, UNIMPLEMENTED for element types that this
// library has none of, for dynamic sizes and too many dimensions, by name.
Result<ir::Shape> read_shape(std::string_view message);

}  // namespace plimsoll::hlo_proto
