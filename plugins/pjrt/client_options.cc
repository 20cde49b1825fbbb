// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/client_options.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

namespace plimsoll::pjrt {
namespace {

using namespace abi;

Error* read_size(const NamedValue& value, std::string_view name, std::int64_t& out) {
  if (value.type == kInt64) {
    if (value.int64_value < 0) {
      return invalid_argument(std::string(name) + " is " + std::to_string(value.int64_value) +
                              " (must not be negative)");
    }
    out = value.int64_value;
    return nullptr;
  }
  if (value.type != kString) {
    return invalid_argument(std::string(name) + " must be a number of bytes or a text like 512MiB");
  }
  const std::string text(value.string_value, value.value_size);
  return from_status(plm_parse_memory_limit(text.c_str(), std::string(name).c_str(), 0, &out));
}

Error* read_text(const NamedValue& value, std::string_view name, std::string& out) {
  if (value.type != kString) return invalid_argument(std::string(name) + " must be a text");
  out.assign(value.string_value, value.value_size);
  return nullptr;
}

// Virtual devices: each has threads of its own.
constexpr std::int64_t kMostDevices = 64;

constexpr std::int64_t kMostProcesses = 65536;

Error* read_count(const NamedValue& value, std::string_view name, std::int64_t least,
                  std::int64_t most, std::int64_t& out) {
  std::int64_t count = value.type == kInt64 ? value.int64_value : least - 1;
  if (value.type == kString) {
    const char* const end = value.string_value + value.value_size;
    if (std::from_chars(value.string_value, end, count).ptr != end) count = least - 1;
  }
  if (count < least || count > most) {
    return invalid_argument(std::string(name) + " must be a number from " + std::to_string(least) +
                            " to " + std::to_string(most));
  }
  out = count;
  return nullptr;
}

// What frameworks pass by themselves, whichever plugin it is.
bool is_of_frameworks(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "partition_index", "ml_framework_name", "ml_framework_version", "platform_name",
      "visible_devices", "enable_mock_nccl",  "mock_gpu_topology"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace

plm_context_options ClientOptions::context_options() const {
  plm_context_options options = {};
  options.struct_size = sizeof options;
  options.memory_limit_bytes = memory_limit_bytes;
  options.host_limit_bytes = host_limit_bytes;
  options.spill_limit_bytes = spill_limit_bytes;
  options.min_size_bytes = min_size_bytes;
  options.planner = or_null(planner);
  options.planning = or_null(planning);
  options.remedies = or_null(remedies);
  options.spill_dir = or_null(spill_dir);
  return options;
}

Error* read_client_options(const NamedValue* values, std::size_t count, ClientOptions& out) {
  const struct {
    std::string_view name;
    std::int64_t ClientOptions::* size;
    std::string ClientOptions::* text;
  } known[] = {
      {"memory_limit", &ClientOptions::memory_limit_bytes, nullptr},
      {"host_limit", &ClientOptions::host_limit_bytes, nullptr},
      {"spill_limit", &ClientOptions::spill_limit_bytes, nullptr},
      {"min_size", &ClientOptions::min_size_bytes, nullptr},
      {"planner", nullptr, &ClientOptions::planner},
      {"planning", nullptr, &ClientOptions::planning},
      {"remedies", nullptr, &ClientOptions::remedies},
      {"spill_dir", nullptr, &ClientOptions::spill_dir},
      {"coordinator", nullptr, &ClientOptions::coordinator},
  };
  const struct {
    std::string_view name;
    std::int64_t ClientOptions::* count;
    std::int64_t least, most;
  } counts[] = {
      {"num_devices", &ClientOptions::num_devices, 1, kMostDevices},
      {"node_id", &ClientOptions::node_id, 0, kMostProcesses - 1},
      {"num_nodes", &ClientOptions::num_nodes, 1, kMostProcesses},
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name(values[i].name, values[i].name_size);
    bool is_known = is_of_frameworks(name);
    for (const auto& one : known) {
      if (one.name != name) continue;
      is_known = true;
      PLIMSOLL_PJRT_RETURN_IF_ERROR(one.size != nullptr
                                        ? read_size(values[i], name, out.*one.size)
                                        : read_text(values[i], name, out.*one.text));
    }
    for (const auto& one : counts) {
      if (one.name != name) continue;
      is_known = true;
      PLIMSOLL_PJRT_RETURN_IF_ERROR(
          read_count(values[i], name, one.least, one.most, out.*one.count));
    }
    if (!is_known) {
      std::string names = "num_devices";
      for (const auto& one : known) names += ", " + std::string(one.name);
      return invalid_argument("no such client option: '" + std::string(name) + "' (there are " +
                              names + ")");
    }
  }
  if (out.node_id >= out.num_nodes) {
    return invalid_argument("node_id " + std::to_string(out.node_id) + " of " +
                            std::to_string(out.num_nodes) + " nodes");
  }
  return nullptr;
}

}  // namespace plimsoll::pjrt
