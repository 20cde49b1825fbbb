// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace plimsoll {
namespace {

TEST(ByteSize, TakesBinaryAndDecimalUnits) {
  const struct {
    const char* text;
    std::int64_t bytes;
  } cases[] = {{"512MiB", 512LL << 20}, {"2GiB", 2LL << 30},  {"1.5GB", 1'500'000'000},
               {"1048576", 1048576},    {"64 kib", 64 << 10}, {"1B", 1}};
  for (const auto& c : cases) {
    const auto bytes = parse_byte_size(c.text, "--limit");
    ASSERT_TRUE(bytes.ok()) << c.text;
    EXPECT_EQ(*bytes, c.bytes) << c.text;
  }
}

TEST(ByteSize, RefusesWhatIsNotASizeAndSaysTheGrammar) {
  for (const char* text : {"", "GiB", "1.5.2GB", "2GiX", "1e30GB", "nan", "inf", "50%pea"}) {
    const auto limit = parse_memory_limit(text, "PLIMSOLL_MEMORY_LIMIT");
    ASSERT_FALSE(limit.ok()) << text;
    EXPECT_EQ(limit.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(limit.status().message().find("PLIMSOLL_MEMORY_LIMIT"), std::string::npos);
    EXPECT_NE(limit.status().message().find("512MiB"), std::string::npos);
  }
}

TEST(ByteSize, SaysTheRangeOfWhatIsOutsideIt) {
  const struct {
    const char *text, *range;
  } cases[] = {{"120%", "at most 100 %"}, {"0%", "above 0 %"}, {"1001%peak", "at most 1000 %"},
               {"0MiB", "1 byte"},        {"-5MiB", "1 byte"}, {"99999999TiB", "1048576 TiB"}};
  for (const auto& c : cases) {
    const auto limit = parse_memory_limit(c.text, "--memory-limit");
    ASSERT_FALSE(limit.ok()) << c.text;
    EXPECT_NE(limit.status().message().find(c.range), std::string::npos)
        << limit.status().message();
  }
}

TEST(ByteSize, SharesResolveAgainstDeviceAndPeak) {
  const auto device = parse_memory_limit("80%", "x");
  const auto peak = parse_memory_limit("50%peak", "x");
  ASSERT_TRUE(device.ok() && peak.ok());
  EXPECT_EQ(device->resolve({1000, 900}, 77), 800);
  EXPECT_EQ(peak->resolve({1000, 900}, 77), 38);
  const auto automatic = parse_memory_limit("auto", "x");
  ASSERT_TRUE(automatic.ok());
  EXPECT_EQ(automatic->resolve({1600, 900}, 77), 800);
  EXPECT_EQ(automatic->resolve({1600, 50}, 77), 1);
  EXPECT_EQ(automatic->resolve({std::int64_t{1} << 40, std::int64_t{3} << 30}, 77),
            std::int64_t{2} << 30);
  EXPECT_TRUE(parse_memory_limit("auto", "x", Shares::of_device).ok());
}

TEST(ByteSize, RefusesPartsOfAByte) {
  for (const char* text : {"1.5", "0.5 B", "1e-1", "3.25b"}) {
    EXPECT_FALSE(parse_byte_size(text, "--limit").ok()) << text;
    EXPECT_FALSE(parse_memory_limit(text, "--limit").ok()) << text;
  }
  EXPECT_EQ(parse_memory_limit("1.5", "--limit").status().message(),
            "--limit: '1.5' is not a whole number of bytes (or has no unit, such as MiB)");
  EXPECT_EQ(parse_byte_size("2.0", "--limit").value(), 2);
  EXPECT_EQ(parse_byte_size("1.5KiB", "--limit").value(), 1536);
}

TEST(ByteSize, OffersSharesOfAPeakOnlyWhereTheyAreTaken) {
  const auto message = [](const char* text, Shares shares) {
    return parse_memory_limit(text, "--limit", shares).status().message();
  };
  EXPECT_NE(message("banana", Shares::of_device_or_peak).find("50%peak"), std::string::npos);
  EXPECT_EQ(message("banana", Shares::of_device).find("peak"), std::string::npos);
  EXPECT_NE(message("50%peak", Shares::of_device).find("is a share of a program's peak"),
            std::string::npos);
  ::setenv("PLIMSOLL_MEMORY_LIMIT", "banana", 1);
  EXPECT_EQ(check_environment().message().find("peak"), std::string::npos);
  ::setenv("PLIMSOLL_MEMORY_LIMIT", "50%peak", 1);
  EXPECT_TRUE(check_environment().ok());
  ::unsetenv("PLIMSOLL_MEMORY_LIMIT");
}

TEST(ByteSize, FormatsForPeople) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(12'288), "12.0 KiB");
  EXPECT_EQ(format_bytes(1'610'612'736), "1.50 GiB");
}

class EnvironmentTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const VariableInfo& info : all_variables()) unsetenv(std::string(info.name).c_str());
  }
};

TEST_F(EnvironmentTest, DefaultsAreValid) { EXPECT_TRUE(check_environment().ok()); }

TEST_F(EnvironmentTest, ABadValueNamesTheVariableAndItsGrammar) {
  setenv("PLIMSOLL_PLANNER", "fastest", 1);
  const Status status = check_environment();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("PLIMSOLL_PLANNER"), std::string::npos);
  EXPECT_NE(status.message().find("default|greedy|sqrt|none"), std::string::npos);
}

TEST_F(EnvironmentTest, CountsAreWholeAndPositive) {
  for (const char* text : {"0", "-3", "2.5", "two", "9999999999999999999999"}) {
    setenv("PLIMSOLL_NUM_THREADS", text, 1);
    EXPECT_FALSE(count_variable(Variable::num_threads, 1).ok()) << text;
  }
  setenv("PLIMSOLL_NUM_THREADS", "3", 1);
  const auto threads = count_variable(Variable::num_threads, 1);
  ASSERT_TRUE(threads.ok());
  EXPECT_EQ(*threads, 3);
}

TEST_F(EnvironmentTest, ListsHoldOnlyKnownWords) {
  setenv("PLIMSOLL_REMEDIES", "recompute,swap", 1);
  EXPECT_TRUE(check_variable(Variable::remedies).ok());
  for (const char* codec : {"bfloat16", "float16", "int8", "int4", "int2"}) {
    setenv("PLIMSOLL_REMEDIES", (std::string("swap,lossy:") + codec).c_str(), 1);
    EXPECT_TRUE(check_variable(Variable::remedies).ok()) << codec;
  }
  for (const char* text : {"recompute,", ",", "recompute swap", "evict", "lossy:", "lossy:int3"}) {
    setenv("PLIMSOLL_REMEDIES", text, 1);
    EXPECT_FALSE(check_variable(Variable::remedies).ok()) << text;
  }
}

TEST_F(EnvironmentTest, AllAndNoneStandAlone) {
  for (const char* text : {"all", "none"}) {
    setenv("PLIMSOLL_REMEDIES", text, 1);
    EXPECT_TRUE(check_variable(Variable::remedies).ok()) << text;
  }
  for (const char* text : {"all,none", "none,all", "recompute,all", "none,swap", "all,all"}) {
    setenv("PLIMSOLL_REMEDIES", text, 1);
    const Status status = check_environment();
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_NE(status.message().find("PLIMSOLL_REMEDIES"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("alone"), std::string::npos) << status.message();
  }
}

TEST_F(EnvironmentTest, ListsToAPathHoldWordsAndAPath) {
  EXPECT_TRUE(list_variable(Variable::dump)->words.empty());
  setenv("PLIMSOLL_DUMP", "llvm,hlo@some where/a@b", 1);
  const auto value = list_variable(Variable::dump);
  ASSERT_TRUE(value.ok()) << value.status().to_string();
  EXPECT_EQ(value->words, (std::vector<std::string>{"llvm", "hlo"}));
  EXPECT_TRUE(value->has("hlo"));
  EXPECT_FALSE(value->has("asm"));
  EXPECT_EQ(value->path, "some where/a@b");
  for (const char* text : {"llvm", "llvm@", "@x", "llvm,@x", "ir@x", "llvm asm@x"}) {
    setenv("PLIMSOLL_DUMP", text, 1);
    EXPECT_FALSE(list_variable(Variable::dump).ok()) << text;
  }
}

TEST_F(EnvironmentTest, SizesAndNumbersMayBeZeroButNotNegative) {
  setenv("PLIMSOLL_MIN_SIZE", "0", 1);
  EXPECT_EQ(*size_variable(Variable::min_size, 7), 0);
  setenv("PLIMSOLL_MIN_SIZE", "4KiB", 1);
  EXPECT_EQ(*size_variable(Variable::min_size, 7), 4096);
  setenv("PLIMSOLL_PLANNING_SECONDS", "0.5", 1);
  EXPECT_EQ(*number_variable(Variable::planning_seconds), 0.5);
  for (const char* text : {"-1", "nan", "inf", "1s", "0x"}) {
    setenv("PLIMSOLL_PLANNING_SECONDS", text, 1);
    setenv("PLIMSOLL_MIN_SIZE", text, 1);
    EXPECT_FALSE(number_variable(Variable::planning_seconds).ok()) << text;
    EXPECT_FALSE(size_variable(Variable::min_size, 7).ok()) << text;
  }
}

TEST_F(EnvironmentTest, OriginTellsWhereAValueComesFrom) {
  EXPECT_EQ(variable_text(Variable::planner).origin, VariableOrigin::default_);
  setenv("PLIMSOLL_PLANNER", "greedy", 1);
  EXPECT_EQ(variable_text(Variable::planner).origin, VariableOrigin::environment);
  EXPECT_EQ(variable_text(Variable::planner).text, "greedy");
}

}  // namespace
}  // namespace plimsoll
