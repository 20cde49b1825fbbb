// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/nn/convolution.hpp"
#include "plimsoll/nn/embedding.hpp"
#include "plimsoll/nn/initializer.hpp"
#include "plimsoll/nn/layers.hpp"
#include "plimsoll/nn/linear.hpp"
#include "plimsoll/nn/loss.hpp"
#include "plimsoll/nn/module.hpp"
#include "plimsoll/nn/normalization.hpp"
