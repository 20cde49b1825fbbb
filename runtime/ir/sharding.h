// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/replica_groups.h"
#include "runtime/ir/shape.h"

namespace plimsoll::ir {

// Which partition has which part of an array: it is cut into tiles[0] x tiles[1] x ... equal tiles,
// and every tile is there in as many copies. Without tiles every partition has all of it. The
// copies may be summands instead (`unreduced`): each holder of a tile has one of so many arrays
// whose sum is the tile. Where the number of tiles does not divide a dimension, the last ones reach
// beyond the array, as in XLA: what is there may be anything.
struct Sharding {
  std::vector<std::int64_t> tiles;    // per dimension; empty: replicated
  std::vector<std::int64_t> holders;  // partitions, by tile (row-major), by summand, then by copy
  std::int64_t copies = 1;            // of a tile, summands included
  std::int64_t summands = 1;          // divides `copies`
  bool is_unknown = false;  // `{unknown}`: replicated, but whoever makes the array may choose

  bool is_replicated() const { return tiles.empty() && summands == 1; }
  bool is_summed() const { return summands > 1; }
  // How the sum is held by those who have the summands.
  Sharding summed() const;
  // The tile that each of `partitions` partitions has.
  std::vector<std::int64_t> tile_of_partition(std::int64_t partitions) const;
  // Where a tile stands, per dimension.
  std::vector<std::int64_t> place_of_tile(std::int64_t tile) const;
  // Which copy of its tile each partition has, and of it which summand.
  std::vector<std::int64_t> copy_of_partition(std::int64_t partitions) const;
  std::vector<std::int64_t> summand_of_partition(std::int64_t partitions) const;
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

// What `sharding=` says of an array of `rank` dimensions among `partitions` partitions, in the form
// of HLO text: `{replicated}`, `{maximal device=0}` (taken as replicated: everybody computes it),
// `{devices=[2,1,2]<=[4] last_tile_dim_replicate}`, with a list of devices instead of the iota, and
// with `last_tile_dims={...}`, of which `unreduced` counts as summands and each other as copies;
// `{unreduced}`, of which every partition has a summand. `{manual}` is
// replicated. INVALID_ARGUMENT for a text that is none of these, or that does not fit.
Result<Sharding> parse_sharding(std::string_view text, int rank, std::int64_t partitions);
// The same for a tuple of such arrays: `{{...}, {...}}`, or one for all.
Result<std::vector<Sharding>> parse_shardings(std::string_view text, std::span<const int> ranks,
                                              std::int64_t partitions);

// Each dimension cut along some axes of a mesh (replica_groups.h), the first varying slowest; those
// who differ along `unreduced` hold summands.
Result<Sharding> mesh_sharding(std::span<const std::int64_t> sizes,
                               std::span<const std::vector<MeshAxisPart>> dimensions,
                               std::span<const std::int64_t> participants = {},
                               std::span<const MeshAxisPart> unreduced = {});

// In the form of HLO text.
std::string to_string(const Sharding& sharding);

// What one partition has of an array: a tile, of which some may lie beyond the array (is_even).
// INVALID_ARGUMENT for a sharding of another rank.
Result<Shape> tile_shape(const Shape& whole, const Sharding& sharding);

// Whether all tiles of an array of so many elements along `dimension` are full along it.
bool is_even(std::int64_t size, const Sharding& sharding, int dimension);

// The array of which a partition has `tile`, all of it full. INVALID_ARGUMENT for a sharding of
// another rank.
Result<Shape> whole_shape(const Shape& tile, const Sharding& sharding);

}  // namespace plimsoll::ir
