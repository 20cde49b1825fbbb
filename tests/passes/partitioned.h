// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/module.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/sharding.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/partition/tiles.h"
#include "runtime/passes/passes.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {

using ir::Literal;
using ir::Opcode;

inline int number_of(const ir::Module& module, Opcode opcode) {
  int found = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() == opcode) ++found;
    }
  }
  return found;
}

// Of the tile that a partition has of an array of `whole`: where its first element lies.
inline std::vector<std::int64_t> start_of(const ir::Shape& shape, const ir::Sharding& sharding,
                                          std::int64_t partition, std::int64_t partitions) {
  std::vector<std::int64_t> start(at(shape.rank()));
  if (sharding.is_replicated()) return start;
  const std::int64_t tile = sharding.tile_of_partition(partitions)[at(partition)];
  const std::vector<std::int64_t> place = sharding.place_of_tile(tile);
  for (int d = 0; d < shape.rank(); ++d) start[at(d)] = place[at(d)] * shape.dim(d);
  return start;
}

// The part of `whole` that a partition has; `beyond` is what the tile has beyond the array.
inline Literal tile_of(const Literal& whole, const ir::Sharding& sharding, std::int64_t partition,
                       std::int64_t partitions, double beyond = 0) {
  const auto shape = ir::tile_shape(whole.shape(), sharding);
  EXPECT_TRUE(shape.ok());
  Literal tile(*shape);
  const std::vector<std::int64_t> start = start_of(*shape, sharding, partition, partitions);
  for (std::int64_t i = 0; i < shape->element_count(); ++i) {
    std::int64_t rest = i, from = 0, stride = 1;
    bool is_inside = true;
    for (int d = shape->rank() - 1; d >= 0; --d) {
      const std::int64_t place = start[at(d)] + rest % shape->dim(d);
      is_inside = is_inside && place < whole.shape().dim(d);
      from += place * stride;
      stride *= whole.shape().dim(d);
      rest /= shape->dim(d);
    }
    tile.set(i, is_inside ? whole.at(from) : beyond);
  }
  return tile;
}

// With zeros beyond the array of shape `whole`.
inline Literal inside(Literal tile, const ir::Shape& whole, const ir::Sharding& sharding,
                      std::int64_t partition, std::int64_t partitions) {
  const std::vector<std::int64_t> start = start_of(tile.shape(), sharding, partition, partitions);
  for (std::int64_t i = 0; i < tile.shape().element_count(); ++i) {
    std::int64_t rest = i;
    for (int d = tile.shape().rank() - 1; d >= 0; --d) {
      if (start[at(d)] + rest % tile.shape().dim(d) >= whole.dim(d)) tile.set(i, 0);
      rest /= tile.shape().dim(d);
    }
  }
  return tile;
}

// What poisons every sum that it gets into.
inline double poison(ir::DType dtype) {
  return ir::is_floating(dtype) ? std::numeric_limits<double>::quiet_NaN() : 1;
}

// Makes `module`, the text of `whole` with `num_partitions` and `whole_shapes`, that of a
// partition, and runs it on the arguments' tiles, with poison beyond the arrays. Fails where a
// result is not the tile of what `whole` computes.
inline void compute_on_tiles(const ir::Module& whole, ir::Module& module,
                             const std::vector<Literal>& arguments, double relative,
                             double absolute = 0) {
  const std::int64_t partitions = module.num_partitions;
  const auto expected = ir::interpret(whole, arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  std::vector<std::vector<Literal>> tiles(at(partitions));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& attributes = module.entry()->parameters()[i]->attributes();
    const std::string said(attributes.find_extra("sharding"));
    const auto held = ir::parse_sharding(said.empty() ? "{replicated}" : said,
                                         arguments[i].shape().rank(), partitions);
    ASSERT_TRUE(held.ok()) << held.status().to_string();
    for (std::int64_t p = 0; p < partitions; ++p) {
      tiles[at(p)].push_back(
          tile_of(arguments[i], *held, p, partitions, poison(arguments[i].shape().dtype())));
    }
  }
  const Status status = partition(module).status();
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_TRUE(ir::verify(module).ok()) << ir::verify(module).to_string() << ir::to_text(module);
  for (const auto& computation : module.computations()) {
    for (const auto& one : computation->instructions()) {
      if (is_sharding_mark(*one)) one->replace_all_uses_with(one->operand(0));
    }
    (void)computation->remove_dead();
  }
  const auto results = ir::interpret_together(module, tiles);
  ASSERT_TRUE(results.ok()) << results.status().to_string() << ir::to_text(module);
  const bool is_tuple = expected->shape().is_tuple();
  std::vector<int> ranks;
  for (const ir::Shape* leaf : ir::leaves(expected->shape())) ranks.push_back(leaf->rank());
  const auto held = ir::parse_shardings(module.entry()->root()->attributes().find_extra("sharding"),
                                        ranks, partitions);
  ASSERT_TRUE(held.ok()) << held.status().to_string();
  for (std::int64_t p = 0; p < partitions; ++p) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const Literal& result = is_tuple ? expected->elements()[i] : *expected;
      const Literal& made = is_tuple ? (*results)[at(p)].elements()[i] : (*results)[at(p)];
      EXPECT_EQ(cases::compare_close(tile_of(result, (*held)[i], p, partitions),
                                     inside(made, result.shape(), (*held)[i], p, partitions),
                                     relative, absolute),
                "")
          << "partition " << p << " result " << i << ir::to_text(module);
    }
  }
}

// The program of a partition, which computes what the whole program does; or what another one does,
// which has no manual regions.
inline std::unique_ptr<ir::Module> on_tiles(const std::string& program, std::int64_t partitions,
                                            const std::string& other = {}) {
  const std::string sum =
      "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n";
  const auto whole = parse("HloModule m\n" + sum + (other.empty() ? program : other));
  auto module =
      parse("HloModule m, whole_shapes=true, num_partitions=" + std::to_string(partitions) + "\n" +
            sum + program);
  auto arguments = cases::random_arguments(*whole, 3);
  for (Literal& argument : arguments) {
    // Indices and choices.
    if (argument.shape().dtype() != ir::DType::s32) continue;
    for (std::int64_t i = 0; i < argument.shape().element_count(); ++i) {
      argument.set(i, static_cast<double>((5 * i + 1) % 8));
    }
  }
  compute_on_tiles(*whole, *module, arguments, 1e-5);
  return module;
}

}  // namespace plimsoll::passes
