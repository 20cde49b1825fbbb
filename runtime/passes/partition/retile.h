// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/ir/sharding.h"

namespace plimsoll::passes {

// How each partition's tile of an array becomes its tile by another sharding, with as little as
// possible told to others: dimensions of which it has less than it needs are gathered, among those
// alone who have the rest; the cut of one dimension that becomes the same cut of another is an
// all-to-all; where it needs less, it takes a slice of what it has, before anything is gathered if
// everybody who gathers then has the same. Neither sharding has summands.
class Retiling {
 public:
  Retiling(const ir::Shape& whole, const ir::Sharding& from, const ir::Sharding& to,
           std::int64_t partitions);

  // That one partition receives.
  std::int64_t received_bytes() const { return received_bytes_; }
  // Appends it to the computation of `tile`: nothing where both are the same. `channel` is a
  // channel_id that nobody has, and then the next one.
  ir::Instruction* add(ir::Instruction* tile, std::int64_t& channel) const;

 private:
  // By dimension, into how many parts it is cut and which of them each partition has.
  struct Places {
    std::vector<std::int64_t> counts;
    std::vector<std::vector<std::int64_t>> of;
  };
  struct Step {
    enum class Kind { slice, gather, exchange } kind;
    std::vector<int> dimensions;  // sliced; or gathered; or gathered, and the one that is cut then
    std::vector<std::vector<std::int64_t>> starts;  // of a slice: by dimension, by partition
    std::vector<std::vector<std::int64_t>> groups;  // of partitions
    ir::Dims dims;                                  // of the tile then
  };

  Places places_of(const ir::Sharding& sharding) const;
  std::int64_t size_of(const Places& places, int dimension) const;
  bool is_same(int dimension) const;
  bool divides(int dimension, std::int64_t parts) const;
  bool is_finer(int dimension) const;
  bool is_coarser(int dimension) const;
  // Those who have the rest of the part that each needs; empty where some of it is nobody's.
  std::vector<std::vector<std::int64_t>> members(int dimension,
                                                 const std::vector<std::int64_t>& needed,
                                                 std::int64_t parts) const;
  void slice_first();
  void exchange();
  void gather(int dimension);
  void slice(const std::vector<int>& dimensions);
  ir::Dims dims_of(const Places& places) const;

  ir::Instruction* add_slice(ir::Instruction* tile, const Step& step) const;
  ir::Instruction* add_gather(ir::Instruction* tile, const Step& step, std::int64_t& channel) const;
  ir::Instruction* add_exchange(ir::Instruction* tile, const Step& step,
                                std::int64_t& channel) const;

  const ir::Shape whole_;
  const std::int64_t partitions_;
  Places now_;
  const Places to_;
  std::vector<Step> steps_;
  std::int64_t received_bytes_ = 0;
};

// Appends the number that a table has for this partition.
ir::Instruction* add_look_up(ir::Computation& computation, ir::Instruction* partition,
                             const std::vector<std::int64_t>& table);
// Appends this partition's number.
ir::Instruction* add_partition(ir::Computation& computation);

}  // namespace plimsoll::passes
