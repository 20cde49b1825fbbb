// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/unknown_variables.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/base/log.h"

namespace plimsoll {
namespace {

TEST(UnknownVariables, AreNamedWithWhatMayBeMeant) {
  const char* const entries[] = {"HOME=/",
                                 "PLIMSOLL_MEMROY_LIMIT=1MiB",
                                 "PLIMSOLL_MEMORY_LIMIT=1MiB",
                                 "PLIMSOLL_PJRT_LIBRARY=x",
                                 "PLIMSOLL_PLANING=full",
                                 "PLIMSOLL_COLOR=blue"};
  EXPECT_EQ(
      unknown_variables(entries),
      (std::vector<std::string>{
          "environment: nothing reads PLIMSOLL_MEMROY_LIMIT (PLIMSOLL_MEMORY_LIMIT may be meant)",
          "environment: nothing reads PLIMSOLL_PLANING (PLIMSOLL_PLANNING may be meant)",
          "environment: nothing reads PLIMSOLL_COLOR (`plimsoll info` lists what there is)"}));
}

TEST(UnknownVariables, AreFoundInAnyCase) {
  const char* const entries[] = {"plimsoll_memory_limit=1MiB", "Plimsoll_Num_Thread=2",
                                 "plimsoll_ROOT=/usr", "plimsoll_DIR=/usr/lib/cmake"};
  EXPECT_EQ(
      unknown_variables(entries),
      (std::vector<std::string>{
          "environment: nothing reads plimsoll_memory_limit (PLIMSOLL_MEMORY_LIMIT may be meant)",
          "environment: nothing reads Plimsoll_Num_Thread (PLIMSOLL_NUM_THREADS may be meant)"}));
}

TEST(UnknownVariables, AreNoneWhereTheyAreSetToNothing) {
  const char* const entries[] = {"PLIMSOLL_FOO=", "PLIMSOLL_MEMROY_LIMIT=", "plimsoll_planner="};
  EXPECT_EQ(unknown_variables(entries), std::vector<std::string>());
  ::setenv("PLIMSOLL_FOO", "", 1);
  ::setenv("PLIMSOLL_STRICT", "1", 1);
  EXPECT_TRUE(check_unknown_variables().ok());
  ::setenv("PLIMSOLL_FOO", "1", 1);
  EXPECT_FALSE(check_unknown_variables().ok());
  ::unsetenv("PLIMSOLL_FOO");
  ::unsetenv("PLIMSOLL_STRICT");
}

TEST(UnknownVariables, AreWarnedOfOnceAndRefusedWhereThatIsAskedFor) {
  static int lines;
  lines = 0;
  ::setenv("PLIMSOLL_LOG_LEVLE", "off", 1);
  set_log_sink([](LogLevel level, std::string_view line) {
    if (level == LogLevel::warning && line.find("PLIMSOLL_LOG_LEVLE") != line.npos) ++lines;
  });
  EXPECT_TRUE(check_unknown_variables().ok());
  EXPECT_TRUE(check_unknown_variables().ok());
  ::setenv("PLIMSOLL_STRICT", "1", 1);
  const Status refused = check_unknown_variables();
  ::setenv("PLIMSOLL_STRICT", "yes", 1);
  EXPECT_FALSE(check_unknown_variables().ok());
  ::unsetenv("PLIMSOLL_STRICT");
  EXPECT_EQ(refused.code(), StatusCode::invalid_argument);
  EXPECT_NE(refused.message().find("PLIMSOLL_LOG_LEVLE (PLIMSOLL_LOG_LEVEL may be meant)"),
            std::string::npos);
  set_log_sink(nullptr);
  ::unsetenv("PLIMSOLL_LOG_LEVLE");
  EXPECT_EQ(lines, 1);
}

}  // namespace
}  // namespace plimsoll
