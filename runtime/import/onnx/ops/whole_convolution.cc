// SPDX-License-Identifier: Apache-2.0
// Convolutions of whole numbers of one byte each, whose sums are exact.
#include <algorithm>
#include <memory>
#include <numeric>
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

// One element of each filter, moved by one: a product of matrices.
bool is_one_element(const Convolved& given) {
  return given.groups == 1 && is_all(given.windows.kernel, 1) && is_all(given.windows.strides, 1);
}

// Of the bytes as they lie, less what zero points add to each sum. `zeros`: of each filter.
Array convolved_in_bytes(Emit& e, const Convolved& given, const ir::Literal& weights,
                         const Sizes& zeros) {
  Windows windows = given.windows;
  const Array x = padded_by_zero_point(e, given, windows);
  const Array& kernel = given.kernel;
  Sizes dims{x.dim(0), kernel.dim(0)};
  dims.insert(dims.end(), windows.sizes.begin(), windows.sizes.end());
  const ir::Shape shape(DType::s32, ir::Dims(dims));
  Array sums;
  if (is_one_element(given) && is_all(windows.before, 0) && is_all(windows.after, 0)) {
    // Channels lie last, as they do in the layout that convolutions around it get.
    Sizes last(at(x.rank())), first(at(x.rank()));
    std::iota(last.begin(), last.end(), 1);
    last.front() = 0;
    last.back() = 1;
    std::iota(first.begin(), first.end(), -1);
    first.front() = 0;
    first[1] = x.rank() - 1;
    const Array filters = e.reshape(kernel, {kernel.dim(0), kernel.dim(1)});
    ir::Attributes attributes;
    attributes.dot =
        std::make_shared<const ir::DotDimensions>(ir::DotDimensions{{x.rank() - 1}, {1}, {}, {}});
    Sizes turned{x.dim(0)};
    turned.insert(turned.end(), windows.sizes.begin(), windows.sizes.end());
    turned.push_back(kernel.dim(0));
    const ir::Shape turned_shape(DType::s32, ir::Dims(turned));
    sums = e.make(Opcode::dot, {e.transpose(x, last), filters}, std::move(attributes), {},
                  &turned_shape);
    sums = e.transpose(sums, first);
  } else {
    sums = convolve(e, x, kernel, window_dimensions(windows, 0), given.groups, &shape);
  }
  const std::vector<std::int32_t> elements = whole_numbers_of(weights);
  Sizes each(at(kernel.dim(0)), 0);
  const std::size_t depth = elements.size() / std::max<std::size_t>(each.size(), 1);
  if (!is_all(zeros, 0)) {
    // What a window sees, summed over channels: exact in f32.
    Convolved seen = given;
    seen.x = e.sum(e.convert(given.x, DType::s32), {1}, true);
    if (!given.x_zero.is_null()) {
      seen.x = seen.x - e.reshape(e.convert(given.x_zero, DType::s32), {}) *
                            static_cast<double>(given.x.dim(1));
    }
    Sizes ones(at(x.rank()), 1);
    std::copy(given.windows.kernel.begin(), given.windows.kernel.end(), ones.begin() + 2);
    seen.x_zero = seen.kernel_zero = {};
    seen.kernel = e.splat(1, DType::s32, ones);
    sums = sums - convolved_in(e, seen, DType::f32) *
                      e.along(e.numbers(zeros, DType::s32), sums.rank(), 1);
  }
  if (given.x_zero.is_null()) return sums;
  for (std::size_t i = 0; i < elements.size(); ++i) each[i / depth] += elements[i];
  const Array zero = e.reshape(e.convert(given.x_zero, DType::s32), {});
  return sums - e.along(e.numbers(each, DType::s32), sums.rank(), 1) * zero;
}

bool are_bytes(const Convolved& given) {
  return is_of_bytes(given.x.dtype()) && is_of_bytes(given.kernel.dtype());
}

// How many products are summed.
std::int64_t depth_of(const Convolved& given) {
  const std::int64_t filters = given.kernel.dim(0);
  return filters > 0 ? given.kernel.element_count() / filters : 0;
}

constexpr std::int64_t kDeepestInF32 = (1 << 24) / (255 * 255);

// Nothing after an error.
Convolved read_convolved(NodeContext& n, int zero, int kernel, int kernel_zero) {
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
  return given;
}

// Of few products floats are as fast.
bool reads_bytes(NodeContext& n, const Convolved& given, int kernel, const Sizes& zeros) {
  constexpr std::int64_t kDeepest = 1 << 16;
  const std::int64_t depth = depth_of(given);
  const bool fits = given.x_zero.is_null() ||
                    (given.x_zero.element_count() == 1 && given.x_zero.dtype() == given.x.dtype());
  return are_bytes(given) && fits && n.known(kernel) != nullptr && !zeros.empty() &&
         depth > kDeepestInF32 && depth <= kDeepest && (given.groups == 1 || is_all(zeros, 0));
}

}  // namespace

bool convolves_bytes(NodeContext& n, int zero, int kernel, int kernel_zero) {
  const Convolved given = read_convolved(n, zero, kernel, kernel_zero);
  return n.e.status().ok() &&
         reads_bytes(n, given, kernel, known_zeros(n, kernel_zero, given.kernel.dim(0)));
}

Array whole_convolution(NodeContext& n, int zero, int kernel, int kernel_zero) {
  const Convolved given = read_convolved(n, zero, kernel, kernel_zero);
  if (!n.e.status().ok()) return {};
  const Sizes zeros = known_zeros(n, kernel_zero, given.kernel.dim(0));
  if (reads_bytes(n, given, kernel, zeros)) {
    return convolved_in_bytes(n.e, given, *n.known(kernel), zeros);
  }
  const bool is_exact = are_bytes(given) && depth_of(given) <= kDeepestInF32;
  return convolved_in(n.e, given, is_exact ? DType::f32 : DType::s32);
}

}  // namespace plimsoll::onnx
