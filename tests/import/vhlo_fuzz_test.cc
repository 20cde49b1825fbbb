// SPDX-License-Identifier: Apache-2.0
// Damaged artifacts: none may crash the reader, hang it, or make it take much memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "runtime/import/program_bytes.h"
#include "runtime/import/vhlo/vhlo.h"

namespace plimsoll::import {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> artifacts() {
  std::vector<fs::path> paths;
  const fs::path folder = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/c_api/jax_programs";
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".mlirbc") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> all;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    all.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return all;
}

std::string mutant(const std::string& artifact, std::mt19937_64& random) {
  std::string bytes = artifact;
  const auto at = [&] { return static_cast<std::size_t>(random() % bytes.size()); };
  switch (random() % 6) {
    case 0:
      bytes.resize(at());
      break;
    case 1:  // a piece twice, or a piece less
      bytes.insert(at(), bytes.substr(at(), 1 + random() % 16));
      break;
    case 2:
      bytes.erase(at(), 1 + random() % 16);
      break;
    default:
      break;
  }
  const std::size_t changes = 1 + random() % 4;
  for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
    bytes[at()] = static_cast<char>(random() % 3 == 0 ? random() : random() % 8);
  }
  return bytes;
}

// PLIMSOLL_FUZZ_MUTANTS: how many of each artifact.
TEST(VhloFuzz, DamagedArtifactsAreErrors) {
  const std::vector<std::string> all = artifacts();
  ASSERT_GE(all.size(), 50U);
  const char* const given = std::getenv("PLIMSOLL_FUZZ_MUTANTS");
  const int mutants = given == nullptr ? 60 : std::atoi(given);
  std::int64_t refused = 0, read = 0;
  std::mt19937_64 random(20);
  for (const std::string& artifact : all) {
    for (int i = 0; i < mutants; ++i) {
      const auto module = vhlo::read_module(mutant(artifact, random), "mutant");
      if (module.ok()) {
        ++read;
        continue;
      }
      ++refused;
      EXPECT_TRUE(module.status().message().starts_with("mutant: ")) << module.status().message();
      EXPECT_NE(module.status().code(), StatusCode::internal) << module.status().message();
    }
  }
  EXPECT_GT(refused, read);
}

TEST(ProgramBytes, AreToldApart) {
  const auto message = [](std::string_view bytes) {
    const auto module = read_program(bytes, "x");
    return module.ok() ? std::string() : module.status().message();
  };
  EXPECT_EQ(message("HloModule m\nENTRY e { ROOT a = f32[2] parameter(0) }\n"), "");
  EXPECT_NE(message("module @m { func.func public @main() }").find("StableHLO as text"),
            std::string::npos);
  EXPECT_NE(message("ML\xefR").find("makes no sense"), std::string::npos);
  EXPECT_NE(message(std::string("ML\xefR\x05", 5)).find("version 2"), std::string::npos);
  EXPECT_EQ(message("nonsense").substr(0, 2), "x:");
  // As jax.export wraps one: some bytes, a length, the artifact, some bytes.
  const std::string artifact = artifacts().front();
  std::string wrapped("\x10\x00\x00\x00more", 8);
  for (int i = 0; i < 4; ++i) wrapped.push_back(static_cast<char>(artifact.size() >> (8 * i)));
  EXPECT_EQ(message(wrapped + artifact + "behind"), "");
}

}  // namespace
}  // namespace plimsoll::import
