// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/command.h"

namespace plimsoll::tools {
namespace {

using nlohmann::json;

constexpr const char* kBuffers = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\n";

TEST(Pack, WritesOffsetsAndSaysTheArena) {
  const Folder folder;
  const std::string file = folder.write("b.csv", kBuffers);
  const std::string out = file + ".packed";
  const json result = plimsoll("pack " + file + " --capacity 8 --json --output " + out).json();
  EXPECT_EQ(result["arena_bytes"], 8);
  EXPECT_EQ(result["liveness_bytes"], 8);
  EXPECT_EQ(result["buffers"], 4);
  EXPECT_TRUE(result["seconds"].is_number());
  std::ifstream stream(out);
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  EXPECT_EQ(text.find("id,lower,upper,size,offset\nb1,0,3,4,"), 0u) << text;
  // What was written is input again.
  EXPECT_EQ(plimsoll("pack " + out + " --json").json()["arena_bytes"], 8);
}

TEST(Pack, AlignsOffsetsAndSizes) {
  const Folder folder;
  const std::string file = folder.write("b.csv", kBuffers);
  EXPECT_EQ(plimsoll("pack " + file + " --alignment 64 --json").json()["arena_bytes"], 128);
}

TEST(Pack, ACapacityBelowTheLoadIsTheDatasFault) {
  const Folder folder;
  const Call result = plimsoll("pack " + folder.write("b.csv", kBuffers) + " --capacity 7");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.error.find("no packing within 7 bytes: the best found takes 8, the live bytes "
                              "alone 8"),
            std::string::npos)
      << result.error;
}

TEST(Pack, BadInputIsNamedWithItsLine) {
  const Folder folder;
  const auto fails = [&](const std::string& text, const std::string& message) {
    const Call result = plimsoll("pack " + folder.write("bad.csv", text));
    EXPECT_EQ(result.exit_code, 1) << text;
    EXPECT_NE(result.error.find("bad.csv:" + message), std::string::npos) << result.error;
  };
  fails("", "1: no header");
  fails("id,lower,upper\n", "1: no column `size`");
  fails("id,lower,upper,size,gap\n", "1: unknown column `gap`");
  fails("id,lower,upper,size\na,1,2\n", "2: 3 fields where the header has 4");
  fails("id,lower,upper,size\n\na,1,x,4\n", "3: upper `x` is no 64-bit whole number");
  fails("id,lower,upper,size\na,5,4,4\n", "2: upper 4 before lower 5");
  fails("id,lower,upper,size\na,1,2,-4\n", "2: negative size -4");
  fails("id,lower,upper,size\na,1,2,4\na,1,2,4\n", "3: id `a` is that of line 2");
}

TEST(Pack, WhatCantBeOpenedIsTheCallsFault) {
  EXPECT_EQ(plimsoll("pack /nowhere/b.csv").exit_code, 2);
}

}  // namespace
}  // namespace plimsoll::tools
