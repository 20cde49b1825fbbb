// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/ir/module.h"

namespace plimsoll::graphs {

// What programs look like that a planner's time is measured on. Each is a step with a backward
// direction that reads values of the forward one, so that a limit of half the peak costs time.
enum class GraphShape : std::uint8_t {
  chain,        // values each made of the one before
  wide,         // branches that share nothing but their ends
  tree,         // a balanced binary one of products
  recurrent,    // a network unrolled over time: weights that every time step reads
  unet,         // blocks down and up four scales, each passed on to its mirror image
  transformer,  // layers one after the other
  scan,         // recurrent layers, two loops each
  calls,        // the transformer's layers as calls of one computation
};
inline constexpr std::array kGraphShapes = {
    GraphShape::chain, GraphShape::wide,        GraphShape::tree, GraphShape::recurrent,
    GraphShape::unet,  GraphShape::transformer, GraphShape::scan, GraphShape::calls};

std::string_view to_string(GraphShape shape);

// A verified module of about `instructions` (1,000 or more; one of a shape has at least what its
// smallest network takes), f32, deterministic.
std::unique_ptr<ir::Module> graph_of_shape(GraphShape shape, int instructions);

}  // namespace plimsoll::graphs
