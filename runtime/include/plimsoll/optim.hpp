// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/optim/adam.hpp"
#include "plimsoll/optim/optimizer.hpp"
#include "plimsoll/optim/schedule.hpp"
#include "plimsoll/optim/sgd.hpp"
