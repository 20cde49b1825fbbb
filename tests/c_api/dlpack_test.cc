// SPDX-License-Identifier: Apache-2.0
// DLPack over the header alone: the structs stand here as a program has them from DLPack's own.
#include "plimsoll/dlpack.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "tests/c_api/shared_budget.h"

extern "C" {
typedef struct {
  std::int32_t device_type, device_id;
} DLDevice;
typedef struct {
  std::uint8_t code, bits;
  std::uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
} DLTensor;
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
};
struct DLManagedTensorVersioned {
  struct {
    std::uint32_t major, minor;
  } version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
}

namespace plimsoll::testing {
namespace {

alignas(64) float dlpack_data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
std::atomic<int> dlpack_deleted{0};

class Dlpack : public ::testing::Test {
 protected:
  void SetUp() override {
    dlpack_deleted = 0;
    plm_context_options options = {};
    options.struct_size = sizeof options;
    options.memory_limit_bytes = 1 << 20;
    plm_context* made = nullptr;
    ASSERT_EQ(take(plm_context_create(&options, &made)).code, PLM_OK);
    context_.reset(made);
    versioned_.version = {1, 0};
    versioned_.deleter = [](DLManagedTensorVersioned*) { ++dlpack_deleted; };
    versioned_.flags = 1;
    versioned_.dl_tensor = {dlpack_data, {1, 0}, 2, {2, 32, 1}, dims_, nullptr, 0};
    plain_.deleter = [](DLManagedTensor*) { ++dlpack_deleted; };
    plain_.dl_tensor = versioned_.dl_tensor;
  }
  std::vector<float> read(plm_buffer* buffer) {
    std::vector<float> values(plm_buffer_byte_size(buffer) / sizeof(float));
    EXPECT_EQ(take(plm_buffer_read(buffer, values.data(), values.size() * sizeof(float))).code,
              PLM_OK);
    return values;
  }
  std::int64_t used() {
    plm_memory_statistics statistics = {};
    statistics.struct_size = sizeof statistics;
    plm_context_memory(context_.get(), &statistics);
    return statistics.used_bytes;
  }

  ContextHandle context_;
  std::int64_t dims_[2] = {3, 4};
  DLManagedTensorVersioned versioned_ = {};
  DLManagedTensor plain_ = {};
};

TEST_F(Dlpack, TakesTensorsInPlaceAndGivesThemBackOnce) {
  const bool in_place = plm_context_is_host_memory(context_.get()) != 0;
  for (const bool versioned : {true, false}) {
    dlpack_deleted = 0;
    plm_buffer* buffer = nullptr;
    const Outcome outcome =
        take(versioned ? plm_buffer_from_dlpack_versioned(context_.get(), &versioned_, &buffer)
                       : plm_buffer_from_dlpack(context_.get(), &plain_, &buffer));
    ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
    EXPECT_EQ(plm_buffer_dtype(buffer), PLM_F32);
    EXPECT_EQ(plm_buffer_rank(buffer), 2U);
    EXPECT_EQ(plm_buffer_dims(buffer)[1], 4);
    EXPECT_EQ(read(buffer), std::vector<float>(dlpack_data, dlpack_data + 12));
    EXPECT_EQ(used(), 64);
    EXPECT_EQ(dlpack_deleted, in_place ? 0 : 1);
    plm_buffer_release(buffer);
    EXPECT_EQ(dlpack_deleted, 1);
    EXPECT_EQ(used(), 0);
  }
}

TEST_F(Dlpack, CopiesWhatHasStridesOrAnOffset) {
  // The transpose of a part: two columns from the second on.
  std::int64_t dims[2] = {2, 3}, strides[2] = {1, 4};
  versioned_.dl_tensor.shape = dims;
  versioned_.dl_tensor.strides = strides;
  versioned_.dl_tensor.byte_offset = 4;
  plm_buffer* buffer = nullptr;
  ASSERT_EQ(take(plm_buffer_from_dlpack_versioned(context_.get(), &versioned_, &buffer)).code,
            PLM_OK);
  EXPECT_EQ(dlpack_deleted, 1);
  EXPECT_EQ(read(buffer), (std::vector<float>{1, 5, 9, 2, 6, 10}));
  plm_buffer_release(buffer);
  EXPECT_EQ(dlpack_deleted, 1);
}

TEST_F(Dlpack, LeavesWithTheCallerWhatItRefuses) {
  const auto refused = [&](plm_code code) {
    plm_buffer* buffer = nullptr;
    const Outcome outcome =
        take(plm_buffer_from_dlpack_versioned(context_.get(), &versioned_, &buffer));
    EXPECT_EQ(outcome.code, code) << outcome.message;
    EXPECT_EQ(outcome.message.rfind("dlpack: ", 0), 0U) << outcome.message;
    EXPECT_EQ(dlpack_deleted, 0);
  };
  versioned_.version.major = 2;
  refused(PLM_INVALID_ARGUMENT);
  versioned_.version.major = 1;
  versioned_.dl_tensor.device = {2, 7};  // a GPU that is not the context's
  refused(PLM_UNIMPLEMENTED);
  versioned_.dl_tensor.device = {1, 0};
  versioned_.dl_tensor.dtype = {3, 64, 1};
  refused(PLM_UNIMPLEMENTED);
  versioned_.dl_tensor.dtype = {2, 32, 4};
  refused(PLM_INVALID_ARGUMENT);
  versioned_.dl_tensor.dtype = {2, 32, 1};
  versioned_.dl_tensor.ndim = -1;
  refused(PLM_INVALID_ARGUMENT);
  versioned_.dl_tensor.ndim = PLM_MAX_RANK + 1;
  refused(PLM_INVALID_ARGUMENT);
  versioned_.dl_tensor.ndim = 2;
  std::int64_t dims[2] = {3, -4}, strides[2] = {1, std::int64_t{1} << 61};
  versioned_.dl_tensor.shape = dims;
  refused(PLM_INVALID_ARGUMENT);
  dims[0] = dims[1] = std::int64_t{1} << 40;
  refused(PLM_INVALID_ARGUMENT);
  versioned_.dl_tensor.shape = dims_;
  versioned_.dl_tensor.strides = strides;
  refused(PLM_INVALID_ARGUMENT);
  versioned_.dl_tensor.strides = nullptr;
  versioned_.dl_tensor.byte_offset = ~std::uint64_t{0} - 3;
  refused(PLM_INVALID_ARGUMENT);
  versioned_.dl_tensor.byte_offset = 0;
  EXPECT_EQ(take(plm_buffer_from_dlpack(nullptr, &plain_, nullptr)).code, PLM_INVALID_ARGUMENT);
  // A limit that has no room.
  versioned_.dl_tensor.ndim = 2;
  plm_context_set_limit(context_.get(), 16);
  plm_buffer* buffer = nullptr;
  EXPECT_EQ(take(plm_buffer_from_dlpack_versioned(context_.get(), &versioned_, &buffer)).code,
            PLM_RESOURCE_EXHAUSTED);
  EXPECT_EQ(dlpack_deleted, 0);
}

TEST_F(Dlpack, GivesBuffersThatStayUntilTheirDeleterIsCalled) {
  const bool is_on_host = plm_context_is_host_memory(context_.get()) != 0;
  plm_buffer* buffer = nullptr;
  ASSERT_EQ(
      take(plm_buffer_from_host(context_.get(), PLM_F32, dims_, 2, dlpack_data, nullptr, &buffer))
          .code,
      PLM_OK);
  DLManagedTensor* plain = nullptr;
  DLManagedTensorVersioned* versioned = nullptr;
  ASSERT_EQ(take(plm_buffer_to_dlpack(context_.get(), buffer, &plain)).code, PLM_OK);
  ASSERT_EQ(take(plm_buffer_to_dlpack_versioned(context_.get(), buffer, &versioned)).code, PLM_OK);
  plm_buffer_release(buffer);
  EXPECT_EQ(versioned->version.major, 1U);
  EXPECT_EQ(versioned->flags & 1, 1U);
  for (const DLTensor* tensor : {&plain->dl_tensor, &versioned->dl_tensor}) {
    EXPECT_EQ(tensor->device.device_type, is_on_host ? 1 : 2);
    EXPECT_EQ(tensor->device.device_id, 0);
    ASSERT_EQ(tensor->ndim, 2);
    EXPECT_EQ(tensor->shape[0], 3);
    EXPECT_EQ(tensor->strides[0], 4);
    EXPECT_EQ(tensor->dtype.code, 2);
    EXPECT_EQ(tensor->dtype.bits, 32);
    if (is_on_host) {
      EXPECT_EQ(std::memcmp(tensor->data, dlpack_data, sizeof dlpack_data), 0);
    }
  }
  EXPECT_EQ(used(), 64);
  plain->deleter(plain);
  EXPECT_EQ(used(), 64);
  // There and back again, in place.
  plm_buffer* again = nullptr;
  ASSERT_EQ(take(plm_buffer_from_dlpack_versioned(context_.get(), versioned, &again)).code, PLM_OK);
  EXPECT_EQ(read(again), std::vector<float>(dlpack_data, dlpack_data + 12));
  plm_buffer_release(again);
  EXPECT_EQ(used(), 0);

  std::uint8_t packed[2] = {0x21, 0x43};
  std::int64_t four[1] = {4};
  ASSERT_EQ(
      take(plm_buffer_from_host(context_.get(), PLM_S4, four, 1, packed, nullptr, &buffer)).code,
      PLM_OK);
  EXPECT_EQ(take(plm_buffer_to_dlpack(context_.get(), buffer, &plain)).code, PLM_UNIMPLEMENTED);
  plm_buffer_release(buffer);
}

// Between two contexts of one GPU, as between libraries.
TEST_F(Dlpack, SharesAGpusMemory) {
  if (plm_context_is_host_memory(context_.get()) != 0) GTEST_SKIP() << "the device is the host";
  plm_context* second = nullptr;
  ASSERT_EQ(take(plm_context_create(nullptr, &second)).code, PLM_OK);
  const ContextHandle other(second);
  const auto exported = [&](plm_dtype dtype, const void* data, DLManagedTensorVersioned** out) {
    plm_buffer* buffer = nullptr;
    ASSERT_EQ(
        take(plm_buffer_from_host(context_.get(), dtype, dims_, 2, data, nullptr, &buffer)).code,
        PLM_OK);
    const Outcome made = take(plm_buffer_to_dlpack_versioned(context_.get(), buffer, out));
    ASSERT_EQ(made.code, PLM_OK) << made.message;
    plm_buffer_release(buffer);
  };
  const auto imported = [&](DLManagedTensorVersioned* tensor) {
    plm_buffer* buffer = nullptr;
    const Outcome made = take(plm_buffer_from_dlpack_versioned(second, tensor, &buffer));
    EXPECT_EQ(made.code, PLM_OK) << made.message;
    return buffer;
  };
  DLManagedTensorVersioned* tensor = nullptr;
  exported(PLM_F32, dlpack_data, &tensor);
  plm_buffer* buffer = imported(tensor);
  EXPECT_EQ(read(buffer), std::vector<float>(dlpack_data, dlpack_data + 12));
  void* address = nullptr;
  plm_hold* hold = nullptr;
  ASSERT_EQ(take(plm_buffer_hold(buffer, &address, &hold)).code, PLM_OK);
  EXPECT_EQ(address, tensor->dl_tensor.data);
  EXPECT_EQ(used(), 64);
  plm_buffer_release(buffer);
  EXPECT_EQ(used(), 64);
  plm_hold_release(hold);
  EXPECT_EQ(used(), 0);

  // Columns from the second on, turned; neither dense nor in place.
  exported(PLM_F32, dlpack_data, &tensor);
  std::int64_t dims[2] = {2, 3}, strides[2] = {1, 4};
  tensor->dl_tensor.shape = dims;
  tensor->dl_tensor.strides = strides;
  tensor->dl_tensor.byte_offset = 4;
  buffer = imported(tensor);
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(read(buffer), (std::vector<float>{1, 5, 9, 2, 6, 10}));
  plm_buffer_release(buffer);

  const std::uint8_t truths[12] = {0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1};
  exported(PLM_PRED, truths, &tensor);
  buffer = imported(tensor);
  std::uint8_t found[12] = {};
  ASSERT_EQ(take(plm_buffer_read(buffer, found, sizeof found)).code, PLM_OK);
  EXPECT_EQ(std::memcmp(found, truths, sizeof found), 0);
  plm_buffer_release(buffer);
  EXPECT_EQ(used(), 0);
}

}  // namespace
}  // namespace plimsoll::testing
