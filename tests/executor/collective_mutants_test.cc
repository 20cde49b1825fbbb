// SPDX-License-Identifier: Apache-2.0
// Collectives whose attributes and shapes are others than they should be, run by four participants:
// what kernels index by is checked before they run, and what runs does what the interpreter says.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/executor/limit_check.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

constexpr std::string_view kCollectives[] = {
    "ROOT r = f32[4,8] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=sum",
    "ROOT r = f32[4,8] all-reduce(x), channel_id=1, replica_groups={{3,1,2,0}}, "
    "use_global_device_ids=true, to_apply=sum",
    "ROOT r = f32[4,2] reduce-scatter(x), replica_groups={{0,1,2,3}}, dimensions={1}, to_apply=sum",
    "ROOT r = (f32[2,8], f32[2,8]) reduce-scatter(x, x), replica_groups={{0,1},{2,3}}, "
    "dimensions={0}, to_apply=sum",
    "ROOT r = f32[16,8] all-gather(x), replica_groups={{0,1,2,3}}, dimensions={0}",
    "ROOT r = (f32[4,16], f32[4,16]) all-gather(x, x), replica_groups={{0,1},{2,3}}, "
    "dimensions={1}",
    "ROOT r = f32[4,8] all-to-all(x), replica_groups={{0,1,2,3}}, dimensions={1}",
    "ROOT r = (f32[4,8], f32[4,8]) all-to-all(x, x), replica_groups={{0,1},{2,3}}",
    "from = s32[4] constant({3,0,1,1})\n  rows = s64[4] constant({1,1,1,1})\n"
    "  self = u32[] replica-id()\n  to = u32[4] broadcast(self), dimensions={}\n"
    "  ROOT r = f32[4,8] ragged-all-to-all(x, x, from, rows, to, rows), "
    "replica_groups={{0,1,2,3}}",
    "from = s32[4] constant({3,0,1,1})\n  rows = s32[4] constant({1,0,1,0})\n"
    "  self = u32[] replica-id()\n  to = u32[4] broadcast(self), dimensions={}\n"
    "  ROOT r = f32[4,8] ragged-all-to-all(x, x, from, rows, to, rows), "
    "replica_groups={{0,1},{2,3}}",
    "ROOT r = f32[4,8] collective-permute(x), source_target_pairs={{0,1},{1,2},{3,0}}",
    "ROOT r = f32[4,8] collective-broadcast(x), replica_groups={{2,0},{1,3}}",
    "s = f32[4,8] all-reduce-start(x), replica_groups={{0,1},{2,3}}, to_apply=sum\n"
    "  ROOT r = f32[4,8] all-reduce-done(s)",
    "s = (f32[4,8], f32[16,8]) all-gather-start(x), replica_groups={{0,1,2,3}}, dimensions={0}\n"
    "  ROOT r = f32[16,8] all-gather-done(s)",
    "s = ((f32[4,8], f32[4,8]), (f32[8,8], f32[8,8])) all-gather-start(x, x), "
    "replica_groups={{0,1},{2,3}}, dimensions={0}\n"
    "  ROOT r = (f32[8,8], f32[8,8]) all-gather-done(s)",
    "s = (f32[4,8], f32[4,8], u32[], u32[]) collective-permute-start(x), "
    "source_target_pairs={{0,1},{1,2},{3,0}}\n"
    "  ROOT r = f32[4,8] collective-permute-done(s)",
    "s = ((f32[4,8]), f32[4,2], u32[]) async-start(x), calls=scattered\n"
    "  ROOT r = f32[4,2] async-done(s)",
};

std::string collective_program(std::string_view operation) {
  return "HloModule m, replica_count=4\n"
         "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
         "scattered {\n  y = f32[4,8] parameter(0)\n  ROOT q = f32[4,2] reduce-scatter(y), "
         "replica_groups={{0,1,2,3}}, dimensions={1}, to_apply=sum\n}\n"
         "ENTRY e {\n  x = f32[4,8] parameter(0)\n  " +
         std::string(operation) + "\n}\n";
}

// One to three changes: another digit, a number more or less, an attribute left out, a group
// twice, an operand more.
std::string mutated_collective(std::string text, std::mt19937_64& random) {
  const auto somewhere = [&](std::string_view any_of) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (any_of.find(text[i]) != std::string_view::npos) places.push_back(i);
    }
    return places.empty() ? std::string::npos : places[random() % places.size()];
  };
  const std::size_t changes = 1 + random() % 3;
  for (std::size_t i = 0; i < changes; ++i) {
    std::size_t place = 0;
    switch (random() % 8) {
      case 0:
      case 1:
      case 2:
        if (place = somewhere("0123456789"); place != std::string::npos) {
          text[place] = static_cast<char>('0' + random() % 10);
        }
        break;
      case 3:
        if (place = somewhere("0123456789"); place != std::string::npos) {
          text.insert(place, random() % 2 == 0 ? "-" : "1,");
        }
        break;
      case 4:
        if (place = somewhere("0123456789"); place != std::string::npos) {
          text.erase(place, 1 + (text[place + 1] == ',' ? 1 : 0));
        }
        break;
      case 5: {
        constexpr std::string_view kNames[] = {", replica_groups=", ", dimensions=", ", to_apply=",
                                               ", channel_id=", ", source_target_pairs="};
        place = text.find(kNames[random() % std::size(kNames)]);
        if (place == std::string::npos) break;
        // To the next attribute, or the end of the line.
        std::size_t depth = 0, end = place + 1;
        for (; end < text.size() && text[end] != '\n'; ++end) {
          if (text[end] == '{') ++depth;
          if (text[end] == '}') --depth;
          if (text[end] == ',' && depth == 0) break;
        }
        text.erase(place, end - place);
        break;
      }
      case 6: {
        constexpr std::string_view kGroups[] = {"{},", "{0,1},", "{2},", "{0,1,2,3},"};
        place = text.find("={{");
        if (place != std::string::npos) text.insert(place + 2, kGroups[random() % 4]);
        break;
      }
      default:
        if (place = text.find("(x"); place != std::string::npos) {
          if (random() % 2 == 0) {
            text.insert(place + 2, ", x");
          } else {
            text.erase(place + 1, 1);
          }
        }
    }
  }
  return text;
}

// How many mutants of each operation: PLIMSOLL_FUZZ_MUTANTS, or the everyday number.
int collective_mutants_of_each() {
  const char* const given = std::getenv("PLIMSOLL_FUZZ_MUTANTS");
  return given == nullptr ? 60 : std::atoi(given);
}

TEST(CollectiveMutants, AreRefusedOrRunAsInterpreted) {
  std::mt19937_64 random(4);
  int refused = 0, ran = 0;
  for (const std::string_view operation : kCollectives) {
    for (int i = 0; i <= collective_mutants_of_each(); ++i) {
      const std::string changed =
          i == 0 ? std::string(operation) : mutated_collective(std::string(operation), random);
      const auto module = ir::parse_module(collective_program(changed));
      if (!module.ok()) {
        EXPECT_GT(i, 0) << operation << module.status().to_string();
        EXPECT_NE(module.status().code(), StatusCode::internal) << module.status().to_string();
        ++refused;
        continue;
      }
      std::vector<std::vector<ir::Literal>> arguments;
      for (std::uint64_t p = 0; p < 4; ++p) {
        arguments.push_back(cases::random_arguments(**module, p + 1));
      }
      std::string error;
      const auto results = testing::run_unlimited_together(**module, arguments, provider(),
                                                           /*optimize=*/true, error);
      const auto expected = ir::interpret_together(**module, arguments);
      EXPECT_NE(expected.status().code(), StatusCode::internal) << changed;
      EXPECT_EQ(error.find("INTERNAL"), std::string::npos) << changed << '\n' << error;
      if (!error.empty()) {
        EXPECT_GT(i, 0) << operation << error;
        ++refused;
        continue;
      }
      ++ran;
      if (!expected.ok()) continue;
      for (std::size_t p = 0; p < 4; ++p) {
        // Sums are of other orders.
        EXPECT_EQ(cases::compare_close((*expected)[p], results[p], 1e-5, 1.0), "") << changed;
      }
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(ran, static_cast<int>(std::size(kCollectives)));
}

}  // namespace
}  // namespace plimsoll
