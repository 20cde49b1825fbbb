// SPDX-License-Identifier: Apache-2.0
#pragma once

// The C++ API: header-only over the C ABI (plimsoll.h), and the only part of Plimsoll that throws.
// plimsoll/data.hpp, which needs zlib, is included by itself.
#include "plimsoll/array_file.hpp"
#include "plimsoll/checkpoint.hpp"
#include "plimsoll/context.hpp"
#include "plimsoll/nn.hpp"
#include "plimsoll/ops.hpp"
#include "plimsoll/optim.hpp"
#include "plimsoll/parallel.hpp"
#include "plimsoll/tensor.hpp"
