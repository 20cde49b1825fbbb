// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/import/npy.h"
#include "tests/import/onnx/model_writer.h"
#include "tests/tools/command.h"

namespace plimsoll::tools {
namespace {

using nlohmann::json;

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

// A step of which the header says what is in host memory before and after it.
std::string step_with(const std::string& header) {
  return "HloModule step" + header + R"(
ENTRY main {
  w = f32[64,64] parameter(0)
  m = f32[64,64] parameter(1)
  x = f32[64,64] parameter(2)
  g = f32[64,64] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[64,64] add(m, g)
  u = f32[64,64] dot(g, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f32[64,64] subtract(w, u)
  ROOT r = (f32[64,64], f32[64,64]) tuple(v, n)
}
)";
}

TEST(Run, KeepsInHostMemoryWhatTheProgramHasThere) {
  constexpr std::int64_t kBytes = 64 * 64 * 4;
  const Folder folder;
  const std::string on_host =
      folder.write("h.hlo", step_with(", host_parameters={1,2}, host_results={1}"));
  const std::string on_device = folder.write("d.hlo", step_with(""));
  const json other = plimsoll("plan " + on_device + " --json").json();
  EXPECT_EQ(other["in_host_memory"], (json{{"parameters", 0}, {"results", 0}}));
  const Call planned = plimsoll("plan " + on_host + " --explain x --json");
  ASSERT_EQ(planned.exit_code, 0) << planned.error;
  const json plan = planned.json();
  EXPECT_EQ(plan["in_host_memory"], (json{{"parameters", 2 * kBytes}, {"results", kBytes}}));
  EXPECT_EQ(plan["peak_by_cause"]["parameters"], kBytes);
  EXPECT_EQ(plan["peak_by_cause"]["outputs"], kBytes);
  EXPECT_EQ(plan["steps"]["upload"], 2);
  EXPECT_LT(plan["floor_bytes"], other["floor_bytes"]);
  EXPECT_EQ(plan["explain"]["decision"], "streamed");
  EXPECT_NE(plan["explain"]["why"].get<std::string>().find("in host memory between runs"),
            std::string::npos);
  const std::string said = plimsoll("plan " + on_host).out;
  EXPECT_NE(said.find("of parameters, which count from their upload"), std::string::npos) << said;
  EXPECT_NE(said.find("of results, which count until they are downloaded"), std::string::npos);
  // The same results, in less memory.
  const json there = plimsoll("run " + on_device + " --json").json();
  for (const std::string& limit :
       {std::string("100%peak"), std::to_string(plan["floor_bytes"].get<std::int64_t>())}) {
    const Call call = plimsoll("run " + on_host + " --repeat 2 --json --memory-limit " + limit);
    ASSERT_EQ(call.exit_code, 0) << call.error;
    EXPECT_EQ(call.json()["outputs"], there["outputs"]) << limit;
    EXPECT_LT(call.json()["measured_peak_bytes"], there["measured_peak_bytes"]);
  }
  const Call bad =
      plimsoll("plan " + folder.write("b.hlo", step_with(", host_parameters={3}")) + " --json");
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_NE(bad.error.find("host_parameters={3}: there is no such leaf"), std::string::npos)
      << bad.error;
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

TEST(Run, DrawsTheSameForReplicasThatTheProgramSaysAreAlike) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", R"(HloModule m
or { a = pred[] parameter(0) b = pred[] parameter(1) ROOT r = pred[] or(a, b) }
ENTRY e { x = pred[64] parameter(0), parameter_replication={true}
  ROOT r = pred[64] all-reduce(x), replica_groups={}, to_apply=or })");
  const std::string run = "run " + file + " --replicas 2 --partitions 2 --json";
  const json drawn = plimsoll(run).json()["participants"];
  ASSERT_EQ(drawn.size(), 4u);
  EXPECT_EQ(drawn[0]["outputs"], drawn[2]["outputs"]);
  EXPECT_NE(drawn[0]["outputs"], drawn[1]["outputs"]);
  // Compilation believes it and leaves the all-reduce out, which changes nothing.
  EXPECT_EQ(plimsoll(run + " --as-written").json()["participants"], drawn);
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
  // What is wrong about it: the number of partitions, the name.
  const Call alone = plimsoll("run " + file + " --sharding 'x={devices=[2,1]<=[2]}'");
  EXPECT_NE(alone.error.find("--partitions 1"), std::string::npos) << alone.error;
  EXPECT_NE(alone.error.find("is for 2 partitions, and the program has 1"), std::string::npos);
  const Call other = plimsoll("run " + file + " --partitions 2 --sharding 'z={replicated}'");
  EXPECT_NE(other.error.find("(the program has: x, "), std::string::npos) << other.error;
}

// A file that can't be written to its end does not take the place of one that was.
TEST(Run, OutputsAreWholeFiles) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", chain_program());
  ASSERT_EQ(plimsoll("run " + file + " --output-dir " + folder.path("out")).exit_code, 0);
  const auto before = import::read_npy(folder.path("out/g0.npy"));
  ASSERT_TRUE(before.ok()) << before.status().message();
  const std::string blocks_of_512_bytes = "16";
  const std::string command = "ulimit -f " + blocks_of_512_bytes +
                              "; PLIMSOLL_JIT_CACHE=off '" PLIMSOLL_COMMAND "' run " + file +
                              " --seed 2 --output-dir " + folder.path("out") + " >/dev/null 2>&1";
  EXPECT_NE(std::system(command.c_str()), 0);
  const auto after = import::read_npy(folder.path("out/g0.npy"));
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_EQ(*after, *before);
}

// Not behind a run whose results would be lost.
TEST(Run, LooksAtTheOutputFolderFirst) {
  const Folder folder;
  const std::string file = folder.write("forever.hlo", R"(HloModule forever
c { x = s32[] parameter(0) ROOT y = pred[] constant(true) }
b { x = s32[] parameter(0) o = s32[] constant(1) ROOT y = s32[] add(x, o) }
ENTRY e { x = s32[] parameter(0) ROOT y = s32[] while(x), condition=c, body=b })");
  for (const std::string& path : {file, file + "/out", std::string("/proc/out")}) {
    const Call call = plimsoll("run " + file + " --output-dir " + path);
    EXPECT_EQ(call.exit_code, 2);
    EXPECT_NE(call.error.find("--output-dir " + path + ": "), std::string::npos) << call.error;
    EXPECT_NE(call.error.find("a folder that can be written"), std::string::npos) << call.error;
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

// y = reshape(x:0 * x:0, shape), where x:0 is f32[n].
std::string model_with_open_sizes() {
  using testing::node;
  using testing::value_info;
  testing::GraphParts parts;
  parts.inputs = {value_info("x:0", 1, {"n"}), value_info("shape", 7, {"2"})};
  parts.nodes = {node("Mul", {"x:0", "x:0"}, {"s"}), node("Reshape", {"s", "shape"}, {"y"})};
  parts.outputs = {value_info("y", 1, {"a", "b"})};
  return testing::model(parts);
}

TEST(Run, TakesTheSizesOfAModelFromItsInputs) {
  const Folder folder;
  const std::string file = folder.write("m.onnx", model_with_open_sizes());
  const float x[] = {1, 2, 3, 4};
  const std::int64_t shape[] = {2, 2};
  ASSERT_TRUE(import::write_npy(folder.path("x.npy"), ir::Literal::array<float>({4}, x)).ok());
  ASSERT_TRUE(
      import::write_npy(folder.path("shape.npy"), ir::Literal::array<std::int64_t>({2}, shape))
          .ok());
  const std::string given_shape = " --input shape=" + folder.path("shape.npy");
  for (const char* const name : {"x:0", "x_0"}) {
    const Call call = plimsoll("run " + file + " --input " + name + "=" + folder.path("x.npy") +
                               given_shape + " --output-dir " + folder.path("out"));
    ASSERT_EQ(call.exit_code, 0) << call.error;
    const auto y = import::read_npy(folder.path("out/y.npy"));
    ASSERT_TRUE(y.ok()) << y.status().message();
    const float squares[] = {1, 4, 9, 16};
    EXPECT_EQ(*y, ir::Literal::array<float>({2, 2}, squares));
  }
  const Call drawn = plimsoll("run " + file + " --input-shape x:0=4" + given_shape);
  EXPECT_EQ(drawn.exit_code, 0) << drawn.error;
  const Call planned = plimsoll("plan " + file + " --input-shape x:0=4" + given_shape);
  EXPECT_EQ(planned.exit_code, 0) << planned.error;
  const Call text = plimsoll("plan " + folder.write("p.hlo", kAdd) + given_shape);
  EXPECT_EQ(text.exit_code, 2);
  EXPECT_NE(text.error.find("--input is for models in ONNX"), std::string::npos) << text.error;
}

TEST(Run, AsksForTheSizesOfAModelByTheirInputs) {
  const Folder folder;
  const std::string file = folder.write("m.onnx", model_with_open_sizes());
  const Call open = plimsoll("run " + file);
  EXPECT_EQ(open.exit_code, 1);
  EXPECT_NE(open.error.find("--input-shape x:0="), std::string::npos) << open.error;
  const Call unknown = plimsoll("plan " + file + " --input-shape x:0=4");
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_NE(unknown.error.find("input 'shape' of the model"), std::string::npos) << unknown.error;
  const Call bad = plimsoll("opt " + file + " --passes none --input-shape x:0=4,b");
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.error.find("'b' is no size"), std::string::npos) << bad.error;
  const std::string text = folder.write("p.hlo", kAdd);
  const Call misplaced = plimsoll("run " + text + " --input-shape x=4");
  EXPECT_EQ(misplaced.exit_code, 2);
  EXPECT_NE(misplaced.error.find("models in ONNX"), std::string::npos) << misplaced.error;
}

}  // namespace
}  // namespace plimsoll::tools
