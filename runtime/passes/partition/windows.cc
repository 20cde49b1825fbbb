// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/windows.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/partition/cut_array.h"
#include "runtime/passes/partition/retile.h"
#include "runtime/passes/partition/tile_rules.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using ir::Sharding;

namespace {

// What each place along a dimension reads of the whole array: `size` elements from its start on,
// which may begin before the array and end behind it.
struct Reads {
  std::vector<std::int64_t> starts;
  std::int64_t size = 0;
};

// Place q of `places` reads what it makes its `made` results of, each of `extent` elements `stride`
// behind those before.
Reads reads_of(std::int64_t places, std::int64_t made, std::int64_t stride, std::int64_t first,
               std::int64_t extent) {
  Reads reads;
  for (std::int64_t q = 0; q < places; ++q) reads.starts.push_back(q * made * stride + first);
  reads.size = (made - 1) * stride + extent;
  return reads;
}

class Windows : public CutArray {
 public:
  using CutArray::CutArray;

  Result<Instruction*> run() {
    if (at_.opcode() == Opcode::concatenate) return concatenate();
    if (!find_tile()) return none();
    switch (at_.opcode()) {
      case Opcode::slice:
        return slice();
      case Opcode::pad:
        return pad();
      case Opcode::reduce_window:
        return at_.operand_count() == 2 ? reduce_window() : none();
      case Opcode::convolution:
        return convolution();
      default:
        return none();
    }
  }

 private:
  // Those who differ in their place along a dimension alone, by that place.
  std::vector<std::vector<std::int64_t>> holders_along(int dimension) const {
    const std::vector<std::int64_t> tiles = seen_.tile_of_partition(partitions_);
    const std::vector<std::int64_t> copies = seen_.copy_of_partition(partitions_);
    std::map<std::vector<std::int64_t>, std::map<std::int64_t, std::int64_t>> groups;
    for (std::int64_t p = 0; p < partitions_; ++p) {
      std::vector<std::int64_t> key = seen_.place_of_tile(tiles[at(p)]);
      const std::int64_t place = std::exchange(key[at(dimension)], 0);
      key.push_back(copies[at(p)]);
      groups[key][place] = p;
    }
    std::vector<std::vector<std::int64_t>> made;
    for (const auto& [key, by_place] : groups) {
      auto& group = made.emplace_back();
      for (const auto& [place, p] : by_place) group.push_back(p);
    }
    return made;
  }

  // `edge`, sent by each to the one `step` places on; zeros where nobody sends.
  Instruction* add_sent(Instruction* edge, int dimension, int step) {
    auto collective = std::make_shared<ir::CollectiveAttributes>();
    collective->channel_id = tiles_.take_channel();
    for (const auto& group : holders_along(dimension)) {
      for (std::int64_t from = 0; from < std::ssize(group); ++from) {
        const std::int64_t to = from + step;
        if (to < 0 || to >= std::ssize(group)) continue;
        collective->source_target_pairs.emplace_back(group[at(from)], group[at(to)]);
      }
    }
    Attributes attributes;
    attributes.collective = std::move(collective);
    return computation_.add(Opcode::collective_permute, edge->shape(), {edge}, {},
                            std::move(attributes));
  }

  // Which elements along a dimension of a window of `shape` lie in [low, high) of what the reads
  // number.
  Instruction* add_within(const Shape& shape, int dimension, const Reads& reads, std::int64_t low,
                          std::int64_t high) {
    const Shape numbers(DType::s32, shape.dims());
    const auto spread = [&](Instruction* scalar) {
      return computation_.add(Opcode::broadcast, numbers, {scalar});
    };
    Attributes along;
    along.dimensions = {dimension};
    Instruction* const place = computation_.add(Opcode::iota, numbers, {}, {}, std::move(along));
    Instruction* const start = spread(add_look_up_place(dimension, reads.starts));
    Instruction* const number = computation_.add(Opcode::add, numbers, {place, start});
    const auto compared = [&](ir::ComparisonDirection direction, std::int64_t with) {
      Attributes attributes;
      attributes.comparison_direction = direction;
      return computation_.add(Opcode::compare, Shape(DType::pred, shape.dims()),
                              {number, spread(integer(DType::s32, with))}, {},
                              std::move(attributes));
    };
    return computation_.add(
        Opcode::and_, Shape(DType::pred, shape.dims()),
        {compared(ir::ComparisonDirection::ge, low), compared(ir::ComparisonDirection::lt, high)});
  }

  // What of its neighbours' tiles a place needs, in front of its own and behind it; none where that
  // is more than one neighbour has each.
  struct Edges {
    std::int64_t before = 0, after = 0;
  };
  static std::optional<Edges> edges_of(const Reads& reads, std::int64_t tile) {
    Edges edges;
    for (std::size_t q = 0; q < reads.starts.size(); ++q) {
      const std::int64_t first = static_cast<std::int64_t>(q) * tile;
      edges.before = std::max(edges.before, first - reads.starts[q]);
      edges.after = std::max(edges.after, reads.starts[q] + reads.size - first - tile);
    }
    const std::int64_t others = std::ssize(reads.starts) - 1;
    if (edges.before > tile || edges.after > tile || edges.before + edges.after > others * tile) {
      return std::nullopt;
    }
    return edges;
  }

  // The window of a tile (of an array of `size` elements along the dimension) together with its
  // neighbours' edges; `fill`, a scalar, in place of what lies outside the array, or anything.
  Instruction* add_window(Instruction* tile, int dimension, std::int64_t size, const Reads& reads,
                          const Edges& edges, Instruction* fill) {
    const std::int64_t most = tile->shape().dim(dimension);
    std::vector<Instruction*> parts{tile};
    if (edges.before > 0) {
      Instruction* const edge = add_slice_along(tile, dimension, most - edges.before, edges.before);
      parts.insert(parts.begin(), add_sent(edge, dimension, 1));
    }
    if (edges.after > 0) {
      parts.push_back(add_sent(add_slice_along(tile, dimension, 0, edges.after), dimension, -1));
    }
    Dims dims = tile->shape().dims();
    dims[dimension] += edges.before + edges.after;
    Instruction* window = tile;
    if (parts.size() > 1) {
      Attributes along;
      along.dimensions = {dimension};
      window = computation_.add(Opcode::concatenate, Shape(tile->shape().dtype(), dims),
                                std::move(parts), {}, std::move(along));
    }
    std::vector<std::int64_t> starts;
    for (std::size_t q = 0; q < reads.starts.size(); ++q) {
      starts.push_back(reads.starts[q] - static_cast<std::int64_t>(q) * most + edges.before);
    }
    const bool is_same = std::all_of(starts.begin(), starts.end(),
                                     [&](std::int64_t start) { return start == starts[0]; });
    window = is_same ? add_slice_along(window, dimension, starts[0], reads.size)
                     : add_dynamic_slice_along(window, dimension,
                                               add_look_up_place(dimension, starts), reads.size);
    const bool is_inside = reads.starts.front() >= 0 && reads.starts.back() + reads.size <= size;
    if (fill == nullptr || is_inside) return window;
    Instruction* const within = add_within(window->shape(), dimension, reads, 0, size);
    Instruction* const filled = computation_.add(Opcode::broadcast, window->shape(), {fill});
    return computation_.add(Opcode::select, window->shape(), {within, window, filled});
  }

  // Windows of the tile along all dimensions that are cut and for which there are reads; false
  // where one of them asks for too much.
  struct Moved {
    int dimension;
    Reads reads;
  };
  bool take_windows(const std::vector<Moved>& all, Instruction* fill) {
    for (const Moved& one : all) {
      if (!edges_of(one.reads, tile_->shape().dim(one.dimension))) return false;
    }
    for (const Moved& one : all) {
      const auto edges = edges_of(one.reads, tile_->shape().dim(one.dimension));
      tile_ = add_window(tile_, one.dimension, whole()[one.dimension], one.reads, *edges, fill);
    }
    return true;
  }

  std::int64_t made_of(int dimension, std::int64_t size) const {
    const std::int64_t count = seen_.tiles[at(dimension)];
    return (size + count - 1) / count;
  }

  Result<Instruction*> slice() {
    const Attributes& said = at_.attributes();
    std::vector<Moved> all;
    for (int d = 0; d < at_.shape().rank(); ++d) {
      const std::int64_t size = at_.shape().dim(d), stride = said.slice_strides[at(d)];
      if (!is_cut(d) || (size == whole()[d] && stride == 1)) continue;
      all.push_back(
          {d, reads_of(seen_.tiles[at(d)], made_of(d, size), stride, said.slice_starts[at(d)], 1)});
    }
    if (!take_windows(all, nullptr)) return slice_of_one(all);
    Attributes attributes = without_sharding(at_);
    Dims dims = tile_->shape().dims();
    for (int d = 0; d < dims.size(); ++d) {
      if (!is_cut(d)) {
        dims[d] = at_.shape().dim(d);
        continue;
      }
      attributes.slice_starts[at(d)] = 0;
      attributes.slice_limits[at(d)] = dims[d];
      dims[d] = (dims[d] + attributes.slice_strides[at(d)] - 1) / attributes.slice_strides[at(d)];
    }
    Instruction* const made = computation_.add(Opcode::slice, Shape(at_.shape().dtype(), dims),
                                               {tile_}, {}, std::move(attributes));
    return known_as(made, seen_);
  }

  // A slice that lies in one place's tiles along the only dimension in which it moves.
  Result<Instruction*> slice_of_one(const std::vector<Moved>& all) {
    if (all.size() != 1) return none();
    const int d = all[0].dimension;
    const Attributes& said = at_.attributes();
    const std::int64_t most = tile_->shape().dim(d);
    const std::int64_t first = said.slice_starts[at(d)], last = said.slice_limits[at(d)] - 1;
    const std::int64_t place = first / most;
    if (last / most != place) return none();
    const std::int64_t size = at_.shape().dim(d);
    if (size == 0) return none();
    Instruction* part = tile_;
    for (int e = 0; e < at_.shape().rank(); ++e) {
      if (e == d) {
        part = add_slice_along(part, d, first - place * most, last - first + 1,
                               said.slice_strides[at(d)]);
      } else if (!is_cut(e)) {
        part = add_slice_along(part, e, said.slice_starts[at(e)],
                               said.slice_limits[at(e)] - said.slice_starts[at(e)],
                               said.slice_strides[at(e)]);
      }
    }
    // All have what lies there in their own tile, of which one is the slice.
    Dims dims = at_.shape().dims();
    dims[d] = size * seen_.tiles[at(d)];
    std::int64_t channel = tiles_.take_channel();
    const Sharding held = uncut(d);
    Instruction* const gathered =
        Retiling(Shape(at_.shape().dtype(), dims), seen_, held, partitions_).add(part, channel);
    return known_as(add_slice_along(gathered, d, place * size, size), held);
  }

  Result<Instruction*> pad() {
    const auto& padding = at_.attributes().padding;
    std::vector<Moved> all;
    for (int d = 0; d < at_.shape().rank(); ++d) {
      const ir::PaddingDimension& one = padding[at(d)];
      if (!is_cut(d) || (one.low == 0 && one.high == 0 && one.interior == 0)) continue;
      if (one.interior != 0) return none();
      all.push_back(
          {d, reads_of(seen_.tiles[at(d)], made_of(d, at_.shape().dim(d)), 1, -one.low, 1)});
    }
    if (!take_windows(all, at_.operand(1))) return none();
    Attributes attributes = without_sharding(at_);
    Dims dims = tile_->shape().dims();
    for (int d = 0; d < dims.size(); ++d) {
      if (is_cut(d)) {
        attributes.padding[at(d)] = {0, 0, 0};
      } else {
        dims[d] = at_.shape().dim(d);
      }
    }
    Instruction* const made = computation_.add(Opcode::pad, Shape(at_.shape().dtype(), dims),
                                               {tile_, at_.operand(1)}, {}, std::move(attributes));
    return known_as(made, seen_);
  }

  // Reads of a window's dimension, which is then read without padding; none where elements lie
  // apart.
  std::optional<Reads> take_reads(ir::WindowDimension& window, int dimension,
                                  std::int64_t made) const {
    if (window.base_dilation != 1) return std::nullopt;
    const std::int64_t extent = (window.size - 1) * window.window_dilation + 1;
    Reads reads =
        reads_of(seen_.tiles[at(dimension)], made, window.stride, -window.padding_low, extent);
    window.padding_low = window.padding_high = 0;
    return reads;
  }

  Result<Instruction*> reduce_window() {
    if (!starts_from_nothing(*at_.to_apply(), *at_.operand(1))) return none();
    Attributes attributes = without_sharding(at_);
    std::vector<Moved> all;
    for (int d = 0; d < at_.shape().rank(); ++d) {
      if (!is_cut(d)) continue;
      auto reads = take_reads(attributes.window[at(d)], d, made_of(d, at_.shape().dim(d)));
      if (!reads) return none();
      all.push_back({d, std::move(*reads)});
    }
    if (!take_windows(all, at_.operand(1))) return none();
    PLIMSOLL_ASSIGN_OR_RETURN(Shape shape, ir::tile_shape(at_.shape(), seen_));
    Instruction* const made = computation_.add(Opcode::reduce_window, std::move(shape),
                                               {tile_, at_.operand(1)}, {}, std::move(attributes));
    made->set_called_computations(at_.called_computations());
    return known_as(made, seen_);
  }

  // Cut along its batch and along what its window moves.
  Result<Instruction*> convolution() {
    Attributes attributes = without_sharding(at_);
    const ir::ConvolutionDimensions& d = *attributes.convolution;
    if (attributes.batch_group_count != 1 || is_cut(static_cast<int>(d.input_feature))) {
      return none();
    }
    std::vector<Moved> all;
    Along along(at(at_.shape().rank()), -1);
    along[at(d.output_batch)] = static_cast<int>(d.input_batch);
    for (std::size_t i = 0; i < d.input_spatial.size(); ++i) {
      const auto dimension = static_cast<int>(d.input_spatial[i]);
      const auto output = static_cast<int>(d.output_spatial[i]);
      along[at(output)] = dimension;
      if (!is_cut(dimension)) continue;
      auto reads =
          take_reads(attributes.window[i], dimension, made_of(dimension, at_.shape().dim(output)));
      if (!reads) return none();
      all.push_back({dimension, std::move(*reads)});
    }
    Instruction* const zero =
        computation_.add_constant(ir::Literal(Shape(tile_->shape().dtype(), {})));
    if (all.empty() || !take_windows(all, zero)) return none();
    const Sharding held = carried(seen_, along, partitions_);
    PLIMSOLL_ASSIGN_OR_RETURN(Shape shape, ir::tile_shape(at_.shape(), held));
    Instruction* const made = computation_.add(Opcode::convolution, std::move(shape),
                                               {tile_, at_.operand(1)}, {}, std::move(attributes));
    return known_as(made, held);
  }

  // As the operand that has most elements of those that are cut along the dimension.
  Result<Instruction*> concatenate() {
    const auto d = static_cast<int>(at_.attributes().dimensions[0]);
    std::int64_t most = 0;
    for (const Instruction* const operand : at_.operands()) {
      const KnownTiles::Tile* const known = tiles_.find(operand);
      if (known == nullptr || known->sharding.tiles[at(d)] == 1) continue;
      if (operand->shape().element_count() <= most) continue;
      most = operand->shape().element_count();
      seen_ = known->sharding;
    }
    if (most == 0) return none();
    PLIMSOLL_ASSIGN_OR_RETURN(const Shape shape, ir::tile_shape(at_.shape(), seen_));
    Instruction* made = nullptr;
    std::int64_t offset = 0;
    for (Instruction* const operand : at_.operands()) {
      const std::int64_t size = operand->shape().dim(d);
      const Reads reads = reads_of(seen_.tiles[at(d)], shape.dim(d), 1, -offset, 1);
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const part, part_of(operand, d, reads));
      if (made == nullptr) {
        made = part;
      } else {
        Instruction* const within = add_within(shape, d, reads, 0, size);
        made = computation_.add(Opcode::select, shape, {within, part, made});
      }
      offset += size;
    }
    return known_as(made, seen_);
  }

  // What each reads of an operand; anything where the operand has nothing. Of tiles with what the
  // neighbours have, or else of all that there is along the dimension.
  Result<Instruction*> part_of(Instruction* operand, int d, const Reads& reads) {
    const std::int64_t size = operand->shape().dim(d);
    const KnownTiles::Tile* const known = tiles_.find(operand);
    if (known != nullptr && are_same_tiles(known->sharding, seen_, partitions_)) {
      const auto edges = edges_of(reads, known->at->shape().dim(d));
      if (edges) return add_window(known->at, d, size, reads, *edges, nullptr);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const all, tiles_.tile_of(operand, uncut(d)));
    const std::int64_t low = std::max<std::int64_t>(-reads.starts.front(), 0);
    std::vector<std::int64_t> starts;
    std::int64_t end = size + low;
    for (const std::int64_t start : reads.starts) {
      // What has nothing of the operand reads some of it.
      starts.push_back(std::clamp<std::int64_t>(start, -low, size) + low);
      end = std::max(end, starts.back() + reads.size);
    }
    Instruction* const padded = add_padded_along(all, d, low, end - size - low);
    return add_dynamic_slice_along(padded, d, add_look_up_place(d, starts), reads.size);
  }
};

}  // namespace

Result<Instruction*> computed_on_windows(Instruction& at, KnownTiles& tiles) {
  return Windows(at, tiles).run();
}

}  // namespace plimsoll::passes
