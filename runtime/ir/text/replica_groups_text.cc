// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/text/replica_groups_text.h"

#include <fmt/core.h>
#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/ir/replica_groups.h"
#include "runtime/ir/shape.h"

namespace plimsoll::ir {
namespace {

constexpr std::int64_t kMaxId = std::numeric_limits<std::int64_t>::max();

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

// `T(1,0)`; as it is where there is none.
Result<std::vector<std::int64_t>> read_transposition(Cursor& cursor, std::size_t rank) {
  std::vector<std::int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (!cursor.take('T')) return order;
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('(', "before the transposition"));
  for (std::size_t i = 0; i < rank; ++i) {
    if (i > 0) PLIMSOLL_RETURN_IF_ERROR(cursor.expect(',', "in the transposition"));
    PLIMSOLL_ASSIGN_OR_RETURN(order[i], cursor.integer("a dimension of the transposition", 0,
                                                       static_cast<std::int64_t>(rank) - 1));
  }
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect(')', "after the transposition"));
  return order;
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
  PLIMSOLL_ASSIGN_OR_RETURN(const auto order, read_transposition(cursor, source.size()));
  for (const char c : cursor.text().substr(start, cursor.raw_position() - start)) {
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') collective.groups_text += c;
  }
  if (collective.groups_text.find('/') != std::string::npos) {
    return cursor.error_at(start, "expected no comment inside replica groups");
  }
  const auto participants = iota_participants(source, order);
  if (!participants.ok()) return cursor.error_at(start, participants.status().message());
  auto expanded = equal_groups(*participants, groups[1]);
  if (!expanded.ok()) return cursor.error_at(start, expanded.status().message());
  collective.replica_groups = std::move(*expanded);
  return ok_status();
}

struct MeshText {
  std::vector<std::string_view> names;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> participants;  // empty: 0, 1, ...
};

// `'a'`, or without the quotes.
Result<std::string_view> read_axis_name(Cursor& cursor) {
  const bool is_quoted = cursor.take('\'');
  const std::string_view name = cursor.take_word();
  if (name.empty()) return cursor.expected("the name of a mesh axis");
  if (is_quoted) PLIMSOLL_RETURN_IF_ERROR(cursor.expect('\'', "after the name of a mesh axis"));
  return name;
}

// `mesh['a'=2,'b'=4]`, perhaps with `, device_ids=(0,4,...)` or `, device_ids=([2,4]T(1,0))`.
Result<MeshText> read_mesh(Cursor& cursor) {
  MeshText mesh;
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('[', "before the axes of a mesh"));
  do {
    const std::size_t start = cursor.position();
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view name, read_axis_name(cursor));
    if (std::find(mesh.names.begin(), mesh.names.end(), name) != mesh.names.end()) {
      return cursor.error_at(start, "expected mesh axes of different names");
    }
    PLIMSOLL_RETURN_IF_ERROR(cursor.expect('=', "after the name of a mesh axis"));
    PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t size,
                              cursor.integer("the size of a mesh axis", 1, kMaxParticipants));
    mesh.names.push_back(name);
    mesh.sizes.push_back(size);
  } while (cursor.take(','));
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect(']', "after the axes of a mesh"));
  if (!cursor.take(',')) return mesh;
  if (!cursor.take_keyword("device_ids")) return cursor.expected("'device_ids='");
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('=', "after device_ids"));
  const std::size_t start = cursor.position();
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('(', "before the devices of a mesh"));
  if (cursor.peek() == '[') {
    std::int64_t count = 0;
    PLIMSOLL_ASSIGN_OR_RETURN(const auto sizes, read_box(cursor, count));
    PLIMSOLL_ASSIGN_OR_RETURN(const auto order, read_transposition(cursor, sizes.size()));
    auto participants = iota_participants(sizes, order);
    if (!participants.ok()) return cursor.error_at(start, participants.status().message());
    mesh.participants = std::move(*participants);
  } else {
    do {
      PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t id,
                                cursor.integer("a device of the mesh", 0, kMaxParticipants));
      mesh.participants.push_back(id);
    } while (cursor.take(','));
  }
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect(')', "after the devices of a mesh"));
  return mesh;
}

// `mesh['a'=2,'b'=4] {'a','b':(1)2}`, behind the word.
Status read_mesh_groups(Cursor& cursor, CollectiveAttributes& collective) {
  const std::size_t start = cursor.position();
  PLIMSOLL_ASSIGN_OR_RETURN(const MeshText mesh, read_mesh(cursor));
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('{', "before the axes that vary within a group"));
  std::vector<MeshAxisPart> parts;
  do {
    const std::size_t place = cursor.position();
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view name, read_axis_name(cursor));
    const auto found = std::find(mesh.names.begin(), mesh.names.end(), name);
    if (found == mesh.names.end()) {
      return cursor.error_at(place,
                             "expected an axis of the mesh, found '" + std::string(name) + "'");
    }
    MeshAxisPart part;
    part.axis = found - mesh.names.begin();
    if (cursor.take(':')) {
      PLIMSOLL_RETURN_IF_ERROR(cursor.expect('(', "before what precedes a part of an axis"));
      PLIMSOLL_ASSIGN_OR_RETURN(part.before, cursor.integer("a size", 1, kMaxParticipants));
      PLIMSOLL_RETURN_IF_ERROR(cursor.expect(')', "after what precedes a part of an axis"));
      PLIMSOLL_ASSIGN_OR_RETURN(part.size, cursor.integer("a size", 1, kMaxParticipants));
    }
    parts.push_back(part);
  } while (cursor.take(','));
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('}', "after the axes that vary within a group"));
  auto groups = mesh_groups(mesh.sizes, parts, mesh.participants);
  if (!groups.ok()) return cursor.error_at(start, groups.status().message());
  collective.replica_groups = std::move(*groups);
  return ok_status();
}

}  // namespace

Status read_replica_groups(Cursor& cursor, CollectiveAttributes& collective) {
  if (cursor.peek() == '[') return read_iota_groups(cursor, collective);
  if (cursor.take_keyword("mesh")) return read_mesh_groups(cursor, collective);
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
