// SPDX-License-Identifier: Apache-2.0
// Damaged HLO protos: none may crash the reader, hang it, or make it take much memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "runtime/import/hlo_proto/hlo_proto.h"
#include "runtime/ir/text/text.h"
#include "tests/import/stored_files.h"

namespace plimsoll::import {
namespace {

std::vector<std::string> protos() {
  std::vector<std::string> all;
  for (const char* folder : {"tests/c_api/jax_programs", "tests/import/hlo_protos"}) {
    for (const auto& path : stored_files(folder, ".pb")) all.push_back(bytes_of(path));
  }
  return all;
}

TEST(HloProtoFuzz, DamagedProtosAreErrorsOrReadBackFromText) {
  const std::vector<std::string> all = protos();
  ASSERT_GE(all.size(), 60U);
  std::int64_t refused = 0, read = 0;
  std::mt19937_64 random(21);
  for (const std::string& proto : all) {
    for (int i = 0; i < mutants_of_each(); ++i) {
      const auto module = hlo_proto::read_module(mutant(proto, random), "mutant");
      if (module.ok()) {
        ++read;
        const auto again = ir::parse_module(ir::to_text(**module), "text");
        EXPECT_TRUE(again.ok()) << again.status().message();
        continue;
      }
      ++refused;
      EXPECT_TRUE(module.status().message().starts_with("mutant: ")) << module.status().message();
      EXPECT_NE(module.status().code(), StatusCode::internal) << module.status().message();
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace plimsoll::import
