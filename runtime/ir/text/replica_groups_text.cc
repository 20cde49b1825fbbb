// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/text/replica_groups_text.h"

#include <fmt/core.h>
#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/ir/shape.h"

namespace plimsoll::ir {
namespace {

constexpr std::int64_t kMaxId = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxParticipants = std::int64_t{1} << 16;

// `[2,4]`; the product is what `count` says.
Result<std::vector<std::int64_t>> read_box(Cursor& cursor, std::int64_t& count) {
  const std::size_t start = cursor.position();
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('[', "before the sizes of an iota form"));
  std::vector<std::int64_t> sizes;
  count = 1;
  do {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t size,
                              cursor.integer("a size of an iota form", 1, kMaxParticipants));
    sizes.push_back(size);
    count *= size;
    if (count > kMaxParticipants || sizes.size() > kMaxRank) {
      return cursor.error_at(
          start,
          fmt::format("expected replica groups of at most {} participants", kMaxParticipants));
    }
  } while (cursor.take(','));
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect(']', "after the sizes of an iota form"));
  return sizes;
}

Status read_iota_groups(Cursor& cursor, CollectiveAttributes& collective) {
  const std::size_t start = cursor.position();
  std::int64_t count = 0;
  std::int64_t source_count = 0;
  PLIMSOLL_ASSIGN_OR_RETURN(const auto groups, read_box(cursor, count));
  if (!cursor.take("<=")) return cursor.expected("'<=' in an iota form");
  PLIMSOLL_ASSIGN_OR_RETURN(const auto source, read_box(cursor, source_count));
  if (count != source_count || groups.size() != 2) {
    return cursor.error_at(
        start, "expected replica groups [GROUPS,SIZE]<=[...] with equal products on both sides");
  }
  std::vector<std::int64_t> order(source.size());
  std::iota(order.begin(), order.end(), 0);
  if (cursor.take('T')) {
    PLIMSOLL_RETURN_IF_ERROR(cursor.expect('(', "before the transposition"));
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) PLIMSOLL_RETURN_IF_ERROR(cursor.expect(',', "in the transposition"));
      PLIMSOLL_ASSIGN_OR_RETURN(order[i],
                                cursor.integer("a dimension of the transposition", 0,
                                               static_cast<std::int64_t>(order.size()) - 1));
    }
    PLIMSOLL_RETURN_IF_ERROR(cursor.expect(')', "after the transposition"));
    std::vector<std::int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<std::int64_t>(i)) {
        return cursor.error_at(start, "expected a transposition that names each dimension once");
      }
    }
  }
  for (const char c : cursor.text().substr(start, cursor.raw_position() - start)) {
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') collective.groups_text += c;
  }
  if (collective.groups_text.find('/') != std::string::npos) {
    return cursor.error_at(start, "expected no comment inside replica groups");
  }
  // Ids 0..count-1 laid out as `source`, read in the transposed order.
  std::vector<std::int64_t> strides(source.size());
  std::int64_t stride = 1;
  for (std::size_t i = source.size(); i-- > 0; stride *= source[i]) strides[i] = stride;
  std::vector<std::int64_t> index(source.size(), 0);
  collective.replica_groups.assign(at(groups[0]), {});
  for (auto& group : collective.replica_groups) {
    for (std::int64_t i = 0; i < groups[1]; ++i) {
      std::int64_t id = 0;
      for (std::size_t d = 0; d < index.size(); ++d) {
        id += index[d] * strides[at(order[d])];
      }
      group.push_back(id);
      for (std::size_t d = index.size(); d-- > 0;) {
        if (++index[d] < source[at(order[d])]) break;
        index[d] = 0;
      }
    }
  }
  return ok_status();
}

}  // namespace

Status read_replica_groups(Cursor& cursor, CollectiveAttributes& collective) {
  if (cursor.peek() == '[') return read_iota_groups(cursor, collective);
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('{', "before the replica groups"));
  if (cursor.take('}')) return ok_status();
  do {
    PLIMSOLL_ASSIGN_OR_RETURN(auto group, cursor.integer_list("a replica id", 0, kMaxId));
    collective.replica_groups.push_back(std::move(group));
  } while (cursor.take(','));
  return cursor.expect('}', "after the replica groups");
}

Status read_value(Cursor& c, std::vector<std::pair<std::int64_t, std::int64_t>>& pairs) {
  PLIMSOLL_RETURN_IF_ERROR(c.expect('{', "before the source-target pairs"));
  if (c.take('}')) return ok_status();
  do {
    PLIMSOLL_RETURN_IF_ERROR(c.expect('{', "before a source-target pair"));
    std::pair<std::int64_t, std::int64_t> pair;
    PLIMSOLL_ASSIGN_OR_RETURN(pair.first, c.integer("a source", 0, kMaxId));
    PLIMSOLL_RETURN_IF_ERROR(c.expect(',', "between source and target"));
    PLIMSOLL_ASSIGN_OR_RETURN(pair.second, c.integer("a target", 0, kMaxId));
    PLIMSOLL_RETURN_IF_ERROR(c.expect('}', "after a source-target pair"));
    pairs.push_back(pair);
  } while (c.take(','));
  return c.expect('}', "after the source-target pairs");
}

}  // namespace plimsoll::ir
