// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/base/float16.h"

namespace plimsoll::ir {

// Element types. The order is that of dtypes.def and part of the C ABI.
enum class DType : std::uint8_t {
#define PLIMSOLL_DTYPE(name, text, type, bytes, kind) name,
#define PLIMSOLL_COMPLEX_DTYPE(name, text, part, bytes) name,
#define PLIMSOLL_NARROW_DTYPE(name, text, bits, kind) name,
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
};

enum class DTypeClass : std::uint8_t { pred, signed_int, unsigned_int, floating, complex };

// HLO's spelling, e.g. "bf16".
std::string_view to_string(DType dtype);
std::optional<DType> parse_dtype(std::string_view text);
// Bytes of one element; of less than a byte, 1.
int dtype_bytes(DType dtype);
// Bits of one element in an array (Shape::byte_size).
int dtype_bits(DType dtype);
DTypeClass dtype_class(DType dtype);
inline bool is_floating(DType dtype) { return dtype_class(dtype) == DTypeClass::floating; }
inline bool is_complex(DType dtype) { return dtype_class(dtype) == DTypeClass::complex; }
// Codes of at most a byte, in programs and buffers; what computes has wider ones (narrow.h).
bool is_narrow(DType dtype);
// Of the real and the imaginary part; of any other dtype, itself.
DType part_dtype(DType dtype);
// The complex dtype of two such parts; precondition: f32 or f64.
constexpr DType complex_dtype(DType part) { return part == DType::f64 ? DType::c128 : DType::c64; }
inline bool is_integer(DType dtype) {
  return dtype_class(dtype) == DTypeClass::signed_int ||
         dtype_class(dtype) == DTypeClass::unsigned_int;
}

template <typename T>
struct DTypeOf;
#define PLIMSOLL_DTYPE(name, text, type, bytes, kind) \
  template <>                                         \
  struct DTypeOf<type> {                              \
    static constexpr DType value = DType::name;       \
  };
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE

// Calls `f` with a value-initialised object of the storage type of `dtype`, and returns its result.
// Precondition: neither complex nor narrow.
template <typename F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
#define PLIMSOLL_DTYPE(name, text, type, bytes, kind) \
  case DType::name:                                   \
    return f(type{});
#define PLIMSOLL_COMPLEX_DTYPE(name, text, part, bytes) \
  case DType::name:                                     \
    break;
#define PLIMSOLL_NARROW_DTYPE(name, text, bits, kind) \
  case DType::name:                                   \
    break;
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
  }
  __builtin_unreachable();
}

}  // namespace plimsoll::ir
