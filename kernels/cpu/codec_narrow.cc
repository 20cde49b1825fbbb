// SPDX-License-Identifier: Apache-2.0
// A value in a smaller dtype that has all of its elements. Bits and not numbers are kept: the sign
// of a zero and a NaN's payload come back or the encoder fails.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "kernels/cpu/codecs.h"
#include "kernels/cpu/numeric.h"

namespace plimsoll::kernels {
namespace {

// Float16's own conversion quiets NaNs; this one is exact both ways, for every f32 that an f16 can
// stand for. Selects instead of branches, so that loops vectorize.
Float16 to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal = (magnitude - 0x38000000u) >> 13;
  const std::uint32_t special = 0x7c00u | ((magnitude >> 13) & 0x3ffu);
  const float small = std::min(std::bit_cast<float>(magnitude), 0x1p-14f);
  const auto subnormal = static_cast<std::uint32_t>(static_cast<std::int32_t>(small * 0x1p24f));
  std::uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x7f800000u ? special : half;
  Float16 result;
  result.bits = static_cast<std::uint16_t>(sign | half);
  return result;
}

float from_half(Float16 value) {
  const std::uint32_t sign = std::uint32_t{value.bits & 0x8000u} << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + 0x38000000u;
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(
      static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  std::uint32_t bits = magnitude < 0x400u ? subnormal : normal;
  bits = magnitude >= 0x7c00u ? special : bits;
  return std::bit_cast<float>(sign | bits);
}

template <typename Wide, typename Narrow>
Narrow shrink(Wide value) {
  if constexpr (kIsHalf<Wide>) {
    return shrink<float, Narrow>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<Narrow, Bfloat16>) {
    Bfloat16 result;
    result.bits =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
    return result;
  } else if constexpr (std::is_same_v<Narrow, Float16>) {
    return to_half(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<Wide> && std::is_integral_v<Narrow>) {
    // Out of range is undefined for a cast; NaN ends at the lower end and is found out.
    constexpr auto kLow = static_cast<Wide>(std::numeric_limits<Narrow>::min());
    constexpr auto kHigh = static_cast<Wide>(std::numeric_limits<Narrow>::max());
    static_assert(static_cast<Narrow>(kHigh) == std::numeric_limits<Narrow>::max());
    return static_cast<Narrow>(std::min(kHigh, std::max(kLow, value)));
  } else {
    return static_cast<Narrow>(value);
  }
}

template <typename Wide, typename Narrow>
Wide expand(Narrow value) {
  if constexpr (std::is_same_v<Narrow, Bfloat16>) {
    return static_cast<Wide>(std::bit_cast<float>(std::uint32_t{value.bits} << 16));
  } else if constexpr (std::is_same_v<Narrow, Float16>) {
    return static_cast<Wide>(from_half(value));
  } else if constexpr (kIsHalf<Wide>) {
    return Wide(static_cast<float>(value));
  } else {
    return static_cast<Wide>(value);
  }
}

template <typename Wide>
bool same_bits(Wide a, Wide b) {
  if constexpr (kIsHalf<Wide>) {
    return a.bits == b.bits;
  } else if constexpr (std::is_floating_point_v<Wide>) {
    using Bits = std::conditional_t<sizeof(Wide) == 8, std::uint64_t, std::uint32_t>;
    return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
  } else {
    return a == b;
  }
}

template <typename Wide, typename Narrow>
inline constexpr bool kNarrows =
    sizeof(Narrow) < sizeof(Wide) && !std::is_same_v<Wide, bool> && !std::is_same_v<Narrow, bool> &&
    (kIsFloating<Wide> || !kIsFloating<Narrow>);

template <typename Wide, typename Narrow>
CodecKernels narrow_of(const std::string& name, std::int64_t count) {
  CodecKernels kernels;
  kernels.encode = make_codec_kernel(
      "encode." + name, count, "an element has no exact equal in the stored dtype",
      [](const void* from, void* to, std::int64_t begin, std::int64_t end) {
        const auto* wide = static_cast<const Wide*>(from);
        auto* narrow = static_cast<Narrow*>(to);
        unsigned other = 0;
        for (std::int64_t i = begin; i < end; ++i) {
          const Narrow small = shrink<Wide, Narrow>(wide[i]);
          narrow[i] = small;
          other |= same_bits(expand<Wide, Narrow>(small), wide[i]) ? 0u : 1u;
        }
        return other == 0;
      });
  kernels.decode =
      make_codec_kernel("decode." + name, count, "",
                        [](const void* from, void* to, std::int64_t begin, std::int64_t end) {
                          const auto* narrow = static_cast<const Narrow*>(from);
                          auto* wide = static_cast<Wide*>(to);
                          for (std::int64_t i = begin; i < end; ++i)
                            wide[i] = expand<Wide, Narrow>(narrow[i]);
                          return true;
                        });
  return kernels;
}

}  // namespace

CodecResult make_narrow(const planner::Codec& codec, const ir::Shape& shape) {
  return ir::visit_dtype(shape.dtype(), [&](auto wide) {
    return ir::visit_dtype(codec.stored, [&](auto narrow) -> CodecResult {
      using Wide = decltype(wide);
      using Narrow = decltype(narrow);
      if constexpr (kNarrows<Wide, Narrow>) {
        return narrow_of<Wide, Narrow>(planner::to_string(codec), shape.element_count());
      } else {
        return no_codec(codec, shape);
      }
    });
  });
}

}  // namespace plimsoll::kernels
