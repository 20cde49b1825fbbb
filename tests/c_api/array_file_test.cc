// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/c_api/shared_budget.h"

namespace plimsoll::testing {
namespace {

class ArrayFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "plimsoll_c_arrays_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(ArrayFiles, AreWrittenAndReadThroughTheAbi) {
  const float values[6] = {1, 2, 3, 4, 5, -0.0F};
  const std::int64_t dims[2] = {2, 3};
  const std::int32_t one = 7;
  const plm_array arrays[2] = {{"w", PLM_F32, 2, dims, sizeof values, values},
                               {"step", PLM_S32, 0, nullptr, sizeof one, &one}};
  const char* const key = "note";
  const char* const value = "a b";
  for (const char* name : {"/a.safetensors", "/a.npz"}) {
    const std::string path = folder_ + name;
    const bool is_npz = path.ends_with(".npz");
    Outcome outcome = take(plm_write_arrays(path.c_str(), arrays, 2, &key, &value, is_npz ? 0 : 1));
    ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
    plm_array_file* file = nullptr;
    outcome = take(plm_array_file_open(path.c_str(), &file));
    ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
    EXPECT_EQ(plm_array_file_count(file), 2u);
    plm_array read = {};
    ASSERT_EQ(take(plm_array_file_find(file, "w", &read)).code, PLM_OK);
    EXPECT_STREQ(read.name, "w");
    EXPECT_EQ(read.dtype, PLM_F32);
    ASSERT_EQ(read.rank, 2u);
    EXPECT_EQ(read.dims[1], 3);
    ASSERT_EQ(read.byte_size, sizeof values);
    EXPECT_EQ(std::memcmp(read.data, values, sizeof values), 0);
    EXPECT_EQ(take(plm_array_file_find(file, "v", &read)).code, PLM_NOT_FOUND);
    ASSERT_EQ(take(plm_array_file_get(file, 1, &read)).code, PLM_OK);
    EXPECT_EQ(take(plm_array_file_get(file, 2, &read)).code, PLM_OUT_OF_RANGE);
    EXPECT_EQ(plm_array_file_metadata(file, "none"), nullptr);
    EXPECT_STREQ(plm_array_file_metadata(file, "note"), is_npz ? nullptr : "a b");
    plm_array_file_close(file);
  }
}

TEST_F(ArrayFiles, BadCallsAreErrors) {
  const std::string path = folder_ + "/a";
  const float value = 1;
  const std::int64_t dims[1] = {1}, negative[1] = {-1};
  const auto write = [&](const plm_array& array) {
    return take(plm_write_arrays(path.c_str(), &array, 1, nullptr, nullptr, 0));
  };
  EXPECT_EQ(write({"w", PLM_F32, 1, dims, 8, &value}).code, PLM_INVALID_ARGUMENT);
  EXPECT_NE(write({"w", PLM_F32, 1, dims, 8, &value}).message.find("'w' has 8 bytes"),
            std::string::npos);
  EXPECT_EQ(write({nullptr, PLM_F32, 1, dims, 4, &value}).code, PLM_INVALID_ARGUMENT);
  EXPECT_EQ(write({"w", PLM_F32, 1, dims, 4, nullptr}).code, PLM_INVALID_ARGUMENT);
  EXPECT_EQ(write({"w", PLM_F32, 1, nullptr, 4, &value}).code, PLM_INVALID_ARGUMENT);
  EXPECT_EQ(write({"w", PLM_F32, 1, negative, 4, &value}).code, PLM_INVALID_ARGUMENT);
  EXPECT_EQ(write({"w", static_cast<plm_dtype>(99), 1, dims, 4, &value}).code,
            PLM_INVALID_ARGUMENT);
  EXPECT_FALSE(std::filesystem::exists(path));
  plm_array_file* file = nullptr;
  EXPECT_EQ(take(plm_array_file_open(path.c_str(), &file)).code, PLM_NOT_FOUND);
  EXPECT_EQ(take(plm_array_file_open(nullptr, &file)).code, PLM_INVALID_ARGUMENT);
  EXPECT_EQ(file, nullptr);
  plm_array_file_close(nullptr);
  EXPECT_EQ(plm_array_file_count(nullptr), 0u);
  EXPECT_EQ(plm_array_file_metadata(nullptr, "k"), nullptr);
}

TEST_F(ArrayFiles, RandomStatesGoOnWhereTheyWere) {
  plm_context_options options = {};
  options.struct_size = sizeof options;
  options.seed = 3;
  plm_context* made = nullptr;
  ASSERT_EQ(take(plm_context_create(&options, &made)).code, PLM_OK);
  const ContextHandle context(made);
  const auto draw = [&] {
    plm_tensor* state = nullptr;
    EXPECT_EQ(take(plm_random_state(made, &state)).code, PLM_OK);
    std::uint64_t words[2] = {};
    EXPECT_EQ(take(plm_tensor_read(state, words, sizeof words)).code, PLM_OK);
    plm_tensor_release(state);
    return words[0];
  };
  draw();
  EXPECT_EQ(plm_random_counter(made), 1u);
  const std::uint64_t second = draw(), third = draw();
  ASSERT_EQ(take(plm_set_random_counter(made, 1)).code, PLM_OK);
  EXPECT_EQ(draw(), second);
  EXPECT_EQ(draw(), third);
  EXPECT_EQ(plm_random_counter(nullptr), 0u);
  EXPECT_EQ(take(plm_set_random_counter(nullptr, 1)).code, PLM_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace plimsoll::testing
