// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/status.h"
#include "runtime/memory/evictor/evictor.h"
#include "runtime/residency/execution.h"
#include "runtime/residency/value.h"

namespace plimsoll::trace {

// The values in device memory of one context: which of them are there, how each was made, and which
// are evicted when room is needed (memory/evictor/evictor.h decides; the worker does it, in the
// order of what is submitted). Keeps the books by what has been submitted, so that they are ahead
// of the device. A value is held as long as a node has it. Used by the recording thread.
class LiveValues final : public memory::EvictionSink {
 public:
  // With `planning` as for cuts, for executions that must run again in less room.
  LiveValues(std::shared_ptr<memory::Budget> budget, Worker& worker,
             const planner::PlanPolicy& planning);
  // The same books, to try out what would become of them: nothing is done.
  std::unique_ptr<LiveValues> dry_run() const;
  // For a dry run: as if that were the limit.
  void pretend_limit(std::int64_t bytes);

  // The limit has changed, perhaps: evicts what is above it, as far as possible. Without a limit
  // nothing is kept to recompute values; those made then can only be stored elsewhere.
  void follow_limit();

  // A value in device memory that nothing can recompute; one node has it.
  void add_source(const std::shared_ptr<Value>& value);
  // An execution that is about to be submitted, with room for what it makes and its workspace; one
  // node has each of its outputs. What it donates must be pinned, is unpinned here, and is gone for
  // good. `repeatable`: it may run again, and gives the same bits.
  void add(const std::shared_ptr<Execution>& execution, bool repeatable);
  // A node less has the value.
  void discard(const Value& value) { evictor_.discard(value.tensor); }
  // The value, that a node has still, will not be asked for any more; goes now if it can.
  void donate(const Value& value);

  // Restores the values, where they are not there, and keeps them there until `unpin`. Host
  // values are passed over.
  Status pin(std::span<const std::shared_ptr<Value>> values);
  void unpin(std::span<const std::shared_ptr<Value>> values);
  // Whether the bytes are there. Precondition: it is pinned, and has been waited for.
  bool is_there(const Value& value) const { return value.on_host || value.device; }
  // The books are made to say where the value is. Precondition: nothing runs.
  void reconcile(const std::shared_ptr<Value>& value) { reconcile(value, false); }
  Status make_room(std::int64_t bytes) { return evictor_.make_room(bytes); }
  double price_of_room(std::int64_t bytes) { return evictor_.price_of_room(bytes); }
  // The machine for plans, with as much of its tiers as values have left.
  planner::Machine free_machine() const;
  // A plan is going to run, and may again: values leave it its blocks of the tiers.
  void reserve(const planner::Plan& plan);
  // Nothing that was evicted needs the value to be recomputed.
  bool can_donate(const Value& value) { return evictor_.can_donate(value.tensor); }

  // Device bytes of all values, those that are about to be made included.
  std::int64_t used_bytes() const { return lineage_.used_bytes(); }
  // Of these, all but `values`; and what of all but `values` can't be evicted, holds aside.
  std::int64_t bytes_beside(std::span<const std::shared_ptr<Value>> values) const;
  std::int64_t fixed_bytes_beside(std::span<const std::shared_ptr<Value>> values);
  // One of the device values could be evicted if it were not pinned.
  bool can_evict_any(std::span<const std::shared_ptr<Value>> values);
  std::int64_t limit() const { return evictor_.limit(); }
  const memory::EvictionStatistics& statistics() const { return evictor_.statistics(); }

  // Reconciles the books after something has failed in the background: to be called before anything
  // is pinned or made. What could not be stored is there still; what could not be loaded, or failed
  // for lack of memory, is recomputed when it is needed; what can't be is tried again.
  Status recover();

 private:
  LiveValues(const LiveValues& other, Worker* worker);

  // How an operation of the lineage is run again.
  struct Recipe {
    std::shared_ptr<const executor::Executable> executable;
    std::vector<std::shared_ptr<Value>> parameters;
    std::vector<std::int64_t> scalars;
  };

  void drop(memory::StorageId id) override;
  void recompute(memory::OperationId id) override;
  void erase(memory::OperationId id) override;
  StorePrice store_price(memory::StorageId id, std::int64_t bytes) const override;
  Wish wish(memory::StorageId id) const override;
  double load_seconds(memory::StorageId id) const override;
  void store(memory::StorageId id) override;
  void load(memory::StorageId id) override;
  void discard_copy(memory::StorageId id) override;
  std::int64_t shrink_workspace(memory::OperationId id, std::int64_t most_bytes) override;

  // Places: a tier's is its number, and what is encoded in device memory is behind them.
  static constexpr std::int8_t kNowhere = -1, kEncoded = static_cast<std::int8_t>(kTiers.size());
  static constexpr std::int8_t place_on(MemorySpace tier) {
    return static_cast<std::int8_t>(tier_index(tier));
  }
  // Where copies are kept: a tier as far as it is there, or device memory.
  struct Place {
    memory::Tier* tier = nullptr;
    memory::LinkSpeed speed;
    std::int64_t used_bytes = 0;
    std::int64_t reserved_bytes = 0;  // for plans
    int pause = 0;                    // a store has failed: gets nothing for so many requests
  };
  // What is known of a tensor of the lineage.
  struct Entry {
    std::shared_ptr<Value> value;
    bool there = false;            // when all that was submitted has run
    bool donated = false;          // given to be overwritten: gone for good then
    std::int8_t place = kNowhere;  // of its copy
    std::uint64_t store = 0;       // that made it; 0: it is on the books as it is
    std::int64_t saved_bytes = 0;  // that it does not take there
  };
  // Storages and tensors are numbered alike: no value is a view.
  Entry& entry(memory::TensorId id);
  ir::Hint hint_of(memory::StorageId id) const;
  const EncodedForm* form_of(memory::StorageId id) const;
  StorePrice price_at(std::int8_t place, memory::StorageId id, std::int64_t bytes) const;
  std::int8_t place_for(memory::StorageId id, std::int64_t bytes) const;
  // The copy is there, respectively no longer, by the books.
  void book_copy(Entry& of, std::int8_t place, std::int64_t saved_bytes);
  void unbook_copy(Entry& of);
  // Copies have turned out smaller than their values.
  void credit_savings();
  Place& place_at(std::int8_t place) { return places_[at(place)]; }
  const Place& place_at(std::int8_t place) const { return places_[at(place)]; }
  std::vector<memory::TensorId> tensors_of(std::span<const std::shared_ptr<Value>> values) const;
  void enter(memory::TensorId id, const std::shared_ptr<Value>& value);
  void encode(const std::shared_ptr<Value>& value);
  // The pinned value's buffer is going to be overwritten, or freed, for good.
  void mark_donated(const Value& value);
  void reconcile(const std::shared_ptr<Value>& value, bool will_be_made);
  // The others of the failed executions, which must be tried again, in their order.
  std::vector<std::shared_ptr<Execution>> abandon_recomputable(
      const std::vector<std::shared_ptr<Execution>>& failed);
  // Counts host memory that recipes alone may keep.
  bool keep_inputs(const Execution& execution);
  // Does it, but in a dry run.
  template <typename Submit>
  void submit(Submit submit) {
    if (worker_ == nullptr) return;
    const Status status = submit(*worker_);
    if (submission_.ok()) submission_ = status;
  }

  const std::shared_ptr<memory::Budget> budget_;
  Worker* const worker_;  // null in a dry run
  const planner::PlanPolicy planning_;
  memory::Lineage lineage_;
  memory::Evictor evictor_;
  std::array<Place, kEncoded + 1> places_;
  std::vector<Entry> entries_;                          // by tensor
  std::vector<std::shared_ptr<const Recipe>> recipes_;  // by operation
  std::int64_t kept_host_bytes_ = 0;
  std::uint64_t stores_ = 0;
  Status submission_;  // of what the evictor had done since it was last asked
};

}  // namespace plimsoll::trace
