// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/replica_groups.h"

#include <fmt/core.h>
#include <algorithm>
#include <numeric>
#include <string>

#include "runtime/base/index.h"
#include "runtime/ir/shape.h"

namespace plimsoll::ir {
namespace {

using Numbers = std::vector<std::int64_t>;

bool is_permutation(std::span<const std::int64_t> order, std::size_t count) {
  Numbers sorted(order.begin(), order.end());
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<std::int64_t>(i)) return false;
  }
  return sorted.size() == count;
}

// How many participants a mesh or an iota form of these sizes has.
Result<std::int64_t> count_of(std::span<const std::int64_t> sizes) {
  constexpr std::size_t kMostAxes = 64;
  std::int64_t count = 1;
  if (sizes.size() > kMostAxes) return invalid_argument("replica groups: more than 64 axes");
  for (const std::int64_t size : sizes) {
    if (size < 1) return invalid_argument("replica groups: a size is below 1");
    if (size > kMaxParticipants || (count *= size) > kMaxParticipants) {
      return invalid_argument(
          fmt::format("replica groups: more than {} participants", kMaxParticipants));
    }
  }
  return count;
}

// The sizes of an axis cut where its parts begin and end, and which of the pieces each part is:
// an axis of 8 with the parts (1)2 and (4)2 is [2, 2, 2] and the pieces 0 and 2.
struct CutAxis {
  Numbers sizes;
  std::vector<std::size_t> pieces;  // by part
};

Result<CutAxis> cut(std::int64_t whole, std::span<const MeshAxisPart* const> parts) {
  const auto bad = [] {
    return invalid_argument("replica groups: parts of a mesh axis overlap or do not divide it");
  };
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return parts[a]->before < parts[b]->before; });
  CutAxis result;
  result.pieces.resize(parts.size());
  std::int64_t done = 1;
  for (const std::size_t i : order) {
    const std::int64_t before = parts[i]->before;
    const std::int64_t size = parts[i]->size == 0 ? whole : parts[i]->size;
    if (before < done || before > whole || before % done != 0 || size < 1 || size > whole) {
      return bad();
    }
    if (before != done) result.sizes.push_back(before / done);
    result.pieces[i] = result.sizes.size();
    result.sizes.push_back(size);
    done = before * size;
    if (done > whole || whole % done != 0) return bad();
  }
  if (done != whole) result.sizes.push_back(whole / done);
  return result;
}

}  // namespace

Result<Numbers> iota_participants(std::span<const std::int64_t> sizes,
                                  std::span<const std::int64_t> order) {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t count, count_of(sizes));
  if (!order.empty() && !is_permutation(order, sizes.size())) {
    return invalid_argument("replica groups: the transposition must name each dimension once");
  }
  Numbers permutation(order.begin(), order.end());
  if (order.empty()) {
    permutation.resize(sizes.size());
    std::iota(permutation.begin(), permutation.end(), 0);
  }
  Numbers strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) strides[i] = stride;
  Numbers participants, index(sizes.size(), 0);
  participants.reserve(at(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t id = 0;
    for (std::size_t d = 0; d < index.size(); ++d) id += index[d] * strides[at(permutation[d])];
    participants.push_back(id);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < sizes[at(permutation[d])]) break;
      index[d] = 0;
    }
  }
  return participants;
}

Result<ReplicaGroups> equal_groups(std::span<const std::int64_t> participants, std::int64_t size) {
  const auto count = static_cast<std::int64_t>(participants.size());
  if (size < 1 || count % size != 0) {
    return invalid_argument(
        fmt::format("replica groups: {} participants are no groups of {}", count, size));
  }
  ReplicaGroups groups;
  for (std::int64_t i = 0; i < count; i += size) {
    const auto first = participants.begin() + i;
    groups.emplace_back(first, first + size);
  }
  return groups;
}

Result<ReplicaGroups> mesh_groups(std::span<const std::int64_t> sizes,
                                  std::span<const MeshAxisPart> parts,
                                  std::span<const std::int64_t> participants) {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t count, count_of(sizes));
  if (!participants.empty() && !is_permutation(participants, at(count))) {
    return invalid_argument(
        fmt::format("replica groups: the devices of a mesh must be 0 to {}", count - 1));
  }
  if (parts.size() > at(count) + sizes.size()) {
    return invalid_argument("replica groups: a mesh axis is named too often");
  }
  // Cut the axes, so that each part is a dimension of its own.
  Numbers cut_sizes;
  std::vector<std::int64_t> grouped(parts.size(), -1);
  std::int64_t group_size = 1;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    std::vector<const MeshAxisPart*> own;
    std::vector<std::size_t> own_places;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].axis != static_cast<std::int64_t>(axis)) continue;
      own.push_back(&parts[i]);
      own_places.push_back(i);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const CutAxis pieces, cut(sizes[axis], own));
    for (std::size_t i = 0; i < own.size(); ++i) {
      grouped[own_places[i]] = static_cast<std::int64_t>(cut_sizes.size() + pieces.pieces[i]);
      group_size *= pieces.sizes[pieces.pieces[i]];
    }
    cut_sizes.insert(cut_sizes.end(), pieces.sizes.begin(), pieces.sizes.end());
  }
  Numbers order;
  for (std::size_t d = 0; d < cut_sizes.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    if (std::find(grouped.begin(), grouped.end(), dim) == grouped.end()) order.push_back(dim);
  }
  for (const std::int64_t dim : grouped) {
    if (dim < 0) return invalid_argument("replica groups: the mesh has no such axis");
    order.push_back(dim);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(Numbers ids, iota_participants(cut_sizes, order));
  if (!participants.empty()) {
    for (std::int64_t& id : ids) id = participants[at(id)];
  }
  return equal_groups(ids, group_size);
}

}  // namespace plimsoll::ir
