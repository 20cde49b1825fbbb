// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "runtime/import/npy.h"
#include "tests/tools/command.h"

namespace plimsoll::tools {
namespace {

using nlohmann::json;

constexpr std::string_view kAdd =
    "HloModule add\nENTRY main {\n  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n"
    "  ROOT z = f32[4] add(x, y)\n}\n";

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
      plimsoll("plan " + file + " --memory-limit 60%peak --host-limit 1GiB --explain d1 --json");
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
  const std::string call = "plan " + file + " --memory-limit 60%peak --host-limit 1GiB --json";
  const json steps = plimsoll(call + " --remedies recompute").json()["steps"];
  EXPECT_GT(steps["recompute"], 0);
  EXPECT_EQ(steps["encode"], 0);
  EXPECT_EQ(steps["swap_out"], 0);
  const json swaps = plimsoll(call, "PLIMSOLL_REMEDIES=swap").json()["steps"];
  EXPECT_EQ(swaps["recompute"], 0);
  EXPECT_EQ(swaps["encode"], 0);
  EXPECT_GT(swaps["swap_out"], 0);
  EXPECT_EQ(plimsoll("plan " + file + " --memory-limit 60%peak --remedies none").exit_code, 1);
  EXPECT_EQ(plimsoll(call + " --without chains,orders").exit_code, 0);
  for (const std::string& command : {call, std::string("bench planner")}) {
    const Call refused = plimsoll(command + " --without chains,nothing");
    EXPECT_EQ(refused.exit_code, 2) << command;
    EXPECT_NE((refused.out + refused.error).find("--without: 'nothing' is none of chains"),
              std::string::npos)
        << refused.out << refused.error;
  }
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
  const auto optimized = [&](const std::string& environment) {
    const Call call = plimsoll("opt " + file + " --passes optimize --json", environment);
    EXPECT_EQ(call.exit_code, 0) << call.error;
    return call.json()["hlo"].get<std::string>();
  };
  EXPECT_NE(optimized(""), optimized("PLIMSOLL_ATTENTION=composed"));
}

TEST(Plan, PlansWhatCannotRun) {
  const Folder folder;
  const std::string file = folder.write(
      "p.hlo", "x = f32[4] parameter(0)\nc = f32[4] constant({...})\nROOT y = f32[4] add(x, c)");
  EXPECT_EQ(plimsoll("plan " + file).exit_code, 0);
  EXPECT_EQ(plimsoll("run " + file).exit_code, 1);
}

TEST(Run, GivesTheSameBitsAtEveryLimit) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", chain_program());
  const json unlimited = plimsoll("run " + file + " --seed 3 --json").json();
  ASSERT_TRUE(unlimited.is_object());
  ASSERT_EQ(unlimited["outputs"].size(), 1u);
  EXPECT_EQ(unlimited["outputs"][0]["name"], "g0");
  EXPECT_EQ(unlimited["outputs"][0]["shape"], json({64, 64}));
  EXPECT_EQ(unlimited["outputs"][0]["dtype"], "f32");
  EXPECT_EQ(unlimited["outputs"][0]["sha256"].get<std::string>().size(), 64u);
  // Nobody asked.
  EXPECT_TRUE(unlimited.contains("floor_bytes") && unlimited["floor_bytes"].is_null());
  EXPECT_TRUE(unlimited["floor_seconds"].is_null());
  const json plan = plimsoll("plan " + file + " --json").json();
  for (const std::string& limit :
       {std::string("80%peak"), std::to_string(plan["floor_bytes"].get<std::int64_t>())}) {
    const json limited =
        plimsoll("run " + file + " --seed 3 --repeat 2 --json --memory-limit " + limit).json();
    ASSERT_TRUE(limited.contains("outputs")) << limited;
    EXPECT_EQ(limited["outputs"], unlimited["outputs"]) << limit;
    EXPECT_TRUE(limited["floor_bytes"].is_null());
    EXPECT_LE(limited["measured_peak_bytes"], limited["limit_bytes"]);
    std::int64_t by_use = 0;
    for (const json& bytes : limited["measured_peak_by_use"]) by_use += bytes.get<std::int64_t>();
    EXPECT_EQ(by_use, limited["measured_peak_bytes"]);
    EXPECT_GT(limited["code_bytes"], 0);
    EXPECT_GT(limited["steps"]["recompute"], 0);
    EXPECT_EQ(limited["seconds"].size(), 2u);
  }
  const json other = plimsoll("run " + file + " --seed 4 --json").json();
  EXPECT_NE(other["outputs"], unlimited["outputs"]);
}

TEST(Run, ReadsInputsAndWritesOutputs) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAdd);
  const float x[] = {1, 2, 3, 4}, y[] = {10, 20, 30, 40};
  ASSERT_TRUE(import::write_npy(folder.path("x.npy"), ir::Literal::array<float>({4}, x)).ok());
  ASSERT_TRUE(import::write_npy(folder.path("y.npy"), ir::Literal::array<float>({4}, y)).ok());
  const std::string inputs =
      " --input x=" + folder.path("x.npy") + " --input 1=" + folder.path("y.npy");
  const Call call = plimsoll("run" + inputs + " " + file + " --output-dir " + folder.path("out"));
  ASSERT_EQ(call.exit_code, 0) << call.error;
  const auto z = import::read_npy(folder.path("out/z.npy"));
  ASSERT_TRUE(z.ok()) << z.status().message();
  const float sum[] = {11, 22, 33, 44};
  EXPECT_EQ(*z, ir::Literal::array<float>({4}, sum));
}

constexpr std::string_view kAllReduce = R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[4] parameter(0)
  w = f32[4] parameter(1), sharding={replicated}
  s = f32[4] all-reduce(x), replica_groups={}, to_apply=sum
  p = u32[] partition-id()
  ROOT t = (f32[4], f32[4], u32[]) tuple(s, w, p)
}
)";

TEST(Run, RunsAllParticipantsOnInputsOfTheirOwn) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAllReduce);
  const float all[] = {1, 2, 3, 4}, two[] = {10, 20, 30, 40};
  ASSERT_TRUE(import::write_npy(folder.path("all.npy"), ir::Literal::array<float>({4}, all)).ok());
  ASSERT_TRUE(import::write_npy(folder.path("two.npy"), ir::Literal::array<float>({4}, two)).ok());
  // Participants 0 and 2 are the replicas of partition 0, 1 and 3 of partition 1.
  const std::string arguments =
      "run " + file + " --replicas 2 --partitions 2 --input x@2=" + folder.path("two.npy") +
      " --input x=" + folder.path("all.npy");
  const Call call =
      plimsoll(arguments + " --json --memory-limit 100%peak --output-dir " + folder.path("out"));
  ASSERT_EQ(call.exit_code, 0) << call.error;
  const json found = call.json()["participants"];
  ASSERT_EQ(found.size(), 4u);
  for (std::size_t p = 0; p < 4; ++p) {
    EXPECT_EQ(found[p]["replica"], p / 2);
    EXPECT_EQ(found[p]["partition"], p % 2);
    EXPECT_LE(found[p]["measured_peak_bytes"], call.json()["limit_bytes"]);
    const float sums[2][4] = {{11, 22, 33, 44}, {2, 4, 6, 8}};
    const std::string whose = "@" + std::to_string(p) + ".npy";
    const auto sum = import::read_npy(folder.path("out/s" + whose));
    ASSERT_TRUE(sum.ok()) << sum.status().message();
    EXPECT_EQ(*sum, ir::Literal::array<float>({4}, sums[p % 2])) << p;
    const auto partition = import::read_npy(folder.path("out/p" + whose));
    ASSERT_TRUE(partition.ok());
    EXPECT_EQ(partition->at(0), static_cast<double>(p % 2));
  }
  EXPECT_EQ(found[0]["outputs"], call.json()["outputs"]);
}

TEST(Run, DrawsForEachParticipantButWhatIsReplicated) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAllReduce);
  const json drawn = plimsoll("run " + file + " --partitions 2 --json").json()["participants"];
  EXPECT_NE(drawn[0]["outputs"][0], drawn[1]["outputs"][0]);
  EXPECT_EQ(drawn[0]["outputs"][1], drawn[1]["outputs"][1]);
}

// A program for one device, with its batch cut: what every partition has of the results is what the
// program computes of the whole batch.
TEST(Run, CutsAParameterOfAWholeProgram) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[4,2] parameter(0)
  w = f32[2,2] parameter(1)
  y = f32[4,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  total = f32[] reduce(y, zero), dimensions={0,1}, to_apply=sum
  ROOT t = (f32[4,2], f32[]) tuple(y, total)
}
)");
  const float rows[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, w[] = {1, 0, 0, 2};
  std::string inputs;
  for (int p = 0; p < 2; ++p) {
    const std::string name = "x" + std::to_string(p) + ".npy";
    ASSERT_TRUE(
        import::write_npy(folder.path(name), ir::Literal::array<float>({2, 2}, rows[p])).ok());
    inputs += " --input x@" + std::to_string(p) + "=" + folder.path(name);
  }
  ASSERT_TRUE(import::write_npy(folder.path("w.npy"), ir::Literal::array<float>({2, 2}, w)).ok());
  const std::string arguments = "run " + file + inputs + " --input w=" + folder.path("w.npy") +
                                " --partitions 2 --sharding 'x={devices=[2,1]<=[2]}'";
  const Call call = plimsoll(arguments + " --output-dir " + folder.path("out"));
  ASSERT_EQ(call.exit_code, 0) << call.error;
  const float products[2][4] = {{1, 4, 3, 8}, {5, 12, 7, 16}};
  for (int p = 0; p < 2; ++p) {
    const std::string whose = "@" + std::to_string(p) + ".npy";
    // Outputs are named by what the root holds, which is the partition's tile.
    const json outputs = plimsoll(arguments + " --json").json()["participants"][p]["outputs"];
    const auto y =
        import::read_npy(folder.path("out/" + outputs[0]["name"].get<std::string>() + whose));
    ASSERT_TRUE(y.ok()) << y.status().message();
    EXPECT_EQ(*y, ir::Literal::array<float>({2, 2}, products[p]));
    const auto total =
        import::read_npy(folder.path("out/" + outputs[1]["name"].get<std::string>() + whose));
    ASSERT_TRUE(total.ok());
    EXPECT_EQ(total->at(0), 56);
  }
  for (const char* wrong :
       {"'z={replicated}'", "x", "'x={devices=[3,1]<=[3]}'", "'x={devices=[1,2]<=[2]} y'"}) {
    EXPECT_EQ(plimsoll("run " + file + " --partitions 2 --sharding " + wrong).exit_code, 2)
        << wrong;
  }
}

TEST(Run, SaysWhatParticipantsLack) {
  const Folder folder;
  const std::string groups = folder.write(
      "g.hlo",
      "HloModule m\nsum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"
      "\nENTRY e { x = f32[4] parameter(0) ROOT s = f32[4] all-reduce(x), "
      "replica_groups={{0,1}}, to_apply=sum }\n");
  const Call refused = plimsoll("run " + groups);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.error.find("there is no replica 1"), std::string::npos) << refused.error;
  EXPECT_NE(refused.error.find("--replicas"), std::string::npos) << refused.error;
  EXPECT_EQ(plimsoll("run " + groups + " --replicas 2").exit_code, 0);
  const Call beyond = plimsoll("run " + groups + " --replicas 2 --input x@2=x.npy");
  EXPECT_EQ(beyond.exit_code, 2);
  EXPECT_NE(beyond.error.find("2 participants"), std::string::npos) << beyond.error;
  // A loop that goes round once for participant 0 and twice for the other.
  const std::string apart = folder.write("a.hlo", R"(HloModule m, replica_count=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
more {
  s = (u32[], f32[]) parameter(0)
  i = u32[] get-tuple-element(s), index=0
  r = u32[] replica-id()
  ROOT c = pred[] compare(i, r), direction=LE
}
body {
  s = (u32[], f32[]) parameter(0)
  i = u32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  one = u32[] constant(1)
  next = u32[] add(i, one)
  total = f32[] all-reduce(x), replica_groups={}, to_apply=sum
  ROOT t = (u32[], f32[]) tuple(next, total)
}
ENTRY e {
  x = f32[] parameter(0)
  zero = u32[] constant(0)
  s = (u32[], f32[]) tuple(zero, x)
  ROOT w = (u32[], f32[]) while(s), condition=more, body=body
}
)");
  const Call ended = plimsoll("run " + apart);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_NE(ended.error.find("participant 0 has ended without coming there"), std::string::npos)
      << ended.error;
}

TEST(Run, RefusesWhatCanNeverFitBeforeItDrawsInputs) {
  const Folder folder;
  const std::string file = folder.write("large.hlo",
                                        "ENTRY e { x = f32[1048576,1048576] parameter(0)\n"
                                        "  ROOT r = f32[1048576,1048576] tanh(x) }");
  for (const char* limit : {"", " --memory-limit 1GiB"}) {
    const Call call = plimsoll("run " + file + limit + " --json");
    EXPECT_EQ(call.exit_code, 1);
    const json error = call.json()["error"];
    EXPECT_EQ(error["code"], "RESOURCE_EXHAUSTED");
    EXPECT_EQ(error["floor_bytes"], std::int64_t{1} << 43) << call.error;
    EXPECT_NE(call.error.find("parameters, constants and outputs alone"), std::string::npos)
        << call.error;
  }
}

TEST(Run, RefusesInputsThatDoNotFit) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAdd);
  const float x[] = {1, 2, 3};
  ASSERT_TRUE(import::write_npy(folder.path("x.npy"), ir::Literal::array<float>({3}, x)).ok());
  const std::string run = "run " + file + " --input ";
  Call call = plimsoll(run + "x=" + folder.path("x.npy"));
  EXPECT_EQ(call.exit_code, 1);
  EXPECT_NE(call.error.find("f32[3]"), std::string::npos) << call.error;
  call = plimsoll(run + "q=" + folder.path("x.npy"));
  EXPECT_EQ(call.exit_code, 2);
  EXPECT_NE(call.error.find("x, y"), std::string::npos) << call.error;
  EXPECT_EQ(plimsoll(run + "x=" + folder.path("no.npy")).exit_code, 2);
  call = plimsoll(run + "x=/");
  EXPECT_EQ(call.exit_code, 2);
  EXPECT_NE(call.error.find("NOT_FOUND: /: is a folder"), std::string::npos) << call.error;
  EXPECT_EQ(plimsoll(run + "x=" + folder.write("bad.npy", "nonsense")).exit_code, 1);
  EXPECT_EQ(plimsoll(run + "x").exit_code, 2);
}

TEST(Run, TellsWhatIsStoredWithLossAndChangesBitsOnlyThen) {
  const Folder folder;
  const std::string call =
      "run " + folder.write("p.hlo", chain_program()) + " --memory-limit 80%peak --json";
  const json exact = plimsoll(call).json();
  ASSERT_TRUE(exact.contains("outputs")) << exact;
  EXPECT_EQ(exact["lossy"], json::array());
  const json lossy = plimsoll(call, "PLIMSOLL_REMEDIES=lossy:int8").json();
  ASSERT_EQ(lossy["lossy"].size(), 1U) << lossy;
  EXPECT_EQ(lossy["lossy"][0]["codec"], "int8");
  EXPECT_GT(lossy["lossy"][0]["encodes"], 0);
  EXPECT_FALSE(lossy["lossy"][0]["error_bound"].get<std::string>().empty());
  EXPECT_LE(lossy["measured_peak_bytes"], lossy["limit_bytes"]);
  EXPECT_NE(lossy["outputs"], exact["outputs"]);
  EXPECT_EQ(plimsoll(call, "PLIMSOLL_REMEDIES=lossy:int8").json()["outputs"], lossy["outputs"]);
}

TEST(Run, RefusesAParameterGivenTwice) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kAdd);
  const float values[] = {1, 2, 3, 4};
  const auto literal = ir::Literal::array<float>({4}, values);
  ASSERT_TRUE(import::write_npy(folder.path("a.npy"), literal).ok());
  const std::string a = "=" + folder.path("a.npy");
  EXPECT_EQ(plimsoll("run " + file + " --input x" + a + " --input y" + a).exit_code, 0);
  // By name, and by name and number.
  for (const char* again : {"x", "0"}) {
    const Call call = plimsoll("run " + file + " --input x" + a + " --input " + again + a);
    EXPECT_EQ(call.exit_code, 2) << again;
    EXPECT_NE(call.error.find("is given by --input x" + a + " already"), std::string::npos)
        << call.error;
  }
  const std::string pair = folder.write(
      "pair.hlo",
      "HloModule pair\nENTRY main {\n  p = (f32[4], f32[4]) parameter(0)\n  x = f32[4] "
      "get-tuple-element(p), index=0\n  y = f32[4] get-tuple-element(p), index=1\n  ROOT z = "
      "f32[4] add(x, y)\n}\n");
  EXPECT_EQ(plimsoll("run " + pair + " --input 'p#0'" + a + " --input 'p#1'" + a).exit_code, 0);
  EXPECT_EQ(plimsoll("run " + pair + " --input 'p#1'" + a + " --input 'p#1'" + a).exit_code, 2);
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
