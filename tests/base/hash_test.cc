// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/hash.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/checksum.h"
#include "runtime/base/random_bits.h"

namespace plimsoll {
namespace {

TEST(Hash, ChangesWithEveryBitAndLength) {
  std::set<std::uint64_t> seen;
  std::size_t count = 0;
  for (int length = 0; length < 100; ++length) {
    std::string text(static_cast<std::size_t>(length), '\0');
    seen.insert(hash_text(text));
    ++count;
    for (char& c : text) {
      for (int bit = 0; bit < 8; ++bit, ++count) {
        c = static_cast<char>(c ^ (1 << bit));
        seen.insert(hash_text(text));
        c = static_cast<char>(c ^ (1 << bit));
      }
    }
  }
  EXPECT_EQ(seen.size(), count);
}

TEST(Hash, OfASequenceTellsItsOrder) {
  EXPECT_NE(combine_hash(combine_hash(0, 1), 2), combine_hash(combine_hash(0, 2), 1));
  EXPECT_NE(combine_hash(0, 0), combine_hash(combine_hash(0, 0), 0));
}

// Values of XXH3's reference implementation: files keep them.
TEST(Checksum, IsXxh3HoweverTheBytesAreCut) {
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(7 * i);
  Checksum whole;
  EXPECT_EQ(whole.value(), 0x2d06800538d394c2u);
  whole.add(bytes);
  for (const std::size_t cut : {1u, 63u, 64u, 500u, 999u}) {
    Checksum parts;
    parts.add(std::span(bytes).first(cut));
    parts.add(std::span(bytes).subspan(cut));
    EXPECT_EQ(parts.value(), whole.value()) << cut;
  }
}

// The first numbers of seed 1234567 as published with the generator; plans depend on them.
TEST(RandomBits, IsSplitmix64) {
  RandomBits random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

}  // namespace
}  // namespace plimsoll
