// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/command.h"

namespace plimsoll::tools {
namespace {

using nlohmann::json;

// A chain of `layers` results of 100 bytes, forward and backward.
std::string chain_log(int layers) {
  std::string log;
  const auto line = [&](const json& object) { log += object.dump() + "\n"; };
  const auto call = [&](const json& arguments, const std::string& result) {
    line({{"INSTRUCTION", "CALL"},
          {"NAME", "f"},
          {"ARGS", arguments},
          {"RESULT", {result}},
          {"TIME", "1000"}});
    line({{"INSTRUCTION", "MEMORY"}, {"NAME", result}, {"MEMORY", "100"}});
    line({{"INSTRUCTION", "ALIAS"}, {"NAME", result}, {"ALIAS", "-1"}});
  };
  line({{"INSTRUCTION", "ANNOTATE"}, {"ANNOTATION", "START"}});
  line({{"INSTRUCTION", "CONSTANT"}, {"NAME", "x0"}});
  line({{"INSTRUCTION", "MEMORY"}, {"NAME", "x0"}, {"MEMORY", "100"}});
  const auto name = [](char letter, int i) { return letter + std::to_string(i); };
  for (int i = 0; i < layers; ++i) call({name('x', i)}, name('x', i + 1));
  call({name('x', layers)}, name('g', layers));
  for (int i = layers; i > 0; --i) {
    call({name('g', i), name('x', i - 1)}, name('g', i - 1));
    line({{"INSTRUCTION", "RELEASE"}, {"NAME", name('x', i)}});
    line({{"INSTRUCTION", "RELEASE"}, {"NAME", name('g', i)}});
  }
  return log;
}

TEST(Replay, RunsALogUnderALimit) {
  const Folder folder;
  const std::string file = folder.write("chain.log", chain_log(64));
  const json whole = plimsoll("replay " + file + " --memory-ratio 1 --json").json();
  EXPECT_EQ(whole["overhead"], 0);
  EXPECT_EQ(whole["recomputes"], 0);
  EXPECT_NEAR(whole["base_seconds"].get<double>(), 129e-6, 1e-12);
  EXPECT_EQ(whole["constant_bytes"], 100);
  for (const char* policy :
       {"default", "contiguous", "scattered", "dtr", "dtr-eq", "msps", "lru"}) {
    const json half =
        plimsoll("replay " + file + " --memory-ratio 0.25 --json --policy " + policy).json();
    EXPECT_EQ(half["ok"], true) << policy;
    EXPECT_GT(half["evictions"], 0) << policy;
    EXPECT_GT(half["recomputes"], 0) << policy;
    EXPECT_GT(half["overhead"], 0) << policy;
    EXPECT_LE(half["peak_bytes"], half["budget_bytes"]) << policy;
    EXPECT_GT(half["total_seconds"], half["base_seconds"]) << policy;
  }
  const std::string text = plimsoll("replay " + file + " --memory-limit 25%peak").out;
  EXPECT_NE(text.find("operations run again"), std::string::npos) << text;
}

TEST(Replay, SaysWhyItGaveUp) {
  const Folder folder;
  const std::string file = folder.write("chain.log", chain_log(8));
  const json result = plimsoll("replay " + file + " --memory-limit 250 --json").json();
  EXPECT_EQ(result["ok"], false);
  EXPECT_NE(result["why"].get<std::string>().find("limit 250 B"), std::string::npos)
      << result.dump();
}

TEST(Replay, RefusesBadCalls) {
  const Folder folder;
  const std::string file = folder.write("chain.log", chain_log(4));
  const auto refused = [](const std::string& arguments, int code, const std::string& message) {
    const Call call = plimsoll("replay " + arguments);
    EXPECT_EQ(call.exit_code, code) << arguments;
    EXPECT_NE(call.error.find(message), std::string::npos) << call.error;
  };
  refused(file, 2, "--memory-ratio or --memory-limit");
  refused(file + " --memory-ratio 0.5 --memory-limit 1KiB", 2, "--memory-ratio or --memory-limit");
  refused(file + " --memory-ratio 0", 2, "--memory-ratio");
  refused(file + " --memory-ratio nan", 2, "--memory-ratio");
  refused(file + " --memory-limit 80%", 2, "50%peak");
  refused(file + " --memory-ratio 0.5 --policy best", 2,
          "policy 'best' is none of default, contiguous");
  refused(folder.path("none") + " --memory-ratio 0.5", 2, "none");
  refused(folder.write("bad.log", "{}\n") + " --memory-ratio 0.5", 1, "bad.log:1: no INSTRUCTION");
}

}  // namespace
}  // namespace plimsoll::tools
