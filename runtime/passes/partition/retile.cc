// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/retile.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using ir::Sharding;

Instruction* add_look_up(ir::Computation& computation, Instruction* partition,
                         const std::vector<std::int64_t>& table) {
  const std::vector<std::int32_t> narrow(table.begin(), table.end());
  const auto count = static_cast<std::int64_t>(narrow.size());
  Instruction* const all = computation.add_constant(
      ir::Literal::array<std::int32_t>({count}, std::span<const std::int32_t>(narrow)));
  Attributes attributes;
  attributes.slice_sizes = {1};
  Instruction* const one = computation.add(Opcode::dynamic_slice, Shape(DType::s32, {1}),
                                           {all, partition}, {}, std::move(attributes));
  return computation.add(Opcode::reshape, Shape(DType::s32, {}), {one});
}

Instruction* add_partition(ir::Computation& computation) {
  Instruction* const id = computation.add(Opcode::partition_id, Shape(DType::u32, {}), {});
  return computation.add(Opcode::convert, Shape(DType::s32, {}), {id});
}

Retiling::Retiling(const Shape& whole, const Sharding& from, const Sharding& to,
                   std::int64_t partitions)
    : whole_(whole), partitions_(partitions), now_(places_of(from)), to_(places_of(to)) {
  slice_first();
  exchange();
  for (int d = 0; d < whole_.rank(); ++d) {
    if (!is_same(d) && !is_finer(d)) gather(d);
  }
  std::vector<int> left;
  for (int d = 0; d < whole_.rank(); ++d) {
    if (!is_same(d)) left.push_back(d);
  }
  if (!left.empty()) slice(left);
}

Retiling::Places Retiling::places_of(const Sharding& sharding) const {
  const std::size_t rank = at(whole_.rank());
  Places made{std::vector<std::int64_t>(rank, 1),
              std::vector(rank, std::vector<std::int64_t>(at(partitions_), 0))};
  if (sharding.is_replicated()) return made;
  made.counts = sharding.tiles;
  const std::vector<std::int64_t> tiles = sharding.tile_of_partition(partitions_);
  for (std::int64_t p = 0; p < partitions_; ++p) {
    const std::vector<std::int64_t> place = sharding.place_of_tile(tiles[at(p)]);
    for (std::size_t d = 0; d < rank; ++d) made.of[d][at(p)] = place[d];
  }
  return made;
}

// Of a part; the last ones may reach beyond the array.
std::int64_t Retiling::size_of(const Places& places, int dimension) const {
  const std::int64_t count = places.counts[at(dimension)];
  return (whole_.dim(dimension) + count - 1) / count;
}

Dims Retiling::dims_of(const Places& places) const {
  Dims dims = whole_.dims();
  for (int d = 0; d < dims.size(); ++d) dims[d] = size_of(places, d);
  return dims;
}

bool Retiling::is_same(int dimension) const {
  const std::size_t d = at(dimension);
  return now_.counts[d] == to_.counts[d] && now_.of[d] == to_.of[d];
}

bool Retiling::divides(int dimension, std::int64_t parts) const {
  return whole_.dim(dimension) % parts == 0;
}

// Each needs a part of what it has.
bool Retiling::is_finer(int dimension) const {
  const std::size_t d = at(dimension);
  const std::int64_t now = now_.counts[d], to = to_.counts[d];
  if (now == 1) return true;
  if (to % now != 0 || !divides(dimension, to)) return false;
  for (std::size_t p = 0; p < at(partitions_); ++p) {
    if (to_.of[d][p] / (to / now) != now_.of[d][p]) return false;
  }
  return true;
}

// Each has a part of what it needs.
bool Retiling::is_coarser(int dimension) const {
  const std::size_t d = at(dimension);
  const std::int64_t now = now_.counts[d], to = to_.counts[d];
  if (now % to != 0 || !divides(dimension, now)) return false;
  for (std::size_t p = 0; p < at(partitions_); ++p) {
    if (now_.of[d][p] / (now / to) != to_.of[d][p]) return false;
  }
  return true;
}

// Copies gather apart: the n-th who has each part with the n-th of the others.
std::vector<std::vector<std::int64_t>> Retiling::members(int dimension,
                                                         const std::vector<std::int64_t>& needed,
                                                         std::int64_t parts) const {
  std::map<std::vector<std::int64_t>, std::int64_t> copies;
  std::map<std::vector<std::int64_t>, std::map<std::int64_t, std::int64_t>> groups;
  for (std::size_t p = 0; p < at(partitions_); ++p) {
    std::vector<std::int64_t> key;
    for (const auto& of : now_.of) key.push_back(of[p]);
    const std::int64_t copy = copies[key]++;
    const std::int64_t place = std::exchange(key[at(dimension)], needed[p]);
    key.push_back(copy);
    groups[key][place] = static_cast<std::int64_t>(p);
  }
  std::vector<std::vector<std::int64_t>> made;
  for (const auto& [key, by_place] : groups) {
    if (static_cast<std::int64_t>(by_place.size()) != parts) return {};
    auto& group = made.emplace_back();
    for (const auto& [place, p] : by_place) group.push_back(p);
  }
  return made;
}

// What each needs less of, where those whom it gathers from will have the same of it.
void Retiling::slice_first() {
  std::vector<int> finer, others;
  for (int d = 0; d < whole_.rank(); ++d) {
    if (!is_same(d)) (is_finer(d) ? finer : others).push_back(d);
  }
  if (finer.empty() || others.empty()) return;
  const Places before = now_;
  for (const int d : finer) {
    now_.counts[at(d)] = to_.counts[at(d)];
    now_.of[at(d)] = to_.of[at(d)];
  }
  const bool is_possible = std::all_of(others.begin(), others.end(), [&](int d) {
    const std::vector<std::int64_t> whole(at(partitions_), 0);
    return !members(d, whole, now_.counts[at(d)]).empty();
  });
  now_ = before;
  if (is_possible) slice(finer);
}

// The cut of one dimension that becomes that of another, by the same partitions in the same order.
void Retiling::exchange() {
  if (whole_.rank() == ir::kMaxRank) return;
  for (int from = 0; from < whole_.rank(); ++from) {
    const std::int64_t count = now_.counts[at(from)];
    if (count == 1 || to_.counts[at(from)] != 1 || !divides(from, count)) continue;
    for (int to = 0; to < whole_.rank(); ++to) {
      if (to == from || now_.counts[at(to)] != 1 || to_.counts[at(to)] != count ||
          to_.of[at(to)] != now_.of[at(from)] || !divides(to, count)) {
        continue;
      }
      auto groups = members(from, to_.of[at(from)], count);
      if (groups.empty()) continue;
      const Shape had(whole_.dtype(), dims_of(now_));
      received_bytes_ += had.byte_size() / count * (count - 1);
      std::swap(now_.counts[at(from)], now_.counts[at(to)]);
      std::swap(now_.of[at(from)], now_.of[at(to)]);
      steps_.push_back({Step::Kind::exchange, {from, to}, {}, std::move(groups), dims_of(now_)});
      break;
    }
  }
}

void Retiling::gather(int dimension) {
  const std::size_t d = at(dimension);
  const Shape had(whole_.dtype(), dims_of(now_));
  std::vector<std::vector<std::int64_t>> groups;
  if (is_coarser(dimension)) {
    groups = members(dimension, to_.of[d], now_.counts[d] / to_.counts[d]);
  }
  const bool is_part = !groups.empty();
  const std::vector<std::int64_t> whole(at(partitions_), 0);
  if (!is_part) groups = members(dimension, whole, now_.counts[d]);
  now_.counts[d] = is_part ? to_.counts[d] : 1;
  now_.of[d] = is_part ? to_.of[d] : whole;
  steps_.push_back({Step::Kind::gather, {dimension}, {}, std::move(groups), dims_of(now_)});
  received_bytes_ += Shape(whole_.dtype(), dims_of(now_)).byte_size() - had.byte_size();
}

void Retiling::slice(const std::vector<int>& dimensions) {
  Step step{Step::Kind::slice, dimensions, {}, {}, {}};
  for (const int d : dimensions) {
    auto& starts = step.starts.emplace_back();
    for (std::size_t p = 0; p < at(partitions_); ++p) {
      starts.push_back(to_.of[at(d)][p] * size_of(to_, d) - now_.of[at(d)][p] * size_of(now_, d));
    }
    now_.counts[at(d)] = to_.counts[at(d)];
    now_.of[at(d)] = to_.of[at(d)];
  }
  step.dims = dims_of(now_);
  steps_.push_back(std::move(step));
}

Instruction* Retiling::add(Instruction* tile, std::int64_t& channel) const {
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Step::Kind::slice:
        tile = add_slice(tile, step);
        break;
      case Step::Kind::gather:
        tile = add_gather(tile, step, channel);
        break;
      case Step::Kind::exchange:
        tile = add_exchange(tile, step, channel);
        break;
    }
  }
  return tile;
}

// With zeros behind what there is, so that every slice lies in it.
Instruction* Retiling::add_slice(Instruction* tile, const Step& step) const {
  ir::Computation& computation = *tile->parent();
  Dims dims = tile->shape().dims();
  std::vector<Instruction*> starts(at(whole_.rank()), nullptr);
  Instruction* const partition = add_partition(computation);
  for (std::size_t i = 0; i < step.dimensions.size(); ++i) {
    const int d = step.dimensions[i];
    const std::int64_t last = *std::max_element(step.starts[i].begin(), step.starts[i].end());
    dims[d] = std::max(dims[d], last + step.dims[d]);
    starts[at(d)] = add_look_up(computation, partition, step.starts[i]);
  }
  if (dims != tile->shape().dims()) {
    Attributes attributes;
    for (int d = 0; d < whole_.rank(); ++d) {
      attributes.padding.push_back({0, dims[d] - tile->shape().dim(d), 0});
    }
    Instruction* const zero = computation.add_constant(ir::Literal(Shape(whole_.dtype(), {})));
    tile = computation.add(Opcode::pad, Shape(whole_.dtype(), dims), {tile, zero}, {},
                           std::move(attributes));
  }
  std::vector<Instruction*> operands{tile};
  for (Instruction* const start : starts) {
    operands.push_back(
        start != nullptr ? start : computation.add_constant(ir::Literal::scalar(std::int32_t{0})));
  }
  Attributes attributes;
  attributes.slice_sizes = step.dims.to_vector();
  return computation.add(Opcode::dynamic_slice, Shape(whole_.dtype(), step.dims),
                         std::move(operands), {}, std::move(attributes));
}

Instruction* Retiling::add_gather(Instruction* tile, const Step& step,
                                  std::int64_t& channel) const {
  ir::Computation& computation = *tile->parent();
  auto collective = std::make_shared<ir::CollectiveAttributes>();
  collective->channel_id = channel++;
  collective->use_global_device_ids = true;
  const std::int64_t replicas = computation.module()->replica_count;
  for (std::int64_t r = 0; r < replicas; ++r) {
    for (const auto& members : step.groups) {
      auto& group = collective->replica_groups.emplace_back();
      for (const std::int64_t p : members) group.push_back(r * partitions_ + p);
    }
  }
  const int d = step.dimensions[0];
  Dims dims = tile->shape().dims();
  dims[d] *= std::ssize(step.groups[0]);
  Attributes attributes;
  attributes.dimensions = {d};
  attributes.collective = std::move(collective);
  Instruction* const made = computation.add(Opcode::all_gather, Shape(whole_.dtype(), dims), {tile},
                                            {}, std::move(attributes));
  if (dims == step.dims) return made;
  // Without what lies beyond the array.
  Attributes inside;
  inside.slice_starts.assign(at(dims.size()), 0);
  inside.slice_strides.assign(at(dims.size()), 1);
  inside.slice_limits = step.dims.to_vector();
  return computation.add(Opcode::slice, Shape(whole_.dtype(), step.dims), {made}, {},
                         std::move(inside));
}

// Each sends every member that one's part along `to`, and has then all parts along `from` of its
// own, one behind the other along `to`; they are put where they belong.
Instruction* Retiling::add_exchange(Instruction* tile, const Step& step,
                                    std::int64_t& channel) const {
  ir::Computation& computation = *tile->parent();
  const int from = step.dimensions[0], to = step.dimensions[1];
  const std::int64_t count = std::ssize(step.groups[0]);
  auto collective = std::make_shared<ir::CollectiveAttributes>();
  collective->channel_id = channel++;
  collective->replica_groups = step.groups;
  Attributes attributes;
  attributes.dimensions = {to};
  attributes.collective = std::move(collective);
  Instruction* const made =
      computation.add(Opcode::all_to_all, tile->shape(), {tile}, {}, std::move(attributes));
  Dims apart;
  std::vector<std::int64_t> order;
  int parts = 0;  // where the parts' dimension is
  for (int d = 0; d < tile->shape().rank(); ++d) {
    if (d == to) {
      parts = apart.size();
      apart.push_back(count);
    }
    apart.push_back(d == to ? tile->shape().dim(d) / count : tile->shape().dim(d));
  }
  for (int d = 0; d < apart.size(); ++d) {
    if (d == parts) continue;
    const int of = d < parts ? d : d - 1;
    if (of == from) order.push_back(parts);
    order.push_back(d);
  }
  Dims turned;
  for (const std::int64_t d : order) turned.push_back(apart[static_cast<int>(d)]);
  Instruction* const split = computation.add(Opcode::reshape, Shape(whole_.dtype(), apart), {made});
  Attributes permutes;
  permutes.dimensions = std::move(order);
  Instruction* const moved = computation.add(Opcode::transpose, Shape(whole_.dtype(), turned),
                                             {split}, {}, std::move(permutes));
  return computation.add(Opcode::reshape, Shape(whole_.dtype(), step.dims), {moved});
}

}  // namespace plimsoll::passes
