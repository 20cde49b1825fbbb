// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/hlo_proto/collectives.h"

#include <fmt/core.h>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/import/hlo_proto/fields.h"
#include "runtime/ir/replica_groups.h"

namespace plimsoll::hlo_proto {
namespace {

using ir::CollectiveAttributes;
using Numbers = std::vector<std::int64_t>;

std::string join(const Numbers& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) {
    if (!text.empty()) text += ",";
    text += std::to_string(number);
  }
  return text;
}

Status read_lists(const std::vector<std::string_view>& lists, CollectiveAttributes& out) {
  for (const std::string_view list : lists) {
    Numbers ids;
    PLIMSOLL_RETURN_IF_ERROR(read_fields(list, "a replica group", {{1, &ids}}));
    out.replica_groups.push_back(std::move(ids));
  }
  return ok_status();
}

// As HLO text has it: `[2,4]<=[2,2,2]T(1,0,2)`.
std::string iota_text(std::int64_t count, std::int64_t size, const Numbers& sizes,
                      const Numbers& order) {
  std::string text = fmt::format("[{},{}]<=[{}]", count, size, join(sizes));
  if (!std::is_sorted(order.begin(), order.end())) text += "T(" + join(order) + ")";
  return text;
}

Status read_iota(std::string_view message, CollectiveAttributes& out) {
  std::int64_t count = 0, size = 0;
  Numbers sizes, order;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(message, "the iota form of replica groups",
                                       {{1, &count}, {2, &size}, {3, &sizes}, {4, &order}}));
  PLIMSOLL_ASSIGN_OR_RETURN(const Numbers ids, ir::iota_participants(sizes, order));
  PLIMSOLL_ASSIGN_OR_RETURN(out.replica_groups, ir::equal_groups(ids, size));
  if (static_cast<std::int64_t>(out.replica_groups.size()) != count) {
    return broken("the number of replica groups");
  }
  // Text has no iota form of that many dimensions.
  if (sizes.size() <= static_cast<std::size_t>(ir::kMaxRank)) {
    out.groups_text = iota_text(count, size, sizes, order);
  }
  return ok_status();
}

Status read_mesh(std::string_view message, CollectiveAttributes& out) {
  std::string_view mesh, iota;
  std::vector<std::string_view> axes, references;
  PLIMSOLL_RETURN_IF_ERROR(
      read_fields(message, "the mesh of replica groups", {{1, &mesh}, {2, &references}}));
  Numbers participants, sizes;
  PLIMSOLL_RETURN_IF_ERROR(
      read_fields(mesh, "a mesh", {{1, &axes}, {2, &participants}, {3, &iota}}));
  for (const std::string_view axis : axes) {
    std::int64_t size = 0;
    PLIMSOLL_RETURN_IF_ERROR(read_fields(axis, "an axis of a mesh", {{2, &size}}));
    sizes.push_back(size);
  }
  if (!iota.empty()) {
    Numbers iota_sizes, order;
    PLIMSOLL_RETURN_IF_ERROR(
        read_fields(iota, "the devices of a mesh", {{1, &iota_sizes}, {2, &order}}));
    PLIMSOLL_ASSIGN_OR_RETURN(participants, ir::iota_participants(iota_sizes, order));
  }
  std::vector<ir::MeshAxisPart> parts;
  for (const std::string_view reference : references) {
    ir::MeshAxisPart part;
    std::string_view piece;
    PLIMSOLL_RETURN_IF_ERROR(
        read_fields(reference, "an axis of a replica group", {{1, &part.axis}, {2, &piece}}));
    PLIMSOLL_RETURN_IF_ERROR(
        read_fields(piece, "a part of a mesh axis", {{1, &part.before}, {2, &part.size}}));
    parts.push_back(part);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(out.replica_groups, ir::mesh_groups(sizes, parts, participants));
  return ok_status();
}

}  // namespace

Result<std::shared_ptr<const CollectiveAttributes>> read_collective(
    const Instruction& instruction, std::int64_t& participants_left) {
  if (participants_left <= 0) {
    return unimplemented("HLO proto: more participants of collectives than this reader takes");
  }
  auto made = std::make_shared<CollectiveAttributes>();
  made->channel_id = std::max<std::int64_t>(
      instruction.channel_id > 0 ? instruction.channel_id : instruction.all_reduce_id, 0);
  made->use_global_device_ids = instruction.use_global_device_ids;
  made->constrain_layout = instruction.constrain_layout;
  made->is_host_transfer = instruction.is_host_transfer;
  for (const std::string_view message : instruction.source_target_pairs) {
    std::pair<std::int64_t, std::int64_t> pair;
    PLIMSOLL_RETURN_IF_ERROR(
        read_fields(message, "a pair of source and target", {{1, &pair.first}, {2, &pair.second}}));
    if (std::min(pair.first, pair.second) < 0) return broken("a pair of source and target");
    made->source_target_pairs.push_back(pair);
  }
  std::vector<std::string_view> lists;
  std::string_view iota = instruction.iota_groups;
  // Older writers put the iota form into the list of devices.
  PLIMSOLL_RETURN_IF_ERROR(
      read_fields(instruction.device_list, "a list of devices", {{1, &lists}, {2, &iota}}));
  if (!iota.empty()) {
    PLIMSOLL_RETURN_IF_ERROR(read_iota(iota, *made));
  } else if (!instruction.mesh_groups.empty()) {
    PLIMSOLL_RETURN_IF_ERROR(read_mesh(instruction.mesh_groups, *made));
  } else {
    PLIMSOLL_RETURN_IF_ERROR(read_lists(lists.empty() ? instruction.replica_groups : lists, *made));
  }
  for (const auto& group : made->replica_groups) {
    participants_left -= static_cast<std::int64_t>(group.size());
  }
  return std::shared_ptr<const CollectiveAttributes>(std::move(made));
}

}  // namespace plimsoll::hlo_proto
