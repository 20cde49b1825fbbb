// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reading and batching training data on the host. The IDX reader needs zlib at link time, which is
// why plimsoll.hpp doesn't include this header.
#include "plimsoll/data/batches.hpp"
#include "plimsoll/data/idx.hpp"
#include "plimsoll/data/images.hpp"
#include "plimsoll/data/text.hpp"
