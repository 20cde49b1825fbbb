// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/graphs/shape_graph.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::planner {
namespace {

TEST(ShapeGraph, EveryShapeIsValidAndAboutAsLongAsAskedFor) {
  for (const graphs::GraphShape shape : graphs::kGraphShapes) {
    SCOPED_TRACE(std::string(graphs::to_string(shape)));
    for (const int wanted : {1000, 3000}) {
      const auto module = graphs::graph_of_shape(shape, wanted);
      const Status status = ir::verify(*module);
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_LT(std::abs(module->instruction_count() - wanted), wanted / 10);
      const std::string text = ir::to_text(*module);
      EXPECT_EQ(text, ir::to_text(*graphs::graph_of_shape(shape, wanted)));
      const auto read = ir::parse_module(text);
      EXPECT_TRUE(read.ok()) << read.status().to_string();
    }
  }
}

TEST(ShapeGraph, LoopsAndCallsAreThere) {
  const auto count = [](graphs::GraphShape shape, ir::Opcode opcode) {
    const auto module = graphs::graph_of_shape(shape, 1000);
    int found = 0;
    for (const auto& each : module->entry()->instructions()) found += each->opcode() == opcode;
    return found;
  };
  EXPECT_GT(count(graphs::GraphShape::scan, ir::Opcode::while_), 10);
  EXPECT_GT(count(graphs::GraphShape::calls, ir::Opcode::call), 10);
}

}  // namespace
}  // namespace plimsoll::planner
