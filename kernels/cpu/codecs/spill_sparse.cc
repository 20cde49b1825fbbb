// SPDX-License-Identifier: Apache-2.0
// One bit per element, the first in the lowest bit of the first byte, set where the element has a
// bit set: zero means +0, and -0 and NaNs are kept. Then those elements, in order.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "kernels/cpu/codecs/spill_codecs.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

#if defined(__x86_64__)
// GCC 12 finds its own header's undefined registers uninitialized.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace plimsoll::kernels {
namespace {

static_assert(std::endian::native == std::endian::little);

// Elements per piece of work; whole words of the mask.
constexpr std::int64_t kPiece = 4096;
constexpr std::int64_t kGrain = 8;
constexpr std::int64_t kWord = 64;

std::int64_t mask_bytes(std::int64_t count) { return (count + 7) / 8; }

template <typename T>
T load(const std::byte* from, std::int64_t i) {
  T value;
  std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// Bits of up to 64 elements.
template <typename T>
[[gnu::always_inline]] inline std::uint64_t bits_of(const std::byte* from, std::int64_t count) {
  std::uint64_t bits = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    bits |= std::uint64_t{load<T>(from, i) != 0 ? 1u : 0u} << i;
  }
  return bits;
}

// The non-zero elements of `count` to the front of `to`, which has room for all; how many they are.
template <typename T>
std::int64_t pack_any(const std::byte* from, std::int64_t count, T* to) {
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = load<T>(from, i);
    to[kept] = value;
    kept += value != 0 ? 1 : 0;
  }
  return kept;
}

// Elements [0, count) from `packed`, which may be read up to `count` elements.
template <typename T>
void spread_any(const std::byte* mask, const T* packed, std::int64_t count, std::byte* to) {
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned bit = (std::to_integer<unsigned>(mask[i / 8]) >> (i % 8)) & 1u;
    const T value = static_cast<T>(packed[next] & static_cast<T>(T{0} - static_cast<T>(bit)));
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
    next += bit;
  }
}

// Sixteen elements of 4 bytes at a time; they return how many elements are done.
#if defined(__x86_64__)
bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0;
  return has;
}

__attribute__((target("avx512f"))) std::int64_t masks_avx512(const std::byte* from,
                                                             std::int64_t count, std::byte* mask) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m512i values = _mm512_loadu_si512(from + 4 * i);
    const std::uint16_t bits = _mm512_test_epi32_mask(values, values);
    std::memcpy(mask + i / 8, &bits, 2);
  }
  return i;
}

__attribute__((target("avx512f"))) std::int64_t pack_avx512(const std::byte* from,
                                                            std::int64_t count, std::uint32_t* to,
                                                            std::int64_t& kept) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m512i values = _mm512_loadu_si512(from + 4 * i);
    const __mmask16 bits = _mm512_test_epi32_mask(values, values);
    _mm512_storeu_si512(to + kept, _mm512_maskz_compress_epi32(bits, values));
    kept += std::popcount(static_cast<unsigned>(bits));
  }
  return i;
}

__attribute__((target("avx512f"))) std::int64_t spread_avx512(const std::byte* mask,
                                                              const std::uint32_t* packed,
                                                              std::int64_t count, std::byte* to,
                                                              std::int64_t& next) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    std::uint16_t bits;
    std::memcpy(&bits, mask + i / 8, 2);
    _mm512_storeu_si512(to + 4 * i,
                        _mm512_maskz_expand_epi32(bits, _mm512_loadu_si512(packed + next)));
    next += std::popcount(static_cast<unsigned>(bits));
  }
  return i;
}
#else
bool has_avx512() { return false; }
std::int64_t masks_avx512(const std::byte*, std::int64_t, std::byte*) { return 0; }
std::int64_t pack_avx512(const std::byte*, std::int64_t, std::uint32_t*, std::int64_t&) {
  return 0;
}
std::int64_t spread_avx512(const std::byte*, const std::uint32_t*, std::int64_t, std::byte*,
                           std::int64_t&) {
  return 0;
}
#endif

// Writes the mask of `count` elements; bits behind the last are zero.
template <typename T>
void write_mask(const std::byte* from, std::int64_t count, std::byte* mask) {
  std::int64_t done = 0;
  if constexpr (sizeof(T) == 4) {
    if (has_avx512()) done = masks_avx512(from, count, mask);
  }
  for (; done < count; done += 8) {
    const std::int64_t size = std::min<std::int64_t>(8, count - done);
    mask[done / 8] = static_cast<std::byte>(
        bits_of<T>(from + done * static_cast<std::int64_t>(sizeof(T)), size));
  }
}

template <typename T>
std::int64_t pack(const std::byte* from, std::int64_t count, T* to) {
  std::int64_t done = 0, kept = 0;
  if constexpr (sizeof(T) == 4) {
    if (has_avx512()) done = pack_avx512(from, count, to, kept);
  }
  return kept +
         pack_any(from + done * static_cast<std::int64_t>(sizeof(T)), count - done, to + kept);
}

template <typename T>
void spread(const std::byte* mask, const T* packed, std::int64_t count, std::byte* to) {
  std::int64_t done = 0, next = 0;
  if constexpr (sizeof(T) == 4) {
    if (has_avx512()) done = spread_avx512(mask, packed, count, to, next);
  }
  spread_any(mask + done / 8, packed + next, count - done,
             to + done * static_cast<std::int64_t>(sizeof(T)));
}

std::int64_t set_bits(const std::byte* mask, std::int64_t bytes) {
  std::int64_t total = 0, i = 0;
  for (; i + 8 <= bytes; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, mask + i, 8);
    total += std::popcount(word);
  }
  for (; i < bytes; ++i) total += std::popcount(std::to_integer<unsigned>(mask[i]));
  return total;
}

// Calls body(piece, first element, elements) for every piece, in parallel.
template <typename F>
void for_pieces(std::int64_t count, F&& body) {
  device::parallel_for((count + kPiece - 1) / kPiece, kGrain,
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t piece = begin; piece < end; ++piece) {
                           const std::int64_t first = piece * kPiece;
                           body(piece, first, std::min(kPiece, count - first));
                         }
                       });
}

// Where each piece's elements start among those kept; at the end, how many are kept.
std::vector<std::int64_t> starts_of(const std::byte* mask, std::int64_t count) {
  std::vector<std::int64_t> starts(at((count + kPiece - 1) / kPiece) + 1);
  for_pieces(count, [&](std::int64_t piece, std::int64_t first, std::int64_t size) {
    starts[at(piece) + 1] = set_bits(mask + first / 8, mask_bytes(size));
  });
  for (std::size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  return starts;
}

template <typename T>
class Sparse : public SpillCodec {
 public:
  std::string_view name() const override { return "sparse"; }
  std::int64_t bound(std::int64_t bytes) const override {
    return mask_bytes(bytes / kBytes) + bytes;
  }

  Result<std::int64_t> encode(std::span<const std::byte> from,
                              std::span<std::byte> to) const override {
    const auto bytes = static_cast<std::int64_t>(from.size());
    PLIMSOLL_RETURN_IF_ERROR(check_spill(name(), kBytes, bound(bytes), from, to));
    const std::int64_t count = bytes / kBytes;
    std::byte* const mask = to.data();
    for_pieces(count, [&](std::int64_t, std::int64_t first, std::int64_t size) {
      write_mask<T>(from.data() + first * kBytes, size, mask + first / 8);
    });
    const std::vector<std::int64_t> starts = starts_of(mask, count);
    std::byte* const packed = mask + mask_bytes(count);
    for_pieces(count, [&](std::int64_t piece, std::int64_t first, std::int64_t size) {
      // What a vector writes too much stays out of the next piece's place.
      std::array<T, kPiece + kWord> kept;
      const std::int64_t some = pack(from.data() + first * kBytes, size, kept.data());
      std::memcpy(packed + starts[at(piece)] * kBytes, kept.data(),
                  static_cast<std::size_t>(some * kBytes));
    });
    return mask_bytes(count) + starts.back() * kBytes;
  }

  Status decode(std::span<const std::byte> from, std::span<std::byte> to) const override {
    const std::int64_t count = static_cast<std::int64_t>(to.size()) / kBytes;
    const std::int64_t prefix = mask_bytes(count);
    const auto size_of_code = static_cast<std::int64_t>(from.size());
    if (count * kBytes != static_cast<std::int64_t>(to.size()) || size_of_code < prefix) {
      return damaged(name(), "shorter than its mask");
    }
    const std::byte* const mask = from.data();
    if (count % 8 != 0 && std::to_integer<unsigned>(mask[prefix - 1]) >> (count % 8) != 0) {
      return damaged(name(), "bits behind the last element");
    }
    const std::vector<std::int64_t> starts = starts_of(mask, count);
    if (size_of_code != prefix + starts.back() * kBytes) {
      return damaged(name(), "another size than its mask says");
    }
    const std::byte* const packed = mask + prefix;
    for_pieces(count, [&](std::int64_t piece, std::int64_t first, std::int64_t size) {
      std::array<T, kPiece + kWord> kept;
      const std::int64_t begin = starts[at(piece)];
      const std::int64_t some = starts[at(piece) + 1] - begin;
      std::memcpy(kept.data(), packed + begin * kBytes, static_cast<std::size_t>(some * kBytes));
      // A vector may read so much more.
      std::fill_n(kept.begin() + some, std::min(kWord, kPiece + kWord - some), T{0});
      spread(mask + first / 8, kept.data(), size, to.data() + first * kBytes);
    });
    return ok_status();
  }

 private:
  static constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
};

}  // namespace

std::unique_ptr<const SpillCodec> make_sparse(int element_bytes) {
  switch (element_bytes) {
    case 1:
      return std::make_unique<Sparse<std::uint8_t>>();
    case 2:
      return std::make_unique<Sparse<std::uint16_t>>();
    case 4:
      return std::make_unique<Sparse<std::uint32_t>>();
    default:
      return std::make_unique<Sparse<std::uint64_t>>();
  }
}

}  // namespace plimsoll::kernels
