// SPDX-License-Identifier: Apache-2.0
// Elements of images at places between them, which other values say: grids and regions.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

Array clamp(Emit& e, const Array& x, double low, double high) {
  return e.minimum(e.maximum(x, e.scalar(low, x.dtype())), e.scalar(high, x.dtype()));
}

// Elements of images [batch, channels, rows, columns] at whole places [batch, k], as floats:
// [batch, k, channels]. Places outside are taken to be at the edge.
Array pixels(Emit& e, const Array& x, const Array& rows, const Array& columns) {
  const std::int64_t batch = x.dim(0), channels = x.dim(1), height = x.dim(2), width = x.dim(3);
  const Array row = e.convert(clamp(e, rows, 0, static_cast<double>(height - 1)), DType::s64);
  const Array column = e.convert(clamp(e, columns, 0, static_cast<double>(width - 1)), DType::s64);
  const Array places = row * static_cast<double>(width) + column;
  const Array flat = e.transpose(e.reshape(x, {batch, channels, height * width}), {0, 2, 1});
  ir::GatherDimensions dims;
  dims.operand_batching_dims = {0};
  dims.start_indices_batching_dims = {0};
  dims.collapsed_slice_dims = {1};
  dims.start_index_map = {1};
  dims.offset_dims = {2};
  dims.index_vector_dim = 2;
  ir::Attributes attributes;
  attributes.gather = std::make_shared<const ir::GatherDimensions>(std::move(dims));
  attributes.slice_sizes = {1, 1, channels};
  return e.make(Opcode::gather, {flat, places}, std::move(attributes));
}

struct Sampling {
  std::string mode, padding;
  bool aligns = false;
};

// A place from [-1, 1] to an image's own.
Array unnormalized(const Array& x, std::int64_t size, bool aligns) {
  const auto count = static_cast<double>(size);
  return aligns ? (x + 1.0) * ((count - 1) / 2) : ((x + 1.0) * count - 1.0) * 0.5;
}

// Back and forth between two edges.
Array reflected(Emit& e, const Array& x, std::int64_t size, bool aligns) {
  const double low = aligns ? 0 : -0.5;
  const double high = static_cast<double>(size) - (aligns ? 1 : 0.5);
  const double span = high - low;
  if (span <= 0) return x * 0.0;
  const Array away = abs(x - low);
  const Array turns = floor(away / span);
  const Array rest = away - turns * span;
  const Array is_odd = (turns - floor(turns * 0.5) * 2.0) > 0.5;
  return e.select(is_odd, high - rest, rest + low);
}

// The image's own place of one that may lie outside; whole places only.
Array edge(Emit& e, const Sampling& s, const Array& x, std::int64_t size) {
  if (s.padding == "border") return clamp(e, x, 0, static_cast<double>(size - 1));
  if (s.padding == "reflection") {
    return clamp(e, reflected(e, x, size, s.aligns), 0, static_cast<double>(size - 1));
  }
  return x;
}

// What lies at whole places, with nothing outside where the padding says so: [batch, k, channels].
Array at_place(Emit& e, const Sampling& s, const Array& x, const Array& row, const Array& column) {
  const Array r = edge(e, s, row, x.dim(2)), c = edge(e, s, column, x.dim(3));
  const Array value = pixels(e, x, r, c);
  if (s.padding != "zeros") return value;
  const auto inside = [&](const Array& p, std::int64_t size) {
    return (p > -0.5) & (p < static_cast<double>(size) - 0.5);
  };
  return e.select(e.unsqueeze(inside(r, x.dim(2)) & inside(c, x.dim(3)), 2), value,
                  e.scalar(0, x.dtype()));
}

Array cubic_weight(Emit& e, const Array& distance) {
  constexpr double a = -0.75;
  const Array d = abs(distance);
  const Array near = (d * (a + 2) - (a + 3)) * d * d + 1.0;
  const Array far = ((d * a - 5 * a) * d + 8 * a) * d - 4 * a;
  return e.select(d < 1.0, near, e.select(d < 2.0, far, e.scalar(0, d.dtype())));
}

void grid_sample(NodeContext& n) {
  const Array x = n.in(0), grid = n.in(1);
  Sampling s;
  s.mode = n.text("mode", "bilinear");
  s.padding = n.text("padding_mode", "zeros");
  s.aligns = n.number("align_corners", 0) != 0;
  if (x.rank() != 4 || grid.rank() != 4 || grid.dim(3) != 2) {
    return n.e.fail(unimplemented(
        fmt::format("samples of rank {} by a grid of rank {} (must be 4)", x.rank(), grid.rank())));
  }
  Emit& e = n.e;
  const std::int64_t batch = grid.dim(0), rows = grid.dim(1), columns = grid.dim(2);
  const auto coordinate = [&](std::int64_t i, std::int64_t size) {
    const Array given = e.reshape(e.slice(grid, 3, i, i + 1), {batch, rows * columns});
    return unnormalized(given, size, s.aligns);
  };
  const Array column = coordinate(0, x.dim(3)), row = coordinate(1, x.dim(2));
  Array made;
  if (s.mode == "nearest") {
    made = at_place(e, s, x, e.unary(Opcode::round_nearest_even, row),
                    e.unary(Opcode::round_nearest_even, column));
  } else if (s.mode == "bilinear" || s.mode == "linear" || s.mode == "bicubic" ||
             s.mode == "cubic") {
    const bool is_cubic = s.mode == "bicubic" || s.mode == "cubic";
    // Of linear samples the place itself is put inside, of cubic ones each of the sixteen.
    const Array r = is_cubic ? row : edge(e, s, row, x.dim(2));
    const Array c = is_cubic ? column : edge(e, s, column, x.dim(3));
    const Array top = floor(r), left = floor(c);
    const int first = is_cubic ? -1 : 0, last = is_cubic ? 3 : 2;
    for (int i = first; i < last; ++i) {
      for (int j = first; j < last; ++j) {
        const Array down = top + static_cast<double>(i), right = left + static_cast<double>(j);
        const Array weight = is_cubic ? cubic_weight(e, r - down) * cubic_weight(e, c - right)
                                      : (1.0 - abs(r - down)) * (1.0 - abs(c - right));
        const Array here = at_place(e, s, x, down, right) * e.unsqueeze(weight, 2);
        made = made.is_null() ? here : made + here;
      }
    }
  } else {
    return n.wrong("mode", "is '" + s.mode + "'");
  }
  n.set(0, e.reshape(e.transpose(made, {0, 2, 1}), {batch, x.dim(1), rows, columns}));
}

// Places of an affine map of a regular grid.
void affine_grid(NodeContext& n) {
  const Array theta = n.in(0);
  const Sizes size = n.integers(1, "size");
  const bool aligns = n.number("align_corners", 0) != 0;
  if (size.size() != 4 || theta.rank() != 3 || theta.dim(1) != 2) {
    return n.e.fail(unimplemented("grids of three dimensions"));
  }
  const std::int64_t rows = size[2], columns = size[3];
  if (rows < 1 || columns < 1 || product(size) < 0) return n.e.fail("size has no elements");
  Emit& e = n.e;
  const auto along = [&](std::int64_t count, std::int64_t dim) {
    const Array i = e.iota(theta.dtype(), {rows, columns}, dim);
    const auto c = static_cast<double>(count);
    if (aligns) return count == 1 ? i - 1.0 : i * (2 / (c - 1)) - 1.0;
    return i * (2 / c) + (1 / c - 1);
  };
  const std::int64_t places = rows * columns;
  const Array x = e.reshape(along(columns, 1), {places, 1});
  const Array y = e.reshape(along(rows, 0), {places, 1});
  const Array ones = e.splat(1, theta.dtype(), {places, 1});
  const Array base = e.concatenate({x, y, ones}, 1);  // [places, 3]
  const Array made = e.dot(theta, base, {{2}, {1}, {}, {}});
  n.set(0, e.reshape(e.transpose(made, {0, 2, 1}), {theta.dim(0), rows, columns, 2}));
}

// Means or maxima of samples in the cells of regions.
void align_regions(NodeContext& n) {
  const Array x = n.in(0), regions = n.in(1);
  const Array batches = n.e.convert(n.in(2), DType::s64);
  const std::int64_t rows = n.number("output_height", 1), columns = n.number("output_width", 1);
  const std::int64_t samples = n.number("sampling_ratio", 0);
  const double scale = n.real("spatial_scale", 1);
  constexpr std::int64_t kMost = 1 << 12;
  if (samples < 1 || samples > kMost) {
    return n.e.fail(unimplemented(
        "attribute 'sampling_ratio' is 0: how many samples there are depends on data"));
  }
  if (x.rank() != 4 || regions.rank() != 2 || regions.dim(1) != 4 || rows < 1 || columns < 1 ||
      rows > kMost || columns > kMost) {
    return n.e.fail("takes images and regions [count, 4]");
  }
  const bool is_half = n.text("coordinate_transformation_mode",
                              n.opset < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  Emit& e = n.e;
  const std::int64_t count = regions.dim(0);
  const auto corner = [&](std::int64_t i) {
    return e.slice(regions, 1, i, i + 1) * scale - (is_half ? 0.5 : 0);
  };
  // Places of samples along one dim: [count, cells * samples].
  const auto places = [&](std::int64_t from, std::int64_t cells) {
    const Array first = corner(from);
    Array extent = corner(from + 2) - first;
    if (!is_half) extent = e.maximum(extent, e.scalar(1, extent.dtype()));
    const Array cell = extent / static_cast<double>(cells);
    const Array k = e.iota(x.dtype(), {1, cells * samples}, 1);
    return first + cell * ((k + 0.5) / static_cast<double>(samples));
  };
  const std::int64_t down = rows * samples, right = columns * samples;
  const Sizes grid{count, down, right};
  const Array r = e.broadcast(places(1, rows), grid, {0, 1});
  const Array c = e.broadcast(places(0, columns), grid, {0, 2});
  const auto inside = [&](const Array& p, std::int64_t size) {
    return logical_not((p < -1.0) | (p > static_cast<double>(size)));
  };
  const Array is_inside = inside(r, x.dim(2)) & inside(c, x.dim(3));
  // Each region's own image, then its elements.
  const Array images = e.take(x, batches, 0);
  const Array row = clamp(e, r, 0, static_cast<double>(x.dim(2) - 1));
  const Array column = clamp(e, c, 0, static_cast<double>(x.dim(3) - 1));
  const Array top = floor(row), left = floor(column);
  const bool is_max = n.text("mode", "avg") == "max";
  Array made;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const Array y = top + static_cast<double>(i), z = left + static_cast<double>(j);
      const Array weight = (1.0 - abs(row - y)) * (1.0 - abs(column - z));
      const Array flat = e.reshape(weight, {count, down * right});
      const Array here = pixels(e, images, e.reshape(y, {count, down * right}),
                                e.reshape(z, {count, down * right})) *
                         e.unsqueeze(flat, 2);
      made = made.is_null() ? here : is_max ? e.maximum(made, here) : made + here;
    }
  }
  const Array kept = e.unsqueeze(e.reshape(is_inside, {count, down * right}), 2);
  made = e.select(kept, made, e.scalar(0, x.dtype()));
  made = e.reshape(made, {count, rows, samples, columns, samples, x.dim(1)});
  made = is_max ? e.reduce(Opcode::maximum, made, {2, 4}, false) : e.mean(made, {2, 4}, false);
  n.set(0, e.transpose(made, {0, 3, 1, 2}));
}

// Sums of blocks back at their places in an image.
void columns_to_image(NodeContext& n) {
  const Array x = n.in(0);
  const Sizes image = n.integers(1, "image_shape"), block = n.integers(2, "block_shape");
  const std::size_t rank = image.size();
  const Sizes ones(rank, 1);
  const Sizes strides = n.numbers("strides", ones), dilations = n.numbers("dilations", ones);
  const Sizes pads = n.numbers("pads", Sizes(2 * rank, 0));
  const std::int64_t places = product(block);
  constexpr std::int64_t kMost = 4096;
  if (block.size() != rank || strides.size() != rank || dilations.size() != rank ||
      pads.size() != 2 * rank || rank < 1 || x.rank() != 3 || places < 1 || places > kMost ||
      x.dim(1) % places != 0) {
    return n.e.fail("its shapes do not fit each other");
  }
  Sizes grid;
  const auto is_far = [](std::int64_t one) { return one < -(1 << 30) || one > (1 << 30); };
  for (const Sizes& list : {image, block, strides, dilations, pads}) {
    if (std::any_of(list.begin(), list.end(), is_far)) return n.e.fail("its numbers are too large");
  }
  for (std::size_t i = 0; i < rank; ++i) {
    if (strides[i] < 1 || dilations[i] < 1) return n.wrong("strides", "must be positive");
    grid.push_back(
        (image[i] + pads[i] + pads[i + rank] - dilations[i] * (block[i] - 1) - 1) / strides[i] + 1);
  }
  if (product(grid) != x.dim(2)) return n.e.fail("the input has not one column a block");
  const std::int64_t channels = x.dim(1) / places;
  Sizes apart{x.dim(0), channels, places};
  apart.insert(apart.end(), grid.begin(), grid.end());
  const Array all = n.e.reshape(x, apart);
  Array made;
  for (std::int64_t place = 0; place < places && n.e.status().ok(); ++place) {
    const Array here = n.e.squeeze(n.e.slice(all, 2, place, place + 1), 2);
    std::vector<ir::PaddingDimension> padding(2);
    std::int64_t rest = place;
    Sizes offsets(rank);
    for (std::size_t i = rank; i-- > 0;) {
      offsets[i] = rest % block[i] * dilations[i];
      rest /= block[i];
    }
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t low = offsets[i] - pads[i];
      const std::int64_t span = (grid[i] - 1) * strides[i] + 1;
      padding.push_back({low, image[i] - low - span, strides[i] - 1});
    }
    const Array put = n.e.pad(here, n.e.scalar(0, x.dtype()), padding);
    made = made.is_null() ? put : made + put;
  }
  n.set(0, made);
}

}  // namespace

void add_regions(OpTable& t) {
  t["GridSample"] = {grid_sample};
  t["AffineGrid"] = {affine_grid};
  t["RoiAlign"] = {align_regions};
  t["Col2Im"] = {columns_to_image};
}

}  // namespace plimsoll::onnx
