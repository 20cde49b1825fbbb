// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/import/onnx/emit/emit.h"

namespace plimsoll::onnx {

// Along one axis, without overflow.
Array softmax(Emit& e, const Array& x, std::int64_t axis);
Array log_softmax(Emit& e, const Array& x, std::int64_t axis);

}  // namespace plimsoll::onnx
