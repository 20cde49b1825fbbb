// SPDX-License-Identifier: Apache-2.0
// Sandboxes that take io_uring away: spill files go on by blocking calls.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <thread>

#include "tests/memory/tier_transfers.h"

namespace plimsoll::memory {
namespace {

// Makes a system call fail with `error` on this thread and those that it starts from now on.
bool refuse(unsigned call, unsigned error) {
  std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void expect_transfers(SpillFile& file) {
  const auto block = file.allocate(4 * kMiB, "x");
  ASSERT_TRUE(block.ok()) << block.status().to_string();
  const Bytes bytes = random_bytes(3 * kMiB + 100, 1);
  Bytes back(bytes.size());
  for (int round = 0; round < 2; ++round) {
    Status status = store(file, **block, 64, bytes);
    ASSERT_TRUE(status.ok()) << status.to_string();
    status = load(file, **block, 64, back);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(back == bytes);
  }
}

struct Refusal {
  const char* name;
  unsigned call, error;
};

class RingRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(RingRefusal, FromTheStartMeansBlockingCalls) {
  const Folder folder;
  bool refused = false;
  std::thread([&] {
    refused = refuse(GetParam().call, GetParam().error);
    if (!refused) return;
    const auto file = spill_file(folder, 8 * kMiB);
    EXPECT_EQ(file->io_name(), "pread and pwrite");
    expect_transfers(*file);
  }).join();
  if (!refused) GTEST_SKIP() << "may not filter system calls here";
}

TEST_P(RingRefusal, UnderWayMeansBlockingCallsFromThenOn) {
  const Folder folder;
  bool refused = false;
  std::thread([&] {
    const auto file = spill_file(folder, 8 * kMiB);
    refused = refuse(GetParam().call, GetParam().error);
    if (refused) expect_transfers(*file);  // by threads that are started here
  }).join();
  if (!refused) GTEST_SKIP() << "may not filter system calls here";
}

INSTANTIATE_TEST_SUITE_P(Calls, RingRefusal,
                         ::testing::Values(Refusal{"SetupUnknown", SYS_io_uring_setup, ENOSYS},
                                           Refusal{"SetupForbidden", SYS_io_uring_setup, EPERM},
                                           Refusal{"EnterForbidden", SYS_io_uring_enter, EPERM}),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace plimsoll::memory
