// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/tile_rules.h"

#include <algorithm>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/partition/tiles.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Dims;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using ir::Sharding;

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

bool are_zeros(const Instruction& value) {
  const Instruction* one = &value;
  while (is_sharding_mark(*one)) one = one->operand(0);
  return is_zero(*one);
}

bool starts_from_nothing(const ir::Computation& reducer, const Instruction& initial) {
  for (const Opcode opcode : {Opcode::maximum, Opcode::minimum, Opcode::and_, Opcode::or_}) {
    if (ir::is_binary_computation(reducer, opcode)) return true;
  }
  return ir::is_binary_computation(reducer, Opcode::add) && are_zeros(initial);
}

namespace {

Along same_dimensions(int rank) {
  Along along(at(rank));
  for (int d = 0; d < rank; ++d) along[at(d)] = d;
  return along;
}

bool is_cut(const Sharding& sharding, int dimension) { return sharding.tiles[at(dimension)] > 1; }

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
  // Of the tiles of one element one is in the array.
  for (int d = 0; d < from.size(); ++d) {
    if (from[d] == 1 && is_cut(seen, d)) return std::nullopt;
  }
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

// A convolution's batch, and, where features are in no groups, those that go in, over which it sums
// (of a kernel's gradient these are the batch), and those that come out; of groups so many each.
std::optional<Rule> convolution_rule(const Instruction& at, int operand, const Sharding& seen) {
  const ir::ConvolutionDimensions& d = *at.attributes().convolution;
  const Attributes& attributes = at.attributes();
  if (attributes.batch_group_count != 1) return std::nullopt;
  const bool sees_kernel = operand == 1;
  const auto kept = static_cast<int>(sees_kernel ? d.kernel_output_feature : d.input_batch);
  const auto summed = static_cast<int>(sees_kernel ? d.kernel_input_feature : d.input_feature);
  const auto others_summed =
      static_cast<int>(sees_kernel ? d.input_feature : d.kernel_input_feature);
  const std::int64_t groups = attributes.feature_group_count;
  // What all of a group's features are in.
  const int grouped = sees_kernel ? kept : summed;
  const auto others_grouped =
      static_cast<int>(sees_kernel ? d.input_feature : d.kernel_output_feature);
  const int rank = at.shape().rank();
  for (int i = 0; i < rank; ++i) {
    if (!is_cut(seen, i)) continue;
    if (i != kept && i != summed) return std::nullopt;
    if (groups == 1) continue;
    const bool is_by_groups = i == grouped && groups % seen.tiles[plimsoll::at(i)] == 0;
    if (!is_by_groups && (sees_kernel || i != kept)) return std::nullopt;
  }
  Rule rule;
  rule.operands.assign(2, Along(plimsoll::at(rank), -1));
  rule.operands[plimsoll::at(operand)] = same_dimensions(rank);
  rule.result.assign(plimsoll::at(rank), -1);
  Along& other = rule.operands[plimsoll::at(1 - operand)];
  rule.result[plimsoll::at(sees_kernel ? d.output_feature : d.output_batch)] = kept;
  if (groups == 1) {
    other[plimsoll::at(others_summed)] = summed;
  } else {
    other[plimsoll::at(others_grouped)] = grouped;
    rule.result[plimsoll::at(d.output_feature)] = grouped;
  }
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

// Updates that are cut along what each of them covers, in the array the same.
std::optional<Rule> scatter_windows_rule(const Instruction& scatter, const Sharding& seen) {
  const ir::ScatterDimensions& d = *scatter.attributes().scatter;
  const Shape& into = scatter.operand(0)->shape();
  const Shape& updates = scatter.operand(2)->shape();
  Rule rule;
  rule.result.assign(at(into.rank()), -1);
  std::size_t window = 0;
  std::vector<int> covered;
  for (int i = 0; i < into.rank(); ++i) {
    if (!holds(d.inserted_window_dims, i) && !holds(d.input_batching_dims, i)) covered.push_back(i);
  }
  for (int i = 0; i < updates.rank(); ++i) {
    if (!holds(d.update_window_dims, i)) {
      if (is_cut(seen, i)) return std::nullopt;
      continue;
    }
    const int to = covered[window++];
    if (!is_cut(seen, i)) continue;
    if (updates.dim(i) != into.dim(to)) return std::nullopt;
    rule.result[at(to)] = i;
  }
  rule.operands = {rule.result, Along(at(scatter.operand(1)->shape().rank()), -1),
                   same_dimensions(updates.rank())};
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
    case Opcode::dynamic_update_slice:
      // An update that is as wide as the array begins where the array does.
      if (!untouched([&](int d) {
            return at.operand(0)->shape().dim(d) != at.operand(1)->shape().dim(d);
          })) {
        return std::nullopt;
      }
      break;
    case Opcode::reverse:
    case Opcode::concatenate:
      if (!untouched([&](int d) { return holds(attributes.dimensions, d); })) return std::nullopt;
      break;
    case Opcode::select_and_scatter:
    case Opcode::reduce_window:
      if ((at.opcode() == Opcode::reduce_window && at.operand_count() != 2) ||
          !untouched([&](int d) {
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
  const bool both =
      at.opcode() == Opcode::dynamic_update_slice || at.opcode() == Opcode::select_and_scatter;
  const int arrays = at.opcode() == Opcode::concatenate ? at.operand_count() : both ? 2 : 1;
  for (int i = 0; i < at.operand_count(); ++i) {
    rule.operands.push_back(i < arrays ? same_dimensions(rank) : Along());
  }
  rule.result = same_dimensions(rank);
  return rule;
}

// Rows that are looked up of an array that is cut along what is taken whole, or along what the
// indices have, too; or along one dimension of which each index takes one place, which is in one
// partition's tile: the others have nothing, and all is summed.
std::optional<Rule> gather_from_rule(const Instruction& gather, const Sharding& seen) {
  const ir::GatherDimensions& d = *gather.attributes().gather;
  const Shape& from = gather.operand(0)->shape();
  const int rank = gather.operand(1)->shape().rank();
  Rule rule;
  Along indices(at(rank), -1), windows;
  bool looks_up = false;
  for (int i = 0; i < from.rank(); ++i) {
    const auto batch = std::find(d.operand_batching_dims.begin(), d.operand_batching_dims.end(), i);
    if (batch != d.operand_batching_dims.end()) {
      const auto which = static_cast<std::size_t>(batch - d.operand_batching_dims.begin());
      indices[at(d.start_indices_batching_dims[which])] = i;
      continue;
    }
    const bool is_collapsed = holds(d.collapsed_slice_dims, i);
    const bool is_looked_up = is_cut(seen, i) && is_collapsed && holds(d.start_index_map, i) &&
                              from.dtype() != ir::DType::pred;
    if (is_looked_up && std::exchange(looks_up, true)) return std::nullopt;
    if (is_cut(seen, i) && !is_looked_up && gather.attributes().slice_sizes[at(i)] != from.dim(i)) {
      return std::nullopt;
    }
    if (!is_collapsed) {
      windows.push_back(i);
    } else if (is_cut(seen, i) && !is_looked_up) {
      return std::nullopt;
    }
  }
  std::size_t window = 0;
  int next = 0;
  for (int i = 0; i < gather.shape().rank(); ++i) {
    if (holds(d.offset_dims, i)) {
      rule.result.push_back(windows[window++]);
      continue;
    }
    if (next == d.index_vector_dim) ++next;
    rule.result.push_back(indices[at(next++)]);
  }
  rule.operands = {same_dimensions(from.rank()), std::move(indices)};
  return rule;
}

// Updates of an array that is cut along what every update covers, or along what the indices have,
// too: every partition updates its tile.
std::optional<Rule> scatter_into_rule(const Instruction& scatter, const Sharding& seen) {
  const ir::ScatterDimensions& d = *scatter.attributes().scatter;
  if (scatter.operand_count() != 3) return std::nullopt;
  const Shape& into = scatter.operand(0)->shape();
  const Shape& updates = scatter.operand(2)->shape();
  Along indices(at(scatter.operand(1)->shape().rank()), -1), along(at(updates.rank()), -1), windows;
  for (int i = 0; i < into.rank(); ++i) {
    const auto batch = std::find(d.input_batching_dims.begin(), d.input_batching_dims.end(), i);
    if (batch != d.input_batching_dims.end()) {
      const auto which = static_cast<std::size_t>(batch - d.input_batching_dims.begin());
      indices[at(d.scatter_indices_batching_dims[which])] = i;
    } else if (!holds(d.inserted_window_dims, i)) {
      windows.push_back(i);
    } else if (is_cut(seen, i)) {
      return std::nullopt;
    }
  }
  std::size_t window = 0;
  int next = 0;
  for (int i = 0; i < updates.rank(); ++i) {
    if (holds(d.update_window_dims, i)) {
      const int to = windows[window++];
      if (is_cut(seen, to) && updates.dim(i) != into.dim(to)) return std::nullopt;
      along[at(i)] = to;
      continue;
    }
    if (next == d.index_vector_dim) ++next;
    along[at(i)] = indices[at(next++)];
  }
  Rule rule;
  rule.result = same_dimensions(into.rank());
  rule.operands = {rule.result, std::move(indices), std::move(along)};
  return rule;
}

// Matrices of a batch that a library of linear algebra works on one by one.
std::optional<Rule> library_rule(const Instruction& at, const Sharding& seen) {
  if (!at.attributes().custom_call_target.starts_with("lapack_")) return std::nullopt;
  int rank = 0;
  for (const Instruction* const one : at.operands()) rank = std::max(rank, one->shape().rank());
  const int batch = rank - 2;
  for (int d = 0; d < static_cast<int>(seen.tiles.size()); ++d) {
    if (is_cut(seen, d) && d >= batch) return std::nullopt;
  }
  Rule rule;
  for (const Instruction* const one : at.operands()) {
    if (one->shape().rank() < batch) return std::nullopt;
    for (int d = 0; d < batch; ++d) {
      // What lies beyond is no matrix.
      if (!ir::is_even(one->shape().dim(d), seen, d)) return std::nullopt;
    }
    rule.operands.push_back(same_dimensions(batch));
    rule.operands.back().resize(plimsoll::at(one->shape().rank()), -1);
  }
  rule.result = same_dimensions(batch);
  for (const Shape& one : shapes_of(at.shape())) {
    if (!one.is_array() || one.rank() < batch) return std::nullopt;
  }
  if (at.shape().is_array()) rule.result.resize(plimsoll::at(at.shape().rank()), -1);
  return rule;
}

// What is done for each matrix, of those that are cut in another dimension.
std::optional<Rule> matrix_rule(const Instruction& at, const Sharding& seen) {
  const int rank = at.shape().rank();
  if (is_cut(seen, rank - 1) || is_cut(seen, rank - 2)) return std::nullopt;
  Rule rule;
  rule.operands.assign(plimsoll::at(at.operand_count()), same_dimensions(rank));
  rule.result = same_dimensions(rank);
  return rule;
}

// An array, or several, each sorted with the others along a dimension that is not cut.
std::optional<Rule> sort_rule(const Instruction& sort, const Sharding& seen) {
  if (is_cut(seen, static_cast<int>(sort.attributes().dimensions[0]))) return std::nullopt;
  Rule rule;
  rule.result = same_dimensions(sort.operand(0)->shape().rank());
  rule.operands.assign(at(sort.operand_count()), rule.result);
  return rule;
}

// Several arrays that are reduced together, along dimensions that are not cut.
std::optional<Rule> joint_reduce_rule(const Instruction& reduce, int operand,
                                      const Sharding& seen) {
  const int count = reduce.operand_count() / 2, rank = reduce.operand(0)->shape().rank();
  if (operand >= count) return std::nullopt;
  Rule rule;
  for (int d = 0; d < rank; ++d) {
    if (!holds(reduce.attributes().dimensions, d)) {
      rule.result.push_back(d);
    } else if (is_cut(seen, d)) {
      return std::nullopt;
    }
  }
  rule.operands.assign(at(count), same_dimensions(rank));
  rule.operands.resize(at(reduce.operand_count()));
  return rule;
}

}  // namespace

std::optional<Rule> rule_of(const Instruction& at, int operand, const Sharding& seen) {
  if (at.opcode() == Opcode::sort) return sort_rule(at, seen);
  if (at.opcode() == Opcode::custom_call) return library_rule(at, seen);
  if (!at.shape().is_array()) {
    return at.opcode() == Opcode::reduce ? joint_reduce_rule(at, operand, seen) : std::nullopt;
  }
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
      return convolution_rule(at, operand, seen);
    case Opcode::gather:
      return operand == 1 ? gather_rule(at, seen) : gather_from_rule(at, seen);
    case Opcode::scatter:
      if (operand == 0) return scatter_into_rule(at, seen);
      if (operand == 2 && at.operand_count() == 3) {
        if (auto rule = scatter_windows_rule(at, seen)) return rule;
      }
      return scatter_rule(at, operand, seen);
    case Opcode::cholesky:
    case Opcode::triangular_solve:
      return matrix_rule(at, seen);
    case Opcode::concatenate:
      return movement_rule(at, seen);
    case Opcode::dynamic_update_slice:
    case Opcode::select_and_scatter:
      return operand < 2 ? movement_rule(at, seen) : std::nullopt;
    default:
      return operand == 0 ? movement_rule(at, seen) : std::nullopt;
  }
}

}  // namespace plimsoll::passes
