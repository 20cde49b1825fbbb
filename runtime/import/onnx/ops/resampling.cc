// SPDX-License-Identifier: Apache-2.0
// Images of another size: each axis on its own, as a sum of elements at known places by known
// weights. The formulas are those of the standard's Resize (onnx/backend/test/case/node/resize.py
// gives the same in NumPy).
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {
namespace {

// In f32, as scales are: 20 times 0.7 is 14, as exporters declare, and not a little less.
double scaled_size(std::int64_t size, double scale) {
  return std::floor(static_cast<float>(size) * static_cast<float>(scale));
}

using ir::DType;

struct Axis {
  std::int64_t size = 0, wanted = 0;
  double scale = 1;
  bool has_scale = false;           // the scale is given, not the size
  double roi_from = 0, roi_to = 1;  // of tf_crop_and_resize
};

struct Resize {
  std::string mode, transform, nearest;
  double cubic = -0.75;
  bool excludes_outside = false, antialias = false;
  double extrapolation = 0;
};

// What one place of the result is made of.
struct Taps {
  std::vector<std::vector<std::int64_t>> places;  // by tap, then by place of the result
  std::vector<std::vector<double>> weights;
  std::vector<char> is_outside;  // by place of the result
};

double place_in_input(const Resize& r, const Axis& axis, std::int64_t i) {
  const auto x = static_cast<double>(i), size = static_cast<double>(axis.size);
  const auto wanted = static_cast<double>(axis.wanted);
  // Which element is nearest to a place between two is told by singles, as elsewhere.
  const auto scaled = [&](double place) -> double {
    if (r.mode != "nearest") return place / axis.scale;
    return static_cast<float>(place) / static_cast<float>(axis.scale);
  };
  if (r.transform == "asymmetric") return scaled(x);
  if (r.transform == "align_corners") {
    // The standard's own data have the length before it is rounded down.
    const double length = axis.has_scale ? axis.scale * size : wanted;
    return axis.wanted == 1 || length == 1 ? 0 : x * (size - 1) / (length - 1);
  }
  if (r.transform == "tf_half_pixel_for_nn") return scaled(x + 0.5);
  if (r.transform == "pytorch_half_pixel" && axis.wanted == 1) return 0;
  if (r.transform == "half_pixel_symmetric") {
    const double adjusted = wanted / (axis.scale * size), center = size / 2;
    return center * (1 - adjusted) + (x + 0.5) / axis.scale - 0.5;
  }
  if (r.transform == "tf_crop_and_resize") {
    if (axis.wanted == 1) return 0.5 * (axis.roi_from + axis.roi_to) * (size - 1);
    return axis.roi_from * (size - 1) +
           x * (axis.roi_to - axis.roi_from) * (size - 1) / (wanted - 1);
  }
  return scaled(x + 0.5) - 0.5;
}

double nearest_place(const Resize& r, double x) {
  if (r.nearest == "floor") return std::floor(x);
  if (r.nearest == "ceil") return std::ceil(x);
  if (r.nearest == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::ceil(x - 0.5);
}

double cubic_weight(double a, double distance) {
  const double d = std::abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

Taps taps_of(const Resize& r, const Axis& axis) {
  Taps taps;
  const bool is_cubic = r.mode == "cubic";
  // Antialiasing widens the filter by as much as the image shrinks.
  const double stretch = r.antialias && axis.scale < 1 ? axis.scale : 1;
  const double reach = (is_cubic ? 2 : 1) / stretch;
  const auto count = r.mode == "nearest" ? std::int64_t{1}
                     : stretch < 1       ? 2 * static_cast<std::int64_t>(std::ceil(reach))
                                         : (is_cubic ? std::int64_t{4} : std::int64_t{2});
  taps.places.assign(at(count), {});
  taps.weights.assign(at(count), {});
  const double last = static_cast<double>(axis.size - 1);
  for (std::int64_t i = 0; i < axis.wanted; ++i) {
    // Whatever the scale, a place that numbers can count.
    double x = place_in_input(r, axis, i);
    x = std::isfinite(x) ? std::clamp(x, -0x1p31, 0x1p31) : 0;
    taps.is_outside.push_back(r.transform == "tf_crop_and_resize" && (x < 0 || x > last));
    if (r.mode == "nearest") {
      const double place = std::clamp(nearest_place(r, x), 0.0, last);
      taps.places[0].push_back(static_cast<std::int64_t>(place));
      taps.weights[0].push_back(1);
      continue;
    }
    // Places beyond the edge stand for the edge, or are left out.
    const auto first = static_cast<std::int64_t>(std::floor(x)) - count / 2 + 1;
    double total = 0;
    std::vector<double> weights;
    for (std::int64_t k = 0; k < count; ++k) {
      const double distance = (x - static_cast<double>(first + k)) * stretch;
      double weight =
          is_cubic ? cubic_weight(r.cubic, distance) : std::max(0.0, 1 - std::abs(distance));
      const bool is_beyond = first + k < 0 || first + k >= axis.size;
      if (is_beyond && r.excludes_outside) weight = 0;
      weights.push_back(weight);
      total += weight;
    }
    const bool normalizes = r.excludes_outside || stretch < 1;
    for (std::int64_t k = 0; k < count; ++k) {
      taps.places[at(k)].push_back(std::clamp<std::int64_t>(first + k, 0, axis.size - 1));
      taps.weights[at(k)].push_back(normalizes && total != 0 ? weights[at(k)] / total
                                                             : weights[at(k)]);
    }
  }
  return taps;
}

// Every element several times: what nearest neighbours of a whole scale are.
Array repeated(Emit& e, const Array& x, std::int64_t axis, std::int64_t times) {
  Sizes dims = x.dims(), joined = x.dims(), to;
  for (std::int64_t i = 0; i < x.rank(); ++i) to.push_back(i <= axis ? i : i + 1);
  dims.insert(dims.begin() + axis + 1, times);
  joined[at(axis)] *= times;
  return e.reshape(e.broadcast(x, dims, to), joined);
}

Array resize_axis(NodeContext& n, const Resize& r, const Array& x, std::int64_t dim,
                  const Axis& axis, Array& outside) {
  if (x.is_null()) return x;
  constexpr std::int64_t kMost = 1 << 20;
  // Antialiased places are sums of about 4 / scale elements each.
  constexpr double kLeastScale = 1e-3, kMostTaps = 1 << 22;
  const bool is_countable = axis.wanted >= 0 && axis.wanted <= kMost && axis.size >= 1 &&
                            (!r.antialias || (axis.scale >= kLeastScale &&
                                              static_cast<double>(axis.wanted) <=
                                                  kMostTaps * std::min(axis.scale, 1.0) / 4));
  if (!is_countable) {
    n.e.fail(fmt::format("dimension {} of size {} resized to {}", dim, axis.size, axis.wanted));
    return x;
  }
  const Taps taps = taps_of(r, axis);
  if (std::count(taps.is_outside.begin(), taps.is_outside.end(), 1) > 0) {
    std::vector<double> marks(taps.is_outside.begin(), taps.is_outside.end());
    const Array here = n.e.along(n.e.reals(marks, DType::f32), x.rank(), dim) > 0.5;
    outside = outside.is_null() ? here : n.e.binary(ir::Opcode::or_, outside, here);
  }
  if (r.mode == "nearest" && axis.wanted % axis.size == 0 && axis.wanted > 0) {
    const std::int64_t times = axis.wanted / axis.size;
    bool is_plain = true;
    for (std::int64_t i = 0; i < axis.wanted; ++i) is_plain &= taps.places[0][at(i)] == i / times;
    if (is_plain) return repeated(n.e, x, dim, times);
  }
  Array made;
  for (std::size_t k = 0; k < taps.places.size(); ++k) {
    Array here = n.e.take(x, n.e.numbers(taps.places[k]), dim);
    if (r.mode != "nearest") {
      here = here * n.e.along(n.e.reals(taps.weights[k], x.dtype()), x.rank(), dim);
    }
    made = made.is_null() ? here : made + here;
  }
  return made;
}

void resize_with(NodeContext& n, const Resize& r, const std::vector<Axis>& axes,
                 const Sizes& dims) {
  const Array given = n.in(0);
  const bool is_exact = r.mode == "nearest" || ir::is_floating(given.dtype());
  Array x = is_exact ? given : n.e.convert(given, DType::f32);
  Array outside;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool is_same =
        axes[i].size == axes[i].wanted && axes[i].scale == 1 && r.transform != "tf_crop_and_resize";
    if (!is_same) x = resize_axis(n, r, x, dims[i], axes[i], outside);
  }
  if (!outside.is_null()) x = n.e.select(outside, n.e.scalar(r.extrapolation, x.dtype()), x);
  n.set(0, is_exact ? x : n.e.saturate(x, given.dtype()));
}

void resize(NodeContext& n) {
  const Array x = n.in(0);
  Resize r;
  r.mode = n.text("mode", "nearest");
  r.transform =
      n.text("coordinate_transformation_mode", n.opset < 11 ? "asymmetric" : "half_pixel");
  r.nearest = n.text("nearest_mode", n.opset < 11 ? "floor" : "round_prefer_floor");
  r.cubic = n.real("cubic_coeff_a", -0.75);
  r.excludes_outside = n.number("exclude_outside", 0) != 0;
  r.antialias = n.number("antialias", 0) != 0;
  r.extrapolation = n.real("extrapolation_value", 0);
  if (r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic") {
    return n.wrong("mode", "is '" + r.mode + "'");
  }
  const int scales_at = n.opset < 11 ? 1 : 2, sizes_at = 3;
  std::vector<double> scales;
  Sizes sizes;
  if (n.has(scales_at)) scales = n.reals(scales_at, "scales");
  if (n.opset >= 11 && n.has(sizes_at)) sizes = n.integers(sizes_at, "sizes");
  Sizes dims = n.numbers("axes");
  if (dims.empty()) {
    dims.resize(at(x.rank()));
    std::iota(dims.begin(), dims.end(), 0);
  }
  for (std::int64_t& dim : dims) dim = n.e.axis(dim, x.rank(), "axes");
  if (!n.e.status().ok()) return;
  if ((sizes.empty() ? scales.size() : sizes.size()) != dims.size()) {
    return n.e.fail("scales or sizes must have one number an axis");
  }
  std::vector<double> roi;
  if (r.transform == "tf_crop_and_resize") {
    roi = n.reals(1, "roi");
    if (roi.size() != 2 * dims.size()) return n.e.fail("roi must have two numbers an axis");
  }
  std::vector<Axis> axes(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    Axis& axis = axes[i];
    axis.size = x.dim(dims[i]);
    if (sizes.empty()) {
      axis.scale = scales[i];
      axis.has_scale = true;
      const double wanted = scaled_size(axis.size, scales[i]);
      if (!(scales[i] > 0) || !(wanted < 0x1p40)) return n.e.fail("scales must be positive");
      axis.wanted = static_cast<std::int64_t>(wanted);
    } else {
      axis.wanted = sizes[i];
      axis.scale = static_cast<double>(axis.wanted) / static_cast<double>(axis.size);
    }
    if (!roi.empty()) {
      axis.roi_from = roi[i];
      axis.roi_to = roi[i + dims.size()];
    }
  }
  const std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  if (!sizes.empty() && policy != "stretch") {
    double scale = axes[0].scale;
    for (const Axis& axis : axes) {
      scale = policy == "not_larger" ? std::min(scale, axis.scale) : std::max(scale, axis.scale);
    }
    for (Axis& axis : axes) {
      axis.scale = scale;
      axis.wanted = std::llround(scale * static_cast<double>(axis.size));
    }
  }
  resize_with(n, r, axes, dims);
}

// The older form, whose places are those of the corners.
void upsample(NodeContext& n) {
  const Array x = n.in(0);
  std::vector<double> scales = n.reals("scales");
  if (n.opset >= 9 || n.has(1)) scales = n.reals(1, "scales");
  if (scales.empty() && x.rank() == 4) {
    scales = {1, 1, n.real("height_scale", 1), n.real("width_scale", 1)};
  }
  Resize r;
  r.mode = n.text("mode", "nearest");
  if (r.mode == "bilinear") r.mode = "linear";
  r.transform = "asymmetric";
  r.nearest = "floor";
  if (std::ssize(scales) != x.rank()) return n.e.fail("scales must have one number a dimension");
  std::vector<Axis> axes;
  Sizes dims;
  for (std::int64_t i = 0; i < x.rank(); ++i) {
    const double wanted = scaled_size(x.dim(i), scales[at(i)]);
    if (!(scales[at(i)] > 0) || !(wanted < 0x1p40)) return n.e.fail("scales must be positive");
    axes.push_back({x.dim(i), static_cast<std::int64_t>(wanted), scales[at(i)]});
    dims.push_back(i);
  }
  resize_with(n, r, axes, dims);
}

}  // namespace

void add_resampling(OpTable& t) {
  t["Resize"] = {resize};
  t["Upsample"] = {upsample};
}

}  // namespace plimsoll::onnx
