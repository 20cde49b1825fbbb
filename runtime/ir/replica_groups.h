// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"

// The short forms of replica groups, written out.
namespace plimsoll::ir {

using ReplicaGroups = std::vector<std::vector<std::int64_t>>;

// The most participants that groups may have together.
inline constexpr std::int64_t kMaxParticipants = std::int64_t{1} << 16;

// Participants 0, 1, ... laid out as a row-major array of `sizes`, read in the transposed order of
// dimensions that `order` gives (empty: as they are). INVALID_ARGUMENT for sizes below 1, more
// participants than there may be, and an order that is no permutation.
Result<std::vector<std::int64_t>> iota_participants(std::span<const std::int64_t> sizes,
                                                    std::span<const std::int64_t> order);

// The participants cut into groups of `size`. INVALID_ARGUMENT where it does not divide them.
Result<ReplicaGroups> equal_groups(std::span<const std::int64_t> participants, std::int64_t size);

// An axis of a mesh, or a part of one: the axis taken as [before, size, rest], the middle of it.
struct MeshAxisPart {
  std::int64_t axis = 0;
  std::int64_t before = 1;
  std::int64_t size = 0;  // 0: the whole axis
};

// Participants lie on a mesh of these axis sizes, row-major, in the order of `participants` (empty:
// 0, 1, ...). Those in a group differ in the parts given and in nothing else; the last part varies
// fastest. Groups follow each other as the other axes count. XLA's MeshAxesReplicaGroupList.
// INVALID_ARGUMENT for parts that overlap or that the mesh has not.
Result<ReplicaGroups> mesh_groups(std::span<const std::int64_t> sizes,
                                  std::span<const MeshAxisPart> parts,
                                  std::span<const std::int64_t> participants = {});

}  // namespace plimsoll::ir
