// SPDX-License-Identifier: Apache-2.0
#include "kernels/spill_codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

using Bytes = std::vector<std::byte>;

constexpr SpillCodecKind kKinds[] = {SpillCodecKind::sparse, SpillCodecKind::byte_planes};
constexpr int kSizes[] = {1, 2, 4, 8};

// Elements around vectors, words of the mask, pieces of work and blocks.
constexpr std::int64_t kSpillCounts[] = {
    0,    1,    7,     8,     9,     15,    16,    17,     63,     64,     65,     4095,
    4096, 4097, 32767, 32769, 65535, 65536, 65537, 131071, 131073, 262143, 262145, 300007};

std::unique_ptr<const SpillCodec> make(SpillCodecKind kind, int element_bytes) {
  auto codec = make_spill_codec(kind, element_bytes);
  EXPECT_TRUE(codec.ok()) << codec.status().to_string();
  return std::move(*codec);
}

// `share` of the elements are not zero; their low bits are random, their high bits alike.
Bytes elements(std::int64_t count, int size, double share, unsigned seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(static_cast<std::size_t>(count * size));
  for (std::int64_t i = 0; i < count; ++i) {
    if (static_cast<double>(random() >> 11) * 0x1p-53 >= share) continue;
    const std::uint64_t value =
        size == 1 ? random() % 5 : random() % 251 + (std::uint64_t{0x3f} << (8 * size - 8));
    std::memcpy(bytes.data() + i * size, &value, static_cast<std::size_t>(size));
  }
  return bytes;
}

Bytes noise(std::int64_t bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  Bytes made(static_cast<std::size_t>(bytes));
  for (std::byte& byte : made) byte = static_cast<std::byte>(random());
  return made;
}

// The code, of exactly the bytes used. Both sides start `shift` bytes into memory.
Bytes encode(const SpillCodec& codec, const Bytes& from, std::size_t shift = 0) {
  Bytes moved(shift);
  moved.insert(moved.end(), from.begin(), from.end());
  const auto bound = static_cast<std::size_t>(codec.bound(static_cast<std::int64_t>(from.size())));
  Bytes room(shift + bound + 64, std::byte{0xa5});
  const auto used =
      codec.encode(std::span(moved).subspan(shift), std::span(room).subspan(shift, bound));
  EXPECT_TRUE(used.ok()) << used.status().to_string();
  if (!used.ok()) return {};
  EXPECT_LE(*used, static_cast<std::int64_t>(bound));
  for (std::size_t i = shift + bound; i < room.size(); ++i) {
    EXPECT_EQ(room[i], std::byte{0xa5}) << "wrote past the bound";
  }
  const auto first = room.begin() + static_cast<std::ptrdiff_t>(shift);
  return {first, first + static_cast<std::ptrdiff_t>(*used)};
}

Status decode(const SpillCodec& codec, const Bytes& code, Bytes& to, std::size_t shift = 0) {
  Bytes moved(shift);
  moved.insert(moved.end(), code.begin(), code.end());
  Bytes room(shift + to.size() + 64, std::byte{0x5a});
  const Status status = codec.decode(std::span<const std::byte>(moved).subspan(shift),
                                     std::span(room).subspan(shift, to.size()));
  for (std::size_t i = shift + to.size(); i < room.size(); ++i) {
    EXPECT_EQ(room[i], std::byte{0x5a}) << "wrote past the end";
  }
  std::copy_n(room.begin() + static_cast<std::ptrdiff_t>(shift), to.size(), to.begin());
  return status;
}

void expect_round_trip(const SpillCodec& codec, const Bytes& value, std::size_t shift = 0) {
  const Bytes code = encode(codec, value, shift);
  Bytes back(value.size());
  const Status status = decode(codec, code, back, shift);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(back == value) << codec.name() << ", " << value.size() << " bytes";
}

TEST(SpillCodecs, GiveEveryByteBack) {
  for (const SpillCodecKind kind : kKinds) {
    for (const int size : kSizes) {
      const auto codec = make(kind, size);
      for (const std::int64_t count : kSpillCounts) {
        if (count > 70000 && size == 8 && count % 2 == 0) continue;
        const auto seed = static_cast<unsigned>(count);
        const double share = count % 3 == 0 ? 0.1 : 0.6;
        expect_round_trip(*codec, elements(count, size, share, seed));
        if (count < 70000) {
          expect_round_trip(*codec, elements(count, size, 0, seed));
          expect_round_trip(*codec, noise(count * size, seed));
          expect_round_trip(*codec, elements(count, size, share, seed), 1);
          expect_round_trip(*codec, noise(count * size, seed), 3);
        }
      }
    }
  }
}

TEST(SpillCodecs, KeepNegativeZerosAndNans) {
  std::vector<float> value(1000);
  for (std::size_t i = 0; i < value.size(); i += 3) {
    value[i] =
        i % 2 == 0 ? -0.0F : std::bit_cast<float>(0x7f800001u + static_cast<std::uint32_t>(i));
  }
  Bytes bytes(value.size() * sizeof(float));
  std::memcpy(bytes.data(), value.data(), bytes.size());
  for (const SpillCodecKind kind : kKinds) expect_round_trip(*make(kind, 4), bytes);
  // A third of them is kept.
  EXPECT_EQ(encode(*make(SpillCodecKind::sparse, 4), bytes).size(), 125 + 334 * sizeof(float));
}

TEST(SpillCodecs, MakeAlikeBytesSmallerAndNoiseNoLargerThanTheBound) {
  for (const int size : {2, 4, 8}) {
    const auto planes = make(SpillCodecKind::byte_planes, size);
    const Bytes alike = elements(200000, size, 1, 3);
    EXPECT_LT(encode(*planes, alike).size(), alike.size() * 3 / 4) << size;
    const Bytes random = noise(200000 * size, 4);
    EXPECT_EQ(static_cast<std::int64_t>(encode(*planes, random).size()),
              planes->bound(static_cast<std::int64_t>(random.size())));
    const auto sparse = make(SpillCodecKind::sparse, size);
    Bytes full = random;
    for (std::size_t i = 0; i < full.size(); i += static_cast<std::size_t>(size))
      full[i] |= std::byte{1};
    EXPECT_EQ(static_cast<std::int64_t>(encode(*sparse, full).size()),
              sparse->bound(static_cast<std::int64_t>(full.size())));
    EXPECT_EQ(encode(*sparse, Bytes(full.size())).size(), 200000U / 8);
  }
}

TEST(SpillCodecs, RefuseRoomBelowTheBoundAndPartsOfElements) {
  EXPECT_FALSE(make_spill_codec(SpillCodecKind::sparse, 3).ok());
  EXPECT_FALSE(make_spill_codec(SpillCodecKind::byte_planes, 0).ok());
  for (const SpillCodecKind kind : kKinds) {
    const auto codec = make(kind, 4);
    Bytes from(400), to(1000);
    const auto bound = static_cast<std::size_t>(codec->bound(400));
    const auto little = codec->encode(from, std::span(to).first(bound - 1));
    EXPECT_EQ(little.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(little.status().message().find(std::to_string(bound)), std::string::npos);
    const auto part = codec->encode(std::span(from).first(399), to);
    EXPECT_EQ(part.status().code(), StatusCode::invalid_argument);
  }
}

TEST(SpillCodecs, FindDamagedCodes) {
  for (const SpillCodecKind kind : kKinds) {
    for (const int size : kSizes) {
      const auto codec = make(kind, size);
      const Bytes value = elements(150001, size, 0.3, 8);
      const Bytes code = encode(*codec, value);
      Bytes back(value.size());
      const auto lost = [&](const Bytes& damaged) {
        return decode(*codec, damaged, back).code() == StatusCode::data_loss;
      };
      // Cut off, empty, too long.
      for (const std::size_t kept :
           {std::size_t{0}, std::size_t{3}, code.size() / 2, code.size() - 1}) {
        EXPECT_TRUE(lost(Bytes(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(kept))));
      }
      Bytes longer = code;
      longer.push_back(std::byte{0});
      EXPECT_TRUE(lost(longer));
      // The mask, or the table, says something else than there is.
      Bytes other = code;
      other[0] ^= std::byte{1};
      EXPECT_TRUE(lost(other));
      // For another number of bytes.
      Bytes smaller(value.size() - static_cast<std::size_t>(9 * size));
      EXPECT_EQ(decode(*codec, code, smaller).code(), StatusCode::data_loss);
    }
  }
}

TEST(SpillCodecs, FindBlocksThatDoNotDecompress) {
  const auto codec = make(SpillCodecKind::byte_planes, 4);
  Bytes code = encode(*codec, Bytes(1 << 20));
  // Four compressed blocks of equal size behind four sizes; 0xff starts a literal run without end.
  std::fill(code.begin() + 16, code.end(), std::byte{0xff});
  Bytes back(1 << 20);
  const Status status = decode(*codec, code, back);
  EXPECT_EQ(status.code(), StatusCode::data_loss);
  EXPECT_NE(status.message().find("byte-planes"), std::string::npos);
}

// Whatever bytes are changed, nothing outside is touched; sanitizers and guards look on.
TEST(SpillCodecs, SurviveRandomDamage) {
  std::mt19937 random(77);
  int found = 0;
  for (const SpillCodecKind kind : kKinds) {
    for (const int size : kSizes) {
      const auto codec = make(kind, size);
      const Bytes value = elements(20000, size, 0.4, 6);
      const Bytes code = encode(*codec, value);
      for (int i = 0; i < 150; ++i) {
        Bytes damaged = code;
        const std::size_t range = i % 2 == 0 ? 64 : code.size();
        for (int k = 0; k <= i % 5; ++k)
          damaged[random() % range] = static_cast<std::byte>(random());
        if (i % 7 == 0) damaged.resize(random() % code.size());
        Bytes back(value.size());
        const Status status = decode(*codec, damaged, back);
        EXPECT_TRUE(status.ok() || status.code() == StatusCode::data_loss);
        found += status.ok() ? 0 : 1;
      }
    }
  }
  EXPECT_GT(found, 300);
}

TEST(SpillCodecs, GiveTheSameBytesAtEveryThreadCount) {
  const int threads = device::thread_count();
  for (const SpillCodecKind kind : kKinds) {
    for (const int size : {2, 4}) {
      const auto codec = make(kind, size);
      const Bytes value = elements(700001, size, 0.3, 12);
      device::set_thread_count(1);
      const Bytes one = encode(*codec, value);
      for (const int count : {2, 5}) {
        device::set_thread_count(count);
        EXPECT_TRUE(encode(*codec, value) == one);
        expect_round_trip(*codec, value);
      }
      device::set_thread_count(threads);
    }
  }
}

}  // namespace
}  // namespace plimsoll::kernels
