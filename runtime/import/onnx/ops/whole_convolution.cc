// SPDX-License-Identifier: Apache-2.0
// Convolutions of whole numbers of one byte each, whose sums are exact.
#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/quantization.h"
#include "runtime/import/onnx/ops/windows.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

struct Convolved {
  Array x, x_zero, kernel, kernel_zero;  // zero points may be null
  Windows windows;
  std::int64_t groups = 1;
};

bool is_all(const Sizes& sizes, std::int64_t size) {
  return std::all_of(sizes.begin(), sizes.end(), [&](std::int64_t one) { return one == size; });
}

// In numbers of `dtype`, by whose convolution the sums are exact.
Array convolved_in(Emit& e, const Convolved& given, DType dtype) {
  const auto less = [&](const Array& numbers, const Array& zero) {
    const Array made = e.convert(numbers, dtype);
    if (zero.is_null()) return made;
    const Array wide = e.convert(zero, dtype);
    return made - (wide.element_count() == 1 ? e.reshape(wide, {}) : e.along(wide, made.rank(), 0));
  };
  return e.convert(convolve(e, less(given.x, given.x_zero), less(given.kernel, given.kernel_zero),
                            window_dimensions(given.windows, 0), given.groups),
                   DType::s32);
}

// The input with its zero point around it, which the windows then do not go beyond.
Array padded_by_zero_point(Emit& e, const Convolved& given, Windows& windows) {
  if (given.x_zero.is_null() || (is_all(windows.before, 0) && is_all(windows.after, 0))) {
    return given.x;
  }
  std::vector<ir::PaddingDimension> padding(at(given.x.rank()));
  for (std::size_t i = 0; i < windows.before.size(); ++i) {
    padding[i + 2].low = std::exchange(windows.before[i], 0);
    padding[i + 2].high = std::exchange(windows.after[i], 0);
  }
  return e.pad(given.x, e.reshape(given.x_zero, {}), padding);
}

// Of the bytes as they lie, less what the zero point of the input adds to each sum.
Array convolved_in_bytes(Emit& e, const Convolved& given, const ir::Literal& weights) {
  Windows windows = given.windows;
  const Array x = padded_by_zero_point(e, given, windows);
  const Array& kernel = given.kernel;
  Sizes dims{x.dim(0), kernel.dim(0)};
  dims.insert(dims.end(), windows.sizes.begin(), windows.sizes.end());
  const ir::Shape shape(DType::s32, ir::Dims(dims));
  Array sums;
  if (given.groups == 1 && is_all(windows.kernel, 1) && is_all(windows.strides, 1) &&
      is_all(windows.before, 0) && is_all(windows.after, 0)) {
    // One element of the filters: a product of matrices, in which images lie behind the filters.
    std::int64_t places = 1;
    for (const std::int64_t size : windows.sizes) places *= size;
    const Array images = e.reshape(x, {x.dim(0), x.dim(1), places});
    const Array filters = e.reshape(kernel, {kernel.dim(0), kernel.dim(1)});
    ir::Attributes attributes;
    attributes.dot = std::make_shared<const ir::DotDimensions>(ir::DotDimensions{{1}, {1}, {}, {}});
    const ir::Shape turned(DType::s32, ir::Dims{kernel.dim(0), x.dim(0), places});
    sums = e.make(Opcode::dot, {filters, images}, std::move(attributes), {}, &turned);
    sums = e.reshape(e.transpose(sums, {1, 0, 2}), dims);
  } else {
    sums = convolve(e, x, kernel, window_dimensions(windows, 0), given.groups, &shape);
  }
  if (given.x_zero.is_null()) return sums;
  const std::vector<std::int32_t> elements = whole_numbers_of(weights);
  Sizes each(at(kernel.dim(0)), 0);
  const std::size_t depth = elements.size() / std::max<std::size_t>(each.size(), 1);
  for (std::size_t i = 0; i < elements.size(); ++i) each[i / depth] += elements[i];
  const Array zero = e.reshape(e.convert(given.x_zero, DType::s32), {});
  return sums - e.along(e.numbers(each, DType::s32), sums.rank(), 1) * zero;
}

}  // namespace

Array whole_convolution(NodeContext& n, int zero, int kernel, int kernel_zero) {
  Emit& e = n.e;
  Convolved given;
  given.x = n.in(0);
  given.kernel = n.in(kernel);
  if (n.has(zero)) given.x_zero = n.in(zero);
  if (n.has(kernel_zero)) given.kernel_zero = n.in(kernel_zero);
  if (given.x.rank() < 3 || given.kernel.rank() != given.x.rank()) {
    e.fail("takes arrays of equal rank from 3 on");
    return {};
  }
  given.groups = n.number("group", 1);
  if (given.groups < 1) {
    n.wrong("group", "must be positive");
    return {};
  }
  given.windows = windows_of(n, spatial_of(given.x), spatial_of(given.kernel));
  if (!e.status().ok()) return {};
  const std::int64_t filters = given.kernel.dim(0);
  const std::int64_t depth = filters > 0 ? given.kernel.element_count() / filters : 0;
  const bool has_bytes = is_of_bytes(given.x.dtype()) && is_of_bytes(given.kernel.dtype());
  constexpr std::int64_t kDeepestInF32 = (1 << 24) / (255 * 255), kDeepest = 1 << 20;
  if (has_bytes && depth <= kDeepestInF32) return convolved_in(e, given, DType::f32);
  const ir::Literal* const weights = n.known(kernel);
  const Sizes zeros = known_zeros(n, kernel_zero, filters);
  const bool fits = given.x_zero.is_null() ||
                    (given.x_zero.element_count() == 1 && given.x_zero.dtype() == given.x.dtype());
  if (has_bytes && fits && weights != nullptr && depth <= kDeepest && !zeros.empty() &&
      is_all(zeros, 0)) {
    return convolved_in_bytes(e, given, *weights);
  }
  return convolved_in(e, given, DType::s32);
}

}  // namespace plimsoll::onnx
