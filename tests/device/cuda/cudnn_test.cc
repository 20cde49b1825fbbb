// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/libraries/cudnn.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/device/cuda/recording_cudnn.h"

namespace plimsoll::device::cuda {
namespace {

TEST(Cudnn, ALibraryThatIsMissingIsNamedWithTheRemedy) {
  // There is no driver so old.
  const auto library = open_cudnn(1000, "/nowhere");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), StatusCode::not_found);
  EXPECT_NE(library.status().message().find("PLIMSOLL_CUDA_LIBRARIES"), std::string::npos);
}

TEST(Cudnn, ErrorsNameTheCallTheCodeAndTheText) {
  RecordingDriver driver;
  const RecordingCudnn recording(driver);
  const Cudnn& table = recording.table();
  EXPECT_EQ(failure(table, DnnResult::device_allocation_failed, "cudnnCreate").to_string(),
            "RESOURCE_EXHAUSTED: cudnnCreate: as the recording library has it (4004)");
  // Whatever there is of a kind.
  EXPECT_EQ(failure(table, static_cast<DnnResult>(3007), "x").code(), StatusCode::unimplemented);
  EXPECT_EQ(failure(table, static_cast<DnnResult>(2008), "x").code(), StatusCode::internal);
  EXPECT_EQ(failure(table, DnnResult::execution_failed, "x").code(), StatusCode::unavailable);
}

TEST(Cudnn, TheTableIsWhole) {
  RecordingDriver driver;
  const RecordingCudnn recording(driver);
  const Cudnn& table = recording.table();
  int rows = 0;
#define PLIMSOLL_CUDNN_CALL(result, member, symbol, parameters)                        \
  EXPECT_NE(table.member, nullptr) << #symbol;                                         \
  EXPECT_EQ(cudnn_symbol_at(sizeof(void*) * static_cast<std::size_t>(rows)), #symbol); \
  ++rows;
#include "runtime/device/cuda/libraries/cudnn.def"
#undef PLIMSOLL_CUDNN_CALL
  EXPECT_EQ(rows, 26);
}

// Where it is installed; nothing of it needs a GPU until there is a handle.
TEST(Cudnn, TheMachinesLibraryHasEveryFunctionAndTakesDescriptors) {
  const auto found = open_cudnn(99000, "");
  if (!found.ok()) GTEST_SKIP() << found.status().message();
  const Cudnn& library = *found->functions;
  EXPECT_TRUE(found->name.starts_with("cuDNN 9.")) << found->name;
  DnnTensor tensor = nullptr;
  ASSERT_EQ(library.tensor_create(&tensor), DnnResult::success);
  const int dims[] = {2, 8, 5, 5}, strides[] = {200, 1, 40, 8};
  EXPECT_EQ(library.tensor_set(tensor, DnnType::bf16, 4, dims, strides), DnnResult::success);
  EXPECT_EQ(library.tensor_destroy(tensor), DnnResult::success);
  DnnFilter filter = nullptr;
  ASSERT_EQ(library.filter_create(&filter), DnnResult::success);
  EXPECT_EQ(library.filter_set(filter, DnnType::bf16, DnnFormat::channels_last, 4, dims),
            DnnResult::success);
  EXPECT_EQ(library.filter_destroy(filter), DnnResult::success);
  DnnConvolution convolution = nullptr;
  ASSERT_EQ(library.convolution_create(&convolution), DnnResult::success);
  const int ones[] = {1, 1};
  EXPECT_EQ(library.convolution_set(convolution, 2, ones, ones, ones, DnnMode::cross_correlation,
                                    DnnType::f32),
            DnnResult::success);
  EXPECT_EQ(library.convolution_set_math(convolution, DnnMath::no_tensor_cores),
            DnnResult::success);
  EXPECT_EQ(library.convolution_set_groups(convolution, 2), DnnResult::success);
  EXPECT_EQ(library.convolution_destroy(convolution), DnnResult::success);
}

}  // namespace
}  // namespace plimsoll::device::cuda
