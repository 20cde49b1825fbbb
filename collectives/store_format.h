// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace plimsoll::collectives {

// What a store's clients and its server send each other: a head, a key, a value. Numbers are the
// machine's own: all processes of a program are of one kind.
struct StoreHead {
  enum Kind : std::uint32_t { set, get, value, exists, refused };
  static constexpr std::uint32_t kMagic = 0x504c5331;
  std::uint32_t magic = kMagic;
  std::uint32_t kind = set;
  std::uint32_t key_bytes = 0, value_bytes = 0;
};

inline std::string store_message(StoreHead::Kind kind, std::string_view key,
                                 std::string_view value) {
  StoreHead head;
  head.kind = kind;
  head.key_bytes = static_cast<std::uint32_t>(key.size());
  head.value_bytes = static_cast<std::uint32_t>(value.size());
  std::string text(sizeof head, '\0');
  std::memcpy(text.data(), &head, sizeof head);
  return text.append(key).append(value);
}

inline StoreHead store_head(std::string_view text) {
  StoreHead head;
  std::memcpy(&head, text.data(), sizeof head);
  return head;
}

}  // namespace plimsoll::collectives
