// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/ops/activation.hpp"
#include "plimsoll/ops/attention.hpp"
#include "plimsoll/ops/collective.hpp"
#include "plimsoll/ops/contraction.hpp"
#include "plimsoll/ops/control_flow.hpp"
#include "plimsoll/ops/elementwise.hpp"
#include "plimsoll/ops/indexing.hpp"
#include "plimsoll/ops/movement.hpp"
#include "plimsoll/ops/reduction.hpp"
