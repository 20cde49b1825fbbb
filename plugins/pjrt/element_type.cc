// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/element_type.h"

#include <array>
#include <string>
#include <string_view>

namespace plimsoll::pjrt {
namespace {

using namespace abi;

// HLO's spelling of each, by number.
constexpr std::string_view kNames[] = {
    "",           "pred",   "s8",       "s16",           "s32",
    "s64",        "u8",     "u16",      "u32",           "u64",
    "f16",        "f32",    "f64",      "bf16",          "c64",
    "c128",       "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz",
    "f8e4m3fnuz", "s4",     "u4",       "token",         "s2",
    "u2",         "f8e4m3", "f8e3m4",   "f8e8m0fnu",     "f4e2m1fn"};
constexpr int kTypes = static_cast<int>(std::size(kNames));
constexpr int kMostDtypes = 64;

// Both ways, by the names that the library gives its dtypes.
struct Table {
  std::array<ElementType, kMostDtypes> types{};
  std::array<int, kTypes> dtypes{};

  Table() {
    dtypes.fill(-1);
    for (int dtype = 0; dtype < kMostDtypes; ++dtype) {
      const std::string_view name = plm_dtype_name(static_cast<plm_dtype>(dtype));
      for (int type = 1; type < kTypes; ++type) {
        if (name.empty() || name != kNames[type]) continue;
        types[static_cast<std::size_t>(dtype)] = static_cast<ElementType>(type);
        dtypes[static_cast<std::size_t>(type)] = dtype;
      }
    }
  }
};

const Table& table() {
  static const Table made;
  return made;
}

}  // namespace

ElementType element_type(plm_dtype dtype) {
  return dtype >= 0 && dtype < kMostDtypes ? table().types[static_cast<std::size_t>(dtype)]
                                           : kInvalid;
}

Error* find_dtype(ElementType type, plm_dtype& out) {
  if (type <= 0 || type >= kTypes) {
    return unimplemented("element type " + std::to_string(type) + " is not known");
  }
  const int dtype = table().dtypes[static_cast<std::size_t>(type)];
  if (dtype < 0) {
    return unimplemented("plimsoll has no arrays of " + std::string(kNames[type]));
  }
  out = static_cast<plm_dtype>(dtype);
  return nullptr;
}

}  // namespace plimsoll::pjrt
