// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <variant>
#include <vector>

// The wire format of protocol buffers (protobuf.dev/programming-guides/encoding).
namespace plimsoll::wire {

// One field of a message as it stands in the bytes.
struct Field {
  enum class Kind : std::uint8_t { number, bytes };
  std::uint64_t id = 0;
  Kind kind = Kind::number;
  int width = 0;             // of numbers: their bytes, 4 or 8; 0: of variable length
  std::uint64_t number = 0;  // the value, or its bits
  std::string_view bytes;
};

// Goes over the fields of a message, and over nothing outside of its bytes.
class Message {
 public:
  explicit Message(std::string_view bytes) : left_(bytes) {}
  // The next field; false at the end, and for good at what makes no sense.
  bool next(Field& field);
  bool is_bad() const { return is_bad_; }

 private:
  bool fail();

  std::string_view left_;
  bool is_bad_ = false;
};

// A number of variable length at the start of `bytes`, which it leaves; false where there is none.
bool take_varint(std::string_view& bytes, std::uint64_t& value);

// Where a field's value goes: what is there once keeps the last, lists take all. A message within a
// message is its bytes.
using Target = std::variant<std::int64_t*, bool*, std::string_view*, std::vector<std::int64_t>*,
                            std::vector<std::string_view>*>;
struct Slot {
  std::uint64_t id;
  Target target;
};

// Reads the fields that `slots` name; others are passed over, as is one of another kind. False for
// bytes that are no message.
bool read_fields(std::string_view message, std::initializer_list<Slot> slots);

}  // namespace plimsoll::wire
