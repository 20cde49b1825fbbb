// SPDX-License-Identifier: Apache-2.0
// Programs of several participants in as many processes.
#include <gtest/gtest.h>
#include <algorithm>

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/tools/command.h"

namespace plimsoll::tools {
namespace {

constexpr const char* kSums = R"(HloModule step, replica_count=2, num_partitions=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[300,70] parameter(0)
  w = f32[70,70] parameter(1), sharding={replicated}
  y = f32[300,70] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[300,70] all-reduce(y), replica_groups={{0,1,2,3}}, channel_id=1, use_global_device_ids=true, to_apply=add
  t = f32[300,70] tanh(s)
  g = f32[600,70] all-gather(t), dimensions={0}, replica_groups={{0,2},{1,3}}, channel_id=2, use_global_device_ids=true
  d = f32[300,70] multiply(t, x)
  c = f32[150,70] reduce-scatter(d), dimensions={0}, replica_groups={{0,1},{2,3}}, channel_id=3, use_global_device_ids=true, to_apply=add
  ROOT r = (f32[300,70], f32[600,70], f32[150,70]) tuple(d, g, c)
})";

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Two replicas that add up what they have.
std::string sum_program(const std::string& name, const std::string& shape) {
  return "HloModule m, replica_count=2\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s "
         "= f32[] add(a, b) }\nENTRY e { x = " +
         shape + " parameter(0) ROOT " + name + " = " + shape + " all-reduce(x), to_apply=add }\n";
}

// Each rank runs the file of its number.
std::string launch_each(const Folder& folder) {
  return "launch -n 2 -- sh -c '\"" PLIMSOLL_COMMAND "\" run " + folder.path("$RANK.hlo") + "'";
}

TEST(LaunchCommand, ProcessesGiveTheBitsOfThreads) {
  const Folder folder;
  const std::string file = folder.write("step.hlo", kSums);
  const std::string run = file + " --seed 3 --repeat 2 --output-dir ";
  const Call threads = plimsoll("run " + run + folder.path("threads"));
  ASSERT_EQ(threads.exit_code, 0) << threads.error;
  for (const std::string limit : {"100%peak", "1GiB"}) {
    const std::string out = folder.path("processes" + limit.substr(0, 2));
    const Call processes = plimsoll("launch -n 4 '" PLIMSOLL_COMMAND "' run " + run + out +
                                    " --memory-limit " + limit);
    ASSERT_EQ(processes.exit_code, 0) << processes.error;
    for (const char* rank : {"0", "1", "2", "3"}) {
      for (const std::string name : {"d", "g", "c"}) {
        const std::string array = "/" + name + "@" + rank + ".npy";
        const std::string found = text_of(out + array);
        EXPECT_FALSE(found.empty()) << array;
        EXPECT_EQ(found, text_of(folder.path("threads") + array)) << array;
      }
      EXPECT_NE(processes.out.find("[" + std::string(rank) + "] "), std::string::npos);
    }
  }
}

TEST(LaunchCommand, EachProcessPrintsItsOwnParticipant) {
  const Folder folder;
  const std::string file = folder.write("step.hlo", kSums);
  const Call call = plimsoll("launch -n 4 -- sh -c '\"" PLIMSOLL_COMMAND "\" run " + file +
                             " --json > " + folder.path("$RANK.json") + "'");
  ASSERT_EQ(call.exit_code, 0) << call.error;
  for (int rank = 0; rank < 4; ++rank) {
    const auto json =
        nlohmann::json::parse(text_of(folder.path(std::to_string(rank) + ".json")), nullptr, false);
    ASSERT_EQ(json["participants"].size(), 1u);
    EXPECT_EQ(json["participants"][0]["participant"], rank);
    EXPECT_EQ(json["participants"][0]["replica"], rank / 2);
    EXPECT_EQ(json["participants"][0]["partition"], rank % 2);
    EXPECT_EQ(json["outputs"].size(), 3u);
  }
}

TEST(LaunchCommand, InputsAreForOneParticipantOrAll) {
  const Folder folder;
  const std::string file = folder.write("sum.hlo", sum_program("s", "f32[4]"));
  // What one participant draws, and the sum where both have it.
  ASSERT_EQ(plimsoll("run " +
                     folder.write("x.hlo",
                                  "HloModule m\nENTRY e { x = f32[4] parameter(0) ROOT y "
                                  "= f32[4] copy(x) }\n") +
                     " --seed 9 --output-dir " + folder.path("x"))
                .exit_code,
            0);
  const std::string inputs = " --input x@1=" + folder.path("x/y.npy") + " --output-dir ";
  const Call threads = plimsoll("run " + file + inputs + folder.path("threads"));
  ASSERT_EQ(threads.exit_code, 0) << threads.error;
  const Call processes = plimsoll("launch -n 2 -- '" PLIMSOLL_COMMAND "' run " + file + inputs +
                                  folder.path("processes"));
  ASSERT_EQ(processes.exit_code, 0) << processes.error;
  EXPECT_EQ(text_of(folder.path("processes/s@0.npy")), text_of(folder.path("threads/s@0.npy")));
  EXPECT_EQ(text_of(folder.path("processes/s@1.npy")), text_of(folder.path("threads/s@1.npy")));
}

TEST(LaunchCommand, AnotherProgramIsAnErrorOfAll) {
  const Folder folder;
  folder.write("0.hlo", sum_program("here", "f32[4]"));
  folder.write("1.hlo", sum_program("there", "f32[4]"));
  const Call call = plimsoll(launch_each(folder));
  EXPECT_EQ(call.exit_code, 1);
  for (const char* rank : {"[0] ", "[1] "}) {
    const auto line = call.error.find(rank);
    ASSERT_NE(line, std::string::npos) << call.error;
    const std::string error = call.error.substr(line, call.error.find('\n', line) - line);
    EXPECT_NE(error.find("participant 0 comes to the start of program 'm'"), std::string::npos)
        << error;
    EXPECT_NE(error.find("participant 1 to"), std::string::npos) << error;
  }
}

TEST(LaunchCommand, AnotherShapeIsAnErrorOfAll) {
  const Folder folder;
  folder.write("0.hlo", sum_program("s", "f32[4]"));
  folder.write("1.hlo", sum_program("s", "f32[5]"));
  const Call call = plimsoll(launch_each(folder));
  EXPECT_EQ(call.exit_code, 1);
  for (const char* rank : {"[0] ", "[1] "}) {
    EXPECT_NE(call.error.find(rank), std::string::npos) << call.error;
  }
}

// A participant without memory for the program tells the others.
TEST(LaunchCommand, WhatOneFailsByIsEverybodysError) {
  const Folder folder;
  const std::string file = folder.write("step.hlo", kSums);
  const Call call = plimsoll(
      "launch -n 4 -- sh -c 'if [ $RANK = 2 ]; then limit=1KiB; else "
      "limit=1GiB; fi; \"" PLIMSOLL_COMMAND "\" run " +
      file + " --memory-limit $limit'");
  EXPECT_EQ(call.exit_code, 1);
  for (const char* rank : {"[0] ", "[1] ", "[3] "}) {
    const auto line = call.error.find(rank);
    ASSERT_NE(line, std::string::npos) << call.error;
    const std::string error = call.error.substr(line, call.error.find('\n', line) - line);
    EXPECT_NE(error.find("RESOURCE_EXHAUSTED"), std::string::npos) << error;
    EXPECT_NE(error.find("participant 2: make_plan"), std::string::npos) << error;
  }
}

TEST(LaunchCommand, AnotherNumberOfProcessesIsRefused) {
  const Folder folder;
  const std::string file = folder.write("step.hlo", kSums);
  const Call call = plimsoll("launch -n 2 -- '" PLIMSOLL_COMMAND "' run " + file);
  EXPECT_EQ(call.exit_code, 2);
  EXPECT_NE(call.error.find("WORLD_SIZE says 2"), std::string::npos) << call.error;
  const Call alone = plimsoll("run " + file + " --communicator gloo");
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_NE(alone.error.find("WORLD_SIZE"), std::string::npos) << alone.error;
  EXPECT_NE(alone.error.find("plimsoll launch"), std::string::npos) << alone.error;
}

TEST(LaunchCommand, SetsWhatProgramsReadAndPrefixesLines) {
  const Call call = plimsoll(
      "launch -n 2 sh -c 'echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR "
      "$PLIMSOLL_COMMUNICATOR; echo oops >&2; printf end'",
      "PLIMSOLL_RENDEZVOUS=file:///elsewhere");
  EXPECT_EQ(call.exit_code, 0) << call.error;
  for (const std::string rank : {"0", "1"}) {
    EXPECT_NE(call.out.find("[" + rank + "] " + rank + " " + rank + " 2 2 127.0.0.1 gloo\n"),
              std::string::npos)
        << call.out;
    EXPECT_NE(call.out.find("[" + rank + "] end\n"), std::string::npos) << call.out;
    EXPECT_NE(call.error.find("[" + rank + "] oops\n"), std::string::npos) << call.error;
  }
}

// Each takes the GPU of its number, unless told otherwise, and says where there is none.
TEST(LaunchCommand, ByNcclEachTakesItsGpu) {
  const std::string echo =
      "launch -n 2 --communicator nccl sh -c 'echo $PLIMSOLL_COMMUNICATOR $PLIMSOLL_DEVICE'";
  EXPECT_EQ(plimsoll(echo, "PLIMSOLL_DEVICE=").out.find("nccl cuda\n"), 4U);
  EXPECT_EQ(plimsoll(echo, "PLIMSOLL_DEVICE=cpu").out.find("nccl cpu\n"), 4U);
  const Folder folder;
  const std::string file = folder.write("step.hlo", kSums);
  const Call call =
      plimsoll("launch -n 4 --communicator nccl -- '" PLIMSOLL_COMMAND "' run " + file,
               "PLIMSOLL_DEVICE=cpu");
  EXPECT_NE(call.exit_code, 0);
  EXPECT_NE(call.error.find("communicator nccl: participant"), std::string::npos) << call.error;
  EXPECT_NE(call.error.find("works on 'cpu', which is no GPU of NVIDIA's"), std::string::npos)
      << call.error;
  // A GPU that there is not is its own error, not the CPU's that would be used without it.
  const Call missing =
      plimsoll("launch -n 4 --communicator nccl -- '" PLIMSOLL_COMMAND "' run " + file,
               "PLIMSOLL_DEVICE=cuda:9999");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.error.find("PLIMSOLL_DEVICE: device: 'cuda:9999'"), std::string::npos)
      << missing.error;
}

TEST(LaunchCommand, NamesAnInterfaceThatThereIsNot) {
  const Folder folder;
  const std::string file = folder.write("step.hlo", kSums);
  const Call call = plimsoll("launch -n 4 -- '" PLIMSOLL_COMMAND "' run " + file,
                             "PLIMSOLL_COLLECTIVE_INTERFACE=nope PLIMSOLL_COLLECTIVE_TIMEOUT=20");
  EXPECT_NE(call.exit_code, 0);
  EXPECT_NE(call.error.find("PLIMSOLL_COLLECTIVE_INTERFACE: there is no network interface 'nope'"),
            std::string::npos)
      << call.error;
  EXPECT_EQ(call.error.find("enforce"), std::string::npos) << call.error;
}

// Whatever command it is: what is misspelt is told before anything starts.
TEST(LaunchCommand, ChecksTheEnvironmentFirst) {
  const std::string launch = "launch -n 2 -- echo started";
  const Call bad = plimsoll(launch, "PLIMSOLL_COLLECTIVE_TIMEOUT=soon");
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.error.find("PLIMSOLL_COLLECTIVE_TIMEOUT: 'soon'"), std::string::npos) << bad.error;
  const Call unknown = plimsoll(launch, "PLIMSOLL_STRICT=1 PLIMSOLL_MEMROY_LIMIT=1MiB");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.error.find("PLIMSOLL_MEMORY_LIMIT may be meant"), std::string::npos)
      << unknown.error;
  EXPECT_EQ(bad.out + unknown.out, "");
  EXPECT_EQ(plimsoll(launch, "PLIMSOLL_STRICT=1 PLIMSOLL_FOO=").exit_code, 0);
}

TEST(LaunchCommand, OneThatFailsEndsTheOthersAndIsNamed) {
  const Call code = plimsoll("launch -n 3 sh -c 'if [ $RANK = 1 ]; then exit 7; fi; sleep 1000'");
  EXPECT_EQ(code.exit_code, 7);
  EXPECT_NE(code.error.find("rank 1 ended with exit code 7"), std::string::npos) << code.error;
  const Call killed =
      plimsoll("launch -n 2 -- sh -c 'if [ $RANK = 0 ]; then kill -9 $$; fi; sleep 1000'");
  EXPECT_EQ(killed.exit_code, 137);
  EXPECT_NE(killed.error.find("rank 0 was ended by signal 9"), std::string::npos) << killed.error;
  const Call missing = plimsoll("launch -n 2 -- /no/such/program");
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_NE(missing.error.find("/no/such/program: No such file"), std::string::npos)
      << missing.error;
}

// One that does not end when asked is ended, with what it has started, and so are those of a
// launcher that is killed.
TEST(LaunchCommand, LeavesNobodyBehind) {
  const Folder folder;
  const std::string stubborn = "trap \"\" TERM; sleep 1000 & echo $! > " +
                               folder.path("$RANK.child") + "; echo $$ > " +
                               folder.path("$RANK.pid") + "; ";
  const Call call = plimsoll("launch -n 2 -- sh -c '" + stubborn +
                             "if [ $RANK = 1 ]; then exit 3; fi; wait; wait; sleep 1000'");
  EXPECT_EQ(call.exit_code, 3);
  const auto is_gone = [&](const std::string& name) {
    const std::string pid = text_of(folder.path(name));
    if (pid.empty()) return false;
    const std::string stat = text_of("/proc/" + pid.substr(0, pid.find('\n')) + "/stat");
    return stat.empty() || stat.find(") Z") != std::string::npos;
  };
  for (const char* name : {"0.pid", "1.pid", "0.child", "1.child"})
    EXPECT_TRUE(is_gone(name)) << name;
  const std::string killed =
      "launch -n 2 -- sh -c 'sleep 1000 & echo $! > " + folder.path("$RANK.child_of_killed") +
      "; echo $$ > " + folder.path("$RANK.of_killed") + "; if [ $RANK = 0 ]; then until [ -s " +
      folder.path("1.of_killed") + " ]; do sleep 0.05; done; kill -9 $PPID; fi; wait'";
  EXPECT_NE(plimsoll(killed).exit_code, 0);
  for (const char* name :
       {"0.of_killed", "1.of_killed", "0.child_of_killed", "1.child_of_killed"}) {
    for (int i = 0; i < 200 && !is_gone(name); ++i) usleep(50'000);
    EXPECT_TRUE(is_gone(name)) << name;
  }
}

TEST(LaunchCommand, PassesSignalsOn) {
  const Call call = plimsoll(
      "launch -n 2 -- sh -c 'trap \"echo heard; exit 5\" TERM; if [ $RANK = 0 ]; then sleep 0.3; "
      "kill "
      "-TERM $PPID; fi; while :; do sleep 0.05; done'");
  EXPECT_EQ(call.exit_code, 5);
  EXPECT_NE(call.out.find("[0] heard"), std::string::npos) << call.out;
  EXPECT_NE(call.out.find("[1] heard"), std::string::npos) << call.out;
}

// As `nohup` has it, and shells for what scripts start in the background. The ranks of this test
// would end by what is passed on.
TEST(LaunchCommand, IgnoresWhatItIsToldToIgnore) {
  const Folder folder;
  const std::string file =
      folder.write("ignoring.sh", "trap '' HUP INT\n'" PLIMSOLL_COMMAND
                                  "' launch -n 2 -- env --default-signal=HUP,INT sh -c 'if [ $RANK "
                                  "= 0 ]; then kill -HUP $PPID; "
                                  "kill -INT $PPID; fi; "
                                  "sleep 0.3; echo went on'\n");
  const Call call = plimsoll("launch -n 1 -- sh " + file);
  EXPECT_EQ(call.exit_code, 0) << call.error;
  EXPECT_NE(call.out.find("[0] went on"), std::string::npos) << call.out;
  EXPECT_NE(call.out.find("[1] went on"), std::string::npos) << call.out;
}

TEST(LaunchCommand, LinesEndWithReturnsAndAreNeverTooLong) {
  const Call bar = plimsoll("launch -n 1 -- printf 'a\\rb\\r\\nc\\n'");
  EXPECT_EQ(bar.out, "[0] a\r[0] b\r\n[0] c\n");
  const Call apart = plimsoll("launch -n 1 -- sh -c 'printf \"a\\r\"; sleep 0.2; printf \"\\nb\"'");
  EXPECT_EQ(apart.out, "[0] a\r\n[0] b\n");
  const Call endless = plimsoll("launch -n 1 -- sh -c 'head -c 1000000 /dev/zero | tr \"\\0\" q'");
  const auto count = [&](char of) {
    return std::count(endless.out.begin(), endless.out.end(), of);
  };
  EXPECT_EQ(count('q'), 1'000'000);
  EXPECT_GE(count('\n'), 7);
}

TEST(LaunchCommand, StandardInputIsTheFirstOnes) {
  const Folder folder;
  const std::string file = folder.write("in.txt", "a line\n");
  const Call call = plimsoll("launch -n 3 -- sed s/^/read:/ < " + file);
  EXPECT_EQ(call.exit_code, 0) << call.error;
  EXPECT_EQ(call.out, "[0] read:a line\n");
}

TEST(LaunchCommand, NeedsACommandAndANumber) {
  EXPECT_EQ(plimsoll("launch -n 2").exit_code, 2);
  EXPECT_EQ(plimsoll("launch -n 2 --").exit_code, 2);
  EXPECT_EQ(plimsoll("launch -n 0 true").exit_code, 2);
  EXPECT_EQ(plimsoll("launch true").exit_code, 2);
  const Call unknown = plimsoll("launch -n 2 --jsno -- true");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.error.find("--jsno"), std::string::npos) << unknown.error;
}

}  // namespace
}  // namespace plimsoll::tools
