// SPDX-License-Identifier: Apache-2.0
// Programs that JAX wrote for four partitions, against what JAX computes on four devices
// (make_partitioned_programs.py writes both), without a limit and at limits down to the floor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/c_api/shared_budget.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kPartitions = 4;

const fs::path& folder() {
  static const fs::path path = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/c_api/partitioned_programs";
  return path;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> program_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (entry.path().extension() == ".mlirbc") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// As `fill` in make_partitioned_programs.py.
std::vector<float> fill(std::size_t count, std::size_t partition, std::size_t number) {
  std::vector<float> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto step = static_cast<int>((i * 37 + number * 11 + partition * 29) % 127);
    made[i] = static_cast<float>(step - 63) / 64;
  }
  return made;
}

// The first partition that has the same tile, by `{devices=[TILES[,COPIES]]HOLDERS...}`.
std::size_t first_with_tile(const std::string& sharding, std::size_t partition) {
  const auto open = sharding.find("]");
  if (open == std::string::npos) return 0;
  std::vector<std::size_t> holders;
  for (std::size_t i = open + 1; i < sharding.size() && std::isdigit(sharding[i]) != 0;) {
    std::size_t used = 0;
    holders.push_back(std::stoul(sharding.substr(i), &used));
    i += used + 1;
  }
  std::size_t copies = 1;
  if (sharding.find("replicate") != std::string::npos) {
    copies = std::stoul(sharding.substr(sharding.rfind(',', open) + 1));
  }
  const auto at = static_cast<std::size_t>(std::find(holders.begin(), holders.end(), partition) -
                                           holders.begin());
  const auto begin = holders.begin() + static_cast<std::ptrdiff_t>(at / copies * copies);
  return *std::min_element(begin, begin + static_cast<std::ptrdiff_t>(copies));
}

class PartitionedProgram : public ::testing::TestWithParam<std::string> {};

struct Ran {
  Outcome outcome;
  std::string results;  // the bytes, as they are stored
  std::int64_t floor = 0, peak = 0, used = 0;
};

Ran run(const std::string& name, std::int64_t limit) {
  Ran made;
  const std::string text = read(folder() / (name + ".mlirbc"));
  std::vector<ContextHandle> contexts;
  std::vector<plm_context*> handles;
  for (std::size_t p = 0; p < kPartitions; ++p) {
    plm_context_options options = {};
    options.struct_size = sizeof options;
    options.memory_limit_bytes = limit;
    plm_context* context = nullptr;
    EXPECT_EQ(take(plm_context_create(&options, &context)).code, PLM_OK);
    contexts.emplace_back(context);
    handles.push_back(context);
  }
  plm_executable_options options = {};
  options.struct_size = sizeof options;
  options.default_placement = PLM_PLACEMENT_PROGRAM;
  plm_executable* executables[kPartitions] = {};
  made.outcome = take(plm_executable_create_together(
      handles.data(), kPartitions, text.data(), text.size(), name.c_str(), &options, executables));
  if (made.outcome.code != PLM_OK) return made;
  std::vector<ExecutableHandle> owned(executables, executables + kPartitions);
  made.peak = plm_executable_peak(executables[0]);
  EXPECT_EQ(take(plm_executable_floor(executables[0], &made.floor)).code, PLM_OK);
  const std::size_t parameters = plm_executable_parameter_count(executables[0]);
  const std::size_t results = plm_executable_result_count(executables[0]);
  std::vector<std::vector<plm_buffer*>> given(kPartitions), got(kPartitions);
  std::vector<plm_buffer* const*> given_lists;
  std::vector<plm_buffer**> got_lists;
  for (std::size_t p = 0; p < kPartitions; ++p) {
    for (std::size_t i = 0; i < parameters; ++i) {
      plm_value_info info = {};
      info.struct_size = sizeof info;
      EXPECT_EQ(take(plm_executable_parameter(executables[p], i, &info)).code, PLM_OK);
      const std::vector<float> values =
          fill(info.byte_size / sizeof(float), first_with_tile(info.sharding, p), i);
      plm_buffer* buffer = nullptr;
      EXPECT_EQ(take(plm_buffer_from_host(handles[p], info.dtype, info.dims, info.rank,
                                          values.data(), nullptr, &buffer))
                    .code,
                PLM_OK);
      given[p].push_back(buffer);
    }
    got[p].resize(results);
  }
  for (std::size_t p = 0; p < kPartitions; ++p) {
    given_lists.push_back(given[p].data());
    got_lists.push_back(got[p].data());
  }
  made.outcome =
      take(plm_executable_run_buffers_together(executables, kPartitions, given_lists.data(),
                                               parameters, got_lists.data(), results, nullptr));
  for (std::size_t p = 0; p < kPartitions; ++p) {
    made.used = std::max(made.used, memory_of(handles[p]).peak_bytes);
    for (plm_buffer* const one : given[p]) plm_buffer_release(one);
    for (plm_buffer* const one : got[p]) {
      if (one == nullptr) continue;
      std::string bytes(plm_buffer_byte_size(one), '\0');
      EXPECT_EQ(take(plm_buffer_read(one, bytes.data(), bytes.size())).code, PLM_OK);
      made.results += bytes;
      plm_buffer_release(one);
    }
  }
  return made;
}

TEST_P(PartitionedProgram, ComputesWhatJaxDoesAtEveryLimit) {
  const std::string expected = read(folder() / (GetParam() + ".results"));
  const Ran unlimited = run(GetParam(), PLM_NO_LIMIT);
  ASSERT_EQ(unlimited.outcome.code, PLM_OK) << unlimited.outcome.message;
  ASSERT_EQ(unlimited.results.size(), expected.size());
  for (std::size_t i = 0; i < expected.size() / sizeof(float); ++i) {
    float want = 0, have = 0;
    std::memcpy(&want, expected.data() + i * sizeof want, sizeof want);
    std::memcpy(&have, unlimited.results.data() + i * sizeof have, sizeof have);
    ASSERT_LE(std::abs(want - have), 2e-5f * std::max(1.0f, std::abs(want))) << "element " << i;
  }
  for (const std::int64_t limit :
       {unlimited.floor, (unlimited.floor + unlimited.peak) / 2, unlimited.peak}) {
    const Ran limited = run(GetParam(), limit);
    ASSERT_EQ(limited.outcome.code, PLM_OK) << limited.outcome.message;
    EXPECT_EQ(limited.results, unlimited.results) << "at " << limit;
    EXPECT_LE(limited.used, limit);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PartitionedProgram, ::testing::ValuesIn(program_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace plimsoll::testing
