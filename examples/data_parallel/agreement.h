// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "examples/data_parallel/task.h"

namespace plimsoll::examples {

// An option that all participants must have chosen alike, as text.
struct AgreedOption {
  std::string name;
  std::string value;
};

// What decides the network, its batches and its updates. The data is among them by its hash: each
// process reads its own files. Limits, planners and reports are not: they change no bit.
std::vector<AgreedOption> agreed_options(const ParallelOptions& options, const ParallelData& data);

// Compares them with those of the `participants` of the current context, all of which call this at
// the same place. Throws invalid_argument, to all of them, that names the first participant that
// has another value than participant 0, the option and both values.
void agree(const std::vector<AgreedOption>& options, std::int64_t participants);

}  // namespace plimsoll::examples
