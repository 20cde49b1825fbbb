// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/cache_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

class CacheFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "plimsoll-folder-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    base_ = name;
  }
  void TearDown() override { fs::remove_all(base_); }
  CacheFolder open() const { return std::move(*CacheFolder::open(base_ / "a" / "b", true)); }
  static StatusCode code(const fs::path& path) {
    return CacheFolder::open(path, false).status().code();
  }

  fs::path base_;
};

TEST_F(CacheFolderTest, IsMadeWithItsParentsForThisUserOnly) {
  EXPECT_EQ(code(base_ / "a" / "b"), StatusCode::not_found);
  open();
  for (const fs::path& made : {base_ / "a", base_ / "a" / "b"}) {
    EXPECT_EQ(fs::status(made).permissions() & fs::perms::all, fs::perms::owner_all);
  }
}

TEST_F(CacheFolderTest, IsRefusedWhenOthersMayWriteToIt) {
  for (const fs::perms wide : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(base_, fs::perms::owner_all | wide);
    EXPECT_EQ(code(base_), StatusCode::failed_precondition);
  }
  fs::permissions(base_, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read);
  EXPECT_EQ(code(base_), StatusCode::ok);
}

TEST_F(CacheFolderTest, IsRefusedWhenItIsAnothersOrReachedByAnothersLink) {
  fs::create_directory_symlink(base_, base_ / "link");
  EXPECT_EQ(code(base_ / "link"), StatusCode::ok) << "one's own link is fine";
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::lchown((base_ / "link").c_str(), 12345, 12345), 0);
  EXPECT_EQ(code(base_ / "link"), StatusCode::failed_precondition);
  ASSERT_EQ(::chown(base_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(code(base_), StatusCode::failed_precondition);
}

TEST_F(CacheFolderTest, WritesReplaceWholeFiles) {
  const CacheFolder folder = open();
  EXPECT_EQ(folder.read("x").status().code(), StatusCode::not_found);
  EXPECT_TRUE(folder.write("x", "one").ok());
  EXPECT_TRUE(folder.write("x", std::string("t\0wo", 4)).ok());
  EXPECT_EQ(*folder.read("x"), std::string("t\0wo", 4));
  EXPECT_EQ(folder.files().size(), 1U);
  EXPECT_EQ(folder.files()[0].bytes, 4);
}

TEST_F(CacheFolderTest, ReadersNeverSeeHalfAFile) {
  const CacheFolder folder = open();
  const std::string a(50000, 'a'), b(90000, 'b');
  ASSERT_TRUE(folder.write("x", a).ok());
  std::atomic<bool> done{false};
  std::vector<std::thread> writers;
  for (const std::string* text : {&a, &b}) {
    writers.emplace_back([&, text] {
      for (int i = 0; i < 100; ++i) EXPECT_TRUE(folder.write("x", *text).ok());
    });
  }
  std::thread reader([&] {
    while (!done) {
      const auto text = folder.read("x");
      EXPECT_TRUE(text.ok() && (*text == a || *text == b));
    }
  });
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST_F(CacheFolderTest, AWriteThatFailsHalfWayLeavesTheOldFileAndNothingElse) {
  const CacheFolder folder = open();
  ASSERT_TRUE(folder.write("x", "old").ok());
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit little = before;
  little.rlim_cur = 512;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const Status status = folder.write("x", std::string(10000, 'n'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_EQ(*folder.read("x"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST_F(CacheFolderTest, ReadsNeitherLinksNorPipesNorWhatOthersMayWrite) {
  const CacheFolder folder = open();
  const fs::path path = folder.path();
  std::ofstream(base_ / "elsewhere") << "text";
  fs::create_symlink(base_ / "elsewhere", path / "link");
  ASSERT_EQ(::mkfifo((path / "pipe").c_str(), 0600), 0);
  ASSERT_TRUE(folder.write("wide", "text").ok());
  fs::permissions(path / "wide", fs::perms::others_write, fs::perm_options::add);
  for (const char* name : {"link", "pipe", "wide"}) {
    EXPECT_EQ(folder.read(name).status().code(), StatusCode::failed_precondition) << name;
  }
  EXPECT_EQ(folder.files().size(), 1U) << "only plain files are listed";
}

TEST_F(CacheFolderTest, OnlyOldLeftoversAreRemoved) {
  const CacheFolder folder = open();
  const fs::path left = fs::path(folder.path()) / ".half-7-7";
  std::ofstream(left) << "half";
  EXPECT_TRUE(folder.files().empty());
  folder.remove_leftovers(60);
  EXPECT_TRUE(fs::exists(left));
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  folder.remove_leftovers(60);
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(CacheFolderTest, TouchMakesOldFilesYoung) {
  const CacheFolder folder = open();
  ASSERT_TRUE(folder.write("x", "x").ok());
  fs::last_write_time(fs::path(folder.path()) / "x",
                      fs::file_time_type::clock::now() - std::chrono::hours(5));
  folder.touch("x", 6 * 3600);
  EXPECT_GT(folder.files()[0].age_seconds, 4 * 3600);
  folder.touch("x", 3600);
  EXPECT_LT(folder.files()[0].age_seconds, 3600);
}

}  // namespace
}  // namespace plimsoll
