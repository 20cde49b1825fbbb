// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace plimsoll {
namespace {

TEST(MappedFile, HasTheBytesOfTheFile) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "mapped_file_test.bin";
  std::ofstream(path, std::ios::binary) << std::string(5000, 'a') << "end";
  {
    const auto file = MappedFile::open(path.string());
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_EQ((*file)->bytes(), std::string(5000, 'a') + "end");
    // What replaces the file changes nothing.
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << "another";
    EXPECT_TRUE((*file)->bytes().ends_with("end"));
  }
  std::ofstream(path, std::ios::trunc).close();
  const auto empty = MappedFile::open(path.string());
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE((*empty)->bytes().empty());
  std::filesystem::remove(path);
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const auto missing = MappedFile::open("/nowhere/at/all");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::not_found);
  const auto folder = MappedFile::open(::testing::TempDir());
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.status().message().find("is no regular file"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll
