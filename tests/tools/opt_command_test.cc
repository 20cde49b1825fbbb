// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/command.h"

namespace plimsoll::tools {
namespace {

using nlohmann::json;

// The program in `file` as all passes leave it.
std::string optimized(const std::string& file, const std::string& environment) {
  const Call call = plimsoll("opt " + file + " --passes optimize --json", environment);
  EXPECT_EQ(call.exit_code, 0) << call.error;
  return call.json()["hlo"].get<std::string>();
}

TEST(Opt, TakesAttentionFromTheEnvironment) {
  const Folder folder;
  const std::string file = folder.write(
      "p.hlo",
      "add { a = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT c = f32[] add(a, b) }\n"
      "max { a = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT c = f32[] maximum(a, b) }\n"
      "ENTRY e {\nq = f32[8,512,64] parameter(0)\nk = f32[8,512,64] parameter(1)\n"
      "v = f32[8,512,64] parameter(2)\n"
      "s = f32[8,512,512] dot(q, k), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
      "rhs_batch_dims={0}, rhs_contracting_dims={2}\n"
      "low = f32[] constant(-inf)\nm = f32[8,512] reduce(s, low), dimensions={2}, to_apply=max\n"
      "mb = f32[8,512,512] broadcast(m), dimensions={0,1}\n"
      "d = f32[8,512,512] subtract(s, mb)\nx = f32[8,512,512] exponential(d)\n"
      "zero = f32[] constant(0)\nt = f32[8,512] reduce(x, zero), dimensions={2}, to_apply=add\n"
      "tb = f32[8,512,512] broadcast(t), dimensions={0,1}\n"
      "p = f32[8,512,512] divide(x, tb)\n"
      "ROOT o = f32[8,512,64] dot(p, v), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
      "rhs_batch_dims={0}, rhs_contracting_dims={1} }");
  EXPECT_NE(optimized(file, ""), optimized(file, "PLIMSOLL_ATTENTION=composed"));
}

TEST(Opt, RoundsChainsOnceOnlyWhereAsked) {
  const Folder folder;
  const std::string file = folder.write(
      "chain.hlo",
      "HloModule m\nENTRY e { x = bf16[64] parameter(0)\n a = bf16[64] multiply(x, x)\n"
      "ROOT b = bf16[64] add(a, x) }");
  EXPECT_EQ(optimized(file, "").find("convert"), std::string::npos);
  EXPECT_NE(optimized(file, "PLIMSOLL_EXCESS_PRECISION=1").find("convert"), std::string::npos);
}

TEST(Opt, RoundTripsWithoutPasses) {
  const Folder folder;
  const Call once = plimsoll("opt " + folder.write("p.hlo", kAdd) + " --passes none");
  ASSERT_EQ(once.exit_code, 0) << once.error;
  const Call twice = plimsoll("opt " + folder.write("q.hlo", once.out) + " --passes none");
  EXPECT_EQ(once.out, twice.out);
  EXPECT_NE(once.out.find("add(%x, %y)"), std::string::npos);
}

TEST(Opt, SaysWhatBecameOfCollectives) {
  const Folder folder;
  const std::string file = folder.write(
      "p.hlo",
      "HloModule m\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      " ROOT s = f32[] add(a, b)\n}\nENTRY e {\n x = f32[2048] parameter(0)\n"
      " y = f32[1024] parameter(1)\n"
      " a = f32[2048] all-reduce(x), channel_id=1, replica_groups={{0},{1}}, to_apply=sum\n"
      " b = f32[1024] all-reduce(y), channel_id=2, replica_groups={{0},{1}}, to_apply=sum\n"
      " c = f32[2048] all-reduce(a), replica_groups={{0,1}}, to_apply=sum\n"
      " d = f32[1024] tanh(b)\n e = f32[1024] all-reduce(d), replica_groups={{0,1}}, "
      "to_apply=sum\n ROOT t = (f32[2048], f32[1024]) tuple(c, e)\n}\n");
  const auto candidates = [&](const std::string& flags, const std::string& environment = "") {
    return plimsoll("opt " + file + " --json --passes " + flags, environment)
        .json()["passes"][0]["candidates"];
  };
  const json promoted = candidates("all-reduce-promotion --replicas 2 --partitions 2");
  ASSERT_EQ(promoted.size(), 2u);
  EXPECT_EQ(promoted[0]["instruction"], "a");
  EXPECT_EQ(promoted[0]["changed"], true);
  EXPECT_EQ(promoted[1]["changed"], false);
  EXPECT_EQ(promoted[1]["reason"], "tanh 'd' is not linear");
  const std::string both = "collective-combiner --replicas 2 --partitions 2";
  EXPECT_EQ(candidates(both, "PLIMSOLL_COLLECTIVE_BUCKET=12288")[0]["changed"], true);
  EXPECT_EQ(candidates(both, "PLIMSOLL_COLLECTIVE_BUCKET=12287")[0]["changed"], false);
}

TEST(Opt, CutsAParameterOfAWholeProgram) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAdd);
  const std::string arguments = "opt " + file + " --passes=partition --partitions 2 --sharding ";
  const Call call = plimsoll(arguments + "'x={devices=[2]<=[2]}'");
  ASSERT_EQ(call.exit_code, 0) << call.error;
  EXPECT_NE(call.out.find("x = f32[2]"), std::string::npos) << call.out;
  EXPECT_EQ(plimsoll(arguments + "'x={devices=[3]<=[3]}'").exit_code, 2);
}

TEST(Opt, ListsAndChecksPasses) {
  const json list = plimsoll("opt --list --json").json();
  std::string names;
  for (const json& pass : list["passes"]) names += pass["name"].get<std::string>() + " ";
  for (const char* name : {"none ", "remat ", "remat-greedy ", "cse ", "dce ", "simplify ",
                           "fusion ", "multi-output-fusion "}) {
    EXPECT_NE(names.find(name), std::string::npos) << name << "in " << names;
  }
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAdd);
  EXPECT_EQ(plimsoll("opt " + file + " --passes nonsense").exit_code, 2);
  EXPECT_EQ(plimsoll("opt " + file).exit_code, 2);
  EXPECT_EQ(plimsoll("opt --passes none").exit_code, 2);
  EXPECT_EQ(plimsoll("opt " + file + " --passes remat").exit_code, 2);
  EXPECT_EQ(plimsoll("opt " + file + " --passes none --min-size x").exit_code, 2);
  for (const char* passes : {"fusion,,cse", "fusion,", ",fusion", "''"}) {
    const Call call = plimsoll("opt " + file + " --passes " + passes);
    EXPECT_EQ(call.exit_code, 2) << passes;
    EXPECT_NE(call.error.find("is empty"), std::string::npos) << call.error;
  }
  EXPECT_NE(plimsoll("opt " + file + " --passes fusion,,cse").error.find("name 2 of 'fusion,,cse'"),
            std::string::npos);
  const json twice = plimsoll("opt " + file + " --passes cse,dce --passes fusion --json").json();
  EXPECT_EQ(twice["passes"].size(), 3U);
}

TEST(Opt, SaysWhatChanged) {
  const Folder folder;
  const std::string file =
      folder.write("p.hlo",
                   "x = f32[4] parameter(0)\na = f32[4] tanh(x)\nb = f32[4] tanh(x)\n"
                   "dead = f32[4] exponential(x)\nROOT c = f32[4] add(a, b)");
  const json result = plimsoll("opt " + file + " --passes dce,cse,none --json").json();
  ASSERT_TRUE(result.contains("hlo")) << result;
  EXPECT_EQ(result["changed"], json({{"cse", true}, {"dce", true}, {"none", false}}));
  const std::string hlo = result["hlo"];
  EXPECT_EQ(hlo.find("exponential"), std::string::npos);
  EXPECT_EQ(hlo.find("tanh"), hlo.rfind("tanh"));
}

TEST(Opt, GreedyKeepsSmallValuesWhenAsked) {
  const Folder folder;
  const std::string opt = "opt " +
                          folder.write("p.hlo",
                                       "p = f32[1] parameter(0)\nr = f32[] reshape(p)\n"
                                       "b = f32[1024] broadcast(r), dimensions={}\n"
                                       "n = f32[1024] negate(b)\n"
                                       "c = f32[2048] concatenate(n, n), dimensions={0}\n"
                                       "s = f32[1] slice(c), slice={[0:1]}\n"
                                       "d = f32[1025] concatenate(b, s), dimensions={0}\n"
                                       "ROOT o = f32[1] slice(d), slice={[0:1]}\n") +
                          " --passes remat-greedy --json --memory-limit ";
  const json small = plimsoll(opt + "14KiB").json();
  EXPECT_EQ(small["passes"][0]["peak_before_bytes"], 16388);
  EXPECT_EQ(small["passes"][0]["peak_after_bytes"], 12296);
  EXPECT_NE(small["hlo"].get<std::string>().find("%b.remat = "), std::string::npos);
  EXPECT_EQ(plimsoll(opt + "20KiB").json()["changed"]["remat-greedy"], false);
  EXPECT_EQ(plimsoll(opt + "14KiB --min-size 14KiB").json()["changed"]["remat-greedy"], false);
}

TEST(Opt, GreedySaysWhenItIsStillOverTheLimit) {
  const Folder folder;
  const Call call = plimsoll("opt " + folder.write("p.hlo", chain_program()) +
                             " --passes remat-greedy --memory-limit 1KiB --json");
  EXPECT_EQ(call.exit_code, 0);
  EXPECT_NE(call.error.find("over the limit of 1.00 KiB"), std::string::npos) << call.error;
}

TEST(Opt, RematMakesAScheduledProgramWithTheSameBits) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", chain_program());
  const json result =
      plimsoll("opt " + file + " --passes remat --memory-limit 80%peak --json").json();
  ASSERT_TRUE(result.contains("hlo")) << result;
  EXPECT_TRUE(result["changed"]["remat"]);
  const std::string hlo = result["hlo"];
  EXPECT_NE(hlo.find(".remat = "), std::string::npos);
  EXPECT_NE(hlo.find("is_scheduled=true"), std::string::npos);
  const json before = plimsoll("run " + file + " --json").json();
  const json after =
      plimsoll("run --as-written " + folder.write("r.hlo", hlo) + " --json --planner none").json();
  ASSERT_TRUE(after.contains("outputs")) << after;
  EXPECT_EQ(after["outputs"][0]["sha256"], before["outputs"][0]["sha256"]);
  EXPECT_LT(after["peak_bytes"], before["peak_bytes"]);
}

}  // namespace
}  // namespace plimsoll::tools
