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
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Dims;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using ir::Sharding;

// By dimension of one array, the dimension of another that it goes along with; -1: none.
using Along = std::vector<int>;

// How an array is held whose dimensions go along with those of one that is held by `from`:
// partitions that differ in other dimensions alone hold copies.
Sharding carried(const Sharding& from, const Along& along, std::int64_t partitions) {
  Sharding made;
  std::int64_t tiles = 1;
  for (const int d : along) {
    made.tiles.push_back(d < 0 ? 1 : from.tiles[at(d)]);
    tiles *= made.tiles.back();
  }
  if (tiles == 1) return Sharding();
  std::vector<std::vector<std::int64_t>> holders(at(tiles));
  const std::vector<std::int64_t> of = from.tile_of_partition(partitions);
  for (std::int64_t p = 0; p < partitions; ++p) {
    const std::vector<std::int64_t> place = from.place_of_tile(of[at(p)]);
    std::int64_t tile = 0;
    for (std::size_t d = 0; d < along.size(); ++d) {
      tile = tile * made.tiles[d] + (along[d] < 0 ? 0 : place[at(along[d])]);
    }
    holders[at(tile)].push_back(p);
  }
  made.copies = static_cast<std::int64_t>(holders[0].size());
  for (const auto& one : holders) made.holders.insert(made.holders.end(), one.begin(), one.end());
  return made;
}

// What an instruction does to the dimensions of its operands, seen from one of them.
struct Rule {
  std::vector<Along> operands;  // by operand: the dimensions of the seen one; empty: taken whole
  Along result;                 // by dimension of the result
  ir::Computation* reducer = nullptr;  // of dimensions that the result has not; null: a sum
};

Along same_dimensions(int rank) {
  Along along(at(rank));
  for (int d = 0; d < rank; ++d) along[at(d)] = d;
  return along;
}

bool is_cut(const Sharding& sharding, int dimension) { return sharding.tiles[at(dimension)] > 1; }

bool holds(const std::vector<std::int64_t>& list, std::int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Whatever the program says of how they are held.
bool are_zeros(const Instruction& value) {
  const Instruction* one = &value;
  while (is_sharding_mark(*one)) one = one->operand(0);
  return is_zero(*one);
}

std::optional<Rule> elementwise_rule(const Instruction& at) {
  Rule rule;
  const int rank = at.shape().rank();
  for (const Instruction* operand : at.operands()) {
    // A scalar is every partition's.
    rule.operands.push_back(operand->shape().rank() == rank ? same_dimensions(rank) : Along());
  }
  rule.result = same_dimensions(rank);
  return rule;
}

// Runs of dimensions that are as many elements on both sides; cut may be the first of each that is
// not 1.
std::optional<Rule> reshape_rule(const Instruction& reshape, const Sharding& seen) {
  const Dims& from = reshape.operand(0)->shape().dims();
  const Dims& to = reshape.shape().dims();
  Rule rule;
  rule.operands = {same_dimensions(from.size())};
  rule.result.assign(at(reshape.shape().rank()), -1);
  int i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    while (i < from.size() && from[i] == 1) ++i;
    while (j < to.size() && to[j] == 1) ++j;
    if (i == from.size() || j == to.size()) break;
    const int first = i, target = j;
    std::int64_t left = from[i++], right = to[j++];
    while (left != right) {
      if (left < right) {
        if (i == from.size()) return std::nullopt;
        left *= from[i++];
      } else {
        if (j == to.size()) return std::nullopt;
        right *= to[j++];
      }
    }
    for (int d = first + 1; d < i; ++d) {
      if (is_cut(seen, d)) return std::nullopt;
    }
    if (!is_cut(seen, first)) continue;
    const bool are_even =
        ir::is_even(from[first], seen, first) && to[target] % seen.tiles[at(first)] == 0;
    if (!are_even && from[first] != to[target]) return std::nullopt;
    rule.result[at(target)] = first;
  }
  return rule;
}

std::optional<Rule> dot_rule(const Instruction& dot, int seen) {
  const ir::DotDimensions& d = *dot.attributes().dot;
  const int ranks[2] = {dot.operand(0)->shape().rank(), dot.operand(1)->shape().rank()};
  const auto& batch = seen == 0 ? d.lhs_batch : d.rhs_batch;
  const auto& others_batch = seen == 0 ? d.rhs_batch : d.lhs_batch;
  const auto& contracted = seen == 0 ? d.lhs_contracting : d.rhs_contracting;
  const auto& others_contracted = seen == 0 ? d.rhs_contracting : d.lhs_contracting;
  Rule rule;
  Along other(at(ranks[1 - seen]), -1);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    other[at(others_batch[i])] = static_cast<int>(batch[i]);
    rule.result.push_back(static_cast<int>(batch[i]));
  }
  for (std::size_t i = 0; i < contracted.size(); ++i) {
    other[at(others_contracted[i])] = static_cast<int>(contracted[i]);
  }
  for (int side = 0; side < 2; ++side) {
    const auto& own_batch = side == 0 ? d.lhs_batch : d.rhs_batch;
    const auto& own_contracted = side == 0 ? d.lhs_contracting : d.rhs_contracting;
    for (int i = 0; i < ranks[side]; ++i) {
      if (holds(own_batch, i) || holds(own_contracted, i)) continue;
      rule.result.push_back(side == seen ? i : -1);
    }
  }
  rule.operands = seen == 0 ? std::vector<Along>{same_dimensions(ranks[0]), std::move(other)}
                            : std::vector<Along>{std::move(other), same_dimensions(ranks[1])};
  return rule;
}

// Sums of nothing but what is reduced, and what may be counted several times.
bool starts_from_nothing(const ir::Computation& reducer, const Instruction& initial) {
  for (const Opcode opcode : {Opcode::maximum, Opcode::minimum, Opcode::and_, Opcode::or_}) {
    if (ir::is_binary_computation(reducer, opcode)) return true;
  }
  return ir::is_binary_computation(reducer, Opcode::add) && are_zeros(initial);
}

std::optional<Rule> reduce_rule(const Instruction& at, const Sharding& seen) {
  if (at.operand_count() != 2) return std::nullopt;
  Rule rule;
  const int rank = at.operand(0)->shape().rank();
  rule.operands = {same_dimensions(rank), {}};
  for (int d = 0; d < rank; ++d) {
    if (!holds(at.attributes().dimensions, d)) {
      rule.result.push_back(d);
      continue;
    }
    if (!is_cut(seen, d)) continue;
    if (!starts_from_nothing(*at.to_apply(), *at.operand(1))) return std::nullopt;
    rule.reducer = at.to_apply();
  }
  return rule;
}

// The batch of a convolution.
std::optional<Rule> convolution_rule(const Instruction& at, const Sharding& seen) {
  const ir::ConvolutionDimensions& d = *at.attributes().convolution;
  if (at.attributes().batch_group_count != 1) return std::nullopt;
  const int rank = at.shape().rank();
  for (int i = 0; i < rank; ++i) {
    if (i != d.input_batch && is_cut(seen, i)) return std::nullopt;
  }
  Rule rule;
  rule.operands = {same_dimensions(rank), {}};
  rule.result.assign(static_cast<std::size_t>(rank), -1);
  rule.result[static_cast<std::size_t>(d.output_batch)] = static_cast<int>(d.input_batch);
  return rule;
}

// Rows that are looked up by indices that are cut; of dimensions that the array and the indices
// have together, the array's along with them.
std::optional<Rule> gather_rule(const Instruction& gather, const Sharding& seen) {
  const ir::GatherDimensions& d = *gather.attributes().gather;
  const int rank = gather.operand(1)->shape().rank();
  if (d.index_vector_dim < rank && is_cut(seen, static_cast<int>(d.index_vector_dim))) {
    return std::nullopt;
  }
  Rule rule;
  rule.operands = {Along(at(gather.operand(0)->shape().rank()), -1), same_dimensions(rank)};
  for (std::size_t i = 0; i < d.operand_batching_dims.size(); ++i) {
    rule.operands[0][at(d.operand_batching_dims[i])] =
        static_cast<int>(d.start_indices_batching_dims[i]);
  }
  int next = 0;
  for (int i = 0; i < gather.shape().rank(); ++i) {
    if (holds(d.offset_dims, i)) {
      rule.result.push_back(-1);
      continue;
    }
    if (next == d.index_vector_dim) ++next;
    rule.result.push_back(next++);
  }
  return rule;
}

// Updates, or their indices, that are cut, added to zeros: every partition's, and then those of all
// that share a place.
std::optional<Rule> scatter_rule(const Instruction& scatter, int operand, const Sharding& seen) {
  const ir::ScatterDimensions& d = *scatter.attributes().scatter;
  if (scatter.operand_count() != 3 || operand == 0 ||
      !ir::is_binary_computation(*scatter.to_apply(), Opcode::add) ||
      !are_zeros(*scatter.operand(0))) {
    return std::nullopt;
  }
  const int ranks[2] = {scatter.operand(1)->shape().rank(), scatter.operand(2)->shape().rank()};
  const bool by_indices = operand == 1;
  if (by_indices && d.index_vector_dim < ranks[0] &&
      is_cut(seen, static_cast<int>(d.index_vector_dim))) {
    return std::nullopt;
  }
  Rule rule;
  Along indices(at(ranks[0]), -1), updates(at(ranks[1]), -1);
  int next = 0;
  for (int i = 0; i < ranks[1]; ++i) {
    if (holds(d.update_window_dims, i)) {
      if (!by_indices && is_cut(seen, i)) return std::nullopt;
      continue;
    }
    if (next == d.index_vector_dim) ++next;
    indices[at(next)] = by_indices ? next : i;
    updates[at(i)] = by_indices ? next : i;
    ++next;
  }
  rule.result.assign(at(scatter.shape().rank()), -1);
  for (std::size_t i = 0; i < d.input_batching_dims.size(); ++i) {
    rule.result[at(d.input_batching_dims[i])] = indices[at(d.scatter_indices_batching_dims[i])];
  }
  rule.operands = {rule.result, std::move(indices), std::move(updates)};
  rule.reducer = scatter.to_apply();
  return rule;
}

// What moves elements along dimensions that are not cut.
std::optional<Rule> movement_rule(const Instruction& at, const Sharding& seen) {
  const int rank = at.shape().rank();
  const auto untouched = [&](auto&& touches) {
    for (int d = 0; d < rank; ++d) {
      if (is_cut(seen, d) && touches(d)) return false;
    }
    return true;
  };
  const Attributes& attributes = at.attributes();
  const auto keeps_size = [&](int d) { return at.operand(0)->shape().dim(d) == at.shape().dim(d); };
  switch (at.opcode()) {
    case Opcode::slice:
      if (!untouched([&](int d) {
            return !keeps_size(d) || attributes.slice_strides[static_cast<std::size_t>(d)] != 1;
          })) {
        return std::nullopt;
      }
      break;
    case Opcode::dynamic_slice:
      if (!untouched([&](int d) { return !keeps_size(d); })) return std::nullopt;
      break;
    case Opcode::pad:
      if (!untouched([&](int d) {
            const ir::PaddingDimension& p = attributes.padding[static_cast<std::size_t>(d)];
            return p.low != 0 || p.high != 0 || p.interior != 0;
          })) {
        return std::nullopt;
      }
      break;
    case Opcode::reverse:
    case Opcode::concatenate:
      if (!untouched([&](int d) { return holds(attributes.dimensions, d); })) return std::nullopt;
      break;
    case Opcode::reduce_window:
      if (at.operand_count() != 2 || !untouched([&](int d) {
            const ir::WindowDimension& w = attributes.window[static_cast<std::size_t>(d)];
            return w.size != 1 || w.stride != 1 || w.padding_low != 0 || w.padding_high != 0 ||
                   w.base_dilation != 1;
          })) {
        return std::nullopt;
      }
      break;
    default:
      return std::nullopt;
  }
  Rule rule;
  const bool all = at.opcode() == Opcode::concatenate;
  for (int i = 0; i < at.operand_count(); ++i) {
    rule.operands.push_back(i == 0 || all ? same_dimensions(rank) : Along());
  }
  rule.result = same_dimensions(rank);
  return rule;
}

// Of an instruction, seen from an operand that is held by `seen`.
std::optional<Rule> rule_of(const Instruction& at, int operand, const Sharding& seen) {
  if (!at.shape().is_array()) return std::nullopt;
  if (ir::is_elementwise(at.opcode()) || at.opcode() == Opcode::copy) {
    if (at.operand(operand)->shape().rank() != at.shape().rank()) return std::nullopt;
    return elementwise_rule(at);
  }
  switch (at.opcode()) {
    case Opcode::broadcast: {
      Rule rule;
      rule.operands = {same_dimensions(at.operand(0)->shape().rank())};
      rule.result.assign(static_cast<std::size_t>(at.shape().rank()), -1);
      for (std::size_t i = 0; i < at.attributes().dimensions.size(); ++i) {
        rule.result[static_cast<std::size_t>(at.attributes().dimensions[i])] = static_cast<int>(i);
      }
      return rule;
    }
    case Opcode::transpose: {
      Rule rule;
      rule.operands = {same_dimensions(at.shape().rank())};
      for (const std::int64_t d : at.attributes().dimensions) {
        rule.result.push_back(static_cast<int>(d));
      }
      return rule;
    }
    case Opcode::reshape:
      return reshape_rule(at, seen);
    case Opcode::dot:
      return dot_rule(at, operand);
    case Opcode::reduce:
      return operand == 0 ? reduce_rule(at, seen) : std::nullopt;
    case Opcode::convolution:
      return operand == 0 ? convolution_rule(at, seen) : std::nullopt;
    case Opcode::gather:
      return operand == 1 ? gather_rule(at, seen) : std::nullopt;
    case Opcode::scatter:
      return scatter_rule(at, operand, seen);
    case Opcode::concatenate:
      return movement_rule(at, seen);
    default:
      return operand == 0 ? movement_rule(at, seen) : std::nullopt;
  }
}

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
      if (at->opcode() == Opcode::get_tuple_element && at->operand(0)->opcode() == Opcode::tuple &&
          at != root) {
        at->replace_all_uses_with(
            at->operand(0)->operand(static_cast<int>(at->attributes().tuple_index)));
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
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const made, apply(at, *rule, seen));
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

  Result<Instruction*> apply(Instruction& at, const Rule& rule, const Sharding& seen) {
    const Sharding held = carried(seen, rule.result, partitions_);
    const auto shape = ir::tile_shape(at.shape(), held);
    if (!shape.ok() || !has_operands(at, rule, seen)) return static_cast<Instruction*>(nullptr);
    const ReducedOver over = reduced_over(at, rule, seen);
    if (held.is_replicated() && !over.is_any) return static_cast<Instruction*>(nullptr);
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

  // The instruction on tiles that make a tile of `shape`.
  Instruction* add_on_tiles(const Instruction& at, const Shape& shape, const Sharding& held,
                            std::vector<Instruction*> operands) {
    Attributes attributes = at.attributes();
    std::erase_if(attributes.extra, [](const auto& one) { return one.first == "sharding"; });
    for (int d = 0; d < shape.rank(); ++d) {
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

  // The participants that have parts of the same sums.
  struct ReducedOver {
    bool is_any = false;
    std::vector<bool> stays;  // by dimension of what is seen: not reduced over
    ir::Groups groups;
  };

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
    over.is_any = over.is_any && (at.opcode() == Opcode::dot || at.opcode() == Opcode::reduce ||
                                  at.opcode() == Opcode::scatter);
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
