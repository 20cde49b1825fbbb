// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/device/cpu/cpu_device.h"

namespace plimsoll::device {
namespace {

TEST(ParallelFor, VisitsEveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    set_thread_count(threads);
    std::vector<std::atomic<int>> visits(10'007);
    parallel_for(static_cast<std::int64_t>(visits.size()), 64,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
                 });
    for (const auto& count : visits) EXPECT_EQ(count.load(), 1);
  }
}

TEST(ParallelFor, SmallRangesStayOnTheCallingThread) {
  const auto caller = std::this_thread::get_id();
  bool same = false;
  parallel_for(10, 10, [&](std::int64_t begin, std::int64_t end) {
    same = begin == 0 && end == 10 && std::this_thread::get_id() == caller;
  });
  EXPECT_TRUE(same);
}

TEST(CpuDevice, CopiesLargeBuffersWhole) {
  const auto device = cpu_device();
  const std::int64_t bytes = (std::int64_t{9} << 20) + 13;
  auto from = device->allocate(bytes);
  auto to = device->allocate(bytes);
  ASSERT_TRUE(from.ok() && to.ok());
  auto* source = static_cast<unsigned char*>(*from);
  for (std::int64_t i = 0; i < bytes; ++i)
    source[i] = static_cast<unsigned char>(i * 31 + (i >> 9));
  auto stream = device->create_stream();
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE((*stream)->copy(*to, *from, bytes, CopyKind::device_to_device).ok());
  ASSERT_TRUE((*stream)->synchronize().ok());
  EXPECT_TRUE(std::equal(source, source + bytes, static_cast<unsigned char*>(*to)));
  device->deallocate(*from, bytes);
  device->deallocate(*to, bytes);
}

}  // namespace
}  // namespace plimsoll::device
