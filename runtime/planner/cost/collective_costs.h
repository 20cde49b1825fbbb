// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"
#include "runtime/planner/cost/cost_model.h"

namespace plimsoll::planner {

// What one participant sends for a collective, as the communicators do it (docs/collectives.md): by
// a direct exchange, in which each member of a group of n has a message for each of the others.
// Those of one step wait for each other at the sender, and one step for the one before.
struct CollectiveTraffic {
  double messages = 0, bytes = 0;
};

// Of the largest group, of an instruction that begins a collective or a transfer, and of the done
// half of a transfer; zero for all others, and where groups are not understood:
//
//   all-reduce               2 (n - 1) messages, 2 (n - 1) / n of the operands' bytes
//   all-reduce up to 8 KiB   n - 1 messages, n - 1 times the bytes: everybody reduces everything
//   reduce-scatter           n - 1, (n - 1) / n
//   all-to-all               n - 1, (n - 1) / n
//   ragged-all-to-all        2 (n - 1), (n - 1) / n: sizes are told first, and taken to be equal
//   all-gather, broadcast    n - 1, n - 1 times the bytes
//   permute, send, recv      1, once
CollectiveTraffic collective_traffic(const ir::Instruction& instruction);

// messages * message_seconds + bytes / bytes_per_second: the alpha-beta model (Hockney, "The
// communication challenge for MPP", Parallel Computing 20, 1994).
double collective_seconds(const CollectiveTraffic& traffic, const CollectiveSpeeds& speeds);

}  // namespace plimsoll::planner
