// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/memory/evictor/online_evictor.h"

namespace plimsoll::memory {

// What an evictor decides is done by, in this order. The rest is for those that have other places
// for bytes, or several ways to run an operation.
class EvictionSink {
 public:
  virtual ~EvictionSink() = default;
  // The device's bytes are freed.
  virtual void drop(StorageId id) = 0;
  virtual void recompute(OperationId id) = 0;
  // The operation is erased: its numbers will mean others.
  virtual void erase(OperationId) {}

  struct StorePrice {
    double store_seconds = std::numeric_limits<double>::infinity(), load_seconds = 0;
    std::int64_t kept_bytes = 0;  // of device memory that the copy takes
  };
  // What it takes to keep a copy of the storage, of that many bytes, and to get it back; infinite
  // where there is no room.
  virtual StorePrice store_price(StorageId, std::int64_t) const { return {}; }
  // What its user wants done with the storage; what can't be done is not asked for.
  enum class Wish : std::uint8_t { none, keep, recompute, copy };
  virtual Wish wish(StorageId) const { return Wish::none; }
  // What it takes to get the copy back that there is.
  virtual double load_seconds(StorageId) const { return 0; }
  // Makes the copy that store_price() had in mind; the storage's `drop` comes next.
  virtual void store(StorageId) {}
  // Copies it back, and frees the copy.
  virtual void load(StorageId) {}
  // The copy is freed.
  virtual void discard_copy(StorageId) {}
  // The operation shall run with a workspace of at most that many bytes: what it takes then, or
  // less than 0 if it can't.
  virtual std::int64_t shrink_workspace(OperationId, std::int64_t) { return -1; }
};

// The default policy. What goes first is what costs least to restore per byte and staleness,
//   (its operations' time + that of what they need that is gone too) / (bytes * staleness^a),
// Kirisame et al., "Dynamic Tensor Rematerialization" (ICLR 2021), with other terms. Storages stand
// in queues by the magnitude of cost per byte, each in order of their last use, so that only the
// stalest few of each queue are looked at: what an eviction takes does not grow with their number.
// What is to be restored is collected whole, with all that it needs, and run in the order it
// was recorded in; of what that still needs, only the one needed last goes, and only if nothing
// else is left. Where the sink can keep copies, elsewhere or in fewer bytes, what is cheaper now is
// done: to drop and recompute, or to store and load. Sources can only be stored.
class Evictor : public OnlineEvictor {
 public:
  // `lineage` and `sink` (may be null) must outlive it.
  Evictor(Lineage& lineage, std::int64_t limit_bytes, EvictionSink* sink = nullptr)
      : lineage_(lineage), limit_bytes_(limit_bytes), sink_(sink) {}
  // As `other` stands, on a copy of its lineage. Precondition: nothing is being restored.
  Evictor(const Evictor& other, Lineage& lineage, EvictionSink* sink)
      : lineage_(lineage),
        limit_bytes_(other.limit_bytes_),
        sink_(sink),
        places_(other.places_),
        queues_(other.queues_),
        occupied_(other.occupied_),
        mark_(other.mark_) {}

  Status run(OperationId id) override;
  Status restore(TensorId id) override;
  void release(TensorId id) override;
  void pin(TensorId id) override;

  // Gives up what it takes to have `bytes` more under the limit.
  Status make_room(std::int64_t bytes);
  // The time that what make_room(bytes) evicts would take to restore; infinity when it fails.
  double price_of_room(std::int64_t bytes);
  // Resident bytes that could not be evicted if nothing were pinned.
  std::int64_t fixed_bytes();
  // The storage is resident and one of these.
  bool is_fixed(StorageId id);
  void set_limit(std::int64_t limit_bytes) { limit_bytes_ = limit_bytes; }
  std::int64_t limit() const { return limit_bytes_; }

  // For callers that run operations themselves: restores the tensors and keeps them there until
  // `unpin_all`; none when it fails.
  Status pin_all(std::span<const TensorId> tensors);
  void unpin_all(std::span<const TensorId> tensors);
  // An operation that was just added has been run, in room that was made for it. What takes too
  // much that is gone to recompute becomes a source.
  void ran(OperationId id);
  // A tensor that nothing can recompute, there already.
  TensorId add_source(std::int64_t bytes);

  // A handle less. What nobody holds any more is discarded at once, and erased as far as nothing
  // that is gone needs it; what is there and was made of it can no longer be recomputed where that
  // takes a source which nobody holds.
  void discard(TensorId id);
  // Whether the bytes of a source, or of what would become one, may be overwritten: nothing that is
  // gone needs them.
  bool can_donate(TensorId id);
  // They are overwritten now: the tensor, whose handles stay, is gone for good. Pinned once by the
  // caller, which unpins it by this.
  void donate(TensorId id);
  // What has become of the storage after something has failed.
  void reconcile(StorageId id, bool resident, bool stored, std::int64_t kept_bytes);

 protected:
  // For evictors that also say where bytes lie. Each is called by the evictor itself.
  // Room for what the operation makes, and for its workspace; `again`: it has run before.
  virtual Status make_room_for(OperationId id, bool again);
  // The operation that room was made for has run.
  virtual void placed(OperationId) {}
  // The storage's bytes are freed.
  virtual void gone(StorageId) {}

  // Time to restore a storage, by either way, and the bytes that are free until then.
  struct Cost {
    double recompute = 0, copy = 0;
    std::int64_t bytes = 0, kept_bytes = 0;
    double weight = 1;  // less: goes before others
    double of_copy() const { return copy / static_cast<double>(bytes - kept_bytes); }
    double per_byte() const {
      return weight * std::min(recompute / static_cast<double>(bytes), of_copy());
    }
    bool by_copy() const { return of_copy() < recompute / static_cast<double>(bytes); }
    double seconds() const { return by_copy() ? copy : recompute; }
    std::int64_t freed_bytes() const { return by_copy() ? bytes - kept_bytes : bytes; }
    bool is_finite() const { return std::isfinite(recompute) || std::isfinite(copy); }
  };
  // `gone`: gets the number of storages that would have to be restored before, where not null.
  Cost cost_to_restore(StorageId id, int* gone = nullptr);
  // Time of a storage's idleness, as it weighs.
  double staleness(StorageId id) const;
  // Operations that are about to run read it.
  bool is_awaited(StorageId id) { return place(id).awaited > 0; }
  // The storage that costs least; of those that are awaited, the one needed last; -1: none may go.
  StorageId pick();
  StorageId pick_awaited();
  void evict(StorageId id);
  const Lineage& lineage() const { return lineage_; }

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
  // How much the time since its last use makes a storage dispensable; chosen on the recorded steps
  // of benchmarks/eviction.
  static constexpr double kStalenessExponent = 0.35;
  static constexpr double kLeastIdleSeconds = 1e-9;
  // Of what a storage needs that is gone, so much is looked at: beyond, its cost is a lower bound.
  static constexpr int kMostVisited = 64;

  void drop(StorageId id);
  std::int64_t most_runs() const;
  Status pushes_itself_out() const;
  // Restores what is gone of them, and pins all; none when it fails.
  Status restore_and_pin(std::span<const TensorId> arguments);
  Status execute(OperationId id, bool again);
  void unpin(TensorId id);
  Status restore_all(std::span<const TensorId> tensors);
  Status load(StorageId id);
  // A copy in device memory that need not be, as what it holds can be recomputed.
  StorageId pick_copy() const;
  void grant_wish(StorageId id, Cost& cost) const;
  // Nothing that is gone needs `id`: what is there and was made of it directly, or of what is gone
  // in between, is appended to `made`.
  bool is_dispensable(TensorId id, std::vector<TensorId>& made) const;
  // What was made of `id` and is there becomes a source. Precondition: is_dispensable gave `made`.
  void make_sources(const std::vector<TensorId>& made);
  void discard_storage(StorageId id);
  void erase_unneeded(TensorId id);
  void discard_unreferenced(TensorId id);
  void enter_all();
  static int queue_of(double cost_per_byte);
  void enter(StorageId id);
  void enter_queue(StorageId id, int queue, bool newest);
  void leave_queue(StorageId id);
  void await(OperationId id, std::int32_t reads);
  Place& place(StorageId id);

  Lineage& lineage_;
  std::int64_t limit_bytes_;
  EvictionSink* const sink_;
  std::vector<Place> places_;
  std::array<Queue, kQueues> queues_{};
  std::array<std::uint64_t, kQueues / 64> occupied_{};
  std::vector<Frame> frames_;
  std::int32_t mark_ = 0;
  std::vector<StorageId> stack_;    // scratch of walks
  std::vector<TensorId> unneeded_;  // scratch of erase_unneeded
  std::vector<StorageId> awaited_;  // scratch of pick_awaited
  std::vector<bool> wanted_;        // scratch of restore_all, by operation
  std::int64_t runs_ = 0;           // again, for this request
};

}  // namespace plimsoll::memory
