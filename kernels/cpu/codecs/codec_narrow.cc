// SPDX-License-Identifier: Apache-2.0
// A value in a smaller dtype that has all of its elements. Bits and not numbers are kept: the sign
// of a zero and a NaN's payload come back or the encoder fails.
#include <bit>
#include <limits>
#include <type_traits>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/codecs/codecs.h"
#include "kernels/cpu/codecs/half_bits.h"
#include "kernels/cpu/numeric.h"

namespace plimsoll::kernels {
namespace {

// Float16's own conversion quiets NaNs; this one is exact both ways, for every f32 that an f16 can
// stand for. Selects instead of branches, so that loops vectorize.
[[gnu::always_inline]] inline std::uint16_t to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal = (magnitude - 0x38000000u) >> 13;
  const std::uint32_t special = 0x7c00u | ((magnitude >> 13) & 0x3ffu);
  // Adding 0.5 places a subnormal's mantissa in the low bits.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  std::uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x7f800000u ? special : half;
  return static_cast<std::uint16_t>(sign | half);
}

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

// Elements as loops that vectorize have them: halves as their bits.
template <typename T>
using Stored = std::conditional_t<kIsHalf<T>, std::uint16_t, T>;

template <typename Wide, typename Narrow>
[[gnu::always_inline]] inline Stored<Narrow> shrink(Wide value) {
  if constexpr (kIsHalf<Wide>) {
    return shrink<float, Narrow>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<Narrow, Bfloat16>) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >>
                                      16);
  } else if constexpr (std::is_same_v<Narrow, Float16>) {
    return to_half(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<Wide> && std::is_integral_v<Narrow>) {
    // Out of range is undefined for a cast: such values, and NaNs, become zero and are found out.
    using Middle = std::conditional_t<sizeof(Narrow) <= 2, std::int32_t, std::int64_t>;
    using Bits = BitsOf<Wide>;
    constexpr Bits kMagnitude = ~Bits{0} >> 1;
    constexpr Bits kLimit = std::bit_cast<Bits>(sizeof(Middle) == 4 ? Wide{0x1p31} : Wide{0x1p63});
    const Bits bits = std::bit_cast<Bits>(value);
    const Bits inside = (bits & kMagnitude) < kLimit ? bits : Bits{0};
    return static_cast<Narrow>(static_cast<Middle>(std::bit_cast<Wide>(inside)));
  } else {
    return static_cast<Narrow>(value);
  }
}

template <typename Wide, typename Narrow>
[[gnu::always_inline]] inline Wide expand(Stored<Narrow> value) {
  if constexpr (std::is_same_v<Narrow, Bfloat16>) {
    return static_cast<Wide>(std::bit_cast<float>(std::uint32_t{value} << 16));
  } else if constexpr (std::is_same_v<Narrow, Float16>) {
    return static_cast<Wide>(from_half(value));
  } else if constexpr (kIsHalf<Wide>) {
    return Wide(static_cast<float>(value));
  } else {
    return static_cast<Wide>(value);
  }
}

template <typename Wide>
[[gnu::always_inline]] inline bool same_bits(Wide a, Wide b) {
  if constexpr (kIsHalf<Wide>) {
    return a.bits == b.bits;
  } else if constexpr (std::is_floating_point_v<Wide>) {
    return std::bit_cast<BitsOf<Wide>>(a) == std::bit_cast<BitsOf<Wide>>(b);
  } else {
    return a == b;
  }
}

template <typename Wide, typename Narrow>
inline constexpr bool kNarrows =
    sizeof(Narrow) < sizeof(Wide) && !std::is_same_v<Wide, bool> && !std::is_same_v<Narrow, bool> &&
    (kIsFloating<Wide> || !kIsFloating<Narrow>);

template <typename Wide, typename Narrow>
PLIMSOLL_CLONES bool encode(const Wide* wide, Stored<Narrow>* narrow, std::int64_t count) {
  unsigned other = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Stored<Narrow> small = shrink<Wide, Narrow>(wide[i]);
    narrow[i] = small;
    other |= same_bits(expand<Wide, Narrow>(small), wide[i]) ? 0u : 1u;
  }
  return other == 0;
}

template <typename Wide, typename Narrow>
PLIMSOLL_CLONES void decode(const Stored<Narrow>* narrow, Wide* wide, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) wide[i] = expand<Wide, Narrow>(narrow[i]);
}

template <typename Wide, typename Narrow>
CodecKernels narrow_of(const std::string& name, std::int64_t count) {
  CodecKernels kernels;
  kernels.encode = make_codec_kernel(
      "encode." + name, count, "an element has no exact equal in the stored dtype",
      [](const void* from, void* to, std::int64_t begin, std::int64_t end) {
        return encode<Wide, Narrow>(static_cast<const Wide*>(from) + begin,
                                    static_cast<Stored<Narrow>*>(to) + begin, end - begin);
      });
  kernels.decode =
      make_codec_kernel("decode." + name, count, "",
                        [](const void* from, void* to, std::int64_t begin, std::int64_t end) {
                          decode<Wide, Narrow>(static_cast<const Stored<Narrow>*>(from) + begin,
                                               static_cast<Wide*>(to) + begin, end - begin);
                          return true;
                        });
  return kernels;
}

}  // namespace

CodecResult make_narrow(const ir::Codec& codec, const ir::Shape& shape) {
  return ir::visit_dtype(shape.dtype(), [&](auto wide) {
    return ir::visit_dtype(codec.stored, [&](auto narrow) -> CodecResult {
      using Wide = decltype(wide);
      using Narrow = decltype(narrow);
      if constexpr (kNarrows<Wide, Narrow>) {
        return narrow_of<Wide, Narrow>(ir::to_string(codec), shape.element_count());
      } else {
        return no_codec(codec, shape);
      }
    });
  });
}

}  // namespace plimsoll::kernels
