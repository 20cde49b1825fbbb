// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/eviction/recorded_log.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::import {
namespace {

const std::string kHead = R"({"INSTRUCTION":"RELEASE","NAME":"before"})"
                          "\n"
                          R"({"INSTRUCTION":"ANNOTATE","ANNOTATION":"START"})"
                          "\n"
                          R"({"INSTRUCTION":"CONSTANT","NAME":"w"})"
                          "\n"
                          R"({"INSTRUCTION":"MEMORY","NAME":"w","MEMORY":"100"})"
                          "\n";
const std::string kCall =
    R"({"INSTRUCTION":"CALL","NAME":"f","ARGS":["w"],"RESULT":["a","v"],"TIME":"7"})"
    "\n"
    R"({"INSTRUCTION":"MEMORY","NAME":"a","MEMORY":"50"})"
    "\n"
    R"({"INSTRUCTION":"ALIAS","NAME":"a","ALIAS":"-1"})"
    "\n"
    R"({"INSTRUCTION":"MEMORY","NAME":"v","MEMORY":"100"})"
    "\n"
    R"({"INSTRUCTION":"ALIAS","NAME":"v","ALIAS":"0"})"
    "\n";

TEST(RecordedLog, ReadsCallsViewsAndReferences) {
  const auto log = parse_recorded_log(
      kHead + kCall +
          R"({"INSTRUCTION":"MUTATE","NAME":"f_","ARGS":["a","w"],"MUTATE":[0],"TIME":"3"})"
          "\n\n"
          R"({"INSTRUCTION":"COPY","DST":"b","SRC":"a"})"
          "\n"
          R"({"INSTRUCTION":"RELEASE","NAME":"a"})"
          "\n"
          R"({"INSTRUCTION":"RELEASE","NAME":"never made"})"
          "\n"
          R"({"INSTRUCTION":"COPY_FROM","DST":"b","SRC":"w"})",
      "log");
  ASSERT_TRUE(log.ok()) << log.status().message();
  ASSERT_EQ(log->calls.size(), 3u);
  EXPECT_EQ(log->tensor_count, 4);
  EXPECT_EQ(log->nanoseconds, 10);
  EXPECT_EQ(log->constant_bytes, 100);
  EXPECT_EQ(log->peak_bytes, 200);  // w, a and the fresh copy that the operation in place makes
  EXPECT_EQ(log->calls[1].outputs[1].view_of, 0);
  EXPECT_EQ(log->calls[1].outputs[1].bytes, 0);
  EXPECT_EQ(log->calls[2].arguments, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(log->calls[2].outputs[0].bytes, 50);
  using Act = RecordedLog::Act;
  std::string acts;
  for (const auto& event : log->events) {
    acts += event.act == Act::call      ? 'c'
            : event.act == Act::retain  ? '+'
            : event.act == Act::release ? '-'
                                        : 'p';
    acts += std::to_string(event.index) + " ";
  }
  // In the end w (named w and b), the view of it and nothing else is referenced.
  EXPECT_EQ(acts, "c0 p0 c1 c2 -1 +3 -3 -3 +0 p0 p2 p0 ");
}

void expect_refused(const std::string& text, const std::string& message) {
  const auto log = parse_recorded_log(text, "file.log");
  ASSERT_FALSE(log.ok()) << text;
  EXPECT_EQ(log.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(log.status().message().find(message), std::string::npos) << log.status().message();
}

TEST(RecordedLog, NamesTheLineOfWhatIsWrong) {
  expect_refused("", "file.log:0: the text ends before");
  expect_refused("x\n", "file.log:1: not a JSON object");
  expect_refused(kHead + "{}\n", "file.log:5: no INSTRUCTION");
  expect_refused(kHead + R"({"INSTRUCTION":"JUMP"})", "file.log:5: 'JUMP' is no instruction");
  expect_refused(kHead + kCall + kCall, "'a' was made before");
  expect_refused(kHead + R"({"INSTRUCTION":"COPY","DST":"b","SRC":"x"})",
                 "file.log:5: COPY: 'x' was not made before");
  expect_refused(kHead + R"({"INSTRUCTION":"CONSTANT","NAME":"u"})", "no line MEMORY follows");
  expect_refused(kHead + R"({"INSTRUCTION":"CALL","ARGS":["w"],"RESULT":["a"],"TIME":"-7"})",
                 "TIME '-7' is no number from 0");
  expect_refused(kHead + R"({"INSTRUCTION":"CALL","ARGS":"w","RESULT":["a"],"TIME":"7"})",
                 "no list ARGS");
  expect_refused(kHead + R"({"INSTRUCTION":"CALL","ARGS":[],"RESULT":[],"TIME":"7"})", "no RESULT");
  expect_refused(kHead + R"({"INSTRUCTION":"MUTATE","ARGS":["w"],"MUTATE":[1],"TIME":"7"})",
                 "no such argument");
  const std::string release = R"({"INSTRUCTION":"RELEASE","NAME":"w"})"
                              "\n";
  expect_refused(kHead + release + release, "file.log:6: RELEASE: more releases");
}

}  // namespace
}  // namespace plimsoll::import
