// SPDX-License-Identifier: Apache-2.0
// The numbers of the ABI and of the tables are the same, and stay so.
#include <array>
#include <string_view>

#include "runtime/c_api/handles.h"
#include "runtime/ir/dtype.h"
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

static_assert(PLM_OP_PARAMETER == static_cast<int>(Opcode::parameter));
static_assert(PLM_OP_CONSTANT == static_cast<int>(Opcode::constant));
static_assert(PLM_OP_IOTA == static_cast<int>(Opcode::iota));
static_assert(PLM_OP_TUPLE == static_cast<int>(Opcode::tuple));
static_assert(PLM_OP_GET_TUPLE_ELEMENT == static_cast<int>(Opcode::get_tuple_element));
static_assert(PLM_OP_BITCAST == static_cast<int>(Opcode::bitcast));
static_assert(PLM_OP_BROADCAST == static_cast<int>(Opcode::broadcast));
static_assert(PLM_OP_RESHAPE == static_cast<int>(Opcode::reshape));
static_assert(PLM_OP_TRANSPOSE == static_cast<int>(Opcode::transpose));
static_assert(PLM_OP_CONVERT == static_cast<int>(Opcode::convert));
static_assert(PLM_OP_BITCAST_CONVERT == static_cast<int>(Opcode::bitcast_convert));
static_assert(PLM_OP_COPY == static_cast<int>(Opcode::copy));
static_assert(PLM_OP_SLICE == static_cast<int>(Opcode::slice));
static_assert(PLM_OP_DYNAMIC_SLICE == static_cast<int>(Opcode::dynamic_slice));
static_assert(PLM_OP_DYNAMIC_UPDATE_SLICE == static_cast<int>(Opcode::dynamic_update_slice));
static_assert(PLM_OP_CONCATENATE == static_cast<int>(Opcode::concatenate));
static_assert(PLM_OP_PAD == static_cast<int>(Opcode::pad));
static_assert(PLM_OP_REVERSE == static_cast<int>(Opcode::reverse));
static_assert(PLM_OP_GATHER == static_cast<int>(Opcode::gather));
static_assert(PLM_OP_SCATTER == static_cast<int>(Opcode::scatter));
static_assert(PLM_OP_SELECT == static_cast<int>(Opcode::select));
static_assert(PLM_OP_COMPARE == static_cast<int>(Opcode::compare));
static_assert(PLM_OP_CLAMP == static_cast<int>(Opcode::clamp));
static_assert(PLM_OP_ABS == static_cast<int>(Opcode::abs));
static_assert(PLM_OP_NEGATE == static_cast<int>(Opcode::negate));
static_assert(PLM_OP_SIGN == static_cast<int>(Opcode::sign));
static_assert(PLM_OP_CEIL == static_cast<int>(Opcode::ceil));
static_assert(PLM_OP_FLOOR == static_cast<int>(Opcode::floor));
static_assert(PLM_OP_ROUND_NEAREST_AFZ == static_cast<int>(Opcode::round_nearest_afz));
static_assert(PLM_OP_ROUND_NEAREST_EVEN == static_cast<int>(Opcode::round_nearest_even));
static_assert(PLM_OP_EXPONENTIAL == static_cast<int>(Opcode::exponential));
static_assert(PLM_OP_EXPONENTIAL_MINUS_ONE == static_cast<int>(Opcode::exponential_minus_one));
static_assert(PLM_OP_LOG == static_cast<int>(Opcode::log));
static_assert(PLM_OP_LOG_PLUS_ONE == static_cast<int>(Opcode::log_plus_one));
static_assert(PLM_OP_LOGISTIC == static_cast<int>(Opcode::logistic));
static_assert(PLM_OP_TANH == static_cast<int>(Opcode::tanh));
static_assert(PLM_OP_SINE == static_cast<int>(Opcode::sine));
static_assert(PLM_OP_COSINE == static_cast<int>(Opcode::cosine));
static_assert(PLM_OP_TAN == static_cast<int>(Opcode::tan));
static_assert(PLM_OP_ERF == static_cast<int>(Opcode::erf));
static_assert(PLM_OP_SQRT == static_cast<int>(Opcode::sqrt));
static_assert(PLM_OP_RSQRT == static_cast<int>(Opcode::rsqrt));
static_assert(PLM_OP_CBRT == static_cast<int>(Opcode::cbrt));
static_assert(PLM_OP_IS_FINITE == static_cast<int>(Opcode::is_finite));
static_assert(PLM_OP_NOT == static_cast<int>(Opcode::not_));
static_assert(PLM_OP_POPCNT == static_cast<int>(Opcode::popcnt));
static_assert(PLM_OP_COUNT_LEADING_ZEROS == static_cast<int>(Opcode::count_leading_zeros));
static_assert(PLM_OP_REDUCE_PRECISION == static_cast<int>(Opcode::reduce_precision));
static_assert(PLM_OP_ADD == static_cast<int>(Opcode::add));
static_assert(PLM_OP_SUBTRACT == static_cast<int>(Opcode::subtract));
static_assert(PLM_OP_MULTIPLY == static_cast<int>(Opcode::multiply));
static_assert(PLM_OP_DIVIDE == static_cast<int>(Opcode::divide));
static_assert(PLM_OP_REMAINDER == static_cast<int>(Opcode::remainder));
static_assert(PLM_OP_POWER == static_cast<int>(Opcode::power));
static_assert(PLM_OP_MAXIMUM == static_cast<int>(Opcode::maximum));
static_assert(PLM_OP_MINIMUM == static_cast<int>(Opcode::minimum));
static_assert(PLM_OP_ATAN2 == static_cast<int>(Opcode::atan2));
static_assert(PLM_OP_AND == static_cast<int>(Opcode::and_));
static_assert(PLM_OP_OR == static_cast<int>(Opcode::or_));
static_assert(PLM_OP_XOR == static_cast<int>(Opcode::xor_));
static_assert(PLM_OP_SHIFT_LEFT == static_cast<int>(Opcode::shift_left));
static_assert(PLM_OP_SHIFT_RIGHT_LOGICAL == static_cast<int>(Opcode::shift_right_logical));
static_assert(PLM_OP_SHIFT_RIGHT_ARITHMETIC == static_cast<int>(Opcode::shift_right_arithmetic));
static_assert(PLM_OP_DOT == static_cast<int>(Opcode::dot));
static_assert(PLM_OP_CONVOLUTION == static_cast<int>(Opcode::convolution));
static_assert(PLM_OP_REDUCE == static_cast<int>(Opcode::reduce));
static_assert(PLM_OP_REDUCE_WINDOW == static_cast<int>(Opcode::reduce_window));
static_assert(PLM_OP_SELECT_AND_SCATTER == static_cast<int>(Opcode::select_and_scatter));
static_assert(PLM_OP_SORT == static_cast<int>(Opcode::sort));
static_assert(PLM_OP_MAP == static_cast<int>(Opcode::map));
static_assert(PLM_OP_RNG == static_cast<int>(Opcode::rng));
static_assert(PLM_OP_RNG_BIT_GENERATOR == static_cast<int>(Opcode::rng_bit_generator));
static_assert(PLM_OP_RNG_GET_AND_UPDATE_STATE ==
              static_cast<int>(Opcode::rng_get_and_update_state));
static_assert(PLM_OP_CALL == static_cast<int>(Opcode::call));
static_assert(PLM_OP_WHILE == static_cast<int>(Opcode::while_));
static_assert(PLM_OP_CONDITIONAL == static_cast<int>(Opcode::conditional));
static_assert(PLM_OP_FUSION == static_cast<int>(Opcode::fusion));
static_assert(PLM_OP_CUSTOM_CALL == static_cast<int>(Opcode::custom_call));
static_assert(PLM_OP_DOMAIN == static_cast<int>(Opcode::domain));
static_assert(PLM_OP_OPT_BARRIER == static_cast<int>(Opcode::opt_barrier));
static_assert(PLM_OP_AFTER_ALL == static_cast<int>(Opcode::after_all));
static_assert(PLM_OP_ADD_DEPENDENCY == static_cast<int>(Opcode::add_dependency));
static_assert(PLM_OP_PARTITION_ID == static_cast<int>(Opcode::partition_id));
static_assert(PLM_OP_REPLICA_ID == static_cast<int>(Opcode::replica_id));
static_assert(PLM_OP_ALL_REDUCE == static_cast<int>(Opcode::all_reduce));
static_assert(PLM_OP_ALL_GATHER == static_cast<int>(Opcode::all_gather));
static_assert(PLM_OP_REDUCE_SCATTER == static_cast<int>(Opcode::reduce_scatter));
static_assert(PLM_OP_ALL_TO_ALL == static_cast<int>(Opcode::all_to_all));
static_assert(PLM_OP_COLLECTIVE_PERMUTE == static_cast<int>(Opcode::collective_permute));
static_assert(PLM_OP_COLLECTIVE_BROADCAST == static_cast<int>(Opcode::collective_broadcast));
static_assert(PLM_OP_SEND == static_cast<int>(Opcode::send));
static_assert(PLM_OP_SEND_DONE == static_cast<int>(Opcode::send_done));
static_assert(PLM_OP_RECV == static_cast<int>(Opcode::recv));
static_assert(PLM_OP_RECV_DONE == static_cast<int>(Opcode::recv_done));
static_assert(PLM_OP_INFEED == static_cast<int>(Opcode::infeed));
static_assert(PLM_OP_OUTFEED == static_cast<int>(Opcode::outfeed));
static_assert(PLM_OP_ALL_REDUCE_START == static_cast<int>(Opcode::all_reduce_start));
static_assert(PLM_OP_ALL_REDUCE_DONE == static_cast<int>(Opcode::all_reduce_done));
static_assert(PLM_OP_ALL_GATHER_START == static_cast<int>(Opcode::all_gather_start));
static_assert(PLM_OP_ALL_GATHER_DONE == static_cast<int>(Opcode::all_gather_done));
static_assert(PLM_OP_COLLECTIVE_PERMUTE_START ==
              static_cast<int>(Opcode::collective_permute_start));
static_assert(PLM_OP_COLLECTIVE_PERMUTE_DONE == static_cast<int>(Opcode::collective_permute_done));
static_assert(PLM_OP_COPY_START == static_cast<int>(Opcode::copy_start));
static_assert(PLM_OP_COPY_DONE == static_cast<int>(Opcode::copy_done));
static_assert(PLM_OP_ASYNC_START == static_cast<int>(Opcode::async_start));
static_assert(PLM_OP_ASYNC_UPDATE == static_cast<int>(Opcode::async_update));
static_assert(PLM_OP_ASYNC_DONE == static_cast<int>(Opcode::async_done));

template <typename A, typename B>
constexpr bool same(A a, B b) {
  return static_cast<int>(a) == static_cast<int>(b);
}
using plimsoll::ir::ComparisonDirection;
static_assert(same(PLM_EQ, ComparisonDirection::eq) && same(PLM_NE, ComparisonDirection::ne) &&
              same(PLM_GE, ComparisonDirection::ge) && same(PLM_GT, ComparisonDirection::gt) &&
              same(PLM_LE, ComparisonDirection::le) && same(PLM_LT, ComparisonDirection::lt));

using plimsoll::ir::Hint;
static_assert(same(PLM_HINT_NONE, Hint::none) && same(PLM_HINT_KEEP, Hint::keep) &&
              same(PLM_HINT_RECOMPUTE, Hint::recompute) &&
              same(PLM_HINT_COMPRESS, Hint::compress) && same(PLM_HINT_SWAP, Hint::swap));

}  // namespace

namespace plimsoll::c_api {

bool is_dtype(int dtype) { return dtype >= PLM_PRED && dtype <= PLM_F64; }

}  // namespace plimsoll::c_api

extern "C" {

size_t plm_dtype_size(plm_dtype dtype) {
  if (!plimsoll::c_api::is_dtype(dtype)) return 0;
  return static_cast<size_t>(plimsoll::ir::dtype_bytes(static_cast<DType>(dtype)));
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
