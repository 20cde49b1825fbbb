// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace plimsoll::examples {

// Tests that save a run to `path_`, in a folder of their own.
class CheckpointFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "plimsoll_checkpoint_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/run.safetensors";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_, path_;
};

}  // namespace plimsoll::examples
