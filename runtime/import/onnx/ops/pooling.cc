// SPDX-License-Identifier: Apache-2.0
// Maxima, means and norms of windows.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/windows.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

// The places of a window are taken one by one: the operand's elements there, for all windows.
constexpr std::int64_t kMostPlaces = 4096;

bool has_windows(NodeContext& n, const Array& x) {
  if (x.rank() >= 3) return true;
  n.e.fail(fmt::format("takes arrays of rank 3 and more, is given rank {}", x.rank()));
  return false;
}

// With the place of each maximum in the whole operand, as if it were one row.
void max_with_places(NodeContext& n, const Array& x, const Windows& w) {
  const std::int64_t places = product(w.kernel);
  if (places < 0 || places > kMostPlaces) {
    return n.e.fail(
        unimplemented(fmt::format("places of maxima in windows of {} elements (at "
                                  "most {})",
                                  places, kMostPlaces)));
  }
  const Sizes dims = x.dims();
  Array numbers = n.e.iota(DType::s64, {x.element_count()}, 0);
  if (n.number("storage_order", 0) != 0) {  // spatial dims column by column
    Sizes turned(dims.begin(), dims.begin() + 2), order{0, 1};
    for (std::int64_t i = x.rank(); i-- > 2;) {
      turned.push_back(dims[at(i)]);
      order.push_back(i);
    }
    numbers = n.e.transpose(n.e.reshape(numbers, turned), order);
  } else {
    numbers = n.e.reshape(numbers, dims);
  }
  std::vector<ir::PaddingDimension> padding(2);
  for (std::size_t i = 0; i < w.kernel.size(); ++i) padding.push_back({w.before[i], w.after[i], 0});
  const Array values = n.e.pad(x, n.e.lowest(x.dtype()), padding);
  numbers = n.e.pad(numbers, n.e.scalar(0, DType::s64), padding);
  Array best, best_place;
  for (std::int64_t place = 0; place < places && n.e.status().ok(); ++place) {
    Array here = values, number = numbers;
    std::int64_t rest = place;
    for (std::size_t i = w.kernel.size(); i-- > 0;) {
      const std::int64_t first = rest % w.kernel[i] * w.dilations[i];
      rest /= w.kernel[i];
      const std::int64_t last = first + (w.sizes[i] - 1) * w.strides[i] + 1;
      const auto axis = static_cast<std::int64_t>(i) + 2;
      here = n.e.slice(here, axis, first, last, w.strides[i]);
      number = n.e.slice(number, axis, first, last, w.strides[i]);
    }
    if (place == 0) {
      best = here;
      best_place = number;
      continue;
    }
    const Array is_more = best < here;
    best = n.e.select(is_more, here, best);
    best_place = n.e.select(is_more, number, best_place);
  }
  n.set(0, best);
  n.set(1, best_place);
}

void max_pool(NodeContext& n) {
  const Array x = n.in(0);
  if (!has_windows(n, x)) return;
  const Windows w = windows_of(n, spatial_of(x), {});
  if (n.wants(1)) return max_with_places(n, x, w);
  n.set(0, n.e.reduce_window(Opcode::maximum, x, window_dimensions(w, 2)));
}

// How many elements each window has: a product of counts along the dims.
Array counts(NodeContext& n, const Array& x, const Windows& w, bool with_padding) {
  const Sizes spatial = spatial_of(x);
  const Sizes pads = n.numbers("pads");
  Array made = n.e.scalar(1, x.dtype());
  for (std::size_t i = 0; i < spatial.size() && n.e.status().ok(); ++i) {
    // Beyond what the node pads nothing counts.
    std::int64_t end = spatial[i], begin = 0;
    if (with_padding) {
      begin = -w.before[i];
      const bool is_said =
          pads.size() == 2 * spatial.size() && n.text("auto_pad", "NOTSET").starts_with("NOTSET");
      const std::int64_t after = is_said                         ? pads[i + spatial.size()]
                                 : n.number("ceil_mode", 0) != 0 ? 0
                                                                 : w.after[i];
      end += std::min(after, w.after[i]);
    }
    std::vector<double> along;
    if (w.sizes[i] > (1 << 20)) return n.e.fail(unimplemented("very many windows")), Array();
    for (std::int64_t k = 0; k < w.sizes[i]; ++k) {
      const std::int64_t first = k * w.strides[i] - w.before[i], step = w.dilations[i];
      // Places first + j * step, j < kernel, in [begin, end).
      const std::int64_t low = first >= begin ? 0 : (begin - first + step - 1) / step;
      const std::int64_t high =
          std::min(w.kernel[i], end > first ? (end - first + step - 1) / step : 0);
      along.push_back(static_cast<double>(std::max<std::int64_t>(high - low, 1)));
    }
    made =
        made * n.e.along(n.e.reals(along, x.dtype()), x.rank(), static_cast<std::int64_t>(i) + 2);
  }
  return made;
}

void average_pool(NodeContext& n) {
  const Array x = n.in(0);
  if (!has_windows(n, x)) return;
  const Windows w = windows_of(n, spatial_of(x), {});
  const Array sums = n.e.reduce_window(Opcode::add, x, window_dimensions(w, 2));
  n.set(0, sums / counts(n, x, w, n.number("count_include_pad", 0) != 0));
}

Array to_power(Emit& e, const Array& x, double p) {
  if (p == 1) return x;
  if (p == 2) return x * x;
  return e.binary(Opcode::power, x, e.scalar(p, x.dtype()));
}

void norm_pool(NodeContext& n) {
  const Array x = n.in(0);
  if (!has_windows(n, x)) return;
  const double p = static_cast<double>(n.number("p", 2));
  const Windows w = windows_of(n, spatial_of(x), {});
  const Array sums =
      n.e.reduce_window(Opcode::add, to_power(n.e, abs(x), p), window_dimensions(w, 2));
  n.set(0, p == 2 ? sqrt(sums) : to_power(n.e, sums, 1 / p));
}

Handler global(const std::function<Array(NodeContext&, const Array&, const Sizes&)>& f) {
  return [f](NodeContext& n) {
    const Array x = n.in(0);
    if (!has_windows(n, x)) return;
    Sizes axes(at(x.rank() - 2));
    std::iota(axes.begin(), axes.end(), 2);
    n.set(0, f(n, x, axes));
  };
}

// Maxima back to their places, in zeros.
void max_unpool(NodeContext& n) {
  const Array x = n.in(0), places = n.in(1);
  if (!has_windows(n, x)) return;
  const Sizes kernel = n.numbers("kernel_shape"), strides = n.numbers("strides");
  const Sizes pads = n.numbers("pads");
  const std::size_t rank = at(x.rank() - 2);
  Sizes dims{x.dim(0), x.dim(1)};
  for (std::size_t i = 0; i < rank; ++i) {
    if (kernel.size() != rank || (!strides.empty() && strides.size() != rank) ||
        (!pads.empty() && pads.size() != 2 * rank)) {
      return n.wrong("kernel_shape", "and strides and pads do not fit the input");
    }
    constexpr std::int64_t kFarthest = 1 << 30;
    const std::int64_t numbers[] = {kernel[i], strides.empty() ? 1 : strides[i],
                                    pads.empty() ? 0 : pads[i], pads.empty() ? 0 : pads[i + rank],
                                    x.dim(static_cast<std::int64_t>(i) + 2)};
    for (const std::int64_t one : numbers) {
      if (one < 0 || one > kFarthest) return n.wrong("kernel_shape", "and its like are too large");
    }
    const std::int64_t padded = pads.empty() ? 0 : pads[i] + pads[i + rank];
    dims.push_back((x.dim(static_cast<std::int64_t>(i) + 2) - 1) *
                       (strides.empty() ? 1 : strides[i]) +
                   kernel[i] - padded);
  }
  // Places are counted in what is made without a shape that is asked for, a corner of the result.
  const std::int64_t count = product(dims);
  if (count < 0) return n.wrong("kernel_shape", "leaves nothing");
  Sizes wanted = dims;
  if (n.has(2)) wanted = n.integers(2, "output_shape");
  if (wanted.size() != dims.size()) return n.e.fail("output_shape has another rank");
  Array counted = n.e.reshape(places, {places.element_count(), 1});
  if (wanted != dims) {
    Array flat = n.e.reshape(places, {places.element_count()}), made;
    std::int64_t stride = 1, inner = 1;
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (inner <= 0) return n.e.fail("a shape without elements");
      const Array digit = n.e.binary(Opcode::remainder, flat / static_cast<double>(inner),
                                     n.e.scalar(static_cast<double>(dims[i]), DType::s64));
      const Array part = digit * static_cast<double>(stride);
      made = made.is_null() ? part : made + part;
      if (__builtin_mul_overflow(inner, dims[i], &inner)) return n.e.fail("too large a shape");
      if (__builtin_mul_overflow(stride, wanted[i], &stride)) return n.e.fail("too large a shape");
    }
    counted = n.e.reshape(made, {places.element_count(), 1});
  }
  const std::int64_t size = product(wanted);
  if (size < 0) return n.e.fail("output_shape has no size");
  ir::ScatterDimensions scatter;
  scatter.inserted_window_dims = {0};
  scatter.scatter_dims_to_operand_dims = {0};
  scatter.index_vector_dim = 1;
  ir::Attributes attributes;
  attributes.scatter = std::make_shared<const ir::ScatterDimensions>(std::move(scatter));
  if (!n.e.status().ok()) return;
  const Array zeros = n.e.splat(0, x.dtype(), {size});
  const Array made = n.e.make(
      Opcode::scatter, {zeros, counted, n.e.reshape(x, {x.element_count()})}, std::move(attributes),
      {ir::scalar_computation(*n.e.computation().module(), Opcode::add, x.dtype())});
  n.set(0, n.e.reshape(made, wanted));
}

}  // namespace

void add_pooling(OpTable& t) {
  t["MaxPool"] = {max_pool};
  t["AveragePool"] = {average_pool};
  t["LpPool"] = {norm_pool};
  t["MaxUnpool"] = {max_unpool};
  t["GlobalMaxPool"] = {global([](NodeContext& n, const Array& x, const Sizes& axes) {
    return n.e.reduce(Opcode::maximum, x, axes, true);
  })};
  t["GlobalAveragePool"] = {global(
      [](NodeContext& n, const Array& x, const Sizes& axes) { return n.e.mean(x, axes, true); })};
  t["GlobalLpPool"] = {global([](NodeContext& n, const Array& x, const Sizes& axes) {
    const double p = static_cast<double>(n.number("p", 2));
    const Array sums = n.e.sum(to_power(n.e, abs(x), p), axes, true);
    return p == 2 ? sqrt(sums) : to_power(n.e, sums, 1 / p);
  })};
}

}  // namespace plimsoll::onnx
