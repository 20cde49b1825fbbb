// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "runtime/base/status.h"
#include "runtime/memory/evictor/lineage.h"

namespace plimsoll::memory {

struct EvictionStatistics {
  std::int64_t evictions = 0;   // storages evicted for room, those nobody held any more excluded
  std::int64_t stores = 0;      // of these, copied first
  std::int64_t encodes = 0;     // of these, in fewer bytes of the same memory
  std::int64_t loads = 0;       // copied back
  std::int64_t recomputes = 0;  // operations run again
  double recompute_seconds = 0;
};

// Keeps the resident bytes of a lineage under a limit while its operations come one at a time and
// nobody knows what comes next. Not thread-safe.
class OnlineEvictor {
 public:
  virtual ~OnlineEvictor() = default;

  // Runs an operation that was just added: restores its arguments, makes room for its outputs.
  // RESOURCE_EXHAUSTED when that can't be; what is resident then fits, and all else can be asked
  // for again.
  virtual Status run(OperationId id) = 0;
  // Makes the tensor defined.
  virtual Status restore(TensorId id) = 0;
  // A handle less; a storage that loses its last one is freed at once.
  virtual void release(TensorId id) = 0;
  // The tensor's storage stays from now on. Precondition: it is resident.
  virtual void pin(TensorId id) = 0;

  const EvictionStatistics& statistics() const { return statistics_; }
  // Running again for longer than this in all is an error: nothing comes of it any more.
  void set_most_recompute_seconds(double seconds) { most_recompute_seconds_ = seconds; }

 protected:
  EvictionStatistics statistics_;
  double most_recompute_seconds_ = std::numeric_limits<double>::infinity();
};

}  // namespace plimsoll::memory
