// SPDX-License-Identifier: Apache-2.0
// The numbers of the ABI and of the tables are the same, and stay so.
#include <array>
#include <string_view>

#include "runtime/c_api/handles.h"
#include "runtime/ir/dtype.h"
#include "runtime/ir/host_leaves.h"
#include "runtime/ir/opcode.h"

namespace {

using plimsoll::ir::DType;
using plimsoll::ir::Opcode;

static_assert(PLM_PRED == static_cast<int>(DType::pred));
static_assert(PLM_S8 == static_cast<int>(DType::s8));
static_assert(PLM_S16 == static_cast<int>(DType::s16));
static_assert(PLM_S32 == static_cast<int>(DType::s32));
static_assert(PLM_S64 == static_cast<int>(DType::s64));
static_assert(PLM_U8 == static_cast<int>(DType::u8));
static_assert(PLM_U16 == static_cast<int>(DType::u16));
static_assert(PLM_U32 == static_cast<int>(DType::u32));
static_assert(PLM_U64 == static_cast<int>(DType::u64));
static_assert(PLM_F16 == static_cast<int>(DType::f16));
static_assert(PLM_BF16 == static_cast<int>(DType::bf16));
static_assert(PLM_F32 == static_cast<int>(DType::f32));
static_assert(PLM_F64 == static_cast<int>(DType::f64));
static_assert(PLM_C128 == static_cast<int>(DType::c128));
static_assert(PLM_S2 == static_cast<int>(DType::s2));
static_assert(PLM_U2 == static_cast<int>(DType::u2));
static_assert(PLM_S4 == static_cast<int>(DType::s4));
static_assert(PLM_U4 == static_cast<int>(DType::u4));
static_assert(PLM_F4E2M1FN == static_cast<int>(DType::f4e2m1fn));
static_assert(PLM_F8E3M4 == static_cast<int>(DType::f8e3m4));
static_assert(PLM_F8E4M3 == static_cast<int>(DType::f8e4m3));
static_assert(PLM_F8E4M3FN == static_cast<int>(DType::f8e4m3fn));
static_assert(PLM_F8E4M3B11FNUZ == static_cast<int>(DType::f8e4m3b11fnuz));
static_assert(PLM_F8E4M3FNUZ == static_cast<int>(DType::f8e4m3fnuz));
static_assert(PLM_F8E5M2 == static_cast<int>(DType::f8e5m2));
static_assert(PLM_F8E5M2FNUZ == static_cast<int>(DType::f8e5m2fnuz));
static_assert(PLM_F8E8M0FNU == static_cast<int>(DType::f8e8m0fnu));

#define PLIMSOLL_OP(number, name, text, c_name, ...) \
  static_assert(c_name == static_cast<int>(Opcode::name));
#include "runtime/ir/ops.def"

template <typename A, typename B>
constexpr bool same(A a, B b) {
  return static_cast<int>(a) == static_cast<int>(b);
}
using plimsoll::ir::ComparisonDirection;
static_assert(same(PLM_EQ, ComparisonDirection::eq) && same(PLM_NE, ComparisonDirection::ne) &&
              same(PLM_GE, ComparisonDirection::ge) && same(PLM_GT, ComparisonDirection::gt) &&
              same(PLM_LE, ComparisonDirection::le) && same(PLM_LT, ComparisonDirection::lt));

using plimsoll::ir::ArrayMemory;
static_assert(same(PLM_MEMORY_DEVICE, ArrayMemory::device) &&
              same(PLM_MEMORY_HOST, ArrayMemory::pinned_host) &&
              same(PLM_MEMORY_UNPINNED_HOST, ArrayMemory::unpinned_host));

using plimsoll::ir::Hint;
static_assert(same(PLM_HINT_NONE, Hint::none) && same(PLM_HINT_KEEP, Hint::keep) &&
              same(PLM_HINT_RECOMPUTE, Hint::recompute) &&
              same(PLM_HINT_COMPRESS, Hint::compress) && same(PLM_HINT_SWAP, Hint::swap));

}  // namespace

namespace plimsoll::c_api {

bool is_dtype(int dtype) { return dtype >= PLM_PRED && dtype <= PLM_F8E8M0FNU; }
bool is_recorded_dtype(int dtype) { return dtype >= PLM_PRED && dtype <= PLM_F64; }

}  // namespace plimsoll::c_api

extern "C" {

size_t plm_dtype_size(plm_dtype dtype) {
  if (!plimsoll::c_api::is_dtype(dtype)) return 0;
  return static_cast<size_t>(plimsoll::ir::dtype_bytes(static_cast<DType>(dtype)));
}

size_t plm_dtype_bits(plm_dtype dtype) {
  if (!plimsoll::c_api::is_dtype(dtype)) return 0;
  return static_cast<size_t>(plimsoll::ir::dtype_bits(static_cast<DType>(dtype)));
}

const char* plm_dtype_name(plm_dtype dtype) {
  if (!plimsoll::c_api::is_dtype(dtype)) return "";
  return plimsoll::ir::to_string(static_cast<DType>(dtype)).data();
}

const char* plm_opcode_name(plm_opcode opcode) {
  const int number = static_cast<int>(opcode);
  if (number < 0 || number >= plimsoll::ir::opcode_count()) return "";
  return plimsoll::ir::to_string(static_cast<Opcode>(number)).data();
}

}  // extern "C"
