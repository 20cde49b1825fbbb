// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/collective_costs.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/ir/text/text.h"

namespace plimsoll::planner {
namespace {

// Of four replicas with two partitions each; x has 256 KiB.
CollectiveTraffic traffic_of(const std::string& operation,
                             const std::string& shape = "f32[256,256]") {
  const auto module = ir::parse_module(
      "HloModule m, replica_count=4, num_partitions=2\n"
      "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
      "ENTRY e {\n  x = " +
      shape + " parameter(0)\n  n = s32[4] parameter(1)\n  ROOT r = " + operation + "\n}\n");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  return module.ok() ? collective_traffic(*(*module)->entry()->root()) : CollectiveTraffic();
}

void expect_traffic(const CollectiveTraffic& traffic, double messages, double bytes) {
  EXPECT_DOUBLE_EQ(traffic.messages, messages);
  EXPECT_DOUBLE_EQ(traffic.bytes, bytes);
}

constexpr double kBytes = 256 << 10;

TEST(CollectiveCosts, CountWhatAMemberOfTheLargestGroupSends) {
  expect_traffic(traffic_of("f32[256,256] all-reduce(x), to_apply=sum"), 6, 1.5 * kBytes);
  expect_traffic(traffic_of("f32[256,256] all-reduce(x), channel_id=1, to_apply=sum"), 14,
                 1.75 * kBytes);
  expect_traffic(
      traffic_of("f32[256,256] all-reduce(x), replica_groups={{0,1,2},{3}}, to_apply=sum"), 4,
      4.0 / 3 * kBytes);
  expect_traffic(traffic_of("f32[256,256] all-reduce-start(x), to_apply=sum"), 6, 1.5 * kBytes);
  expect_traffic(traffic_of("f32[64,256] reduce-scatter(x), dimensions={0}, to_apply=sum"), 3,
                 0.75 * kBytes);
  expect_traffic(traffic_of("f32[1024,256] all-gather(x), dimensions={0}"), 3, 3 * kBytes);
  expect_traffic(traffic_of("f32[256,256] all-to-all(x), dimensions={0}"), 3, 0.75 * kBytes);
  expect_traffic(traffic_of("f32[256,256] ragged-all-to-all(x, x, n, n, n, n)"), 6, 0.75 * kBytes);
  expect_traffic(traffic_of("f32[256,256] collective-broadcast(x), replica_groups={{0,1,2,3}}"), 3,
                 3 * kBytes);
  expect_traffic(traffic_of("f32[256,256] collective-permute(x), source_target_pairs={{0,1}}"), 1,
                 kBytes);
}

TEST(CollectiveCosts, SmallSumsGoToAllAtOnce) {
  expect_traffic(traffic_of("f32[16] all-reduce(x), to_apply=sum", "f32[16]"), 3, 3 * 64);
  expect_traffic(traffic_of("f32[2048] all-reduce(x), to_apply=sum", "f32[2048]"), 3, 3 * 8192);
  expect_traffic(traffic_of("f32[2049] all-reduce(x), to_apply=sum", "f32[2049]"), 6, 1.5 * 8196);
}

TEST(CollectiveCosts, OfGroupsOfOneAndOtherOperationsAreNothing) {
  expect_traffic(
      traffic_of("f32[256,256] all-reduce(x), replica_groups={{0},{1},{2},{3}}, to_apply=sum"), 0,
      0);
  expect_traffic(traffic_of("f32[256,256] tanh(x)"), 0, 0);
}

// More participants and slower connections cost more, and a copy of as many bytes less.
TEST(CollectiveCosts, ArePartOfTheRoofline) {
  const auto seconds = [](const std::string& groups, const CollectiveSpeeds& speeds) {
    const auto module = ir::parse_module(
        "HloModule m, replica_count=4\n"
        "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
        "ENTRY e {\n  x = f32[256,256] parameter(0)\n  ROOT r = f32[256,256] all-reduce(x), "
        "replica_groups=" +
        groups + ", to_apply=sum\n}\n");
    Roofline machine;
    machine.collectives = speeds;
    return RooflineCostModel(machine).seconds(*(*module)->entry()->root());
  };
  const CollectiveSpeeds speeds{1e-3, 1e9};
  const double alone = seconds("{{0},{1},{2},{3}}", speeds),
               pairs = seconds("{{0,1},{2,3}}", speeds), all = seconds("{{0,1,2,3}}", speeds);
  EXPECT_NEAR(pairs - alone, 2e-3 + kBytes / 1e9, 1e-12);
  EXPECT_NEAR(all - alone, 6e-3 + 1.5 * kBytes / 1e9, 1e-12);
}

}  // namespace
}  // namespace plimsoll::planner
