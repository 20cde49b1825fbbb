// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/participants.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ir/text/text.h"

namespace plimsoll::ir {
namespace {

// Of two replicas with three partitions each, unless `counts` says otherwise.
Result<std::unique_ptr<Module>> module_of(
    const std::string& operation, const std::string& counts = "replica_count=2, num_partitions=3") {
  return parse_module("HloModule m, " + counts +
                      "\nsum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] "
                      "add(a, b) }\nENTRY e {\n  x = f32[6] parameter(0)\n  ROOT r = " +
                      operation + "\n}\n");
}

Result<Groups> groups_of(const std::string& operation) {
  auto module = module_of(operation);
  if (!module.ok()) return module.status();
  return collective_groups(*(*module)->entry()->root());
}

std::string error_of(const std::string& operation) {
  return groups_of(operation).status().to_string();
}

TEST(Participants, WithoutAChannelGroupsAreOfReplicas) {
  const auto groups = groups_of("f32[6] all-reduce(x), replica_groups={{1,0}}, to_apply=sum");
  ASSERT_TRUE(groups.ok()) << groups.status().to_string();
  EXPECT_EQ(*groups, (Groups{{3, 0}, {4, 1}, {5, 2}}));
}

TEST(Participants, WithAChannelReplicasComeWithTheirPartitions) {
  const auto groups =
      groups_of("f32[6] all-reduce(x), channel_id=1, replica_groups={{0},{1}}, to_apply=sum");
  ASSERT_TRUE(groups.ok()) << groups.status().to_string();
  EXPECT_EQ(*groups, (Groups{{0, 1, 2}, {3, 4, 5}}));
}

TEST(Participants, GlobalIdsAreTheParticipants) {
  for (const char* channel : {"channel_id=1, ", ""}) {
    const auto groups =
        groups_of("f32[6] all-reduce(x), " + std::string(channel) +
                  "use_global_device_ids=true, replica_groups={{5,0,2},{1},{3,4}}, to_apply=sum");
    ASSERT_TRUE(groups.ok()) << groups.status().to_string();
    EXPECT_EQ(*groups, (Groups{{5, 0, 2}, {1}, {3, 4}})) << channel;
  }
}

TEST(Participants, OtherOperationsWithAChannelNumberPartitions) {
  const auto groups =
      groups_of("f32[6] all-to-all(x), channel_id=1, dimensions={0}, replica_groups={{2,0},{1}}");
  ASSERT_TRUE(groups.ok()) << groups.status().to_string();
  EXPECT_EQ(*groups, (Groups{{2, 0}, {5, 3}, {1}, {4}}));
  const auto ragged = groups_of(
      "f32[6] ragged-all-to-all(x, x, s32[2] iota(), s32[2] iota(), s32[2] iota(), s32[2] "
      "iota()), channel_id=1, replica_groups={{2,0}}");
  EXPECT_NE(ragged.status().message().find("participant 1 is in no group"), std::string::npos)
      << ragged.status().to_string();
}

TEST(Participants, WithoutGroupsAllAreInOne) {
  for (const auto& [attributes, expected] : std::vector<std::pair<std::string, Groups>>{
           {"replica_groups={}", {{0, 3}, {1, 4}, {2, 5}}},
           {"channel_id=1, replica_groups={}", {{0, 1, 2, 3, 4, 5}}},
           {"use_global_device_ids=true", {{0, 1, 2, 3, 4, 5}}},
           {"channel_id=1, use_global_device_ids=true", {{0, 1, 2, 3, 4, 5}}}}) {
    const auto groups = groups_of("f32[6] all-reduce(x), " + attributes + ", to_apply=sum");
    ASSERT_TRUE(groups.ok()) << groups.status().to_string();
    EXPECT_EQ(*groups, expected) << attributes;
  }
}

TEST(Participants, WhatTheTopologyHasNotIsNamedWithTheRemedy) {
  EXPECT_EQ(error_of("f32[6] all-reduce(x), replica_groups={{0,2}}, to_apply=sum"),
            "INVALID_ARGUMENT: all-reduce 'r': there is no replica 2 (2 replicas x 3 partitions; "
            "--replicas and --partitions change them)");
  EXPECT_NE(error_of("f32[6] all-reduce(x), replica_groups={{0}}, to_apply=sum")
                .find("participant 3 is in no group"),
            std::string::npos);
  EXPECT_NE(error_of("f32[6] all-to-all(x), channel_id=1, dimensions={0}, replica_groups={{3}}")
                .find("there is no partition 3"),
            std::string::npos);
}

TEST(Participants, PairsOfAPermuteAreOfReplicasOrOfPartitions) {
  const auto pairs_of = [](const std::string& attributes) -> Result<Pairs> {
    auto module = module_of("f32[6] collective-permute(x), " + attributes);
    if (!module.ok()) return module.status();
    return permuted_participants(*(*module)->entry()->root());
  };
  const auto replicas = pairs_of("source_target_pairs={{0,1}}");
  ASSERT_TRUE(replicas.ok()) << replicas.status().to_string();
  EXPECT_EQ(*replicas, (Pairs{{0, 3}, {1, 4}, {2, 5}}));
  const auto partitions = pairs_of("channel_id=1, source_target_pairs={{0,2},{2,1}}");
  ASSERT_TRUE(partitions.ok()) << partitions.status().to_string();
  EXPECT_EQ(*partitions, (Pairs{{0, 2}, {3, 5}, {2, 1}, {5, 4}}));
  EXPECT_NE(pairs_of("source_target_pairs={{0,2}}").status().message().find("no replica 2"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll::ir
