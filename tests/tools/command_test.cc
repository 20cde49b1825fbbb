// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/tools/command.h"

namespace plimsoll::tools {
namespace {

using nlohmann::json;

// Also of a text that is longer than what is kept back until the end.
TEST(Command, SaysThatItsOutputIsLost) {
  const Folder folder;
  const std::string error = folder.path("error");
  for (const std::string call : {"info", "info --json", "opt --list", "launch -n 2 -- echo x"}) {
    const std::string command = "'" PLIMSOLL_COMMAND "' " + call + " >/dev/full 2>'" + error + "'";
    const int status = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << call;
    std::ifstream file(error);
    const std::string said{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(said.find("cannot be written"), std::string::npos) << call << ": " << said;
  }
}

TEST(Command, HelpSucceedsAndNoSubcommandDoesNot) {
  for (const char* call : {"--help", "info --help", "plan --help", "run --help", "opt --help"}) {
    const Call result = plimsoll(call);
    EXPECT_EQ(result.exit_code, 0) << call;
    EXPECT_NE(result.out.find("--help"), std::string::npos) << call;
  }
  EXPECT_EQ(plimsoll("").exit_code, 2);
  EXPECT_EQ(plimsoll("walk").exit_code, 2);
  EXPECT_EQ(plimsoll("info --no-such-flag").exit_code, 2);
}

TEST(Command, InfoShowsVariablesWithTheirOrigin) {
  const json info =
      plimsoll("info --json", "PLIMSOLL_NUM_THREADS=1 PLIMSOLL_MEMORY_LIMIT=2MiB").json();
  ASSERT_TRUE(info.is_object());
  EXPECT_EQ(info["devices"][0]["name"], "cpu");
  EXPECT_EQ(info["limits"]["memory_limit_bytes"], 2 << 20);
  int seen = 0;
  for (const json& variable : info["environment"]) {
    if (variable["name"] == "PLIMSOLL_NUM_THREADS") {
      EXPECT_EQ(variable["value"], "1");
      EXPECT_EQ(variable["origin"], "environment");
      ++seen;
    }
    if (variable["name"] == "PLIMSOLL_PLANNER") {
      EXPECT_EQ(variable["value"], "default");
      EXPECT_EQ(variable["origin"], "default");
      ++seen;
    }
  }
  EXPECT_EQ(seen, 2);
  // Every use of memory, and where its bytes are.
  ASSERT_EQ(info["memory_uses"].size(), 7U);
  EXPECT_EQ(info["memory_uses"][1]["name"], "activations");
  EXPECT_EQ(info["memory_uses"][6]["name"], "code");
  EXPECT_EQ(info["memory_uses"][6]["place"], "host");
}

// Whether this machine has a GPU or not.
TEST(Command, InfoSaysWhatOtherDevicesThereAreOrWhyThereIsNone) {
  const json info = plimsoll("info --json").json();
  ASSERT_GE(info["other_devices"].size(), 1U);
  const json& gpu = info["other_devices"][0];
  const bool is_there = gpu["found"];
  EXPECT_EQ(gpu["name"], is_there ? "cuda:0" : "cuda");
  const std::string about = gpu["about"];
  EXPECT_FALSE(about.empty());
  const std::string text = plimsoll("info").out;
  EXPECT_NE(text.find((is_there ? "cuda:0  " : "cuda  none: ") + about), std::string::npos) << text;
  // Where it is asked for, it has to be there.
  const Call call = plimsoll("info", "PLIMSOLL_DEVICE=cuda:99");
  EXPECT_EQ(call.exit_code, 2);
  EXPECT_NE(call.error.find("PLIMSOLL_DEVICE"), std::string::npos) << call.error;
  EXPECT_NE(call.error.find("cuda:99"), std::string::npos) << call.error;
}

TEST(Command, RefusesBadSizesByNameAndGrammar) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAdd);
  Call call = plimsoll("info", "PLIMSOLL_MEMORY_LIMIT=lots");
  EXPECT_EQ(call.exit_code, 2);
  EXPECT_NE(call.error.find("PLIMSOLL_MEMORY_LIMIT"), std::string::npos) << call.error;
  EXPECT_NE(call.error.find("512MiB"), std::string::npos) << call.error;
  call = plimsoll("plan " + file + " --memory-limit 5parsecs --json");
  EXPECT_EQ(call.exit_code, 2);
  EXPECT_NE(call.error.find("--memory-limit"), std::string::npos) << call.error;
  EXPECT_EQ(call.json()["error"]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(plimsoll("run " + file + " --planner magic").exit_code, 2);
  EXPECT_EQ(plimsoll("run " + file, "PLIMSOLL_PLANNER=magic").exit_code, 2);
  for (const char* seed : {"-1", "x", "18446744073709551616"}) {
    EXPECT_EQ(plimsoll("run " + file + " --seed " + seed).exit_code, 2) << seed;
  }
  EXPECT_EQ(plimsoll("run " + file + " --seed 18446744073709551615").exit_code, 0);
  EXPECT_EQ(plimsoll("run " + file + " --repeat 0").exit_code, 2);
  call = plimsoll("run " + file, "PLIMSOLL_DUMP=llvm@" + file);
  EXPECT_EQ(call.exit_code, 2);
  EXPECT_NE(call.error.find("kernel dumps"), std::string::npos) << call.error;
}

TEST(Command, AFlagThatIsGivenEmptyIsAnError) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAdd);
  for (const char* flag : {"--memory-limit", "--planner", "--remedies", "--min-size",
                           "--planning-seconds", "--host-limit", "--spill-dir"}) {
    const Call call = plimsoll("plan " + file + " " + flag + " ''");
    EXPECT_EQ(call.exit_code, 2) << flag;
    EXPECT_NE(call.error.find(flag), std::string::npos) << call.error;
  }
}

TEST(Command, AFlagWithNothingBehindItsEqualsSignTakesNoOtherFlag) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAdd);
  for (const char* call : {"opt FILE --passes= --json", "plan FILE --memory-limit= --json",
                           "run FILE --output-dir= --json"}) {
    std::string arguments = call;
    arguments.replace(arguments.find("FILE"), 4, file);
    const Call result = plimsoll(arguments);
    EXPECT_EQ(result.exit_code, 2) << call;
    EXPECT_NE(result.error.find("no value behind '='"), std::string::npos) << result.error;
    EXPECT_EQ(result.json()["error"]["code"], "INVALID_ARGUMENT") << result.out;
  }
  EXPECT_EQ(plimsoll("opt " + file + " --passes=none --json").exit_code, 0);
}

TEST(Command, RemediesThatContradictEachOtherAreRefused) {
  const Call call = plimsoll("info", "PLIMSOLL_REMEDIES=all,none");
  EXPECT_EQ(call.exit_code, 2);
  EXPECT_NE(call.error.find("PLIMSOLL_REMEDIES: 'all' in 'all,none'"), std::string::npos)
      << call.error;
}

TEST(Command, ASpillFileNeedsAFolderThatIsThere) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAdd);
  for (const std::string& call : {std::string("info"), "plan " + file}) {
    const Call limited = plimsoll(call, "PLIMSOLL_SPILL_LIMIT=1MiB");
    EXPECT_EQ(limited.exit_code, 2) << call;
    EXPECT_NE(limited.error.find("PLIMSOLL_SPILL_DIR"), std::string::npos) << limited.error;
    const Call missing = plimsoll(call, "PLIMSOLL_SPILL_DIR=" + folder.path("none"));
    EXPECT_EQ(missing.exit_code, 2) << call;
    EXPECT_NE(missing.error.find(folder.path("none")), std::string::npos) << missing.error;
  }
}

TEST(Command, NamesTheCommandsForOneThatDoesNotExist) {
  const Call call = plimsoll("bogus");
  EXPECT_EQ(call.exit_code, 2);
  EXPECT_NE(call.error.find("'bogus' is no command"), std::string::npos) << call.error;
  for (const char* name : {"info", "plan", "run", "opt"}) {
    EXPECT_NE(call.error.find(name), std::string::npos) << call.error;
  }
}

TEST(Command, MakesTheFolderOfKernelDumps) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAdd);
  const Call call = plimsoll("run " + file, "PLIMSOLL_DUMP=llvm@" + folder.path("a/b"));
  EXPECT_EQ(call.exit_code, 0) << call.error;
  EXPECT_FALSE(std::filesystem::is_empty(folder.path("a/b")));
}

TEST(Command, TakesMoreThreadsThanCpusWithoutAWord) {
  const Folder folder;
  const std::string file =
      folder.write("p.hlo", "x = f32[1048576] parameter(0)\nROOT y = f32[1048576] exponential(x)");
  const Call few = plimsoll("run " + file + " --json", "PLIMSOLL_NUM_THREADS=1");
  const Call many = plimsoll("run " + file + " --json", "PLIMSOLL_NUM_THREADS=300");
  EXPECT_EQ(many.exit_code, 0);
  EXPECT_EQ(many.error, "");
  EXPECT_EQ(few.json()["outputs"], many.json()["outputs"]);
}

TEST(Command, TellsTheCallsFaultFromTheProgramsFault) {
  const Folder folder;
  Call call = plimsoll("plan " + folder.path("missing.hlo"));
  EXPECT_EQ(call.exit_code, 2);
  EXPECT_NE(call.error.find("missing.hlo"), std::string::npos);
  call = plimsoll("plan " + folder.write("bad.hlo", "x = f32[4] parameter(0)\ny = f32[4] ad(x)"));
  EXPECT_EQ(call.exit_code, 1);
  EXPECT_NE(call.error.find("bad.hlo:2:12: expected an opcode, found 'ad'"), std::string::npos)
      << call.error;
}

}  // namespace
}  // namespace plimsoll::tools
