// SPDX-License-Identifier: Apache-2.0
// Our declarations of NCCL's interface against the library's header, where this machine has it.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "runtime/device/cuda/libraries/nccl.h"

#ifdef PLIMSOLL_NCCL_HEADER
#include <nccl.h>
#endif

namespace plimsoll::device::cuda {
namespace {

#ifdef PLIMSOLL_NCCL_HEADER

// Same number of parameters, each passed the same way, and so is the result.
template <typename R, typename... Ours, typename S, typename... Theirs>
constexpr bool is_same_nccl_call(R (*)(Ours...), S (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
    return sizeof(R) == sizeof(S) && std::is_pointer_v<R> == std::is_pointer_v<S> &&
           ((sizeof(Ours) == sizeof(Theirs) &&
             std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>) &&
            ...);
  } else {
    return false;
  }
}

#define PLIMSOLL_NCCL_CALL(result, member, symbol, parameters)                                \
  static_assert(                                                                              \
      is_same_nccl_call(decltype(Nccl::member){}, static_cast<decltype(&::symbol)>(nullptr)), \
      #symbol);
#include "runtime/device/cuda/libraries/nccl.def"
#undef PLIMSOLL_NCCL_CALL

template <auto kOurs, auto kTheirs>
constexpr bool is_same_nccl_number =
    static_cast<long long>(kOurs) == static_cast<long long>(kTheirs);

static_assert(is_same_nccl_number<NcclResult::success, ncclSuccess>);
static_assert(is_same_nccl_number<NcclResult::unhandled_cuda_error, ncclUnhandledCudaError>);
static_assert(is_same_nccl_number<NcclResult::system_error, ncclSystemError>);
static_assert(is_same_nccl_number<NcclResult::internal_error, ncclInternalError>);
static_assert(is_same_nccl_number<NcclResult::invalid_argument, ncclInvalidArgument>);
static_assert(is_same_nccl_number<NcclResult::invalid_usage, ncclInvalidUsage>);
static_assert(is_same_nccl_number<NcclResult::remote_error, ncclRemoteError>);
static_assert(is_same_nccl_number<NcclResult::in_progress, ncclInProgress>);

static_assert(is_same_nccl_number<NcclType::s8, ncclInt8>);
static_assert(is_same_nccl_number<NcclType::u8, ncclUint8>);
static_assert(is_same_nccl_number<NcclType::s32, ncclInt32>);
static_assert(is_same_nccl_number<NcclType::u32, ncclUint32>);
static_assert(is_same_nccl_number<NcclType::s64, ncclInt64>);
static_assert(is_same_nccl_number<NcclType::u64, ncclUint64>);
static_assert(is_same_nccl_number<NcclType::f16, ncclFloat16>);
static_assert(is_same_nccl_number<NcclType::f32, ncclFloat32>);
static_assert(is_same_nccl_number<NcclType::f64, ncclFloat64>);
static_assert(is_same_nccl_number<NcclType::bf16, ncclBfloat16>);

static_assert(is_same_nccl_number<NcclOperation::sum, ncclSum>);
static_assert(is_same_nccl_number<NcclOperation::product, ncclProd>);
static_assert(is_same_nccl_number<NcclOperation::maximum, ncclMax>);
static_assert(is_same_nccl_number<NcclOperation::minimum, ncclMin>);

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(offsetof(NcclConfig, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));

TEST(NcclAbi, IsThatOfTheHeader) {
  constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(NcclConfig().magic, kTheirs.magic);
  EXPECT_GE(NCCL_VERSION_CODE, static_cast<int>(NcclConfig().version));
}

#else

TEST(NcclAbi, IsThatOfTheHeader) { GTEST_SKIP() << "no nccl.h on this machine"; }

#endif

// The library itself, of which some calls need no GPU.
TEST(NcclLibrary, IsOpenedWhereThereIsOne) {
  const auto& found = machine_nccl();
  if (!found.ok()) {
    EXPECT_EQ(found.status().code(), StatusCode::not_found);
    EXPECT_NE(found.status().message().find("install NVIDIA's NCCL 2.14 or newer"),
              std::string::npos)
        << found.status().message();
    GTEST_SKIP() << found.status().message();
  }
  int version = 0;
  EXPECT_EQ(found->functions->get_version(&version), NcclResult::success);
  EXPECT_GE(version, 21400);
  EXPECT_TRUE(found->name.starts_with("NCCL 2.")) << found->name;
  const Status failed = failure(*found->functions, NcclResult::system_error, "ncclAllReduce");
  EXPECT_EQ(failed.code(), StatusCode::unavailable);
  EXPECT_NE(failed.message().find("ncclAllReduce: unhandled system error"), std::string::npos)
      << failed.message();
}

}  // namespace
}  // namespace plimsoll::device::cuda
