// SPDX-License-Identifier: Apache-2.0
// Operators that move elements to places known before the program runs.
#include <fmt/format.h>
#include <algorithm>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {
namespace {

void transpose(NodeContext& n) {
  const Array x = n.in(0);
  Sizes order = n.numbers("perm");
  if (order.empty()) {
    order.resize(at(x.rank()));
    std::iota(order.rbegin(), order.rend(), 0);
  }
  n.set(0, n.e.transpose(x, order));
}

void concat(NodeContext& n) {
  std::vector<Array> parts;
  for (int i = 0; i < n.input_count(); ++i) parts.push_back(n.in(i));
  if (parts.empty()) return n.e.fail("has no inputs");
  const std::int64_t axis = n.e.axis(n.number("axis", 1), parts[0].rank());
  n.set(0, n.e.concatenate(parts, axis));
}

void split(NodeContext& n) {
  const Array x = n.in(0);
  const std::int64_t axis = n.e.axis(n.number("axis", 0), x.rank());
  Sizes sizes = n.has(1) ? n.integers(1, "split") : n.numbers("split");
  const auto count = n.number("num_outputs", std::ssize(n.node.outputs));
  if (sizes.empty() && count > 0 && count <= std::ssize(n.node.outputs)) {
    const std::int64_t each = (x.dim(axis) + count - 1) / count;
    for (std::int64_t i = 0, left = x.dim(axis); i < count; ++i) {
      sizes.push_back(std::min(each, left));
      left -= sizes.back();
    }
  }
  std::int64_t from = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > x.dim(axis) - from) {
      return n.e.fail(
          fmt::format("splits {} elements into [{}]", x.dim(axis), fmt::join(sizes, ",")));
    }
    n.set(static_cast<int>(i), n.e.slice(x, axis, from, from + sizes[i]));
    from += sizes[i];
  }
}

void slice(NodeContext& n) {
  Array x = n.in(0);
  Sizes starts, ends, axes, steps;
  if (n.opset < 10) {
    starts = n.numbers("starts");
    ends = n.numbers("ends");
    axes = n.numbers("axes");
  } else {
    starts = n.integers(1, "starts");
    ends = n.integers(2, "ends");
    if (n.has(3)) axes = n.integers(3, "axes");
    if (n.has(4)) steps = n.integers(4, "steps");
  }
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return n.e.fail("starts, ends, axes and steps differ in length");
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = n.e.axis(axes[i], x.rank(), "axes");
    const std::int64_t size = x.dim(axis);
    const std::int64_t step = std::clamp(steps[i], -size - 1, size + 1);
    if (step == 0) return n.e.fail("steps by 0");
    const auto bound = [&](std::int64_t place, std::int64_t low, std::int64_t high) {
      if (place < 0) place = place < -size ? -1 : place + size;
      return std::clamp(place, low, high);
    };
    if (step > 0) {
      const std::int64_t first = bound(starts[i] < -size ? -size : starts[i], 0, size);
      const std::int64_t last = bound(ends[i] < -size ? -size : ends[i], 0, size);
      x = n.e.slice(x, axis, first, std::max(first, last), step);
      continue;
    }
    // Backwards: the same places forwards, then reversed.
    const std::int64_t first = bound(starts[i], -1, size - 1), last = bound(ends[i], -1, size - 1);
    const std::int64_t count = first > last ? (first - last - step - 1) / -step : 0;
    if (count <= 0) {
      x = n.e.slice(x, axis, 0, 0);
      continue;
    }
    const std::int64_t lowest = first + (count - 1) * step;
    x = n.e.reverse(n.e.slice(x, axis, lowest, first + 1, -step), {axis});
  }
  n.set(0, x);
}

// One dim after the other, so that ranks stay small.
void tile(NodeContext& n) {
  Array x = n.in(0);
  Sizes repeats;
  if (n.opset < 6) {
    repeats.assign(at(x.rank()), 1);
    const std::int64_t axis = n.e.axis(n.integer(2, "axis"), x.rank());
    if (!n.e.status().ok()) return;
    repeats[at(axis)] = n.integer(1, "tiles");
  } else {
    repeats = n.integers(1, "repeats");
  }
  if (std::ssize(repeats) != x.rank()) return n.e.fail("repeats has not one number a dimension");
  for (std::int64_t i = 0; i < std::ssize(repeats); ++i) {
    const std::int64_t count = repeats[at(i)];
    if (count == 1) continue;
    Sizes dims = x.dims(), joined = x.dims(), to;
    if (count < 0 || __builtin_mul_overflow(joined[at(i)], count, &joined[at(i)])) {
      return n.e.fail("repeats has no size");
    }
    dims.insert(dims.begin() + i, count);
    for (std::int64_t d = 0; d < x.rank(); ++d) to.push_back(d < i ? d : d + 1);
    x = n.e.reshape(n.e.broadcast(x, dims, to), joined);
    if (x.is_null()) return;
  }
  n.set(0, x);
}

// Mirrored, repeated or continued along one axis; `mode` is the standard's.
Array pad_axis(NodeContext& n, const Array& x, std::int64_t axis, std::int64_t before,
               std::int64_t after, const std::string& mode) {
  const std::int64_t size = x.dim(axis);
  const std::int64_t most = mode == "reflect" ? size - 1 : mode == "wrap" ? size : INT64_MAX;
  if (before > most || after > most || size == 0) {
    n.e.fail(fmt::format("pads dimension {} of size {} by {} and {} ({})", axis, size, before,
                         after, mode));
    return {};
  }
  std::vector<Array> parts;
  const auto add = [&](std::int64_t count, bool is_front) {
    if (count <= 0) return;
    if (mode == "edge") {
      const std::int64_t place = is_front ? 0 : size - 1;
      Sizes dims = x.dims();
      dims[at(axis)] = count;
      parts.push_back(n.e.broadcast_to(n.e.slice(x, axis, place, place + 1), dims));
    } else if (mode == "reflect") {
      const std::int64_t first = is_front ? 1 : size - 1 - count;
      parts.push_back(n.e.reverse(n.e.slice(x, axis, first, first + count), {axis}));
    } else {
      const std::int64_t first = is_front ? size - count : 0;
      parts.push_back(n.e.slice(x, axis, first, first + count));
    }
  };
  add(before, true);
  parts.push_back(n.e.slice(x, axis, std::max<std::int64_t>(0, -before),
                            size - std::max<std::int64_t>(0, -after)));
  add(after, false);
  return n.e.concatenate(parts, axis);
}

void pad(NodeContext& n) {
  Array x = n.in(0);
  const std::string mode = n.text("mode", "constant");
  Sizes pads;
  Array value = n.e.scalar(n.real("value", 0), x.dtype());
  if (n.opset < 11) {
    pads = n.numbers(n.opset < 2 ? "paddings" : "pads");
  } else {
    pads = n.integers(1, "pads");
    if (n.has(2)) value = n.e.reshape(n.in(2), {});
  }
  Sizes axes;
  if (n.has(3)) {
    axes = n.integers(3, "axes");
  } else {
    axes.resize(at(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  const std::int64_t count = std::ssize(axes);
  if (std::ssize(pads) != 2 * count) {
    return n.e.fail(fmt::format("pads has {} numbers (must have {})", pads.size(), 2 * count));
  }
  std::vector<ir::PaddingDimension> padding(at(x.rank()));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t axis = n.e.axis(axes[at(i)], x.rank(), "axes");
    const std::int64_t before = pads[at(i)], after = pads[at(i + count)];
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (std::min(before, after) < -kMost || std::max(before, after) > kMost) {
      return n.e.fail("pads has numbers that no array could have");
    }
    if (!n.e.status().ok()) return;
    if (mode == "constant") {
      padding[at(axis)] = {before, after, 0};
    } else if (mode == "reflect" || mode == "edge" || mode == "wrap") {
      if (before != 0 || after != 0) x = pad_axis(n, x, axis, before, after, mode);
    } else {
      return n.wrong("mode", "is '" + mode + "'");
    }
  }
  n.set(0, mode == "constant" ? n.e.pad(x, value, padding) : x);
}

void depth_to_space(NodeContext& n) {
  const Array x = n.in(0);
  const std::int64_t block = n.number("blocksize", 0);
  if (x.rank() != 4 || block < 1 || block > (1 << 20) || x.dim(1) % (block * block) != 0) {
    return n.wrong("blocksize", fmt::format("is {}, which does not fit the input", block));
  }
  const std::int64_t depth = x.dim(1) / (block * block), rows = x.dim(2), columns = x.dim(3);
  const bool is_crd = n.text("mode", "DCR") == "CRD";
  const Sizes apart = is_crd ? Sizes{x.dim(0), depth, block, block, rows, columns}
                             : Sizes{x.dim(0), block, block, depth, rows, columns};
  const Sizes order = is_crd ? Sizes{0, 1, 4, 2, 5, 3} : Sizes{0, 3, 4, 1, 5, 2};
  n.set(0, n.e.reshape(n.e.transpose(n.e.reshape(x, apart), order),
                       {x.dim(0), depth, rows * block, columns * block}));
}

void space_to_depth(NodeContext& n) {
  const Array x = n.in(0);
  const std::int64_t block = n.number("blocksize", 0);
  if (x.rank() != 4 || block < 1 || block > (1 << 20) || x.dim(2) % block != 0 ||
      x.dim(3) % block != 0) {
    return n.wrong("blocksize", fmt::format("is {}, which does not fit the input", block));
  }
  const std::int64_t rows = x.dim(2) / block, columns = x.dim(3) / block;
  const Array apart = n.e.reshape(x, {x.dim(0), x.dim(1), rows, block, columns, block});
  n.set(0, n.e.reshape(n.e.transpose(apart, {0, 3, 5, 1, 2, 4}),
                       {x.dim(0), x.dim(1) * block * block, rows, columns}));
}

// Cut from the middle, or padded around it, to a shape.
void center_crop_pad(NodeContext& n) {
  Array x = n.in(0);
  const Sizes sizes = n.integers(1, "shape");
  Sizes axes = n.numbers("axes");
  if (axes.empty()) {
    axes.resize(at(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (axes.size() != sizes.size()) return n.e.fail("the shape has not one number an axis");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = n.e.axis(axes[i], x.rank(), "axes");
    const std::int64_t size = x.dim(axis), wanted = sizes[i];
    if (wanted < 0 || wanted > (std::int64_t{1} << 40) || !n.e.status().ok())
      return n.e.fail("the shape has no size");
    if (wanted <= size) {
      const std::int64_t first = (size - wanted) / 2;
      x = n.e.slice(x, axis, first, first + wanted);
    } else {
      std::vector<ir::PaddingDimension> padding(at(x.rank()));
      padding[at(axis)] = {(wanted - size) / 2, wanted - size - (wanted - size) / 2, 0};
      x = n.e.pad(x, n.e.scalar(0, x.dtype()), padding);
    }
  }
  n.set(0, x);
}

}  // namespace

void add_movement(OpTable& t) {
  t["Transpose"] = {transpose};
  t["Concat"] = {concat};
  t["Split"] = {split};
  t["Slice"] = {slice};
  t["Tile"] = {tile};
  t["Pad"] = {pad};
  t["DepthToSpace"] = {depth_to_space};
  t["SpaceToDepth"] = {space_to_depth};
  t["CenterCropPad"] = {center_crop_pad};
}

}  // namespace plimsoll::onnx
