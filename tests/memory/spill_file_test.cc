// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/spill/spill_file.h"
#include "runtime/device/cpu/cpu_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/memory/tier_transfers.h"

namespace plimsoll::memory {
namespace {

using Fault = SpillFile::Fault;

// The file behind what has no name, past the spill file; for damage. The caller closes it.
int open_behind(const Folder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry, error).string();
    if (target.starts_with(folder.path() + "/")) return open(entry.path().c_str(), O_RDWR);
  }
  return -1;
}

struct Way {
  const char* name;
  SpillOptions options;
};

class SpillFileWays : public ::testing::TestWithParam<Way> {
 protected:
  std::shared_ptr<SpillFile> make(std::int64_t limit) {
    return spill_file(folder_, limit, GetParam().options);
  }
  Folder folder_;
};

TEST_P(SpillFileWays, IsAsAskedForWhereTheSystemCan) {
  const auto file = make(kMiB);
  EXPECT_TRUE(GetParam().options.ring || file->io_name() == "pread and pwrite");
  EXPECT_TRUE(GetParam().options.direct || !file->is_direct());
  if (GetParam().options.ring && file->io_name() != "io_uring") {
    GTEST_SKIP() << "no io_uring here (kernel, sandbox or build)";
  }
  if (GetParam().options.direct && !file->is_direct()) {
    GTEST_SKIP() << "the temporary folder's file system has no direct transfers";
  }
}

// Ranges of any length at any place, again and again, beside others that must stay as they are.
TEST_P(SpillFileWays, RandomRangesKeepTheirBytes) {
  const auto file = make(16 * kMiB);
  std::mt19937 random(7);
  struct Range {
    std::int64_t offset;
    Bytes bytes;
  };
  std::vector<std::unique_ptr<TierBlock>> blocks;
  std::vector<std::vector<Range>> ranges;
  for (const std::int64_t bytes : {64, 4032, 5 * (1 << 20) + 192, 3 * (1 << 20)}) {
    auto block = file->allocate(bytes, "block");
    ASSERT_TRUE(block.ok()) << block.status().to_string();
    blocks.push_back(std::move(block).value());
    std::vector<Range>& of = ranges.emplace_back();
    for (std::int64_t at = 0; at < bytes;) {
      const std::int64_t most = random() % 3 == 0 ? 3 * kMiB : 3000;
      const std::int64_t length = std::min<std::int64_t>(bytes - at, 1 + random() % most);
      of.push_back({at, Bytes(static_cast<std::size_t>(length))});
      at += (length + 63) / 64 * 64;
    }
  }
  for (int round = 0; round < 3; ++round) {
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      for (Range& range : ranges[b]) {
        if (round > 0 && random() % 2 == 0) continue;
        range.bytes = random_bytes(static_cast<std::int64_t>(range.bytes.size()), random());
        const Status status = store(*file, *blocks[b], range.offset, range.bytes);
        ASSERT_TRUE(status.ok()) << status.to_string();
      }
    }
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      for (const Range& range : ranges[b]) {
        Bytes back(range.bytes.size());
        const Status status = load(*file, *blocks[b], range.offset, back);
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_EQ(back, range.bytes) << range.offset;
      }
    }
  }
}

TEST_P(SpillFileWays, LoadsBesideStoresOfNeighbours) {
  const auto file = make(8 * kMiB);
  const auto block = file->allocate(4 * kMiB, "block");
  ASSERT_TRUE(block.ok());
  // Every range ends inside a unit of the disk that the next one begins in.
  constexpr std::int64_t kBytes = 192 * 1024 + 64;
  const Bytes kept = random_bytes(kBytes, 1), moving = random_bytes(kBytes, 2);
  for (int i = 0; i < 16; i += 2) ASSERT_TRUE(store(*file, **block, i * kBytes, kept).ok());
  Status stored;
  std::thread other([&] {
    for (int round = 0; round < 4; ++round) {
      for (int i = 1; i < 16 && stored.ok(); i += 2) {
        stored = store(*file, **block, i * kBytes, moving);
      }
    }
  });
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 16; i += 2) {
      Bytes back(kept.size());
      const Status status = load(*file, **block, i * kBytes, back);
      EXPECT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(back, kept);
    }
  }
  other.join();
  EXPECT_TRUE(stored.ok()) << stored.to_string();
}

// Memory that is aligned for the disk goes there as it is, other memory by staging buffers.
TEST_P(SpillFileWays, AlignedMemoryNeedsNoStaging) {
  const auto file = make(8 * kMiB);
  const auto block = file->allocate(4 * kMiB, "block");
  ASSERT_TRUE(block.ok());
  Bytes memory = random_bytes(4 * kMiB + 4096 + 64, 3);
  void* start = memory.data();
  std::size_t space = memory.size();
  auto* const aligned = static_cast<std::byte*>(std::align(4096, 4 * kMiB, start, space));
  const std::span<std::byte> whole(aligned, static_cast<std::size_t>(4 * kMiB));
  const Bytes before(whole.begin(), whole.end());
  ASSERT_TRUE(store(*file, **block, 0, whole).ok());
  std::fill(whole.begin(), whole.end(), std::byte{0});
  ASSERT_TRUE(load(*file, **block, 0, whole).ok());
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), before.begin()));
  EXPECT_EQ(file->statistics().staging_bytes, 0);
  const std::span<std::byte> shifted = std::span(aligned + 8, 4 * kMiB - 64);
  ASSERT_TRUE(store(*file, **block, 0, shifted).ok());
  ASSERT_TRUE(load(*file, **block, 0, shifted).ok());
  const std::int64_t staging = file->statistics().staging_bytes;
  EXPECT_EQ(staging > 0, file->is_direct());
  EXPECT_LE(staging, 16 * kMiB + 2 * 4096);
}

// For n = 1, 2, ...: an error of that transfer or the right bytes, and the next ones are right.
TEST_P(SpillFileWays, EveryFaultIsAnErrorOrChangesNothing) {
  struct Case {
    Fault fault;
    std::vector<StatusCode> codes;  // of what may come; none: it always succeeds
  };
  const std::vector<Case> cases = {
      {Fault::write, {StatusCode::unavailable}},
      {Fault::read, {StatusCode::unavailable}},
      {Fault::full_write, {StatusCode::resource_exhausted}},
      {Fault::short_write, {}},
      {Fault::short_read, {}},
      {Fault::flipped_write, {StatusCode::data_loss}},
      {Fault::flipped_bit, {StatusCode::data_loss}},
      {Fault::slow_write, {}},
      {Fault::slow_read, {}},
  };
  SpillOptions options = GetParam().options;
  options.request_bytes = 8192;
  const auto file = spill_file(folder_, kMiB, options);
  const auto block = file->allocate(kMiB, "block");
  ASSERT_TRUE(block.ok());
  const Bytes before = random_bytes(832, 1), after = random_bytes(1000, 2);
  constexpr std::int64_t kOffset = 832, kBytes = 3 * 8192 + 320;
  const auto store_all = [&](const Bytes& bytes) {
    Status status = store(*file, **block, 0, before);
    if (status.ok()) status = store(*file, **block, kOffset + kBytes, after);
    if (status.ok()) status = store(*file, **block, kOffset, bytes);
    return status;
  };
  const auto expect_all = [&](const Bytes& bytes) {
    for (const auto& [at, expected] :
         {std::pair(std::int64_t{0}, &before), {kOffset, &bytes}, {kOffset + kBytes, &after}}) {
      Bytes back(expected->size());
      const Status status = load(*file, **block, at, back);
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_TRUE(back == *expected) << at;
    }
  };
  for (const auto& [fault, codes] : cases) {
    int failures = 0;
    for (unsigned n = 1; n <= 12; ++n) {
      const Bytes bytes = random_bytes(kBytes, n);
      file->inject(fault, n);
      Status status = store_all(bytes);
      Bytes back(bytes.size());
      const bool stored = status.ok();
      if (stored) status = load(*file, **block, kOffset, back);
      file->inject(fault, 0);
      if (status.ok()) {
        // A flipped write may have hit a neighbour.
        EXPECT_TRUE(back == bytes) << static_cast<int>(fault) << " " << n;
      } else {
        ++failures;
        EXPECT_NE(std::find(codes.begin(), codes.end(), status.code()), codes.end())
            << static_cast<int>(fault) << " " << n << " " << status.to_string();
        EXPECT_NE(status.message().find(folder_.path()), std::string::npos) << status.to_string();
      }
      if (!stored) {
        EXPECT_FALSE(load(*file, **block, kOffset + kBytes, back).ok());  // of another length
      }
      ASSERT_TRUE(store_all(bytes).ok());
      expect_all(bytes);
    }
    EXPECT_EQ(failures > 0, !codes.empty()) << static_cast<int>(fault);
    EXPECT_LT(failures, 12) << static_cast<int>(fault);  // n passed the last
  }
}

// What a store reads to write it again is covered by its own range's checksum.
TEST_P(SpillFileWays, AFlippedNeighbourIsFoundByItsOwnLoad) {
  const auto file = make(kMiB);
  const auto block = file->allocate(kMiB, "block");
  ASSERT_TRUE(block.ok());
  const Bytes first = random_bytes(64, 1), second = random_bytes(64, 2);
  ASSERT_TRUE(store(*file, **block, 0, first).ok());
  file->inject(Fault::flipped_merge, 1);
  ASSERT_TRUE(store(*file, **block, 64, second).ok());
  file->inject(Fault::flipped_merge, 0);
  Bytes back(64);
  EXPECT_TRUE(load(*file, **block, 64, back).ok());
  EXPECT_EQ(back, second);
  const Status status = load(*file, **block, 0, back);
  EXPECT_EQ(status.code(), file->is_direct() ? StatusCode::data_loss : StatusCode::ok);
}

TEST_P(SpillFileWays, ABitThatFlipsOnTheDiskIsFound) {
  const auto file = make(4 * kMiB);
  const auto block = file->allocate(4 * kMiB, "block");
  ASSERT_TRUE(block.ok());
  Bytes bytes = random_bytes(3 * kMiB - 8, 1);
  ASSERT_TRUE(store(*file, **block, 64, bytes).ok());
  const int behind = open_behind(folder_);
  ASSERT_GE(behind, 0);
  for (const std::int64_t at : {std::int64_t{0}, kMiB + 77, 3 * kMiB - 9}) {
    const auto right = bytes[static_cast<std::size_t>(at)];
    const std::byte wrong = right ^ std::byte{16};
    ASSERT_EQ(pwrite(behind, &wrong, 1, 64 + at), 1);
    fsync(behind);
    Bytes back(bytes.size());
    const Status status = load(*file, **block, 64, back);
    EXPECT_EQ(status.code(), StatusCode::data_loss) << at;
    EXPECT_NE(status.message().find("have changed"), std::string::npos) << status.to_string();
    ASSERT_EQ(pwrite(behind, &right, 1, 64 + at), 1);
    fsync(behind);
    EXPECT_TRUE(load(*file, **block, 64, back).ok());
    EXPECT_TRUE(back == bytes);
  }
  close(behind);
}

TEST_P(SpillFileWays, ATruncatedFileIsFound) {
  const auto file = make(4 * kMiB);
  const auto block = file->allocate(4 * kMiB, "block");
  ASSERT_TRUE(block.ok());
  const Bytes bytes = random_bytes(4 * kMiB, 1);
  ASSERT_TRUE(store(*file, **block, 0, bytes).ok());
  const int behind = open_behind(folder_);
  ASSERT_GE(behind, 0);
  for (const std::int64_t length : {4 * kMiB - 1, 2 * kMiB, std::int64_t{100}, std::int64_t{0}}) {
    ASSERT_EQ(ftruncate(behind, length), 0);
    Bytes back(bytes.size());
    const Status status = load(*file, **block, 0, back);
    EXPECT_EQ(status.code(), StatusCode::data_loss) << length << " " << status.to_string();
    EXPECT_NE(status.message().find("ends early"), std::string::npos) << status.to_string();
  }
  close(behind);
  ASSERT_TRUE(store(*file, **block, 0, bytes).ok());
  Bytes back(bytes.size());
  ASSERT_TRUE(load(*file, **block, 0, back).ok());
  EXPECT_TRUE(back == bytes);
}

// What every refusal for want of room must be: named, with numbers, and without a trace.
void expect_refused(SpillFile& file, std::int64_t bytes, const std::string& why) {
  const std::int64_t used = file.statistics().used_bytes;
  const auto block = file.allocate(bytes, "too much");
  ASSERT_FALSE(block.ok());
  EXPECT_EQ(block.status().code(), StatusCode::resource_exhausted);
  EXPECT_NE(block.status().message().find(why), std::string::npos) << block.status().to_string();
  ASSERT_NE(block.status().shortage(), nullptr);
  EXPECT_LT(block.status().shortage()->limit_bytes, block.status().shortage()->floor_bytes);
  EXPECT_GE(block.status().shortage()->floor_bytes, bytes);
  EXPECT_EQ(file.statistics().used_bytes, used);
  const auto little = file.allocate(64, "little");
  ASSERT_TRUE(little.ok()) << little.status().to_string();
  Bytes there = random_bytes(64, 1), back(64);
  ASSERT_TRUE(store(file, **little, 0, there).ok());
  ASSERT_TRUE(load(file, **little, 0, back).ok());
  EXPECT_EQ(back, there);
}

TEST_P(SpillFileWays, AFullDiskIsRefusedBeforeAnythingIsStored) {
  const auto file = make(std::int64_t{1} << 60);
  expect_refused(*file, std::int64_t{1} << 55, "free");
  file->inject(Fault::full_disk, 1);
  expect_refused(*file, kMiB, "injected");
}

TEST_P(SpillFileWays, ALimitOfFileSizesIsRefusedWithoutASignal) {
  const auto file = make(64 * kMiB);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit low = old;
  low.rlim_cur = static_cast<rlim_t>(kMiB);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  expect_refused(*file, 2 * kMiB, "RLIMIT_FSIZE");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_TRUE(file->allocate(2 * kMiB, "again").ok());
}

// Unmounts a folder when its scope is left, however that happens.
class Mounted {
 public:
  explicit Mounted(const Folder& folder)
      : path_(folder.path()),
        is_mounted_(mount("plimsoll", path_.c_str(), "tmpfs", 0, "size=4m") == 0) {}
  ~Mounted() {
    if (is_mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return is_mounted_; }

 private:
  const std::string path_;
  const bool is_mounted_;
};

TEST_P(SpillFileWays, ASmallFileSystemIsFilledAndNoFurther) {
  const Mounted small(folder_);
  if (!small.is_mounted()) GTEST_SKIP() << "may not mount a small file system here";
  const auto file = make(64 * kMiB);
  expect_refused(*file, 5 * kMiB, "free");
  const auto block = file->allocate(4 * kMiB - 65536, "nearly all");
  ASSERT_TRUE(block.ok()) << block.status().to_string();
  expect_refused(*file, 2 * 65536, "free");
  const Bytes bytes = random_bytes(4 * kMiB - 65536, 1);
  ASSERT_TRUE(store(*file, **block, 0, bytes).ok());
  Bytes back(bytes.size());
  ASSERT_TRUE(load(*file, **block, 0, back).ok());
  EXPECT_TRUE(back == bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SpillFileWays,
    ::testing::Values(Way{"RingDirect", {.direct = true, .ring = true}},
                      Way{"RingCached", {.direct = false, .ring = true}},
                      Way{"BlockingDirect", {.direct = true, .ring = false}},
                      Way{"BlockingCached", {.direct = false, .ring = false}},
                      Way{"BlockingToDisk", {.direct = false, .ring = false, .await_disk = true}}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(SpillFile, HasNoName) {
  const Folder folder;
  const auto file = spill_file(folder, kMiB);
  const auto block = file->allocate(kMiB, "x");
  ASSERT_TRUE(block.ok());
  EXPECT_TRUE(folder.is_empty());
}

TEST(SpillFile, RefusesAFolderThatIsNotThere) {
  const auto file = SpillFile::create("/nowhere/at/all", kMiB, device::cpu_device());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(file.status().message().find("/nowhere/at/all"), std::string::npos);
  EXPECT_NE(file.status().message().find("PLIMSOLL_SPILL_DIR"), std::string::npos);
}

TEST(SpillFile, WhatWasNeverStoredCannotBeLoaded) {
  const Folder folder;
  const auto file = spill_file(folder, kMiB);
  const auto block = file->allocate(kMiB, "x");
  ASSERT_TRUE(block.ok());
  Bytes back(64);
  EXPECT_EQ(load(*file, **block, 0, back).code(), StatusCode::internal);
  file->inject(Fault::write, 1);
  EXPECT_FALSE(store(*file, **block, 0, back).ok());
  EXPECT_EQ(load(*file, **block, 0, back).code(), StatusCode::internal);
}

}  // namespace
}  // namespace plimsoll::memory
