// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/codec/codec.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "runtime/base/index.h"
#include "runtime/ir/literal.h"

namespace plimsoll::ir {
namespace {

std::string_view direction_text(ComparisonDirection direction) {
  constexpr std::array<std::string_view, 6> kText{"eq", "ne", "ge", "gt", "le", "lt"};
  return kText[at(direction)];
}

// What codecs take; `none` nothing.
bool nothing(const Codec&, DType) { return false; }
bool pred_only(const Codec&, DType dtype) { return dtype == DType::pred; }
bool numbers(const Codec&, DType dtype) { return dtype != DType::pred; }
bool wider_numbers(const Codec& codec, DType dtype) {
  return dtype != DType::pred && codec.stored != DType::pred &&
         dtype_bytes(codec.stored) < dtype_bytes(dtype) &&
         (is_floating(dtype) || !is_floating(codec.stored));
}
bool wide_floats(const Codec&, DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

// What is proposed for what is known of the elements.
std::optional<Codec> every_pred(const ValueFacts&, DType dtype) {
  if (dtype != DType::pred) return std::nullopt;
  return Codec{CodecKind::bit_mask};
}

std::optional<Codec> narrowest(const ValueFacts& facts, DType dtype) {
  const int bytes = dtype_bytes(dtype);
  const auto in = [&](std::int64_t low, std::int64_t high) {
    return facts.integral && facts.low >= low && facts.high <= high;
  };
  const auto as = [](DType stored) { return Codec{CodecKind::narrow, stored}; };
  if (bytes > 1 && in(0, 255)) return as(DType::u8);
  if (bytes > 1 && in(-128, 127)) return as(DType::s8);
  if (bytes > 2 && in(0, 65535)) return as(DType::u16);
  if (bytes > 2 && in(-32768, 32767)) return as(DType::s16);
  if (bytes > 2 && is_floating(dtype) && facts.bf16) return as(DType::bf16);
  if (bytes > 2 && is_floating(dtype) && facts.f16) return as(DType::f16);
  if (bytes > 4 && in(0, 0xffffffffLL)) return as(DType::u32);
  if (bytes > 4 && in(-0x80000000LL, 0x7fffffffLL)) return as(DType::s32);
  return std::nullopt;
}

// The words of the rows.
constexpr CodecProof facts(std::optional<Codec> (*propose)(const ValueFacts&, DType)) {
  return {CodecProof::By::facts, propose};
}
constexpr CodecProof readers() { return {CodecProof::By::readers, nullptr}; }
constexpr CodecProof permission() { return {CodecProof::By::permission, nullptr}; }

constexpr CodeLayout bits() { return {.form = CodeLayout::Form::bits}; }
constexpr CodeLayout elements(DType dtype) { return {.dtype = dtype}; }
constexpr CodeLayout stored_elements() { return {.by_codec = true}; }
constexpr CodeLayout blocks(int bits) { return {.form = CodeLayout::Form::blocks, .bits = bits}; }

struct Sample {
  CodecKind kind;
  constexpr CodecSample operator()(DType dtype, DType stored = DType::pred) const {
    return {dtype, {.kind = kind, .stored = stored}};
  }
};

constexpr CodecInfo kRows[] = {
    {CodecKind::none, "none", {}, nothing, {}, CodecRounding::exact, "", {}},
#define PLIMSOLL_CODEC(kind, name, proof, dtypes, layout, rounding, error_bound, sample) \
  [] {                                                                                   \
    using enum DType;                                                                    \
    return CodecInfo{CodecKind::kind, name,                                              \
                     proof,           dtypes,                                            \
                     layout,          CodecRounding::rounding,                           \
                     error_bound,     Sample{CodecKind::kind} sample};                   \
  }(),
#include "runtime/ir/codec/codecs.def"
#undef PLIMSOLL_CODEC
};
static_assert(std::size(kRows) == kCodecKinds);
// A bound says what a codec that rounds may cost, and nothing else has one.
static_assert(std::ranges::all_of(kRows, [](const CodecInfo& row) {
  return (row.rounding == CodecRounding::exact) == row.error_bound.empty();
}));
// Only the user allows that bits change; a proposal stands where facts are the proof.
static_assert(std::ranges::all_of(std::span(kRows).subspan(1), [](const CodecInfo& row) {
  return (row.rounding != CodecRounding::exact) == (row.proof.by == CodecProof::By::permission) &&
         (row.proof.propose != nullptr) == (row.proof.by == CodecProof::By::facts);
}));

}  // namespace

bool is_number(DType dtype, double value) {
  Literal literal(Shape(dtype, {}));
  if (!std::isfinite(value)) return false;
  if (!is_floating(dtype)) {
    if (value != std::floor(value) || std::abs(value) > 0x1p53) return false;
    if (value < 0 && dtype_class(dtype) != DTypeClass::signed_int) return false;
    const int bits =
        dtype_bytes(dtype) * 8 - (dtype_class(dtype) == DTypeClass::signed_int ? 1 : 0);
    if (value >= std::ldexp(1.0, bits)) return false;
  }
  literal.set(0, value);
  return literal.at(0) == value;
}

Outcomes representatives(const Codec& codec, DType dtype) {
  const double c = codec.constant, infinity = std::numeric_limits<double>::infinity();
  std::array<double, 5> candidates{c, c + 1, c - 1, c + std::abs(c), c - std::abs(c)};
  if (is_floating(dtype)) {
    candidates = {c, infinity, -infinity, std::numeric_limits<double>::quiet_NaN(), c};
  }
  const auto pick = [&](bool wanted) {
    for (const double candidate : candidates) {
      if (!is_floating(dtype) && !is_number(dtype, candidate)) continue;
      if (holds<double>(codec.direction, candidate, c) == wanted) return candidate;
    }
    return c;
  };
  return {pick(true), pick(false)};
}

const CodecInfo& codec_info(CodecKind kind) { return kRows[at(kind)]; }

std::span<const CodecInfo> all_codecs() { return std::span(kRows).subspan(1); }

bool Codec::is_mask() const { return codec_info(kind).layout.form == CodeLayout::Form::bits; }
bool Codec::lossless() const { return codec_info(kind).rounding == CodecRounding::exact; }
bool Codec::gives_values() const { return codec_info(kind).proof.by != CodecProof::By::readers; }

bool suits(const Codec& codec, const Shape& shape) {
  return shape.is_array() && codec_info(codec.kind).takes(codec, shape.dtype());
}

DType stored_dtype(const Codec& codec) {
  const CodeLayout& layout = codec_info(codec.kind).layout;
  return layout.by_codec ? codec.stored : layout.dtype;
}

std::int64_t encoded_bytes(const Codec& codec, const Shape& shape) {
  if (codec.kind == CodecKind::none) return shape.byte_size();
  const std::int64_t elements = shape.element_count();
  const CodeLayout& layout = codec_info(codec.kind).layout;
  switch (layout.form) {
    case CodeLayout::Form::bits:
      return (elements + 7) / 8;
    case CodeLayout::Form::elements:
      return elements * dtype_bytes(stored_dtype(codec));
    case CodeLayout::Form::blocks:
      return (elements + kQuantizedBlock - 1) / kQuantizedBlock * 2 +
             (elements * layout.bits + 7) / 8;
  }
  __builtin_unreachable();
}

std::string_view error_bound(CodecKind kind) { return codec_info(kind).error_bound; }

std::string_view to_string(CodecKind kind) { return codec_info(kind).name; }

std::optional<CodecKind> parse_lossy(std::string_view name) {
  for (const CodecInfo& row : all_codecs()) {
    if (row.rounding != CodecRounding::exact && row.name == name) return row.kind;
  }
  return std::nullopt;
}

std::string to_string(const Codec& codec) {
  std::string text(to_string(codec.kind));
  const CodecInfo& row = codec_info(codec.kind);
  if (row.proof.by == CodecProof::By::readers) {
    std::array<char, 32> number{};
    const auto end = std::to_chars(number.data(), number.data() + number.size(), codec.constant);
    text += "(" + std::string(direction_text(codec.direction)) + ", " +
            std::string(number.data(), end.ptr) + ")";
  } else if (row.layout.by_codec) {
    text += "(" + std::string(to_string(codec.stored)) + ")";
  } else if (codec.seed != 0) {
    text += fmt::format("(seed {})", codec.seed);
  }
  return text;
}

}  // namespace plimsoll::ir
