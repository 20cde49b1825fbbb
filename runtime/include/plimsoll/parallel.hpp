// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/parallel/buckets.hpp"
#include "plimsoll/parallel/data_parallel.hpp"
