// SPDX-License-Identifier: Apache-2.0
// What is said to be the same is: every value of random programs, in all participants.
#include "runtime/passes/collectives/replication.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

// Every third parameter is the same in all partitions, every third other in all replicas.
void say_what_is_replicated(ir::Module& module) {
  const auto& parameters = module.entry()->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto& extra = parameters[i]->attributes().extra;
    if (i % 3 != 1) extra.emplace_back("sharding", "{replicated}");
    if (i % 3 != 2) extra.emplace_back("parameter_replication", "{true}");
  }
}

std::vector<std::vector<ir::Literal>> arguments_of(const ir::Module& module, std::uint64_t seed) {
  std::vector<std::vector<ir::Literal>> arguments;
  const std::int64_t partitions = module.num_partitions;
  for (std::int64_t i = 0; i < module.replica_count * partitions; ++i) {
    auto& own = arguments.emplace_back();
    const auto& parameters = module.entry()->parameters();
    for (std::size_t j = 0; j < parameters.size(); ++j) {
      const std::int64_t replica = j % 3 != 2 ? 0 : i / partitions;
      const std::int64_t partition = j % 3 != 1 ? 0 : i % partitions;
      own.push_back(cases::random_literal(
          parameters[j]->shape(), seed + 1000 * j + 100 * static_cast<std::uint64_t>(replica) +
                                      static_cast<std::uint64_t>(partition)));
    }
  }
  return arguments;
}

TEST(Replication, OfEveryValueOfRandomPrograms) {
  constexpr std::int64_t kCounts[] = {1, 2, 4};
  int alike = 0, apart = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    cases::RandomModuleOptions options;
    options.smallest_bytes = 64;
    options.largest_bytes = 1 << 10;
    options.replicas = kCounts[seed % 3];
    options.partitions = kCounts[seed / 3 % 3];
    options.donations = false;
    const auto module = cases::random_module(seed, options);
    say_what_is_replicated(*module);
    std::vector<ir::Instruction*> values;
    for (const auto& instruction : module->entry()->instructions()) {
      if (instruction->shape().is_array()) values.push_back(instruction.get());
    }
    module->entry()->set_root(module->entry()->add_tuple(values));
    const Replication replication(*module);
    const auto results = ir::interpret_together(*module, arguments_of(*module, seed));
    ASSERT_TRUE(results.ok()) << results.status().message();
    for (std::size_t v = 0; v < values.size(); ++v) {
      const Sameness same = replication.of(*values[v]);
      for (std::int64_t i = 0; i < options.replicas * options.partitions; ++i) {
        const auto& own = (*results)[static_cast<std::size_t>(i)].elements()[v];
        const auto expect = [&](bool is_same, std::int64_t other) {
          ++(is_same ? alike : apart);
          if (!is_same) return;
          EXPECT_EQ(
              cases::compare_bits((*results)[static_cast<std::size_t>(other)].elements()[v], own),
              "")
              << seed << ": " << values[v]->name() << " in " << i << " and " << other;
        };
        expect(same.partitions, i / options.partitions * options.partitions);
        expect(same.replicas, i % options.partitions);
      }
    }
  }
  // Both kinds occur.
  EXPECT_GT(alike, 1000);
  EXPECT_GT(apart, 1000);
}

}  // namespace
}  // namespace plimsoll::passes
