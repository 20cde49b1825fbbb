// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/wire/wire.h"

namespace plimsoll::wire {
namespace {

// The kinds of fields; the two that are missing began and ended groups, which proto3 has not.
constexpr std::uint64_t kVarint = 0, kEightBytes = 1, kBytes = 2, kFourBytes = 5;

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8U | static_cast<std::uint8_t>(bytes[i]);
  }
  return value;
}

bool store(const Field& field, std::int64_t* target) {
  if (field.kind != Field::Kind::number) return true;
  *target = static_cast<std::int64_t>(field.number);
  return true;
}

bool store(const Field& field, bool* target) {
  if (field.kind == Field::Kind::number) *target = field.number != 0;
  return true;
}

bool store(const Field& field, std::string_view* target) {
  if (field.kind == Field::Kind::bytes) *target = field.bytes;
  return true;
}

// One number, or several in one field.
bool store(const Field& field, std::vector<std::int64_t>* target) {
  if (field.kind == Field::Kind::number) {
    target->push_back(static_cast<std::int64_t>(field.number));
    return true;
  }
  std::string_view left = field.bytes;
  while (!left.empty()) {
    std::uint64_t value = 0;
    if (!take_varint(left, value)) return false;
    target->push_back(static_cast<std::int64_t>(value));
  }
  return true;
}

bool store(const Field& field, std::vector<std::string_view>* target) {
  if (field.kind == Field::Kind::bytes) target->push_back(field.bytes);
  return true;
}

}  // namespace

bool take_varint(std::string_view& bytes, std::uint64_t& value) {
  constexpr std::size_t kLongest = 10;
  value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < kLongest; ++i) {
    const auto byte = static_cast<std::uint8_t>(bytes[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
    if ((byte & 0x80U) != 0) continue;
    bytes.remove_prefix(i + 1);
    return true;
  }
  return false;
}

bool Message::fail() {
  is_bad_ = true;
  left_ = {};
  return false;
}

bool Message::next(Field& field) {
  if (left_.empty()) return false;
  std::uint64_t tag = 0;
  if (!take_varint(left_, tag) || tag >> 3U == 0) return fail();
  field = Field();
  field.id = tag >> 3U;
  const std::uint64_t kind = tag & 7U;
  if (kind == kVarint) return take_varint(left_, field.number) || fail();
  std::uint64_t size = kind == kEightBytes ? 8 : 4;
  if (kind == kBytes) {
    if (!take_varint(left_, size)) return fail();
    field.kind = Field::Kind::bytes;
  } else if (kind != kEightBytes && kind != kFourBytes) {
    return fail();
  }
  if (size > left_.size()) return fail();
  const std::string_view bytes = left_.substr(0, static_cast<std::size_t>(size));
  left_.remove_prefix(bytes.size());
  if (kind == kBytes) {
    field.bytes = bytes;
  } else {
    field.width = static_cast<int>(size);
    field.number = little_endian(bytes);
  }
  return true;
}

bool read_fields(std::string_view message, std::initializer_list<Slot> slots) {
  Message fields(message);
  for (Field field; fields.next(field);) {
    for (const Slot& slot : slots) {
      if (slot.id != field.id) continue;
      const bool is_good =
          std::visit([&](auto* target) { return store(field, target); }, slot.target);
      if (!is_good) return false;
      break;
    }
  }
  return !fields.is_bad();
}

}  // namespace plimsoll::wire
