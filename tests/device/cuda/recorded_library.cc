// SPDX-License-Identifier: Apache-2.0
// The recording driver as a libcuda.so.1: programs that find it first (LD_LIBRARY_PATH) see a GPU
// that works late, whose memory the host can't reach into, and that loads no code, so that every
// operation runs on the host in the stream's order. What was against the driver's contract is said
// on standard error when the process ends, and makes it fail.
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/device/cuda/recording_driver.h"

namespace plimsoll::device::cuda {
namespace {

constexpr int kAgainstTheContract = 97;

RecordingDriver& recorded_driver();

void report() {
  const RecordingDriver& driver = recorded_driver();
  std::string found;
  for (const std::string& violation : driver.violations()) found += "libcuda: " + violation + "\n";
  if (const std::int64_t pieces = driver.pending(); pieces > 0) {
    found += "libcuda: " + std::to_string(pieces) + " pieces of work were not waited for\n";
  }
  if (found.empty()) return;
  std::fputs(found.c_str(), stderr);
  std::fflush(nullptr);
  _exit(kAgainstTheContract);
}

RecordingDriver& recorded_driver() {
  static auto* const driver = [] {
    RecordingOptions options;
    options.devices = 2;
    options.device_bytes = std::int64_t{16} << 30;
    options.module_bytes = 0;
    options.unknown_module = DriverResult::no_binary_for_gpu;
    const char* const schedule = std::getenv("RECORDED_SCHEDULE");
    if (schedule != nullptr && std::string(schedule) == "random") {
      options.schedule = Schedule::random;
    }
    std::atexit(report);
    return new RecordingDriver(options);  // threads may use it to the end
  }();
  return *driver;
}

}  // namespace
}  // namespace plimsoll::device::cuda

// The driver's functions are found when they are looked up, each with the table's parameters.
#define PLIMSOLL_CUDA_CALL(member, symbol, parameters)                                             \
  extern "C" void (*recorded_##symbol())() {                                                       \
    return reinterpret_cast<void (*)()>(plimsoll::device::cuda::recorded_driver().table().member); \
  }                                                                                                \
  extern "C" __attribute__((visibility("default"), ifunc("recorded_" #symbol))) void symbol();
#include "runtime/device/cuda/driver.def"
#undef PLIMSOLL_CUDA_CALL
