// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "runtime/memory/evictor/online_evictor.h"

namespace plimsoll::memory {

// Online heuristics that others have published, for comparison: Kirisame et al., "Dynamic Tensor
// Rematerialization" (ICLR 2021, section 4 and appendix), and MSPS from Peng et al., "Capuchin"
// (ASPLOS 2020). The storage of least score goes first:
//   dtr        (own time + that of all evicted ancestors and descendants) / (bytes * staleness)
//   dtr-eq     the same with evicted neighbourhoods joined into classes that never part again
//   dtr-local  own time / (bytes * staleness)
//   msps       (own time + that of evicted ancestors) / bytes
//   lru        last use
//   size       1 / bytes
//   random     any
enum class Heuristic : std::uint8_t { dtr, dtr_eq, dtr_local, msps, lru, size, random };
std::string_view to_string(Heuristic heuristic);
std::optional<Heuristic> parse_heuristic(std::string_view name);

// As published: arguments that are gone are restored one by one, by recursion, each pinned as
// soon as it is there; every eviction looks at every storage.
class PublishedEvictor : public OnlineEvictor {
 public:
  // `lineage` must outlive it. `seed` is for `random`.
  PublishedEvictor(Lineage& lineage, std::int64_t limit_bytes, Heuristic heuristic,
                   std::uint32_t seed = 1)
      : lineage_(lineage), limit_bytes_(limit_bytes), heuristic_(heuristic), random_(seed) {}

  Status run(OperationId id) override;
  Status restore(TensorId id) override;
  void release(TensorId id) override;
  void pin(TensorId id) override;

 private:
  struct State {
    bool evictable = false;  // in the list
    StorageId previous = -1, next = -1;
    std::int32_t node = -1;    // dtr-eq: in the classes, while evicted
    bool stale_region = true;  // dtr, msps: `region_seconds` is out of date
    double region_seconds = 0;
    std::int32_t mark = 0;
    bool unused = true;  // never read or written yet: infinitely stale
  };
  Status materialize(OperationId id, bool again);
  Status make_room(std::int64_t bytes);
  StorageId choose();
  double score(StorageId id);
  double staleness(StorageId id);
  void evict(StorageId id);
  void ran(OperationId id);
  void make_evictable(StorageId id);
  void make_unevictable(StorageId id);
  void pin_storage(StorageId id);
  void unpin_storage(StorageId id);
  State& state(StorageId id);

  bool has_regions() const { return heuristic_ == Heuristic::dtr || heuristic_ == Heuristic::msps; }
  // Walks from `id` through evicted storages; their seconds. Calls `at_edge` for resident ones.
  template <typename AtEdge>
  double walk(StorageId id, bool to_arguments, AtEdge at_edge);
  void region_changed(StorageId id);
  std::vector<StorageId> evicted_neighbours(StorageId id);
  std::int32_t find(std::int32_t node);
  std::int32_t add_node(double seconds);

  Lineage& lineage_;
  const std::int64_t limit_bytes_;
  const Heuristic heuristic_;
  std::mt19937 random_;
  std::vector<State> states_;
  StorageId first_ = -1, last_ = -1;  // the list, in the order in which they became evictable
  std::vector<std::int32_t> parents_;
  std::vector<double> class_seconds_;
  std::int32_t mark_ = 0;
};

}  // namespace plimsoll::memory
