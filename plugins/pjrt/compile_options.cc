// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/compile_options.h"

#include <cstring>
#include <functional>

namespace plimsoll::pjrt {
namespace {

using namespace abi;

// A field of a protocol buffer message on the wire.
struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;  // of varints and fixed sizes
  std::string_view bytes;   // of what has a length
  bool has_length = false;
};

// Goes through the fields of one message. Reads nothing outside of it.
class Message {
 public:
  explicit Message(std::string_view bytes) : bytes_(bytes) {}

  // False at the end, and where the bytes make no sense (is_bad).
  bool next(Field& field) {
    field = {};
    std::uint64_t key = 0;
    if (bytes_.empty() || !varint(key)) return false;
    field.number = key >> 3;
    std::uint64_t length = 0;
    switch (key & 7) {
      case 0:
        return varint(field.value);
      case 1:
        return fixed(8, field.value);
      case 2:
        if (!varint(length)) return false;
        if (length > bytes_.size()) return fail();
        field.bytes = bytes_.substr(0, length);
        field.has_length = true;
        bytes_.remove_prefix(length);
        return true;
      case 5:
        return fixed(4, field.value);
      default:
        return fail();
    }
  }
  bool is_bad() const { return is_bad_; }

 private:
  bool fail() {
    is_bad_ = true;
    return false;
  }
  bool varint(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return fail();
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 127U) << shift;
      if (byte < 128) return true;
    }
    return fail();
  }
  bool fixed(std::size_t size, std::uint64_t& value) {
    if (bytes_.size() < size) return fail();
    value = 0;
    std::memcpy(&value, bytes_.data(), size);
    bytes_.remove_prefix(size);
    return true;
  }

  std::string_view bytes_;
  bool is_bad_ = false;
};

Error* bad() { return invalid_argument("the compile options are no CompileOptionsProto"); }

Error* for_each(std::string_view bytes, const std::function<Error*(const Field&)>& body) {
  Message message(bytes);
  for (Field field; message.next(field);) PLIMSOLL_PJRT_RETURN_IF_ERROR(body(field));
  return message.is_bad() ? bad() : nullptr;
}

// OptionOverrideProto, one of: 1 text, 2 truth, 3 integer, 4 double.
Error* read_override(std::string_view bytes, std::string& out) {
  return for_each(bytes, [&](const Field& field) -> Error* {
    if (field.number == 1) out = field.bytes;
    if (field.number == 2) out = field.value != 0 ? "true" : "false";
    if (field.number == 3) out = std::to_string(static_cast<std::int64_t>(field.value));
    if (field.number == 4) {
      double value = 0;
      std::memcpy(&value, &field.value, sizeof value);
      out = std::to_string(value);
    }
    return nullptr;
  });
}

// An entry of env_option_overrides.
Error* read_entry(std::string_view bytes, CompileOptions& out) {
  std::string name, value;
  PLIMSOLL_PJRT_RETURN_IF_ERROR(for_each(bytes, [&](const Field& field) -> Error* {
    if (field.number == 1) name = field.bytes;
    return field.number == 2 ? read_override(field.bytes, value) : nullptr;
  }));
  if (name == "plimsoll_memory_limit") {
    out.memory_limit = value;
  } else if (name == "plimsoll_planner") {
    out.planner = value;
  } else if (!name.starts_with("xla_")) {
    return invalid_argument("No such compile option: '" + name +
                            "' (there are plimsoll_memory_limit, plimsoll_planner)");
  }
  return nullptr;
}

// A list of integers, in one field each or packed into one.
Error* read_integers(const Field& field, std::vector<std::int64_t>& out) {
  if (!field.has_length) {
    out.push_back(static_cast<std::int64_t>(field.value));
    return nullptr;
  }
  std::uint64_t value = 0;
  int shift = 0;
  for (const char one : field.bytes) {
    const auto byte = static_cast<unsigned char>(one);
    if (shift > 63) return bad();
    value |= static_cast<std::uint64_t>(byte & 127U) << shift;
    shift += 7;
    if (byte >= 128) continue;
    out.push_back(static_cast<std::int64_t>(value));
    value = 0;
    shift = 0;
  }
  return shift == 0 ? nullptr : bad();
}

// DeviceAssignmentProto: by partition the devices of its replicas.
Error* read_assignment(std::string_view bytes, std::vector<std::vector<std::int64_t>>& out) {
  return for_each(bytes, [&](const Field& field) -> Error* {
    if (field.number != 3) return nullptr;
    auto& replicas = out.emplace_back();
    return for_each(field.bytes, [&](const Field& inner) -> Error* {
      return inner.number == 1 ? read_integers(inner, replicas) : nullptr;
    });
  });
}

// The assignment in the order of participants.
Error* order_devices(const std::vector<std::vector<std::int64_t>>& by_partition,
                     CompileOptions& out) {
  if (by_partition.empty()) return nullptr;
  bool fits = static_cast<std::int64_t>(by_partition.size()) == out.partitions;
  for (const auto& replicas : by_partition) {
    fits = fits && static_cast<std::int64_t>(replicas.size()) == out.replicas;
  }
  if (!fits) {
    return invalid_argument("a device assignment that is not of " + std::to_string(out.replicas) +
                            " replicas and " + std::to_string(out.partitions) + " partitions");
  }
  for (std::size_t r = 0; r < static_cast<std::size_t>(out.replicas); ++r) {
    for (const auto& replicas : by_partition) out.devices.push_back(replicas[r]);
  }
  return nullptr;
}

}  // namespace

Error* read_compile_options(std::string_view bytes, CompileOptions& out) {
  std::vector<std::vector<std::int64_t>> assignment;
  PLIMSOLL_PJRT_RETURN_IF_ERROR(for_each(bytes, [&](const Field& field) -> Error* {
    if (field.number == 7) return read_entry(field.bytes, out);
    if (field.number != 3) return nullptr;
    // ExecutableBuildOptionsProto
    return for_each(field.bytes, [&](const Field& build) -> Error* {
      if (build.number == 4) out.replicas = static_cast<std::int64_t>(build.value);
      if (build.number == 5) out.partitions = static_cast<std::int64_t>(build.value);
      return build.number == 9 ? read_assignment(build.bytes, assignment) : nullptr;
    });
  }));
  return order_devices(assignment, out);
}

}  // namespace plimsoll::pjrt
