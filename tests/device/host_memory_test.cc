// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace plimsoll::device {
namespace {

constexpr std::int64_t kMebibyte = 1 << 20;

// The files of a machine with 1,024 MiB, of which 600 are free.
class HostMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() /
            ("plimsoll_host_memory_" + std::to_string(getpid()));
    write("proc/meminfo", "MemTotal:  1048576 kB\nMemFree: 1 kB\nMemAvailable: 614400 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(std::string_view path, std::string_view text) {
    const auto file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void group(const std::string& folder, const std::string& limit, std::int64_t used,
             std::int64_t cache, bool second_version) {
    const std::string at = "sys/fs/cgroup" + folder + "/";
    write(at + (second_version ? "memory.max" : "memory.limit_in_bytes"), limit + "\n");
    write(at + (second_version ? "memory.current" : "memory.usage_in_bytes"),
          std::to_string(used) + "\n");
    write(at + "memory.stat", "anon 5\n" + std::string(second_version ? "" : "total_") +
                                  "inactive_file " + std::to_string(cache) + "\n");
  }
  void expect(std::int64_t total, std::int64_t free) const {
    const HostMemory memory = host_memory(root_);
    EXPECT_EQ(memory.total_bytes, total * kMebibyte);
    EXPECT_EQ(memory.free_bytes, free * kMebibyte);
  }

  std::filesystem::path root_;
};

TEST_F(HostMemoryTest, IsTheMachinesWithoutGroups) {
  expect(1024, 600);
  write("proc/self/cgroup", "nonsense\n0\n::\n");
  expect(1024, 600);
}

TEST_F(HostMemoryTest, IsWhatAGroupOfTheSecondVersionMayUse) {
  write("proc/self/cgroup", "0::/a/b\n");
  group("/a/b", std::to_string(256 * kMebibyte), 100 * kMebibyte, 40 * kMebibyte, true);
  expect(256, 196);
  group("/a/b", "max", 100 * kMebibyte, 40 * kMebibyte, true);
  expect(1024, 600);
}

TEST_F(HostMemoryTest, IsLimitedByEveryGroupAbove) {
  write("proc/self/cgroup", "0::/a/b\n");
  group("/a/b", std::to_string(256 * kMebibyte), 10 * kMebibyte, 0, true);
  group("/a", std::to_string(512 * kMebibyte), 500 * kMebibyte, 0, true);
  expect(256, 12);
  group("/a", std::to_string(128 * kMebibyte), 200 * kMebibyte, 0, true);
  expect(128, 0);
}

TEST_F(HostMemoryTest, IsWhatAGroupOfTheFirstVersionMayUse) {
  write("proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/x\n0::/\n");
  group("/memory/x", std::to_string(300 * kMebibyte), 200 * kMebibyte, 300 * kMebibyte, false);
  expect(300, 300);
  // What version 1 writes for no limit.
  group("/memory/x", "9223372036854771712", 200 * kMebibyte, 0, false);
  expect(1024, 600);
}

// The name is that outside of the container, whose group is mounted as the root.
TEST_F(HostMemoryTest, FindsTheGroupOfAContainerAtTheRoot) {
  write("proc/self/cgroup", "4:memory:/docker/ab12\n");
  group("/memory", std::to_string(64 * kMebibyte), 16 * kMebibyte, 0, false);
  expect(64, 48);
  write("proc/self/cgroup", "0::/docker/ab12\n");
  group("", std::to_string(128 * kMebibyte), 16 * kMebibyte, 0, true);
  expect(128, 112);
}

TEST(HostMemory, OfThisMachineIsThere) {
  const HostMemory memory = host_memory();
  EXPECT_GT(memory.total_bytes, 0);
  EXPECT_GE(memory.free_bytes, 0);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
}

}  // namespace
}  // namespace plimsoll::device
