// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "jit/graph/graph.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using ir::Instruction;
using ir::Opcode;

// The dims in the order a layout puts them in memory, and where each dimension stands there.
struct Physical {
  ir::Dims dims;
  std::vector<int> position;
};

Physical physical(const ir::Shape& shape) {
  Physical result;
  const int rank = shape.rank();
  result.position.resize(at(rank));
  const ir::Layout* layout = shape.layout();
  const bool permuted =
      layout != nullptr && static_cast<int>(layout->minor_to_major.size()) == rank;
  for (int i = 0; i < rank; ++i) {
    const auto dimension =
        permuted ? static_cast<int>(layout->minor_to_major[at(rank - 1 - i)]) : i;
    result.dims.push_back(shape.dim(dimension));
    result.position[at(dimension)] = i;
  }
  return result;
}

Index reshaped(IndexSpace& space, const ir::Shape& from, const Index& index, const ir::Shape& to,
               bool by_layout) {
  if (!by_layout) return space.delinearize(space.linearize(index, from.dims()), to.dims());
  const Physical source = physical(from);
  const Physical target = physical(to);
  Index permuted(index.size());
  for (std::size_t i = 0; i < index.size(); ++i) permuted[at(source.position[i])] = index[i];
  const Index split = space.delinearize(space.linearize(permuted, source.dims), target.dims);
  Index result(split.size());
  for (std::size_t i = 0; i < split.size(); ++i) result[i] = split[at(target.position[i])];
  return result;
}

std::int64_t concatenate_offset(const KernelGraph& graph, const Instruction& user, int i) {
  const int axis = static_cast<int>(user.attributes().dimensions[0]);
  std::int64_t offset = 0;
  for (int k = 0; k < i; ++k) offset += graph.operand(user, k).dims()[axis];
  return offset;
}

bool contains(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Where a gather takes the result's element `index` from: a start that the indices name, clamped so
// that the slice lies inside, and a place in the slice.
Index gathered_index(IndexSpace& space, const KernelGraph& graph, const Instruction& gather,
                     const Index& index) {
  const ir::GatherDimensions& d = *gather.attributes().gather;
  const auto& sizes = gather.attributes().slice_sizes;
  const ir::Dims& dims = graph.operand(gather, 0).dims();
  Index batch;
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (!contains(d.offset_dims, static_cast<std::int64_t>(i))) batch.push_back(index[i]);
  }
  const auto vector_dim = at(d.index_vector_dim);
  const auto start_at = [&](std::size_t component) {
    Index place = batch;
    // A vector dim past the last one stands for vectors of one component.
    if (graph.operand(gather, 1).dims().size() > static_cast<int>(batch.size())) {
      place.insert(place.begin() + static_cast<std::ptrdiff_t>(vector_dim),
                   space.constant(static_cast<std::int64_t>(component)));
    }
    return place;
  };
  Index result(at(dims.size()));
  std::size_t offset = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto dimension = static_cast<std::int64_t>(i);
    const auto batching =
        std::find(d.operand_batching_dims.begin(), d.operand_batching_dims.end(), dimension);
    if (batching != d.operand_batching_dims.end()) {
      const auto from =
          at(d.start_indices_batching_dims[at(batching - d.operand_batching_dims.begin())]);
      result[i] = batch[from > vector_dim ? from - 1 : from];
      continue;
    }
    const auto named = std::find(d.start_index_map.begin(), d.start_index_map.end(), dimension);
    if (named != d.start_index_map.end()) {
      result[i] = space.runtime(&gather, 1, start_at(at(named - d.start_index_map.begin())),
                                {0, dims[static_cast<int>(i)] - sizes[i]});
    }
    if (!contains(d.collapsed_slice_dims, dimension)) {
      result[i] = space.add(result[i], index[at(d.offset_dims[offset++])]);
    }
  }
  return result;
}

Range last_of(std::int64_t size) { return {0, std::max<std::int64_t>(size - 1, 0)}; }

}  // namespace

Affine dynamic_start(IndexSpace& space, const Instruction& user, int dimension,
                     const ir::Dims& operand_dims) {
  const bool update = user.opcode() == Opcode::dynamic_update_slice;
  const int first = update ? 2 : 1;
  const std::int64_t size =
      update ? user.operand(1)->shape().dim(dimension) : user.shape().dim(dimension);
  return space.runtime(&user, first + dimension, {}, {0, operand_dims[dimension] - size});
}

// The index of an operand's element that result element `index` is made of. This one function is
// what movements are to the compiler: they cost no code but the arithmetic of the index, and that
// of several in a row is simplified as one (index_space.h).
//
// Example: y = transpose(slice(x, 10 : 20, 0 : 4)), y[i, j] with i in [0, 4), j in [0, 10): the
// slice is read at (j, i), x at (j + 10, i), position 4 (j + 10) + i in x of 4 columns. One
// multiplication, hoisted if j is the outer loop.
//
// Where only some elements come from this operand (concatenate, pad, dynamic-update-slice), indices
// outside are clamped so that reading is always allowed, and operand_conditions() says for which
// the value counts. That lets both sides be loaded and selected, without a branch in the vector.
Index operand_index(IndexSpace& space, const KernelGraph& graph, const Instruction& user, int i,
                    const Index& index) {
  const KernelNode operand = graph.operand(user, i);
  const ir::Dims& dims = operand.dims();
  const ir::Attributes& attributes = user.attributes();
  Index result(at(dims.size()));
  switch (user.opcode()) {
    case Opcode::broadcast:
      for (std::size_t d = 0; d < result.size(); ++d) {
        if (dims[static_cast<int>(d)] != 1) result[d] = index[at(attributes.dimensions[d])];
      }
      return result;
    case Opcode::reshape:
    case Opcode::bitcast:
      return reshaped(space, user.shape(), index, *operand.shape, user.opcode() == Opcode::bitcast);
    case Opcode::transpose:
      for (std::size_t d = 0; d < result.size(); ++d) {
        result[at(attributes.dimensions[d])] = index[d];
      }
      return result;
    case Opcode::slice:
      for (std::size_t d = 0; d < result.size(); ++d) {
        const std::int64_t stride =
            attributes.slice_strides.empty() ? 1 : attributes.slice_strides[d];
        result[d] = space.add(space.scale(index[d], stride), attributes.slice_starts[d]);
      }
      return result;
    case Opcode::dynamic_slice:
      if (i > 0) return {};
      for (std::size_t d = 0; d < result.size(); ++d) {
        result[d] = space.add(index[d], dynamic_start(space, user, static_cast<int>(d), dims));
      }
      return result;
    case Opcode::gather:
      return gathered_index(space, graph, user, index);
    case Opcode::dynamic_update_slice:
      if (i == 0) return index;
      if (i > 1) return {};
      for (std::size_t d = 0; d < result.size(); ++d) {
        const Affine start = dynamic_start(space, user, static_cast<int>(d), user.shape().dims());
        result[d] = space.clamp(space.add(index[d], space.scale(start, -1)),
                                last_of(dims[static_cast<int>(d)]));
      }
      return result;
    case Opcode::reverse:
      result = index;
      for (const std::int64_t d : attributes.dimensions) {
        result[at(d)] = space.add(space.scale(index[at(d)], -1), dims[static_cast<int>(d)] - 1);
      }
      return result;
    case Opcode::concatenate: {
      const auto axis = at(attributes.dimensions[0]);
      result = index;
      result[axis] = space.clamp(space.add(index[axis], -concatenate_offset(graph, user, i)),
                                 last_of(dims[static_cast<int>(axis)]));
      return result;
    }
    case Opcode::pad:
      if (i == 1) return {};
      for (std::size_t d = 0; d < result.size(); ++d) {
        const ir::PaddingDimension& padding = attributes.padding[d];
        const Range inside = last_of(dims[static_cast<int>(d)]);
        const Affine x = space.clamp(space.add(index[d], -padding.low),
                                     {0, inside.highest * (padding.interior + 1)});
        result[d] = space.quotient(x, padding.interior + 1);
      }
      return result;
    case Opcode::bitcast_convert:
      // Where the element size changes, the smaller elements have one more dimension.
      for (std::size_t d = 0; d < std::min(result.size(), index.size()); ++d) result[d] = index[d];
      return result;
    default:
      // Elementwise: a scalar operand (select's predicate, clamp's limits) goes with every element.
      if (dims.size() == static_cast<int>(index.size())) return index;
      return result;
  }
}

// Only what is not certain by ranges becomes a test: a pad whose borders the loop never reaches (it
// is stored operand by operand) has none.
std::vector<Condition> operand_conditions(IndexSpace& space, const KernelGraph& graph,
                                          const Instruction& user, int i, const Index& index) {
  const ir::Dims& dims = graph.operand(user, i).dims();
  std::vector<Condition> conditions;
  const auto require = [&](const Affine& x, Range allowed) {
    const Range bounds = space.range(x);
    if (bounds.lowest < allowed.lowest || bounds.highest > allowed.highest) {
      conditions.push_back({x, allowed});
    }
  };
  switch (user.opcode()) {
    case Opcode::concatenate: {
      const auto axis = static_cast<int>(user.attributes().dimensions[0]);
      const std::int64_t offset = concatenate_offset(graph, user, i);
      require(index[at(axis)], {offset, offset + dims[axis] - 1});
      break;
    }
    case Opcode::pad:
      for (int d = 0; d < dims.size(); ++d) {
        const ir::PaddingDimension& padding = user.attributes().padding[at(d)];
        const Affine x = space.add(index[at(d)], -padding.low);
        const std::int64_t last = (dims[d] - 1) * (padding.interior + 1);
        require(x, {0, last});
        if (padding.interior > 0) {
          require(space.remainder(space.clamp(x, {0, last}), padding.interior + 1), {0, 0});
        }
      }
      break;
    case Opcode::dynamic_update_slice:
      for (int d = 0; d < dims.size(); ++d) {
        const Affine start = dynamic_start(space, user, d, user.shape().dims());
        require(space.add(index[at(d)], space.scale(start, -1)), {0, dims[d] - 1});
      }
      break;
    default:
      break;
  }
  return conditions;
}

bool is_never_chosen(IndexSpace& space, const KernelGraph& graph, const Instruction& user, int i,
                     const Index& index) {
  const auto conditions = operand_conditions(space, graph, user, i, index);
  return std::any_of(conditions.begin(), conditions.end(), [&](const Condition& condition) {
    const Range bounds = space.range(condition.x);
    return bounds.highest < condition.allowed.lowest || bounds.lowest > condition.allowed.highest;
  });
}

}  // namespace plimsoll::jit
