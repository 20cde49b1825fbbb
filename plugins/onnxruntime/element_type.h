// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <optional>

namespace plimsoll::ort {

// ONNX numbers dtypes in models as ONNX Runtime does. Nothing for what programs don't hold.
std::optional<plm_dtype> dtype_of(int element_type);

}  // namespace plimsoll::ort
