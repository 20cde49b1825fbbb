// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/libraries/cublaslt.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/device/cuda/libraries/library_file.h"
#include "tests/device/cuda/recording_cublaslt.h"

namespace plimsoll::device::cuda {
namespace {

TEST(Cublaslt, ALibraryThatIsMissingIsNamedWithTheRemedy) {
  const char* const names[] = {"libnowhere_to_be_found.so.13", "libnowhere_either.so"};
  const auto file = open_library(names, "/nowhere:/nowhere_else");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::not_found);
  EXPECT_NE(file.status().message().find("/nowhere/libnowhere_to_be_found.so.13"),
            std::string::npos)
      << file.status().message();
  // There is no driver so old.
  const auto library = open_cublaslt(1000, "");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), StatusCode::not_found);
  EXPECT_NE(library.status().message().find("PLIMSOLL_CUDA_LIBRARIES"), std::string::npos);
}

TEST(Cublaslt, AFileIsLookedForInFoldersFirstAndThenByTheLoader) {
  const char* const names[] = {"libm.so.6"};
  const auto file = open_library(names, "/nowhere");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->name, "libm.so.6");
  const char* const symbols[] = {"cos", "cublasLtCreate"};
  void* table[2] = {};
  const Status read = read_symbols(*file, symbols, table);
  EXPECT_EQ(read.code(), StatusCode::not_found);
  EXPECT_EQ(read.message(), "libm.so.6 has no cublasLtCreate");
  EXPECT_NE(table[0], nullptr);
}

TEST(Cublaslt, ErrorsNameTheCallTheCodeAndTheText) {
  RecordingDriver driver;
  RecordingCublaslt recording(driver);
  const Cublaslt& table = recording.table();
  EXPECT_EQ(failure(table, BlasResult::alloc_failed, "cublasLtCreate").to_string(),
            "RESOURCE_EXHAUSTED: cublasLtCreate: CUBLAS_STATUS_ALLOC_FAILED (3): as the recording "
            "library has it");
  EXPECT_EQ(failure(table, BlasResult::not_supported, "x").code(), StatusCode::unimplemented);
  EXPECT_EQ(failure(table, BlasResult::invalid_value, "x").code(), StatusCode::internal);
  EXPECT_EQ(failure(table, BlasResult::execution_failed, "x").code(), StatusCode::unavailable);
}

TEST(Cublaslt, TheTableIsWhole) {
  RecordingDriver driver;
  const RecordingCublaslt recording(driver);
  const Cublaslt& table = recording.table();
  int rows = 0;
#define PLIMSOLL_CUBLASLT_CALL(result, member, symbol, parameters)                        \
  EXPECT_NE(table.member, nullptr) << #symbol;                                            \
  EXPECT_EQ(cublaslt_symbol_at(sizeof(void*) * static_cast<std::size_t>(rows)), #symbol); \
  ++rows;
#include "runtime/device/cuda/libraries/cublaslt.def"
#undef PLIMSOLL_CUBLASLT_CALL
  EXPECT_EQ(rows, 17);
}

// Where it is installed; nothing of it needs a GPU until there is a handle.
TEST(Cublaslt, TheMachinesLibraryHasEveryFunctionAndTakesDescriptors) {
  const auto found = open_cublaslt(99000, "");
  if (!found.ok()) GTEST_SKIP() << found.status().message();
  const Cublaslt& library = *found->functions;
  EXPECT_TRUE(found->name.starts_with("cuBLASLt 1")) << found->name;
  EXPECT_GE(library.get_runtime_version(), 11000U);
  EXPECT_STREQ(library.get_status_name(BlasResult::alloc_failed), "CUBLAS_STATUS_ALLOC_FAILED");
  BlasLayout layout = nullptr;
  ASSERT_EQ(library.layout_create(&layout, BlasType::bf16, 8, 4, 16), BlasResult::success);
  const std::int32_t count = 3;
  EXPECT_EQ(library.layout_set(layout, BlasLayoutAttribute::batch_count, &count, sizeof(count)),
            BlasResult::success);
  EXPECT_EQ(library.layout_destroy(layout), BlasResult::success);
  BlasOperation operation = nullptr;
  ASSERT_EQ(library.operation_create(&operation, BlasCompute::f32, BlasType::f32),
            BlasResult::success);
  const BlasTranspose transposed = BlasTranspose::transposed;
  EXPECT_EQ(library.operation_set(operation, BlasOperationAttribute::transpose_b, &transposed,
                                  sizeof(transposed)),
            BlasResult::success);
  EXPECT_EQ(library.operation_destroy(operation), BlasResult::success);
  BlasPreference preference = nullptr;
  ASSERT_EQ(library.preference_create(&preference), BlasResult::success);
  const std::uint64_t implementations = ~kBlasImplementationReadsTf32;
  EXPECT_EQ(library.preference_set(preference, BlasPreferenceAttribute::implementations,
                                   &implementations, sizeof(implementations)),
            BlasResult::success);
  EXPECT_EQ(library.preference_destroy(preference), BlasResult::success);
}

}  // namespace
}  // namespace plimsoll::device::cuda
