// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tools/command.h"

namespace plimsoll::tools {
namespace {

using nlohmann::json;

TEST(Plan, ReportsTheNamedFields) {
  const Folder folder;
  const Call call =
      plimsoll("plan " + folder.write("p.hlo", chain_program()) + " --memory-limit 80%peak --json");
  ASSERT_EQ(call.exit_code, 0) << call.error;
  const json plan = call.json();
  for (const char* field : {"limit_bytes", "floor_bytes", "peak_bytes", "unlimited_peak_bytes"}) {
    EXPECT_TRUE(plan[field].is_number_integer()) << field;
  }
  for (const char* field : {"predicted_seconds", "unlimited_seconds", "lower_bound_seconds",
                            "planning_seconds", "floor_seconds"}) {
    EXPECT_TRUE(plan[field].is_number()) << field;
  }
  for (const char* kind : {"compute", "recompute", "encode", "decode", "fused_encode",
                           "fused_decode", "swap_out", "swap_in", "collective"}) {
    EXPECT_TRUE(plan["steps"][kind].is_number_integer()) << kind;
  }
  EXPECT_EQ(plan["limit_bytes"].get<std::int64_t>(),
            plan["unlimited_peak_bytes"].get<std::int64_t>() * 4 / 5);
  EXPECT_LE(plan["peak_bytes"], plan["limit_bytes"]);
  EXPECT_LE(plan["floor_bytes"], plan["peak_bytes"]);
  EXPECT_GT(plan["steps"]["recompute"], 0);
}

TEST(Plan, TellsTheFloorWhenNoPlanFits) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", chain_program());
  const Call call = plimsoll("plan " + file + " --memory-limit 1KiB --json");
  EXPECT_EQ(call.exit_code, 1);
  const json error = call.json()["error"];
  EXPECT_EQ(error["code"], "RESOURCE_EXHAUSTED");
  EXPECT_EQ(error["limit_bytes"], 1024);
  EXPECT_FALSE(error["culprit"].get<std::string>().empty());
  const std::string floor = std::to_string(error["floor_bytes"].get<std::int64_t>());
  EXPECT_EQ(plimsoll("plan " + file + " --memory-limit " + floor).exit_code, 0);
  EXPECT_EQ(plimsoll("plan " + file, "PLIMSOLL_MEMORY_LIMIT=1KiB").exit_code, 1);
}

TEST(Plan, FrontierIsMonotonic) {
  const Folder folder;
  const Call call =
      plimsoll("plan " + folder.write("p.hlo", chain_program()) + " --frontier --json");
  ASSERT_EQ(call.exit_code, 0) << call.error;
  const json plan = call.json();
  const json& points = plan["frontier"];
  ASSERT_GE(points.size(), 12u);
  EXPECT_EQ(points.front()["limit_bytes"], plan["floor_bytes"]);
  EXPECT_EQ(points.back()["limit_bytes"], plan["unlimited_peak_bytes"]);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_LE(points[i]["peak_bytes"], points[i]["limit_bytes"]);
    if (i == 0) continue;
    EXPECT_GT(points[i]["limit_bytes"], points[i - 1]["limit_bytes"]);
    EXPECT_LE(points[i]["predicted_seconds"], points[i - 1]["predicted_seconds"]);
  }
}

TEST(Plan, ExplainsAValue) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", chain_program());
  const Call call = plimsoll("plan " + file + " --explain d0 --json");
  ASSERT_EQ(call.exit_code, 0) << call.error;
  const json explained = call.json()["explain"];
  EXPECT_EQ(explained["value"], "d0");
  EXPECT_EQ(explained["decision"], "kept");
  ASSERT_EQ(explained["live_ranges"].size(), 1u);
  EXPECT_EQ(explained["live_ranges"][0]["bytes"], 64 * 64 * 4);
  EXPECT_FALSE(explained["peak_values"].empty());
  EXPECT_EQ(plimsoll("plan " + file + " --explain nobody").exit_code, 2);
}

// Products with constants, of which a small limit leaves no room for all.
TEST(Plan, ExplainsConstantsThatComeAndGo) {
  const Folder folder;
  std::string text = "x0 = f32[8,64] parameter(0)\n";
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    text += "w" + n + " = f32[64,64] constant({...})\nx" + std::to_string(i + 1) +
            " = f32[8,64] dot(x" + n + ", w" + n +
            "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  }
  const std::string file = folder.write("p.hlo", text + "ROOT y = f32[8,64] copy(x6)");
  const std::string explain = "plan " + file + " --explain w3";
  const json kept = plimsoll(explain + " --json").json()["explain"];
  EXPECT_EQ(kept["decision"], "kept");
  EXPECT_EQ(kept["uploads"], 0);
  EXPECT_EQ(kept["live_ranges"][0]["first_step"], 0);
  const std::string limited = explain + " --memory-limit 40%peak";
  const json streamed = plimsoll(limited + " --json").json()["explain"];
  EXPECT_EQ(streamed["decision"], "streamed");
  EXPECT_EQ(streamed["uploads"], 1);
  EXPECT_EQ(streamed["steps"][0]["kind"], "upload");
  ASSERT_EQ(streamed["live_ranges"].size(), 1u);
  EXPECT_GT(streamed["live_ranges"][0]["first_step"], 0);
  const std::string said = plimsoll(limited).out;
  EXPECT_NE(said.find("w3 = f32[64,64] constant: streamed, uploaded 1 time(s) a run"), said.npos)
      << said;
  EXPECT_NE(said.find("brings it right before it is read, and it goes after its last use"),
            said.npos)
      << said;
}

// A chain whose ReLUs are recognised in the backward half, so that every remedy has a use.
std::string relu_chain() {
  std::string text =
      "x0 = f32[256,64] parameter(0)\nw = f32[64,64] parameter(1)\n"
      "zero = f32[] constant(0)\nz = f32[256,64] broadcast(zero), dimensions={}\n";
  constexpr int kLayers = 6;
  const auto n = [](int i) { return std::to_string(i); };
  for (int i = 0; i < kLayers; ++i) {
    text += "d" + n(i) + " = f32[256,64] dot(x" + n(i) +
            ", w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
    text += "x" + n(i + 1) + " = f32[256,64] maximum(d" + n(i) + ", z)\n";
  }
  text += "g" + n(kLayers) + " = f32[256,64] negate(x" + n(kLayers) + ")\n";
  for (int i = kLayers; i-- > 0;) {
    text += "m" + n(i) + " = pred[256,64] compare(d" + n(i) + ", z), direction=GT\n";
    text += "r" + n(i) + " = f32[256,64] select(m" + n(i) + ", g" + n(i + 1) + ", z)\n";
    text += "g" + n(i) + " = f32[256,64] dot(r" + n(i) +
            ", w), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n";
  }
  return text + "ROOT root = f32[256,64] copy(g0)";
}

TEST(Plan, ExplainsWithThePriceOfEveryRemedy) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", relu_chain());
  const Call call =
      plimsoll("plan " + file + " --memory-limit 70%peak --host-limit 1GiB --explain d1 --json");
  ASSERT_EQ(call.exit_code, 0) << call.error;
  const json explained = call.json()["explain"];
  EXPECT_FALSE(explained["why"].get<std::string>().empty());
  ASSERT_FALSE(explained["gaps"].empty());
  EXPECT_EQ(explained["gaps"][0]["bytes"], 256 * 64 * 4);
  std::vector<std::string> remedies;
  for (const json& price : explained["prices"]) {
    EXPECT_GT(price["seconds"], 0);
    remedies.push_back(price["remedy"]);
  }
  for (const char* remedy : {"recompute", "compress", "swap"}) {
    EXPECT_NE(std::find(remedies.begin(), remedies.end(), remedy), remedies.end()) << remedy;
  }
}

TEST(Plan, TakesOnlyTheRemediesThatAreAllowed) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", relu_chain());
  const std::string call = "plan " + file + " --memory-limit 54%peak --host-limit 1GiB --json";
  const json steps = plimsoll(call + " --remedies recompute").json()["steps"];
  EXPECT_GT(steps["recompute"], 0);
  EXPECT_EQ(steps["encode"], 0);
  EXPECT_EQ(steps["swap_out"], 0);
  const json swaps = plimsoll(call, "PLIMSOLL_REMEDIES=swap").json()["steps"];
  EXPECT_EQ(swaps["recompute"], 0);
  EXPECT_EQ(swaps["encode"], 0);
  EXPECT_GT(swaps["swap_out"], 0);
  EXPECT_EQ(plimsoll("plan " + file + " --memory-limit 54%peak --remedies none").exit_code, 1);
  EXPECT_EQ(plimsoll(call + " --without chains,orders").exit_code, 0);
  for (const std::string& command : {call, std::string("bench planner")}) {
    const Call refused = plimsoll(command + " --without chains,nothing");
    EXPECT_EQ(refused.exit_code, 2) << command;
    EXPECT_NE((refused.out + refused.error).find("--without: 'nothing' is none of chains"),
              std::string::npos)
        << refused.out << refused.error;
  }
}

// The fastest plan at the lowest target swaps, and results lend nothing to what is swapped.
TEST(Plan, MoreRemediesRaiseNoFloor) {
  const Folder folder;
  const std::string call = "plan " + folder.write("p.hlo", R"(HloModule m

less_f32 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER
}

ENTRY e {
  p0 = f32[16,16] parameter(0)
  p1 = f32[16,16] parameter(1)
  v1 = f32[16,16] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  v2 = f32[16,16] reverse(v1), dimensions={0}
  p2 = f32[16,16] parameter(2)
  v5 = f32[16,16] dot(v2, p2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v6 = f32[16,16] reverse(v5), dimensions={1}
  p3 = f32[16,3] parameter(3)
  v7 = f32[16,3] dot(v6, p3), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v8 = f32[16,3] tanh(v7)
  p4 = f32[3,5] parameter(4)
  v12 = f32[16,5] dot(v8, p4), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v13 = f32[16,5] sort(v12), dimensions={1}, is_stable=true, to_apply=less_f32
  p5 = f32[5,5] parameter(5)
  v14 = f32[16,5] dot(v13, p5), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v15 = f32[16,5] tanh(v14)
  p6 = f32[5,4] parameter(6)
  v18 = f32[16,4] dot(v15, p6), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v19 = f32[16,4] reverse(v18), dimensions={1}
  v21 = f32[16,4] add(v19, v18)
  v24 = f32[16,5] dot(v21, p6), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  v25 = f32[16,5] multiply(v24, v15)
  v27 = f32[5,5] dot(v13, v25), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  v28 = f32[5,5] transpose(v27), dimensions={1,0}
  v29 = f32[5,5] add(p5, v28)
  v30 = f32[16,5] dot(v25, v29), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  v32 = f32[3,5] dot(v8, v30), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT out = (f32[16,16], f32[3,5]) tuple(p2, v32)
}
)") + " --json";
  const json recomputes = plimsoll(call).json(),
             swaps = plimsoll(call + " --host-limit 1GiB").json();
  EXPECT_LE(swaps["floor_bytes"], recomputes["floor_bytes"]);
}

TEST(Plan, ListsTheCodecsThatChangeBits) {
  const Folder folder;
  const std::string call =
      "plan " + folder.write("p.hlo", chain_program()) + " --memory-limit 85%peak --json";
  const json exact = plimsoll(call).json();
  ASSERT_TRUE(exact.contains("lossy")) << exact;
  EXPECT_EQ(exact["lossy"], json::array());
  // Nothing may be computed again, so something has to be encoded.
  const std::pair<const char*, const char*> bounds[] = {{"int8", "127"},
                                                        {"int4", "7"},
                                                        {"int2", "1 + 2^-7"},
                                                        {"float16", "2^-11"},
                                                        {"bfloat16", "2^-8"}};
  for (const auto& [codec, bound] : bounds) {
    for (const bool by_flag : {false, true}) {
      const std::string remedies = std::string("lossy:") + codec;
      const Call lossy = by_flag ? plimsoll(call + " --remedies " + remedies)
                                 : plimsoll(call, "PLIMSOLL_REMEDIES=" + remedies);
      ASSERT_EQ(lossy.exit_code, 0) << lossy.error;
      const json plan = lossy.json();
      ASSERT_EQ(plan["lossy"].size(), 1U) << plan;
      EXPECT_EQ(plan["lossy"][0]["codec"], codec);
      EXPECT_GT(plan["lossy"][0]["encodes"], 0);
      EXPECT_EQ(plan["lossy"][0]["encodes"], plan["steps"]["encode"]);
      const std::string told = plan["lossy"][0]["error_bound"];
      EXPECT_NE(told.find(bound), std::string::npos) << codec << ": " << told;
    }
  }
  // No more than what is needed: with room for everything nothing is encoded.
  const std::string file = folder.path("p.hlo");
  EXPECT_EQ(plimsoll("plan " + file + " --remedies lossy:int8 --json").json()["lossy"],
            json::array());
}

TEST(Plan, AnUnknownLossyCodecIsRefusedWithTheKnownOnes) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAdd);
  for (const char* command : {"plan ", "run "}) {
    for (const bool by_flag : {false, true}) {
      const Call call = by_flag
                            ? plimsoll(command + file + " --remedies lossy:int3 --json")
                            : plimsoll(command + file + " --json", "PLIMSOLL_REMEDIES=lossy:int3");
      EXPECT_EQ(call.exit_code, 2);
      // Where it comes from, what it says, and every name that would do.
      EXPECT_NE(call.error.find(by_flag ? "--remedies: " : "PLIMSOLL_REMEDIES: "),
                std::string::npos)
          << call.error;
      for (const char* part : {"int3", "bfloat16", "float16", "int8", "int4", "int2"}) {
        EXPECT_NE(call.error.find(part), std::string::npos) << part << " in " << call.error;
      }
      EXPECT_EQ(call.json()["error"]["code"], "INVALID_ARGUMENT");
    }
  }
  const Call word = plimsoll("info", "PLIMSOLL_REMEDIES=lossly");
  EXPECT_EQ(word.exit_code, 2);
  EXPECT_NE(word.error.find("PLIMSOLL_REMEDIES: 'lossly' is not one of"), std::string::npos)
      << word.error;
}

TEST(Plan, StatesBoundsBesideWhatItFound) {
  const Folder folder;
  const json plan =
      plimsoll("plan " + folder.write("p.hlo", relu_chain()) + " --memory-limit 60%peak --json")
          .json();
  EXPECT_LE(plan["lower_bound_seconds"], plan["predicted_seconds"]);
  EXPECT_LE(plan["unlimited_seconds"], plan["lower_bound_seconds"]);
  EXPECT_LE(plan["floor_lower_bound_bytes"], plan["floor_bytes"]);
  EXPECT_GE(plan["gap"], 0);
}

TEST(Plan, IsTheSameEveryTime) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", relu_chain());
  const std::string call =
      "plan " + file + " --memory-limit 60%peak --host-limit 1GiB --frontier --report ";
  const auto without_times = [&](const std::string& page) {
    json plan = plimsoll(call + folder.path(page) + " --json").json();
    plan.erase("planning_seconds");
    plan.erase("floor_seconds");
    std::ifstream stream(folder.path(page));
    return plan.dump() +
           std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  };
  EXPECT_EQ(without_times("1.html"), without_times("2.html"));
}

TEST(Plan, WritesASelfContainedPage) {
  const Folder folder;
  const std::string page = folder.path("out.html");
  const Call call = plimsoll("plan " + folder.write("p.hlo", chain_program()) +
                             " --memory-limit 80%peak --report " + page);
  ASSERT_EQ(call.exit_code, 0) << call.error;
  std::ifstream stream(page);
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  EXPECT_NE(text.find("Live at the peak"), std::string::npos);
  EXPECT_EQ(text.find("http"), std::string::npos);
  // What the page draws.
  const std::string holder = "id='report'>";
  const std::size_t begin = text.find(holder) + holder.size();
  const json report = json::parse(text.substr(begin, text.find("</script>", begin) - begin));
  EXPECT_LE(report["plan"]["peak_bytes"], report["plan"]["limit_bytes"]);
  EXPECT_EQ(report["live_bytes"].size(), report["steps"].size());
  const std::int64_t peak_step = report["peak_step"];
  EXPECT_EQ(report["live_bytes"][static_cast<std::size_t>(peak_step)],
            report["plan"]["live_bytes"]);
  EXPECT_FALSE(report["live_at_peak"].empty());
  const json& buffers = report["buffers"];
  EXPECT_TRUE(std::any_of(buffers.begin(), buffers.end(),
                          [](const json& buffer) { return buffer["kind"] == "recomputed"; }));
}

TEST(Plan, PlansWhatCannotRun) {
  const Folder folder;
  const std::string file = folder.write(
      "p.hlo", "x = f32[4] parameter(0)\nc = f32[4] constant({...})\nROOT y = f32[4] add(x, c)");
  EXPECT_EQ(plimsoll("plan " + file).exit_code, 0);
  EXPECT_EQ(plimsoll("run " + file).exit_code, 1);
}

// Two ops; the second reads what the first made. 256 + 128 bytes at the peak.
constexpr std::string_view kRecordedStep =
    "384 2 2 2 1\n256 0 0\n128 0 1\n0 0\n1 1\n10 0 1 0 1\n20 1 0 1 1 1\n1\n";

TEST(Plan, FlagsThatMeanNothingForTheFileAreRefused) {
  const Folder folder;
  const std::string step = folder.write("step.txt", kRecordedStep);
  const std::string program = folder.write("p.hlo", kAdd);
  for (const char* flag : {"--frontier", "--explain 1", "--report r.html", "--as-written",
                           "--remedies none", "--min-size 1KiB", "--host-limit 1KiB"}) {
    const Call call = plimsoll("plan " + step + " " + flag);
    EXPECT_EQ(call.exit_code, 2) << flag;
    EXPECT_NE(call.error.find("no meaning for recorded steps"), std::string::npos) << call.error;
  }
  for (const char* flag : {"--schedule s.txt", "--addresses", "--keep-order"}) {
    const Call call = plimsoll("plan " + program + " " + flag);
    EXPECT_EQ(call.exit_code, 2) << flag;
    EXPECT_NE(call.error.find("no meaning for HLO text"), std::string::npos) << call.error;
  }
}

TEST(Plan, TakesARecordedStepFromStandardInput) {
  const Folder folder;
  const std::string step = folder.write("step.txt", kRecordedStep);
  const json named = plimsoll("plan " + step + " --json").json();
  const json piped = plimsoll("plan - --json < " + step).json();
  EXPECT_EQ(piped["peak_bytes"], named["peak_bytes"]);
  EXPECT_EQ(piped["unlimited_peak_bytes"], 384);
}

TEST(Plan, ARefusedLimitOfARecordedStepComesWithOneThatDoes) {
  const Folder folder;
  const std::string step = folder.write("step.txt", kRecordedStep);
  const json refused = plimsoll("plan " + step + " --memory-limit 100 --json").json();
  const std::int64_t works = refused["error"]["floor_bytes"];
  EXPECT_EQ(plimsoll("plan " + step + " --memory-limit " + std::to_string(works)).exit_code, 0);
}

}  // namespace
}  // namespace plimsoll::tools
