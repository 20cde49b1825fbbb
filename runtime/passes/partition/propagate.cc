// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/propagate.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/participants.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/partition/tile_rules.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using ir::Sharding;

class Propagation {
 public:
  Propagation(ir::Computation& computation, KnownTiles& tiles)
      : computation_(computation),
        tiles_(tiles),
        partitions_(computation.module()->num_partitions) {}

  Status run() {
    std::vector<Instruction*> instructions;
    for (const auto& owned : computation_.instructions()) instructions.push_back(owned.get());
    Instruction* root = computation_.root();
    for (Instruction* const at : instructions) {
      if (at->users().empty() && at != root) continue;
      if (at->opcode() == Opcode::get_tuple_element && at->operand(0)->opcode() == Opcode::tuple) {
        Instruction* const element =
            at->operand(0)->operand(static_cast<int>(at->attributes().tuple_index));
        if (at == root) root = element;
        at->replace_all_uses_with(element);
        computation_.set_root(root);
        continue;
      }
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction * whole, computed_on_summands(*at));
      if (whole == nullptr) {
        PLIMSOLL_ASSIGN_OR_RETURN(whole, computed_on_tiles(*at));
      }
      computation_.set_root(root);
      if (whole == nullptr) continue;
      if (at == root) root = whole;
      at->replace_all_uses_with(whole);
      computation_.set_root(root);
    }
    return ok_status();
  }

 private:
  // The participants that have parts of the same sums.
  struct ReducedOver {
    bool is_any = false;
    std::vector<bool> stays;  // by dimension of what is seen: not reduced over
    ir::Groups groups;
  };

  // Where the program asks for summands, from here on; and what is linear in summands, of these:
  // sums are made where the program asks for them, or where something reads them that is not.
  Result<Instruction*> computed_on_summands(Instruction& at) {
    if (is_sharding_mark(at)) {
      if (!at.shape().is_array()) return static_cast<Instruction*>(nullptr);
      PLIMSOLL_ASSIGN_OR_RETURN(const Sharding said,
                                ir::parse_sharding(at.attributes().find_extra("sharding"),
                                                   at.shape().rank(), partitions_));
      if (!said.is_summed()) return static_cast<Instruction*>(nullptr);
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const summand, tiles_.tile_of(at.operand(0), said));
      return tiles_.add_whole_of(summand, at.shape(), said);
    }
    for (int i = 0; i < at.operand_count(); ++i) {
      const KnownTiles::Tile* const known = tiles_.find_summands(at.operand(i));
      if (known == nullptr || !is_linear(at, i, known->sharding)) continue;
      const Sharding seen = known->sharding;
      const std::optional<Rule> rule = rule_of(at, i, seen);
      if (!rule) continue;
      // Along dimensions that are cut there would be other summands.
      if (!keeps_cut(*rule, seen)) continue;
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const made, apply_to_summands(at, i, *rule, seen));
      if (made != nullptr) return made;
    }
    return static_cast<Instruction*>(nullptr);
  }

  // Whether the instruction on summands makes summands of what it makes, seen from `operand`.
  bool is_linear(const Instruction& at, int operand, const Sharding& seen) const {
    const auto has_same = [&](const Instruction* other) {
      const KnownTiles::Tile* const known = tiles_.find_summands(other);
      return known != nullptr && are_same_tiles(known->sharding, seen, partitions_);
    };
    switch (at.opcode()) {
      case Opcode::negate:
      case Opcode::copy:
      case Opcode::reshape:
      case Opcode::transpose:
      case Opcode::broadcast:
      case Opcode::slice:
      case Opcode::reverse:
        return true;
      case Opcode::add:
      case Opcode::subtract:
        return has_same(at.operand(1 - operand));
      case Opcode::concatenate:
        return std::all_of(at.operands().begin(), at.operands().end(), has_same);
      case Opcode::multiply:
      case Opcode::dot:
        return tiles_.find_summands(at.operand(1 - operand)) == nullptr;
      case Opcode::divide:
        return operand == 0 && tiles_.find_summands(at.operand(1)) == nullptr &&
               ir::is_floating(at.shape().dtype());
      case Opcode::pad:
        return operand == 0 && are_zeros(*at.operand(1));
      case Opcode::dynamic_slice:
        return operand == 0;
      case Opcode::reduce:
        return operand == 0 && at.operand_count() == 2 && are_zeros(*at.operand(1)) &&
               ir::is_binary_computation(*at.to_apply(), Opcode::add);
      default:
        return false;
    }
  }

  static bool keeps_cut(const Rule& rule, const Sharding& seen) {
    for (std::size_t d = 0; d < seen.tiles.size(); ++d) {
      if (seen.tiles[d] > 1 && std::find(rule.result.begin(), rule.result.end(),
                                         static_cast<int>(d)) == rule.result.end()) {
        return false;
      }
    }
    return true;
  }

  Result<Instruction*> apply_to_summands(Instruction& at, int operand, const Rule& rule,
                                         const Sharding& seen) {
    const Sharding held = carried_summands(seen, rule.result);
    const auto shape = ir::tile_shape(at.shape(), held);
    if (!shape.ok()) return static_cast<Instruction*>(nullptr);
    const bool has_summands_only = at.opcode() == Opcode::add || at.opcode() == Opcode::subtract ||
                                   at.opcode() == Opcode::concatenate;
    std::vector<Instruction*> operands;
    for (int i = 0; i < at.operand_count(); ++i) {
      const Along& along = rule.operands[plimsoll::at(i)];
      Instruction* one = at.operand(i);
      const bool is_summand = i == operand || has_summands_only;
      // Of a scalar nothing goes along, whose summands there may yet be.
      if (is_summand || !along.empty()) {
        Sharding wanted = carried_summands(seen, along);
        if (!is_summand) wanted = wanted.summed();
        if (!ir::tile_shape(one->shape(), wanted).ok()) return static_cast<Instruction*>(nullptr);
        PLIMSOLL_ASSIGN_OR_RETURN(one, tiles_.tile_of(one, wanted));
      }
      operands.push_back(one);
    }
    Instruction* const made = add_on_tiles(at, *shape, held, std::move(operands));
    return tiles_.add_whole_of(made, at.shape(), held);
  }

  // How what goes along with summands is held: no dimension that is cut is left behind, so that
  // holders and summands stay who they are.
  static Sharding carried_summands(const Sharding& seen, const Along& along) {
    Sharding made;
    made.copies = seen.copies;
    made.summands = seen.summands;
    std::int64_t tiles = 1;
    for (const int d : along) {
      made.tiles.push_back(d < 0 ? 1 : seen.tiles[plimsoll::at(d)]);
      tiles *= made.tiles.back();
    }
    made.holders.resize(seen.holders.size());
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::vector<std::int64_t> place = made.place_of_tile(tile);
      std::vector<std::int64_t> of(seen.tiles.size(), 0);
      for (std::size_t d = 0; d < along.size(); ++d) {
        if (along[d] >= 0) of[plimsoll::at(along[d])] = place[d];
      }
      std::int64_t from = 0;
      for (std::size_t d = 0; d < of.size(); ++d) from = from * seen.tiles[d] + of[d];
      std::copy_n(seen.holders.begin() + from * seen.copies, seen.copies,
                  made.holders.begin() + tile * seen.copies);
    }
    return made;
  }

  // By the first operand that shows a way; null where none does.
  Result<Instruction*> computed_on_tiles(Instruction& at) {
    for (int i = 0; i < at.operand_count(); ++i) {
      const KnownTiles::Tile* const known = tiles_.find(at.operand(i));
      if (known == nullptr || is_sharding_mark(at)) continue;
      const Sharding seen = known->sharding;
      const std::optional<Rule> rule = rule_of(at, i, seen);
      if (!rule) continue;
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const made, at.shape().is_array()
                                                             ? apply(at, *rule, seen)
                                                             : apply_to_several(at, *rule, seen));
      if (made != nullptr) return made;
    }
    return static_cast<Instruction*>(nullptr);
  }

  // Whether the tiles that the rule asks for are there, or can be taken without gathering first.
  bool has_operands(const Instruction& at, const Rule& rule, const Sharding& seen) const {
    for (int i = 0; i < at.operand_count(); ++i) {
      const Along& along = rule.operands[plimsoll::at(i)];
      if (along.empty()) continue;
      const Sharding wanted = carried(seen, along, partitions_);
      const KnownTiles::Tile* const known = tiles_.find(at.operand(i));
      const bool fits = ir::tile_shape(at.operand(i)->shape(), wanted).ok();
      if (!fits || (known != nullptr && !are_same_tiles(known->sharding, wanted, partitions_))) {
        return false;
      }
    }
    return true;
  }

  // Without what lies beyond the arrays where that would get into a sum.
  Result<std::vector<Instruction*>> operands_on_tiles(Instruction& at, const Rule& rule,
                                                      const Sharding& seen,
                                                      const ReducedOver& over) {
    std::vector<Instruction*> operands;
    for (int i = 0; i < at.operand_count(); ++i) {
      const Along& along = rule.operands[plimsoll::at(i)];
      Instruction* operand = at.operand(i);
      if (!along.empty()) {
        const Sharding wanted = carried(seen, along, partitions_);
        PLIMSOLL_ASSIGN_OR_RETURN(operand, tiles_.tile_of(operand, wanted));
        if (over.is_any) operand = without_beyond(operand, at, i, along, wanted, over);
      }
      operands.push_back(operand);
    }
    return operands;
  }

  Result<Instruction*> apply(Instruction& at, const Rule& rule, const Sharding& seen) {
    const Sharding held = carried(seen, rule.result, partitions_);
    const auto shape = ir::tile_shape(at.shape(), held);
    if (!shape.ok() || !has_operands(at, rule, seen)) return static_cast<Instruction*>(nullptr);
    const ReducedOver over = reduced_over(at, rule, seen);
    if (held.is_replicated() && !over.is_any) return static_cast<Instruction*>(nullptr);
    PLIMSOLL_ASSIGN_OR_RETURN(std::vector<Instruction*> operands,
                              operands_on_tiles(at, rule, seen, over));
    Instruction* made = add_on_tiles(at, *shape, held, std::move(operands));
    if (!over.is_any) return tiles_.add_whole_of(made, at.shape(), held);
    Instruction* const summand = made;
    made = add_all_reduce(made, rule, over);
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const whole,
                              tiles_.add_whole_of(made, at.shape(), held));
    const bool adds =
        rule.reducer == nullptr || ir::is_binary_computation(*rule.reducer, Opcode::add);
    if (adds) tiles_.offer_summand(whole, summands_of(held, at.shape(), over.groups), summand);
    return whole;
  }

  // One of several results, none of which is a sum over what is cut; null or a tuple of them.
  Result<Instruction*> apply_to_several(Instruction& at, const Rule& rule, const Sharding& seen) {
    const Sharding held = carried(seen, rule.result, partitions_);
    if (held.is_replicated() || !has_operands(at, rule, seen)) {
      return static_cast<Instruction*>(nullptr);
    }
    std::vector<Shape> shapes;
    for (const Shape& whole : at.shape().elements()) {
      const auto shape = ir::tile_shape(whole, held);
      if (!shape.ok()) return static_cast<Instruction*>(nullptr);
      shapes.push_back(*shape);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(std::vector<Instruction*> operands,
                              operands_on_tiles(at, rule, seen, {}));
    Instruction* const made = add_on_tiles(at, Shape::tuple(shapes), held, std::move(operands));
    std::vector<Instruction*> wholes;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      Instruction* const tile = computation_.add_get_tuple_element(made, i);
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const whole,
                                tiles_.add_whole_of(tile, at.shape().elements()[i], held));
      wholes.push_back(whole);
    }
    return computation_.add_tuple(wholes);
  }

  // The instruction on tiles that make a tile of `shape`.
  Instruction* add_on_tiles(const Instruction& at, const Shape& shape, const Sharding& held,
                            std::vector<Instruction*> operands) {
    Attributes attributes = at.attributes();
    std::erase_if(attributes.extra, [](const auto& one) { return one.first == "sharding"; });
    if (at.opcode() == Opcode::gather) {
      // What is taken whole is taken of the tile.
      for (int d = 0; d < at.operand(0)->shape().rank(); ++d) {
        std::int64_t& size = attributes.slice_sizes[plimsoll::at(d)];
        if (size == at.operand(0)->shape().dim(d)) size = operands[0]->shape().dim(d);
      }
    }
    for (int d = 0; shape.is_array() && d < shape.rank(); ++d) {
      if (at.opcode() == Opcode::slice && held.tiles[plimsoll::at(d)] > 1) {
        attributes.slice_limits[plimsoll::at(d)] = shape.dim(d);
      }
      if (at.opcode() == Opcode::dynamic_slice) {
        attributes.slice_sizes[plimsoll::at(d)] = shape.dim(d);
      }
    }
    Instruction* const made =
        computation_.add(at.opcode(), shape, std::move(operands), {}, std::move(attributes));
    made->set_called_computations(at.called_computations());
    return made;
  }

  // How an array is held, tile by tile as `tiles` says, whose summands those of a group have.
  Sharding summands_of(const Sharding& tiles, const Shape& shape, const ir::Groups& groups) const {
    Sharding made = tiles;
    if (tiles.is_replicated()) made.tiles.assign(plimsoll::at(shape.rank()), 1);
    const std::vector<std::int64_t> tile_of = tiles.tile_of_partition(partitions_);
    std::map<std::int64_t, std::vector<const std::vector<std::int64_t>*>> by_tile;
    for (const auto& group : groups) {
      if (group[0] < partitions_) by_tile[tile_of[plimsoll::at(group[0])]].push_back(&group);
    }
    made.summands = std::ssize(groups[0]);
    made.copies = made.summands * std::ssize(by_tile.begin()->second);
    made.holders.clear();
    for (const auto& [tile, copies] : by_tile) {
      for (std::int64_t s = 0; s < made.summands; ++s) {
        for (const auto* group : copies) made.holders.push_back((*group)[plimsoll::at(s)]);
      }
    }
    return made;
  }

  // What is reduced over without what lies beyond the array: as a reduction starts, which may be
  // counted several times, or zeros.
  Instruction* without_beyond(Instruction* tile, const Instruction& at, int operand,
                              const Along& along, const Sharding& sharding,
                              const ReducedOver& over) {
    // Additions of zeros at any place, or at none, are nothing.
    if (at.opcode() == Opcode::scatter && operand == 1) return tile;
    for (int d = 0; d < tile->shape().rank(); ++d) {
      const int seen = along[plimsoll::at(d)];
      if (seen < 0 || over.stays[plimsoll::at(seen)]) continue;
      const std::int64_t size = at.operand(operand)->shape().dim(d);
      if (ir::is_even(size, sharding, d)) continue;
      Instruction* const nothing =
          at.opcode() == Opcode::reduce
              ? at.operand(1)
              : computation_.add_constant(ir::Literal(Shape(tile->shape().dtype(), {})));
      tile = add_masked(tile, d, size, sharding, nothing);
    }
    return tile;
  }

  ReducedOver reduced_over(const Instruction& at, const Rule& rule, const Sharding& seen) const {
    ReducedOver over;
    std::vector<bool>& stays = over.stays;
    stays.assign(seen.tiles.size(), false);
    for (const int d : rule.result) {
      if (d >= 0) stays[plimsoll::at(d)] = true;
    }
    for (std::size_t d = 0; d < stays.size(); ++d) {
      over.is_any = over.is_any || (!stays[d] && seen.tiles[d] > 1);
    }
    // What only moves or spreads elements has no sums.
    over.is_any =
        over.is_any && (at.opcode() == Opcode::dot || at.opcode() == Opcode::reduce ||
                        at.opcode() == Opcode::convolution || at.opcode() == Opcode::scatter);
    if (!over.is_any) return over;
    const std::vector<std::int64_t> copy_of = seen.copy_of_partition(partitions_);
    const std::vector<std::int64_t> tiles = seen.tile_of_partition(partitions_);
    std::map<std::vector<std::int64_t>, std::map<std::int64_t, std::int64_t>> groups;
    for (std::int64_t p = 0; p < partitions_; ++p) {
      std::vector<std::int64_t> key = seen.place_of_tile(tiles[plimsoll::at(p)]);
      for (std::size_t d = 0; d < key.size(); ++d) {
        if (!stays[d]) key[d] = 0;
      }
      key.push_back(copy_of[plimsoll::at(p)]);
      groups[key][tiles[plimsoll::at(p)]] = p;
    }
    const std::int64_t replicas = computation_.module()->replica_count;
    for (std::int64_t r = 0; r < replicas; ++r) {
      for (const auto& [key, members] : groups) {
        auto& group = over.groups.emplace_back();
        for (const auto& [tile, p] : members) group.push_back(r * partitions_ + p);
      }
    }
    return over;
  }

  Instruction* add_all_reduce(Instruction* part, const Rule& rule, const ReducedOver& over) {
    ir::Module& module = *computation_.module();
    auto collective = std::make_shared<ir::CollectiveAttributes>();
    collective->channel_id = tiles_.take_channel();
    collective->use_global_device_ids = true;
    collective->replica_groups = over.groups;
    Attributes attributes;
    attributes.collective = std::move(collective);
    Instruction* const sum =
        computation_.add(Opcode::all_reduce, part->shape(), {part}, {}, std::move(attributes));
    sum->set_called_computations(
        {rule.reducer != nullptr
             ? rule.reducer
             : ir::scalar_computation(module, Opcode::add, part->shape().dtype())});
    return sum;
  }

  ir::Computation& computation_;
  KnownTiles& tiles_;
  const std::int64_t partitions_;
};

}  // namespace

Status propagate_tiles(ir::Computation& computation, KnownTiles& tiles) {
  return Propagation(computation, tiles).run();
}

}  // namespace plimsoll::passes
