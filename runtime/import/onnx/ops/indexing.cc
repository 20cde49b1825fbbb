// SPDX-License-Identifier: Apache-2.0
// Operators that read and write elements at places that other values say.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Literal;
using ir::Opcode;

// Indices that count from the back where they are negative.
Array from_front(Emit& e, const Array& indices, std::int64_t size) {
  return e.select(indices < 0, indices + static_cast<double>(size), indices);
}

// Known indices are looked at, as the standard wants them in [-size, size).
bool are_inside(NodeContext& n, int input, std::int64_t size) {
  const Literal* const known = n.known(input);
  if (known == nullptr || !is_integer(known->shape().dtype())) return true;
  for (std::int64_t i = 0; i < known->shape().element_count(); ++i) {
    const double index = known->at(i);
    if (index >= static_cast<double>(-size) && index < static_cast<double>(size)) continue;
    n.e.fail(fmt::format("index {} is outside of an axis of {}", index, size));
    return false;
  }
  return true;
}

void gather(NodeContext& n) {
  const Array x = n.in(0), indices = n.in(1);
  const std::int64_t axis = n.e.axis(n.number("axis", 0), x.rank());
  if (!n.e.status().ok() || !are_inside(n, 1, x.dim(axis))) return;
  n.set(0, n.e.take(x, from_front(n.e, indices, x.dim(axis)), axis));
}

void gather_elements(NodeContext& n) {
  Array x = n.in(0);
  const Array indices = n.in(1);
  const std::int64_t axis = n.e.axis(n.number("axis", 0), x.rank());
  if (indices.rank() != x.rank()) return n.e.fail("indices have not the rank of the data");
  if (!n.e.status().ok() || !are_inside(n, 1, x.dim(axis))) return;
  const Array places = from_front(n.e, indices, x.dim(axis));
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) x = n.e.slice(x, i, 0, indices.dim(i));
  }
  n.set(0, n.e.take_along(x, places, axis));
}

// The last dim of indices counts dims of the data from `batch` on; each from its front.
Array vector_from_front(Emit& e, const Array& indices, const Array& x, std::int64_t batch) {
  Sizes sizes;
  for (std::int64_t i = 0; i < indices.dim(indices.rank() - 1); ++i) {
    if (i >= x.rank()) break;
    sizes.push_back(x.dim(batch + i));
  }
  return e.select(indices < 0, indices + e.numbers(sizes, indices.dtype()), indices);
}

void gather_nd(NodeContext& n) {
  const Array x = n.in(0), indices = n.in(1);
  const std::int64_t batch = n.number("batch_dims", 0), rank = x.rank();
  const std::int64_t depth = indices.dim(indices.rank() - 1);
  if (indices.rank() < 1 || batch < 0 || batch >= indices.rank() || depth > rank - batch) {
    return n.e.fail("indices do not fit the data");
  }
  auto dims = std::make_shared<ir::GatherDimensions>();
  ir::Attributes attributes;
  attributes.slice_sizes = x.dims();
  for (std::int64_t i = 0; i < rank; ++i) {
    if (i < batch) {
      dims->operand_batching_dims.push_back(i);
      dims->start_indices_batching_dims.push_back(i);
    } else if (i < batch + depth) {
      dims->collapsed_slice_dims.push_back(i);
      dims->start_index_map.push_back(i);
    } else {
      dims->offset_dims.push_back(indices.rank() - 1 + i - batch - depth);
    }
    if (i < batch + depth) attributes.slice_sizes[at(i)] = 1;
  }
  dims->index_vector_dim = indices.rank() - 1;
  attributes.gather = std::move(dims);
  n.set(0, n.e.make(Opcode::gather, {x, vector_from_front(n.e, indices, x, batch)},
                    std::move(attributes)));
}

// How an update meets what is there: the update itself, or both combined.
ir::Computation* combiner(NodeContext& n, DType dtype) {
  const std::string reduction = n.text("reduction", "none");
  ir::Module& module = *n.e.computation().module();
  const std::pair<const char*, Opcode> known[] = {{"add", Opcode::add},
                                                  {"mul", Opcode::multiply},
                                                  {"max", Opcode::maximum},
                                                  {"min", Opcode::minimum}};
  for (const auto& [name, opcode] : known) {
    if (reduction == name) return ir::scalar_computation(module, opcode, dtype);
  }
  if (reduction != "none") n.wrong("reduction", "is '" + reduction + "'");
  ir::Computation* const made = module.add_computation("update");
  made->add_parameter(0, ir::Shape(dtype, {}));
  made->set_root(made->add_parameter(1, ir::Shape(dtype, {})));
  return made;
}

Array scatter(NodeContext& n, const Array& x, const Array& indices, const Array& updates,
              ir::ScatterDimensions dims) {
  if (!n.e.status().ok()) return {};
  ir::Attributes attributes;
  attributes.scatter = std::make_shared<const ir::ScatterDimensions>(std::move(dims));
  return n.e.make(Opcode::scatter, {x, indices, updates}, std::move(attributes),
                  {combiner(n, x.dtype())});
}

void scatter_elements(NodeContext& n) {
  const Array x = n.in(0), indices = n.in(1), updates = n.in(2);
  const std::int64_t axis = n.e.axis(n.number("axis", 0), x.rank());
  if (indices.rank() != x.rank()) return n.e.fail("indices have not the rank of the data");
  // The place of every update, all its dims.
  std::vector<Array> places;
  ir::ScatterDimensions dims;
  for (int i = 0; i < x.rank(); ++i) {
    const Array along = i == axis ? from_front(n.e, indices, x.dim(axis))
                                  : n.e.iota(indices.dtype(), indices.dims(), i);
    places.push_back(n.e.unsqueeze(along, x.rank()));
    dims.inserted_window_dims.push_back(i);
    dims.scatter_dims_to_operand_dims.push_back(i);
  }
  dims.index_vector_dim = x.rank();
  if (places.empty()) return n.e.fail("takes no scalar");
  n.set(0, scatter(n, x, n.e.concatenate(places, x.rank()), updates, std::move(dims)));
}

void scatter_nd(NodeContext& n) {
  const Array x = n.in(0), indices = n.in(1), updates = n.in(2);
  const std::int64_t depth = indices.dim(indices.rank() - 1);
  if (indices.rank() < 1 || depth > x.rank()) return n.e.fail("indices do not fit the data");
  ir::ScatterDimensions dims;
  for (std::int64_t i = 0; i < x.rank(); ++i) {
    if (i < depth) {
      dims.inserted_window_dims.push_back(i);
      dims.scatter_dims_to_operand_dims.push_back(i);
    } else {
      dims.update_window_dims.push_back(indices.rank() - 1 + i - depth);
    }
  }
  dims.index_vector_dim = indices.rank() - 1;
  n.set(0, scatter(n, x, vector_from_front(n.e, indices, x, 0), updates, std::move(dims)));
}

void one_hot(NodeContext& n) {
  const Array indices = n.in(0), values = n.in(2);
  const auto given = n.reals(1, "depth");
  if (given.size() != 1 || !(given[0] >= 0) || !(given[0] < 0x1p40)) {
    return n.e.fail("depth must be one number, not below 0");
  }
  const double depth = std::floor(given[0]);
  const std::int64_t axis = n.e.axis(n.number("axis", -1), indices.rank() + 1);
  Sizes dims = indices.dims();
  if (!n.e.status().ok()) return;
  dims.insert(dims.begin() + axis, static_cast<std::int64_t>(depth));
  const Array counted = n.e.select(indices < 0, indices + depth, indices);
  const Array here = n.e.compare(ir::ComparisonDirection::eq, n.e.unsqueeze(counted, axis),
                                 n.e.iota(indices.dtype(), dims, axis));
  const auto value = [&](std::int64_t i) {
    return n.e.reshape(n.e.slice(values, 0, i, i + 1), {});
  };
  n.set(0, n.e.select(here, value(1), value(0)));
}

void reverse_sequence(NodeContext& n) {
  const Array x = n.in(0);
  const std::int64_t time = n.number("time_axis", 0), batch = n.number("batch_axis", 1);
  if (x.rank() < 2 || time + batch != 1 || time * batch != 0) {
    return n.wrong("time_axis", "and batch_axis must be 0 and 1");
  }
  const Array lengths = n.e.along(n.e.convert(n.in(1), DType::s64), 2, batch);
  const Array places = n.e.iota(DType::s64, {x.dim(0), x.dim(1)}, time);
  Array from = n.e.select(places < lengths, lengths - places - 1.0, places);
  Sizes dims{x.dim(0), x.dim(1)};
  for (int i = 2; i < x.rank(); ++i) dims.push_back(x.dim(i));
  from = n.e.broadcast(from, dims, {0, 1});
  n.set(0, n.e.take_along(x, from, time));
}

// Places along an axis that a known mask keeps.
void compress(NodeContext& n) {
  Array x = n.in(0);
  const Sizes mask = n.integers(1, "condition");
  std::int64_t axis = 0;
  if (n.attribute("axis") == nullptr) {
    x = n.e.reshape(x, {x.element_count()});
  } else {
    axis = n.e.axis(n.number("axis", 0), x.rank());
  }
  Sizes places;
  for (std::int64_t i = 0; i < std::ssize(mask) && i < x.dim(axis); ++i) {
    if (mask[at(i)] != 0) places.push_back(i);
  }
  n.set(0, n.e.take(x, n.e.numbers(places), axis));
}

void non_zero(NodeContext& n) {
  const Literal* const x = n.must_know(0, "X");
  if (x == nullptr) return;
  const ir::Dims& dims = x->shape().dims();
  const ir::Dims strides = ir::row_major_strides(dims);
  std::vector<Sizes> places(at(std::max(dims.size(), 1)));
  for (std::int64_t i = 0; i < x->shape().element_count(); ++i) {
    if (x->at(i) == 0) continue;
    if (dims.empty()) places[0].push_back(0);
    for (int d = 0; d < dims.size(); ++d) places[at(d)].push_back(i / strides[d] % dims[d]);
  }
  Sizes all;
  for (const Sizes& row : places) all.insert(all.end(), row.begin(), row.end());
  n.set(0,
        Value::of(Literal::array<std::int64_t>({std::ssize(places), std::ssize(places[0])}, all)));
}

struct Box {
  double low[2], high[2];
  double area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

// Two corners, whichever, or the center with the width and the height.
Box box_at(const Literal& boxes, std::int64_t first, bool by_center) {
  const double a = boxes.at(first), b = boxes.at(first + 1);
  const double c = boxes.at(first + 2), d = boxes.at(first + 3);
  if (by_center) return {{a - c / 2, b - d / 2}, {a + c / 2, b + d / 2}};
  return {{std::min(a, c), std::min(b, d)}, {std::max(a, c), std::max(b, d)}};
}

// Intersection over union.
double overlap(const Box& a, const Box& b) {
  double common = 1;
  for (int d = 0; d < 2; ++d) {
    common *= std::max(0.0, std::min(a.high[d], b.high[d]) - std::max(a.low[d], b.low[d]));
  }
  const double whole = a.area() + b.area() - common;
  return whole > 0 ? common / whole : 0;
}

// Of each image and class, by falling score, the boxes that no box taken before overlaps by more
// than the threshold. How many that are depends on the values, so they must be known.
void non_max_suppression(NodeContext& n) {
  const Literal* const boxes = n.must_know(0, "boxes");
  const Literal* const scores = boxes == nullptr ? nullptr : n.must_know(1, "scores");
  if (scores == nullptr) return;
  const ir::Dims& of_boxes = boxes->shape().dims();
  const ir::Dims& of_scores = scores->shape().dims();
  if (of_boxes.size() != 3 || of_scores.size() != 3 || of_boxes[2] != 4 ||
      of_boxes[0] != of_scores[0] || of_boxes[1] != of_scores[2]) {
    return n.e.fail(
        fmt::format("boxes are {}, scores {} (must be [images,boxes,4] and "
                    "[images,classes,boxes])",
                    boxes->shape().to_string(), scores->shape().to_string()));
  }
  const std::int64_t most = n.has(2) ? n.integer(2, "max_output_boxes_per_class") : 0;
  const auto threshold = [&](int input, std::string_view what) {
    const std::vector<double> values = n.has(input) ? n.reals(input, what) : std::vector<double>();
    return values.empty() ? std::optional<double>() : values[0];
  };
  const double highest = threshold(3, "iou_threshold").value_or(0);
  const std::optional<double> lowest = threshold(4, "score_threshold");
  if (!n.e.status().ok()) return;
  const bool by_center = n.number("center_point_box", 0) != 0;
  const std::int64_t count = of_boxes[1], classes = of_scores[1];
  Sizes selected;
  for (std::int64_t row = 0; row < of_scores[0] * classes; ++row) {
    const std::int64_t image = row / classes;
    const auto score = [&](std::int64_t box) { return scores->at(row * count + box); };
    std::vector<std::int64_t> order;
    for (std::int64_t box = 0; box < count; ++box) {
      if (!lowest || score(box) > *lowest) order.push_back(box);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return score(a) > score(b); });
    std::vector<Box> taken;
    for (const std::int64_t box : order) {
      if (std::ssize(taken) >= most) break;
      const Box here = box_at(*boxes, (image * count + box) * 4, by_center);
      if (std::any_of(taken.begin(), taken.end(),
                      [&](const Box& other) { return overlap(here, other) > highest; })) {
        continue;
      }
      taken.push_back(here);
      selected.insert(selected.end(), {image, row % classes, box});
    }
  }
  n.set(0, Value::of(Literal::array<std::int64_t>({std::ssize(selected) / 3, 3}, selected)));
}

// Rows along an axis, each once; where each came first, which each is, how often it comes.
void unique(NodeContext& n) {
  const Literal* const x = n.must_know(0, "X");
  if (x == nullptr) return;
  const ir::Dims& dims = x->shape().dims();
  const bool is_flat = n.attribute("axis") == nullptr;
  const std::int64_t axis = is_flat ? 0 : n.e.axis(n.number("axis", 0), dims.size());
  if (!n.e.status().ok()) return;
  const std::int64_t count = is_flat ? x->shape().element_count() : dims[static_cast<int>(axis)];
  std::vector<std::vector<double>> rows(at(count));
  const ir::Dims strides = ir::row_major_strides(dims);
  for (std::int64_t i = 0; i < x->shape().element_count(); ++i) {
    const std::int64_t row =
        is_flat ? i : i / strides[static_cast<int>(axis)] % dims[static_cast<int>(axis)];
    rows[at(row)].push_back(x->at(i));
  }
  Sizes firsts, inverse(at(count)), counts;
  std::vector<std::int64_t> order(at(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return rows[at(a)] < rows[at(b)]; });
  for (const std::int64_t row : order) {
    if (firsts.empty() || rows[at(firsts.back())] != rows[at(row)]) {
      firsts.push_back(row);
      counts.push_back(0);
    }
    inverse[at(row)] = std::ssize(firsts) - 1;
    ++counts.back();
  }
  if (n.number("sorted", 1) == 0) {  // in the order of their first places
    Sizes by_place(firsts.size());
    std::iota(by_place.begin(), by_place.end(), 0);
    std::sort(by_place.begin(), by_place.end(),
              [&](auto a, auto b) { return firsts[at(a)] < firsts[at(b)]; });
    Sizes rank(firsts.size()), f, c;
    for (std::size_t i = 0; i < by_place.size(); ++i) {
      rank[at(by_place[i])] = static_cast<std::int64_t>(i);
      f.push_back(firsts[at(by_place[i])]);
      c.push_back(counts[at(by_place[i])]);
    }
    for (std::int64_t& one : inverse) one = rank[at(one)];
    firsts = f;
    counts = c;
  }
  Array data = n.in(0);
  if (is_flat) data = n.e.reshape(data, {count});
  n.set(0, n.e.take(data, n.e.numbers(firsts), axis));
  n.set(1, n.e.numbers(firsts));
  n.set(2, n.e.numbers(inverse));
  n.set(3, n.e.numbers(counts));
}

}  // namespace

void add_indexing(OpTable& t) {
  t["Gather"] = {gather};
  t["GatherElements"] = {gather_elements};
  t["GatherND"] = {gather_nd};
  t["Scatter"] = {scatter_elements};
  t["ScatterElements"] = {scatter_elements};
  t["ScatterND"] = {scatter_nd};
  t["OneHot"] = {one_hot};
  t["ReverseSequence"] = {reverse_sequence};
  t["Compress"] = {compress};
  t["NonMaxSuppression"] = {non_max_suppression};
  t["NonZero"] = {non_zero};
  t["Unique"] = {unique};
}

}  // namespace plimsoll::onnx
