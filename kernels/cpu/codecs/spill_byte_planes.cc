// SPDX-License-Identifier: Apache-2.0
// Blocks of kBlock bytes. Each is split into planes, all first bytes of its elements, then all
// second ones and so on (signs and exponents are alike, mantissas are not), and compressed by LZ4;
// one that would not become smaller is kept as it is.
//
// Encoded: per block a little-endian u32, its stored bytes, kRaw added where it is kept as it is;
// then the stored blocks.
#include <lz4.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/codecs/spill_codecs.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::int64_t kBlock = std::int64_t{256} << 10;
constexpr std::uint32_t kRaw = 0x80000000u;
constexpr std::int64_t kEntry = sizeof(std::uint32_t);

std::int64_t block_count(std::int64_t bytes) { return (bytes + kBlock - 1) / kBlock; }

template <typename T>
PLIMSOLL_CLONES void take_plane(const std::byte* elements, std::int64_t count, int shift,
                                std::uint8_t* plane) {
  for (std::int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, elements + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    plane[i] = static_cast<std::uint8_t>(value >> shift);
  }
}

template <typename T>
PLIMSOLL_CLONES void join_planes(const std::uint8_t* planes, std::int64_t count,
                                 std::byte* elements) {
  for (std::int64_t i = 0; i < count; ++i) {
    T value = planes[i];
    for (std::size_t p = 1; p < sizeof(T); ++p) {
      const T byte = planes[static_cast<std::int64_t>(p) * count + i];
      value = static_cast<T>(value | static_cast<T>(byte << (8 * p)));
    }
    std::memcpy(elements + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
  }
}

template <typename T>
class BytePlanes : public SpillCodec {
 public:
  std::string_view name() const override { return "byte-planes"; }
  std::int64_t bound(std::int64_t bytes) const override {
    return kEntry * block_count(bytes) + bytes;
  }

  Result<std::int64_t> encode(std::span<const std::byte> from,
                              std::span<std::byte> to) const override {
    const auto bytes = static_cast<std::int64_t>(from.size());
    PLIMSOLL_RETURN_IF_ERROR(check_spill(name(), kBytes, bound(bytes), from, to));
    const std::int64_t blocks = block_count(bytes);
    std::vector<std::uint32_t> table(at(blocks));
    std::byte* const stored = to.data() + kEntry * blocks;
    // Each block first where it lies if none before it becomes smaller.
    device::parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      const auto planes = std::make_unique_for_overwrite<std::uint8_t[]>(kBlock);
      for (std::int64_t b = begin; b < end; ++b) {
        table[at(b)] = encode_block(from.data() + b * kBlock, std::min(kBlock, bytes - b * kBlock),
                                    planes.get(), stored + b * kBlock);
      }
    });
    std::int64_t used = 0;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t size = table[at(b)] & ~kRaw;
      if (used != b * kBlock) {
        std::memmove(stored + used, stored + b * kBlock, static_cast<std::size_t>(size));
      }
      used += size;
    }
    if (blocks > 0) std::memcpy(to.data(), table.data(), static_cast<std::size_t>(kEntry * blocks));
    return kEntry * blocks + used;
  }

  Status decode(std::span<const std::byte> from, std::span<std::byte> to) const override {
    const auto bytes = static_cast<std::int64_t>(to.size());
    const auto size_of_code = static_cast<std::int64_t>(from.size());
    const std::int64_t blocks = block_count(bytes);
    if (bytes % kBytes != 0 || size_of_code < kEntry * blocks) {
      return damaged(name(), "shorter than its table of blocks");
    }
    std::vector<std::uint32_t> table(at(blocks));
    if (blocks > 0) {
      std::memcpy(table.data(), from.data(), static_cast<std::size_t>(kEntry * blocks));
    }
    std::vector<std::int64_t> starts(at(blocks) + 1, kEntry * blocks);
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::uint32_t entry = table[at(b)];
      const std::int64_t plain = std::min(kBlock, bytes - b * kBlock), size = entry & ~kRaw;
      if ((entry & kRaw) != 0 ? size != plain : size >= plain) {
        return damaged(name(), "a block of an impossible size");
      }
      starts[at(b) + 1] = starts[at(b)] + size;
    }
    if (starts.back() != size_of_code) return damaged(name(), "another size than its table says");
    std::atomic<bool> fine{true};
    device::parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      const auto planes = std::make_unique_for_overwrite<std::uint8_t[]>(kBlock);
      for (std::int64_t b = begin; b < end; ++b) {
        const auto at = static_cast<std::size_t>(b);
        if (!decode_block(from.data() + starts[at], starts[at + 1] - starts[at],
                          (table[at] & kRaw) != 0, planes.get(), to.data() + b * kBlock,
                          std::min(kBlock, bytes - b * kBlock))) {
          fine.store(false);
        }
      }
    });
    return fine.load() ? ok_status() : damaged(name(), "a block that does not decompress");
  }

 private:
  static constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
  static_assert(kBlock % kBytes == 0);

  // The block's entry in the table. `planes` has room for a block.
  static std::uint32_t encode_block(const std::byte* from, std::int64_t bytes, std::uint8_t* planes,
                                    std::byte* to) {
    const std::int64_t count = bytes / kBytes;
    const char* split = reinterpret_cast<const char*>(from);
    if constexpr (kBytes > 1) {
      for (int p = 0; p < kBytes; ++p) take_plane<T>(from, count, 8 * p, planes + p * count);
      split = reinterpret_cast<const char*>(planes);
    }
    const int size = LZ4_compress_default(split, reinterpret_cast<char*>(to),
                                          static_cast<int>(bytes), static_cast<int>(bytes) - 1);
    if (size > 0) return static_cast<std::uint32_t>(size);
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return static_cast<std::uint32_t>(bytes) | kRaw;
  }

  static bool decode_block(const std::byte* from, std::int64_t size, bool raw, std::uint8_t* planes,
                           std::byte* to, std::int64_t bytes) {
    if (raw) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
      return true;
    }
    char* const split = reinterpret_cast<char*>(kBytes > 1 ? static_cast<void*>(planes) : to);
    const int made = LZ4_decompress_safe(reinterpret_cast<const char*>(from), split,
                                         static_cast<int>(size), static_cast<int>(bytes));
    if (made != bytes) return false;
    if constexpr (kBytes > 1) join_planes<T>(planes, bytes / kBytes, to);
    return true;
  }
};

}  // namespace

std::unique_ptr<const SpillCodec> make_byte_planes(int element_bytes) {
  switch (element_bytes) {
    case 1:
      return std::make_unique<BytePlanes<std::uint8_t>>();
    case 2:
      return std::make_unique<BytePlanes<std::uint16_t>>();
    case 4:
      return std::make_unique<BytePlanes<std::uint32_t>>();
    default:
      return std::make_unique<BytePlanes<std::uint64_t>>();
  }
}

}  // namespace plimsoll::kernels
