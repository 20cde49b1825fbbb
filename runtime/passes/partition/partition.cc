// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/sharding.h"
#include "runtime/passes/partition/propagate.h"
#include "runtime/passes/partition/regions.h"
#include "runtime/passes/partition/tiles.h"
#include "runtime/passes/passes.h"

namespace plimsoll::passes {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using ir::Sharding;

constexpr std::string_view kSharding = "sharding";

bool has_regions(const ir::Module& module) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (is_region_border(*instruction)) return true;
    }
  }
  return false;
}

int rank_of(const Shape& shape) { return shape.is_array() ? shape.rank() : 0; }

// By name, how what is made as tiles is held.
using Made = std::unordered_map<std::string, Sharding>;

class Partitioner {
 public:
  Partitioner(ir::Module& module, bool is_marked)
      : module_(module), is_marked_(is_marked), tiles_(module) {}

  // `made`: by name, what of the entry will be made as tiles, as `try_out` has found it; or null.
  Status run(const Made* made) {
    PLIMSOLL_RETURN_IF_ERROR(cut_parameters());
    if (is_marked_) {
      PLIMSOLL_RETURN_IF_ERROR(compute_on_tiles(made, nullptr));
    } else {
      PLIMSOLL_RETURN_IF_ERROR(cross_region_borders(tiles_));
    }
    PLIMSOLL_RETURN_IF_ERROR(cut_results());
    PLIMSOLL_RETURN_IF_ERROR(remove_unused());
    if (!is_marked_) return ok_status();
    // Those inside other regions, and in what tiles have not led to.
    KnownTiles none = tiles_.of_another();
    PLIMSOLL_RETURN_IF_ERROR(cross_region_borders(none));
    return remove_unused();
  }

  // What of the entry is made as tiles. The module is of no use afterwards.
  Result<Made> try_out() {
    Made made;
    PLIMSOLL_RETURN_IF_ERROR(cut_parameters());
    PLIMSOLL_RETURN_IF_ERROR(compute_on_tiles(nullptr, &made));
    return made;
  }

 private:
  Status cut_parameters() {
    read_results();
    // Only the entry's arrays are known by tiles.
    if (is_marked_) PLIMSOLL_RETURN_IF_ERROR(inline_calls(module_).status());
    for (Instruction* const parameter : module_.entry()->parameters()) {
      PLIMSOLL_RETURN_IF_ERROR(cut_parameter(*parameter));
    }
    return ok_status();
  }

  Status compute_on_tiles(const Made* known, Made* made) {
    PLIMSOLL_RETURN_IF_ERROR(module_.entry()->sort_topologically());
    PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<Sharding> results,
                              said_of_results(module_.entry()->root()->shape()));
    return propagate_tiles(*module_.entry(), tiles_, {results, known}, made);
  }

  Status remove_unused() {
    for (const auto& computation : module_.computations()) {
      PLIMSOLL_RETURN_IF_ERROR(computation->sort_topologically());
      (void)computation->remove_dead();
    }
    (void)module_.remove_unreachable();
    return ok_status();
  }

  // What the root says of the results: before it is cut itself, which makes another one the root. A
  // parameter's is that of the argument, a mark's its own.
  void read_results() {
    const Instruction& root = *module_.entry()->root();
    if (is_sharding_mark(root) || root.opcode() == Opcode::parameter) return;
    said_of_results_ = root.attributes().find_extra(kSharding);
  }

  // Unknown where the program says nothing.
  Result<std::vector<Sharding>> said_of_results(const Shape& shape) const {
    std::vector<int> ranks;
    for (const Shape& one : shapes_of(shape)) ranks.push_back(rank_of(one));
    if (!said_of_results_.empty()) {
      return ir::parse_shardings(said_of_results_, ranks, module_.num_partitions);
    }
    Sharding unsaid;
    unsaid.is_unknown = true;
    return std::vector<Sharding>(ranks.size(), unsaid);
  }

  Result<Sharding> sharding_of(const Instruction& instruction) const {
    const std::string_view text = instruction.attributes().find_extra(kSharding);
    if (text.empty()) return Sharding();
    return ir::parse_sharding(text, rank_of(instruction.shape()), module_.num_partitions);
  }

  Status cut_parameter(Instruction& parameter) {
    PLIMSOLL_ASSIGN_OR_RETURN(const Sharding sharding, sharding_of(parameter));
    if (sharding.is_replicated()) return ok_status();
    Computation& computation = *parameter.parent();
    Instruction* const root = computation.root();
    const Shape shape = parameter.shape();
    PLIMSOLL_ASSIGN_OR_RETURN(Shape tile, ir::tile_shape(shape, sharding));
    const std::vector<Instruction*> users = parameter.users();
    parameter.set_shape(std::move(tile));
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const whole,
                              tiles_.add_whole_of(&parameter, shape, sharding));
    computation.set_root(root == &parameter ? whole : root);
    for (Instruction* const user : users) {
      for (int i = 0; i < user->operand_count(); ++i) {
        if (user->operand(i) == &parameter) user->replace_operand(i, whole);
      }
    }
    return ok_status();
  }

  Status cross_region_borders(KnownTiles& tiles) {
    std::vector<Instruction*> borders;
    for (const auto& computation : module_.computations()) {
      for (const auto& instruction : computation->instructions()) {
        if (is_region_border(*instruction)) borders.push_back(instruction.get());
      }
    }
    for (Instruction* const border : borders) {
      Computation& computation = *border->parent();
      Instruction* const root = computation.root();
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const made, cross_region_border(*border, tiles));
      border->replace_all_uses_with(made);
      computation.set_root(root == border ? made : root);
      computation.remove(border);
    }
    return ok_status();
  }

  // The sharding of a result that says none: what the program says where it makes it, or that of
  // the tiles by which it is known; whole where tiles would reach beyond it, as callers take such
  // only if they have asked for them.
  Result<Sharding> own_sharding(Instruction* whole) const {
    PLIMSOLL_ASSIGN_OR_RETURN(Sharding made, [&]() -> Result<Sharding> {
      const bool is_open = !whole->attributes().find_extra("open").empty();
      if (is_sharding_mark(*whole) && !is_open) return sharding_of(*whole);
      for (const auto* const known : {tiles_.find_summands(whole), tiles_.find(whole)}) {
        if (known != nullptr) return known->sharding;
      }
      return Sharding();
    }());
    for (int d = 0; d < rank_of(whole->shape()); ++d) {
      if (!ir::is_even(whole->shape().dim(d), made, d)) return Sharding();
    }
    return made;
  }

  // By what the root says; without it results stay whole, or, of a program whose arrays are
  // whole everywhere, what is there as tiles stays so.
  Status cut_results() {
    Computation& entry = *module_.entry();
    Instruction* const root = entry.root();
    const bool is_tuple = root->shape().is_tuple();
    const std::vector<Instruction*> wholes = arrays_of(root);
    PLIMSOLL_ASSIGN_OR_RETURN(std::vector<Sharding> shardings, said_of_results(root->shape()));
    for (std::size_t i = 0; i < wholes.size(); ++i) {
      if (!shardings[i].is_unknown) continue;
      shardings[i] = Sharding();
      if (!is_marked_) continue;
      PLIMSOLL_ASSIGN_OR_RETURN(shardings[i], own_sharding(wholes[i]));
    }
    std::vector<Instruction*> tiles;
    std::string all;
    for (std::size_t i = 0; i < wholes.size(); ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const tile, tiles_.tile_of(wholes[i], shardings[i]));
      tiles.push_back(tile);
      all += (all.empty() ? "" : ",") + ir::to_string(shardings[i]);
    }
    // What it is held by is said of the result alone.
    if (!is_tuple && (tiles[0]->opcode() == Opcode::parameter || is_region_border(*tiles[0]))) {
      tiles[0] = entry.add(Opcode::copy, tiles[0]->shape(), {tiles[0]});
    }
    Instruction* const made = is_tuple ? entry.add_tuple(std::move(tiles)) : tiles[0];
    std::erase_if(made->attributes().extra, [](const auto& one) { return one.first == kSharding; });
    made->attributes().extra.emplace_back(kSharding, is_tuple ? "{" + all + "}" : all);
    entry.set_root(made);
    // The header's layouts are of whole arrays, and an alias of arrays that are now of different
    // sizes is none.
    std::erase_if(module_.extra, [](const auto& one) {
      return one.first == "entry_computation_layout" || one.first == kWholeShapes;
    });
    std::erase_if(module_.input_output_alias, [&](const ir::InputOutputAlias& alias) {
      const Shape& parameter = entry.parameters()[at(alias.parameter_number)]->shape();
      const Shape& result = entry.root()->shape();
      if (!alias.parameter_index.empty() || alias.output_index.size() > 1) return false;
      const Shape& output =
          alias.output_index.empty() ? result : result.elements()[at(alias.output_index[0])];
      if (output == parameter) return false;
      module_.buffer_donor.push_back({alias.parameter_number, {}});
      return true;
    });
    return ok_status();
  }

  ir::Module& module_;
  const bool is_marked_;
  std::string said_of_results_;
  KnownTiles tiles_;
};

}  // namespace

Status hold_parameter(ir::Module& module, std::size_t number, std::string_view sharding) {
  const auto& parameters = module.entry()->parameters();
  if (number >= parameters.size()) {
    return invalid_argument("a sharding of parameter " + std::to_string(number) +
                            ", the program has " + std::to_string(parameters.size()));
  }
  Instruction& parameter = *parameters[number];
  const std::string name = "parameter '" + parameter.name() + "'";
  PLIMSOLL_ASSIGN_OR_RETURN(const Sharding read, [&]() -> Result<Sharding> {
    auto one = ir::parse_sharding(sharding, rank_of(parameter.shape()), module.num_partitions);
    if (one.ok()) return one;
    return one.status().with_context(name);
  }());
  PLIMSOLL_RETURN_IF_ERROR(ir::tile_shape(parameter.shape(), read).status().with_context(name));
  auto& extra = parameter.attributes().extra;
  std::erase_if(extra, [](const auto& one) { return one.first == kSharding; });
  extra.emplace_back(kSharding, ir::to_string(read));
  const bool is_marked = std::any_of(module.extra.begin(), module.extra.end(),
                                     [](const auto& one) { return one.first == kWholeShapes; });
  if (!is_marked) module.extra.emplace_back(kWholeShapes, "true");
  return ok_status();
}

Result<bool> partition(ir::Module& module) {
  const bool is_marked = std::any_of(module.extra.begin(), module.extra.end(),
                                     [](const auto& one) { return one.first == kWholeShapes; });
  if (module.num_partitions <= 1 || !(is_marked || has_regions(module))) return false;
  // Which tiles loops should make is known from what reads them behind.
  Made made;
  if (is_marked && has_loops(module)) {
    const auto copy = module.clone();
    PLIMSOLL_ASSIGN_OR_RETURN(made, Partitioner(*copy, true).try_out());
  }
  PLIMSOLL_RETURN_IF_ERROR(Partitioner(module, is_marked).run(&made));
  return true;
}

}  // namespace plimsoll::passes
