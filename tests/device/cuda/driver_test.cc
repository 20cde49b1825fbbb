// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/driver.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/device/cuda/cuda_devices.h"
#include "runtime/device/devices.h"
#include "tests/device/cuda/recording_driver.h"

namespace plimsoll::device::cuda {
namespace {

TEST(CudaDriver, ALibraryThatIsMissingIsNamedWithTheRemedy) {
  const auto driver = open_driver("libnowhere_to_be_found.so.1");
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.status().code(), StatusCode::not_found);
  EXPECT_NE(driver.status().message().find("libnowhere_to_be_found.so.1"), std::string::npos);
  EXPECT_NE(driver.status().message().find("driver"), std::string::npos);
}

TEST(CudaDriver, ALibraryWithoutAFunctionIsTooOld) {
  const auto driver = open_driver("libm.so.6");
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.status().code(), StatusCode::not_found);
  EXPECT_EQ(driver.status().message(),
            "libm.so.6 has no cuGetErrorName (install a driver of CUDA 11.4 or newer)");
}

TEST(CudaDriver, ErrorsNameTheCallTheCodeAndTheText) {
  const RecordingDriver recording;
  const Driver& table = recording.table();
  DeviceHandle handle = 0;
  const Status status = call(table, &Driver::device_get, &handle, 7);
  EXPECT_EQ(status.message(), "cuDeviceGet: unknown error (101): as the recording driver has it");
  EXPECT_EQ(failure(table, DriverResult::out_of_memory, "cuMemCreate").to_string(),
            "RESOURCE_EXHAUSTED: cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
  EXPECT_EQ(failure(table, DriverResult::not_supported, "x").code(), StatusCode::unimplemented);
  EXPECT_EQ(failure(table, DriverResult::invalid_ptx, "x").code(), StatusCode::internal);
  EXPECT_EQ(failure(table, DriverResult::launch_failed, "x").code(), StatusCode::unavailable);
}

TEST(CudaDriver, TheTableIsWhole) {
  const RecordingDriver recording;
  const Driver& table = recording.table();
  int rows = 0;
#define PLIMSOLL_CUDA_CALL(member, symbol, parameters)                                      \
  EXPECT_NE(table.member, nullptr) << #symbol;                                              \
  EXPECT_EQ(symbol_at(sizeof(void*) * static_cast<std::size_t>(rows)), #symbol) << #member; \
  ++rows;
#include "runtime/device/cuda/driver.def"
#undef PLIMSOLL_CUDA_CALL
  EXPECT_GT(rows, 40);
}

TEST(CudaDevices, NamesOfAnotherFormAreRefused) {
  for (const char* const name : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda0"}) {
    EXPECT_EQ(open_device(name).status().code(), StatusCode::invalid_argument) << name;
    const auto device = find_device(name);
    ASSERT_FALSE(device.ok()) << name;
    EXPECT_EQ(device.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(device.status().message().find("cuda:0, cuda:1"), std::string::npos);
  }
}

// On every machine either one of them holds.
// "cuda" is the GPU that a launcher means for the process.
TEST(CudaDevices, AreFoundByTheNumberOfTheProcess) {
  ::setenv("LOCAL_RANK", "4711", 1);
  const auto device = find_device("cuda");
  ::unsetenv("LOCAL_RANK");
  EXPECT_EQ(device.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(device.status().message().find("device: 'cuda:4711'"), std::string::npos)
      << device.status().message();
  EXPECT_EQ(find_device("cuda").ok(), find_device("cuda:0").ok());
}

TEST(CudaDevices, WhatIsNotThereSaysWhyAndIsNeverAnError) {
  const auto listed = list_devices();
  ASSERT_FALSE(listed.empty());
  if (!listed[0].is_there) {
    EXPECT_EQ(listed.size(), 1u);
    EXPECT_EQ(listed[0].name, "cuda");
    const auto device = open_device("cuda:0");
    EXPECT_EQ(device.status().code(), StatusCode::not_found);
    EXPECT_EQ(device.status().message(), listed[0].about);
  } else {
    EXPECT_EQ(listed[0].name, "cuda:0");
  }
  EXPECT_FALSE(listed[0].about.empty());
  EXPECT_FALSE(open_device("cuda:4000").ok());
  EXPECT_EQ(device::list_devices()[0].name, "cpu");
}

}  // namespace
}  // namespace plimsoll::device::cuda
