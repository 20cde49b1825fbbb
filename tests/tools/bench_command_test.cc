// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/command.h"

namespace plimsoll::tools {
namespace {

TEST(Bench, UnknownNamesAreTheCallsFault) {
  const Call part = plimsoll("bench planner --only growth,foo");
  EXPECT_EQ(part.exit_code, 2);
  EXPECT_NE(part.error.find("--only: 'foo' is none of recorded, chains, packing, remedies, growth, "
                            "shapes"),
            std::string::npos)
      << part.error;
  const Call model = plimsoll("bench planner --only recorded --models unet,nope");
  EXPECT_EQ(model.exit_code, 2);
  EXPECT_NE(model.error.find("--models: 'nope' is none of unet, resnet32, inceptionv4, "
                             "transformer, treelstm"),
            std::string::npos)
      << model.error;
  const Call empty = plimsoll("bench planner --only growth,,chains");
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_NE(empty.error.find("--only: name 2 of 'growth,,chains' is empty"), std::string::npos)
      << empty.error;
}

}  // namespace
}  // namespace plimsoll::tools
