// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/propagate.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/participants.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/partition/bodies.h"
#include "runtime/passes/partition/dynamic_slices.h"
#include "runtime/passes/partition/look_ups.h"
#include "runtime/passes/partition/regions.h"
#include "runtime/passes/partition/tile_rules.h"
#include "runtime/passes/partition/tile_ways.h"
#include "runtime/passes/partition/wanted_tiles.h"
#include "runtime/passes/partition/windows.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using ir::Sharding;

class Propagation {
 public:
  Propagation(ir::Computation& computation, KnownTiles& tiles, const Expected& expected,
              std::unordered_map<std::string, Sharding>* made)
      : computation_(computation),
        tiles_(tiles),
        partitions_(computation.module()->num_partitions),
        wanted_(wanted_tiles(computation, expected)),
        made_(made) {}

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
      // Not what is made of it now.
      const std::vector<Instruction*> readers = at->users();
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const whole, computed(*at));
      computation_.set_root(root);
      if (whole == nullptr) continue;
      if (const auto* const known = tiles_.find(whole); known != nullptr && made_ != nullptr) {
        (*made_)[at->name()] = known->sharding;
      }
      if (at == root) root = whole;
      for (Instruction* const reader : readers) {
        for (int i = 0; i < reader->operand_count(); ++i) {
          if (reader->operand(i) == at) reader->replace_operand(i, whole);
        }
      }
      computation_.set_root(root);
    }
    return ok_status();
  }

 private:
  // Null where everybody computes the same as before.
  Result<Instruction*> computed(Instruction& at) {
    if (is_local(at)) return static_cast<Instruction*>(nullptr);
    if (is_region_border(at)) return cross_border(at);
    if (at.opcode() == Opcode::while_) return computed_in_loop(at, tiles_, wanted_of_loop(at));
    if (at.opcode() == Opcode::conditional) return computed_in_branches(at, tiles_);
    if (at.opcode() == Opcode::opt_barrier) return behind_barrier(at);
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const whole, computed_on_summands(at));
    if (whole != nullptr) return whole;
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const along, computed_on_tiles(at));
    if (along != nullptr) return along;
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const moved, computed_on_windows(at, tiles_));
    if (moved != nullptr) return moved;
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const part, computed_on_dynamic_slices(at, tiles_));
    return part != nullptr ? part : cut_as_wanted(at);
  }

  // By element of the state that comes out; nothing where somebody wants it whole.
  std::vector<std::optional<Sharding>> wanted_of_loop(const Instruction& loop) const {
    std::vector<std::optional<Sharding>> wanted(
        loop.shape().is_tuple() ? loop.shape().elements().size() : 1);
    for (const Instruction* const user : loop.users()) {
      if (user->opcode() != Opcode::get_tuple_element) continue;
      const auto found = wanted_.find(user);
      if (found != wanted_.end()) {
        wanted[plimsoll::at(user->attributes().tuple_index)] = found->second;
      }
    }
    return wanted;
  }

  // What everybody has, of which nobody wants more than a tile.
  Result<Instruction*> cut_as_wanted(Instruction& at) {
    const auto wanted = wanted_.find(&at);
    if (wanted == wanted_.end() || tiles_.find(&at) != nullptr || is_sharding_mark(at) ||
        !ir::tile_shape(at.shape(), wanted->second).ok()) {
      return static_cast<Instruction*>(nullptr);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const tile, tiles_.tile_of(&at, wanted->second));
    return tiles_.add_whole_of(tile, at.shape(), wanted->second);
  }

  // A barrier in front of tiles, where there are any.
  Result<Instruction*> behind_barrier(Instruction& barrier) {
    Instruction* const operand = barrier.operand(0);
    const bool is_tuple = operand->opcode() == Opcode::tuple;
    std::vector<Instruction*> arrays{operand};
    if (is_tuple) arrays.assign(operand->operands().begin(), operand->operands().end());
    std::vector<Sharding> held;
    bool is_any = false;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const KnownTiles::Tile* const known = tiles_.find(arrays[i]);
      held.push_back(known == nullptr ? Sharding() : known->sharding);
      is_any = is_any || known != nullptr;
      if (known != nullptr) arrays[i] = known->at;
    }
    if (!is_any) return static_cast<Instruction*>(nullptr);
    Instruction* const given = is_tuple ? computation_.add_tuple(arrays) : arrays[0];
    Instruction* const made =
        computation_.add(Opcode::opt_barrier, given->shape(), {given}, {}, barrier.attributes());
    return tiles_.add_wholes_of(made, barrier.shape(), held);
  }

  // In a manual region every partition has arrays of its own, of which nothing is known: what
  // enters is named apart from the same array outside.
  Result<Instruction*> cross_border(Instruction& border) {
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const made, cross_region_border(border, tiles_));
    if (!enters_region(border)) return made;
    const auto enter = [&](Instruction* one) {
      if (!one->shape().is_array()) return one;  // a token
      one = computation_.add(Opcode::copy, one->shape(), {one});
      depth_[one] = 1;
      return one;
    };
    if (!made->shape().is_tuple()) return enter(made);
    std::vector<Instruction*> all;
    for (Instruction* const one : made->operands()) all.push_back(enter(one));
    return computation_.add_tuple(std::move(all));
  }

  // Whether it stands in a manual region, or is the border of one inside it.
  bool is_local(const Instruction& at) {
    int depth = 0;
    for (const Instruction* const operand : at.operands()) {
      const auto found = depth_.find(operand);
      if (found != depth_.end()) depth = std::max(depth, found->second);
    }
    if (depth > 0 && is_region_border(at)) depth += enters_region(at) ? 1 : -1;
    if (depth > 0) depth_[&at] = depth;
    return depth > 0;
  }

  // The participants that have parts of the same sums.
  struct ReducedOver {
    bool is_any = false;
    std::vector<bool> stays;  // by dimension of what is seen: not reduced over
    ir::Groups groups;
  };

  // Where the program asks for summands, from here on; and what is linear in summands, of these:
  // sums are made where the program asks for them, or where something reads them that is not.
  Result<Instruction*> computed_on_summands(Instruction& at) {
    if (is_sharding_mark(at)) return held_as_said(at);
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

  // By the tiles that the program asks for, or by summands; an array that it wants whole stays what
  // it is, as it is gathered where something reads it whole.
  Result<Instruction*> held_as_said(Instruction& mark) {
    if (!mark.shape().is_array()) return static_cast<Instruction*>(nullptr);
    PLIMSOLL_ASSIGN_OR_RETURN(const Sharding said,
                              ir::parse_sharding(mark.attributes().find_extra("sharding"),
                                                 mark.shape().rank(), partitions_));
    // A region's border reads what its mark says.
    const bool is_read_by_border =
        std::any_of(mark.users().begin(), mark.users().end(),
                    [](const Instruction* user) { return is_region_border(*user); });
    if (said.is_replicated() || is_read_by_border) return static_cast<Instruction*>(nullptr);
    const KnownTiles::Tile* const known = tiles_.find(mark.operand(0));
    const bool is_known =
        known != nullptr &&
        are_same_tiles(held_where_said(mark, known->sharding, said), said, partitions_);
    if (!said.is_summed() && (is_known || tiles_.find_summands(mark.operand(0)) != nullptr)) {
      return static_cast<Instruction*>(nullptr);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const tile, tiles_.tile_of(mark.operand(0), said));
    return tiles_.add_whole_of(tile, mark.shape(), said);
  }

  // Of a mark that leaves open how dimensions are held that it does not cut, what it is about.
  Sharding held_where_said(const Instruction& mark, const Sharding& held,
                           const Sharding& said) const {
    if (mark.attributes().find_extra("open").empty()) return held;
    Along along;
    for (std::size_t d = 0; d < said.tiles.size(); ++d) {
      along.push_back(said.tiles[d] > 1 ? static_cast<int>(d) : -1);
    }
    return carried(held, along, partitions_);
  }

  // Whether the instruction on summands makes summands of what it makes, seen from `operand`.
  bool is_linear(const Instruction& at, int operand, const Sharding& seen) const {
    const auto has_same = [&](const Instruction* other) {
      const KnownTiles::Tile* const known = tiles_.find_summands(other);
      const KnownTiles::Tile* const offered = tiles_.find_offered(other);
      return (known != nullptr && are_same_tiles(known->sharding, seen, partitions_)) ||
             (offered != nullptr && are_same_tiles(offered->sharding, seen, partitions_));
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

  // By the way for which least has to be told to others; null where there is none.
  Result<Instruction*> computed_on_tiles(Instruction& at) {
    for (const Way& way : ways_of(at, tiles_, partitions_)) {
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const made,
                                at.shape().is_array() ? apply(at, way.rule, way.seen)
                                                      : apply_to_several(at, way.rule, way.seen));
      if (made != nullptr) return made;
    }
    return static_cast<Instruction*>(nullptr);
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
    if (!shape.ok()) return static_cast<Instruction*>(nullptr);
    const ReducedOver over = reduced_over(at, rule, seen);
    if (held.is_replicated() && !over.is_any) return static_cast<Instruction*>(nullptr);
    PLIMSOLL_ASSIGN_OR_RETURN(std::vector<Instruction*> operands,
                              operands_on_tiles(at, rule, seen, over));
    Instruction* is_inside = nullptr;
    if (over.is_any && at.opcode() == Opcode::gather) {
      for (std::size_t d = 0; d < rule.operands[0].size(); ++d) {
        const int place = rule.operands[0][d];
        if (place < 0 || over.stays[plimsoll::at(place)] || seen.tiles[plimsoll::at(place)] == 1) {
          continue;
        }
        const Sharding table = carried(seen, rule.operands[0], partitions_);
        is_inside = look_up_inside(at, table, static_cast<int>(d), operands[1]);
      }
    }
    Instruction* made = add_on_tiles(at, *shape, held, std::move(operands));
    if (at.opcode() == Opcode::broadcast) tiles_.say_spread(made);
    if (!over.is_any) return tiles_.add_whole_of(made, at.shape(), held);
    if (is_inside != nullptr) made = add_where_looked_up(at, made, is_inside);
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
    std::vector<Sharding> held;
    std::vector<Shape> shapes;
    for (const Shape& whole : at.shape().elements()) {
      Along along = rule.result;
      along.resize(plimsoll::at(whole.rank()), -1);
      held.push_back(carried(seen, along, partitions_));
      const auto shape = ir::tile_shape(whole, held.back());
      if (held.back().is_replicated() || !shape.ok()) return static_cast<Instruction*>(nullptr);
      shapes.push_back(*shape);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(std::vector<Instruction*> operands,
                              operands_on_tiles(at, rule, seen, {}));
    Instruction* const made =
        add_on_tiles(at, Shape::tuple(std::move(shapes)), Sharding(), std::move(operands));
    return tiles_.add_wholes_of(made, at.shape(), held);
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
    if (at.opcode() == Opcode::convolution && attributes.feature_group_count > 1) {
      // As many groups as there are features of.
      const auto features = static_cast<int>(attributes.convolution->input_feature);
      attributes.feature_group_count /=
          at.operand(0)->shape().dim(features) / operands[0]->shape().dim(features);
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
    // Nobody looks up what lies beyond.
    if (at.opcode() == Opcode::gather) return tile;
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
    over.is_any = over.is_any && reduces(at);
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
  const std::unordered_map<const Instruction*, Sharding> wanted_;
  std::unordered_map<std::string, Sharding>* const made_;
  std::unordered_map<const Instruction*, int> depth_;  // of what is in manual regions, in how many
};

}  // namespace

Status propagate_tiles(ir::Computation& computation, KnownTiles& tiles, const Expected& expected,
                       std::unordered_map<std::string, Sharding>* made) {
  return Propagation(computation, tiles, expected, made).run();
}

}  // namespace plimsoll::passes
