// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "runtime/base/file.h"
#include "runtime/base/mapped_file.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

class AtomicFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::temp_directory_path() / "plimsoll_atomic_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/file";
  }
  void TearDown() override { fs::remove_all(folder_); }
  static Status write(const std::string& path, const std::string& text) {
    const std::span<const std::byte> all = std::as_bytes(std::span(text));
    const std::size_t half = all.size() / 2;
    const std::span<const std::byte> pieces[] = {all.first(half), all.subspan(half)};
    return write_atomically(path, pieces);
  }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder_), {}); }

  std::string folder_, path_;
};

TEST_F(AtomicFile, IsWrittenAndReplaced) {
  for (const std::string& text : {std::string("first"), std::string(), std::string(100000, 'x')}) {
    ASSERT_TRUE(write(path_, text).ok());
    EXPECT_EQ(*read_file(path_), text);
    const auto mapped = MappedFile::open(path_);
    ASSERT_TRUE(mapped.ok());
    EXPECT_EQ((*mapped)->bytes(), text);
  }
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFile, AWriterThatIsKilledLeavesTheOldFileOrTheNew) {
  const std::string contents[] = {std::string(300000, 'a'), std::string(500000, 'b')};
  ASSERT_TRUE(write(path_, contents[0]).ok());
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    const pid_t writer = ::fork();
    if (writer == 0) {
      for (int i = 0;; ++i) (void)write(path_, contents[i % 2]);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    const std::string now = *read_file(path_);
    ASSERT_TRUE(now == contents[0] || now == contents[1]) << now.size() << " bytes";
  }
}

TEST_F(AtomicFile, WhatCannotBeWrittenLeavesNothingBehind) {
  ASSERT_TRUE(write(path_, "old").ok());
  const pid_t writer = ::fork();
  if (writer == 0) {
    // Files of this process end there, as on a disk that is full.
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
    ::_exit(write(path_, std::string(5000, 'x')).code() == StatusCode::unavailable ? 0 : 1);
  }
  int status = 0;
  ::waitpid(writer, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*read_file(path_), "old");
  EXPECT_EQ(files(), 1);
  const Status refused = write(folder_ + "/none/file", "x");
  EXPECT_EQ(refused.code(), StatusCode::unavailable);
  EXPECT_NE(refused.message().find("/none/file: cannot be written (No such file"),
            std::string::npos);
  // A folder can't be replaced.
  fs::create_directory(folder_ + "/sub");
  EXPECT_EQ(write(folder_ + "/sub", "x").code(), StatusCode::unavailable);
  EXPECT_EQ(files(), 2);
}

TEST_F(AtomicFile, ALinkIsReplacedAndNotFollowed) {
  ASSERT_TRUE(write(folder_ + "/target", "target").ok());
  fs::create_symlink(folder_ + "/target", path_);
  ASSERT_TRUE(write(path_, "new").ok());
  EXPECT_EQ(*read_file(folder_ + "/target"), "target");
  EXPECT_FALSE(fs::is_symlink(path_));
}

TEST_F(AtomicFile, WhatIsNoFileIsNotMapped) {
  for (const std::string& path : {folder_, folder_ + "/none", std::string("/dev/null")}) {
    EXPECT_EQ(MappedFile::open(path).status().code(), StatusCode::not_found) << path;
  }
}

}  // namespace
}  // namespace plimsoll
