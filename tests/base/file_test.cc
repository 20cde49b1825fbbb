// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace plimsoll {
namespace {

TEST(ReadFile, EndsWhereADeviceDoesNot) {
  const auto endless = read_file("/dev/zero", 1 << 20);
  ASSERT_FALSE(endless.ok());
  EXPECT_EQ(endless.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(endless.status().message().find("/dev/zero: is no regular file and gives more than "
                                            "1048576 bytes"),
            std::string::npos)
      << endless.status().message();
  const auto empty = read_file("/dev/null");
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(*empty, "");
}

TEST(ReadFile, ReadsAFileWhole) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "plimsoll_read_file";
  const std::string text(300'000, 'x');
  std::ofstream(path) << text;
  const auto read = read_file(path.string(), 10);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(*read, text);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace plimsoll
