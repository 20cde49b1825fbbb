// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/memory/online_evictor.h"

namespace plimsoll::memory {

// What an evictor decides is done by, in this order.
class EvictionSink {
 public:
  virtual ~EvictionSink() = default;
  virtual void drop(StorageId id) = 0;
  virtual void run_again(OperationId id) = 0;
};

// The default policy. What goes first is what costs least to bring back per byte and staleness,
//   (its operations' time + that of what they need that is gone too) / (bytes * staleness^a),
// Kirisame et al., "Dynamic Tensor Rematerialization" (ICLR 2021), with other terms. Storages stand
// in queues by the magnitude of cost per byte, each in order of their last use, so that only the
// stalest few of each queue are looked at: what an eviction takes does not grow with their number.
// What is to be brought back is collected whole, with all that it needs, and run in the order it
// was recorded in; of what that still needs, only the one needed last goes, and only if nothing
// else is left.
class Evictor : public OnlineEvictor {
 public:
  // `lineage` and `sink` (may be null) must outlive it.
  Evictor(Lineage& lineage, std::int64_t limit_bytes, EvictionSink* sink = nullptr)
      : lineage_(lineage), limit_bytes_(limit_bytes), sink_(sink) {}

  Status run(OperationId id) override;
  Status bring_back(TensorId id) override;
  void release(TensorId id) override;
  void pin(TensorId id) override;

  // Gives up what it takes to have `bytes` more under the limit.
  Status make_room(std::int64_t bytes);

 private:
  // Where a storage stands in the queues.
  struct Place {
    std::int32_t queue = -1;  // -1: in none
    StorageId previous = -1, next = -1;
    std::int32_t awaited = 0;  // reads by operations of `frames_` that are still to run
    std::int32_t mark = 0;     // scratch of walks
  };
  struct Queue {
    StorageId first = -1, last = -1;  // stalest first
  };
  // Operations to run, of which those before `next` have.
  struct Frame {
    std::vector<OperationId> operations;
    std::size_t next = 0;
  };
  static constexpr int kQueues = 256;

  Status execute(OperationId id, bool again);
  // Brings back what is gone of them, and locks all; none when it fails.
  Status hold_all(std::span<const TensorId> arguments);
  void hold(TensorId id);
  void let_go(TensorId id);
  Status restore(std::span<const TensorId> tensors);
  StorageId pick();
  StorageId pick_awaited();
  double cost_to_bring_back(StorageId id);
  static int queue_of(double cost_per_byte);
  void enter(StorageId id);
  void enter_queue(StorageId id, int queue, bool newest);
  void leave(StorageId id);
  void await(OperationId id, std::int32_t reads);
  Place& place(StorageId id);

  Lineage& lineage_;
  const std::int64_t limit_bytes_;
  EvictionSink* const sink_;
  std::vector<Place> places_;
  std::array<Queue, kQueues> queues_{};
  std::array<std::uint64_t, kQueues / 64> occupied_{};
  std::vector<Frame> frames_;
  std::int32_t mark_ = 0;
  std::vector<StorageId> stack_;   // scratch of walks
  std::vector<bool> wanted_;       // scratch of restore, by operation
  std::int64_t restorations_ = 0;  // for this request
};

}  // namespace plimsoll::memory
