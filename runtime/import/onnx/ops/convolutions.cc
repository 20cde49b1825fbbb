// SPDX-License-Identifier: Apache-2.0
// Convolutions, and the geometry of windows.
#include <fmt/format.h>
#include <algorithm>
#include <memory>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/quantization.h"
#include "runtime/import/onnx/ops/windows.h"

namespace plimsoll::onnx {

Sizes spatial_of(const Array& x) {
  Sizes dims = x.dims();
  dims.erase(dims.begin(), dims.begin() + std::min<std::int64_t>(2, std::ssize(dims)));
  return dims;
}

namespace {

constexpr std::int64_t kFarthest = 1 << 30;

// Whether products of two of the sizes can be counted.
bool are_near(NodeContext& n, const Sizes& spatial) {
  const auto is_near = [](std::int64_t size) { return size <= kFarthest; };
  if (std::all_of(spatial.begin(), spatial.end(), is_near)) return true;
  n.e.fail(unimplemented("spatial dimensions of more than 2^30 elements"));
  return false;
}

// A list of one positive number a dim, as it stands or all `usual`.
Sizes list_of(NodeContext& n, const char* name, std::size_t rank, std::int64_t least,
              std::int64_t usual) {
  Sizes list = n.numbers(name);
  if (list.empty()) list.assign(rank, usual);
  const bool is_good =
      list.size() == rank && std::all_of(list.begin(), list.end(), [&](std::int64_t one) {
        return one >= least && one <= kFarthest;
      });
  if (!is_good) {
    n.wrong(name, fmt::format("is [{}] (must be {} numbers from {} to {})", fmt::join(list, ","),
                              rank, least, kFarthest));
    list.assign(rank, std::max<std::int64_t>(least, 1));
  }
  return list;
}

}  // namespace

Windows windows_of(NodeContext& n, const Sizes& spatial, Sizes kernel) {
  const std::size_t rank = spatial.size();
  const Sizes said = n.numbers("kernel_shape");
  if (!kernel.empty() && !said.empty() && said != kernel) {
    n.wrong("kernel_shape", fmt::format("is [{}], the kernel's is [{}]", fmt::join(said, ","),
                                        fmt::join(kernel, ",")));
  }
  Windows w;
  w.kernel = kernel.empty() ? list_of(n, "kernel_shape", rank, 1, 1) : std::move(kernel);
  if (w.kernel.size() != rank) {
    n.e.fail(fmt::format("a kernel of {} spatial dimensions over {}", w.kernel.size(), rank));
    w.kernel.assign(rank, 1);
  }
  w.strides = list_of(n, "strides", rank, 1, 1);
  w.dilations = list_of(n, "dilations", rank, 1, 1);
  Sizes pads = list_of(n, "pads", 2 * rank, -kFarthest, 0);
  if (!are_near(n, spatial) || !are_near(n, w.kernel)) {
    w.before = w.after = w.sizes = Sizes(rank, 1);
    return w;
  }
  const std::string mode = n.text("auto_pad", "NOTSET");
  const bool is_ceil = n.number("ceil_mode", 0) != 0;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t extent = (w.kernel[i] - 1) * w.dilations[i] + 1, step = w.strides[i];
    std::int64_t before = pads[i], after = pads[i + rank], count = 0;
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      count = (spatial[i] + step - 1) / step;
      const std::int64_t total =
          std::max<std::int64_t>(0, (count - 1) * step + extent - spatial[i]);
      before = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      after = total - before;
    } else {
      if (mode == "VALID") before = after = 0;
      if (mode != "VALID" && mode != "NOTSET" && !mode.empty()) {
        n.wrong("auto_pad", "is '" + mode + "'");
      }
      const std::int64_t free = spatial[i] + before + after - extent;
      if (free < 0) {
        n.e.fail(
            fmt::format("a window of {} over {} elements", extent, spatial[i] + before + after));
      } else {
        count = (free + (is_ceil ? step - 1 : 0)) / step + 1;
        // No window may begin in what is padded at the end.
        if (is_ceil && (count - 1) * step >= spatial[i] + before) --count;
        after = std::max(after, (count - 1) * step + extent - spatial[i] - before);
      }
    }
    w.before.push_back(before);
    w.after.push_back(after);
    w.sizes.push_back(count);
  }
  return w;
}

std::vector<ir::WindowDimension> window_dimensions(const Windows& windows, int skips) {
  std::vector<ir::WindowDimension> made(at(skips));
  for (std::size_t i = 0; i < windows.kernel.size(); ++i) {
    ir::WindowDimension dim;
    dim.size = windows.kernel[i];
    dim.stride = windows.strides[i];
    dim.window_dilation = windows.dilations[i];
    dim.padding_low = windows.before[i];
    dim.padding_high = windows.after[i];
    made.push_back(dim);
  }
  return made;
}

Array convolve(Emit& e, const Array& x, const Array& kernel,
               std::vector<ir::WindowDimension> window, std::int64_t groups,
               const ir::Shape* shape) {
  auto dims = std::make_shared<ir::ConvolutionDimensions>();
  dims->input_feature = dims->output_feature = dims->kernel_input_feature = 1;
  for (std::int64_t i = 2; i < x.rank(); ++i) {
    dims->input_spatial.push_back(i);
    dims->kernel_spatial.push_back(i);
    dims->output_spatial.push_back(i);
  }
  ir::Attributes attributes;
  attributes.convolution = std::move(dims);
  attributes.window = std::move(window);
  attributes.feature_group_count = groups;
  return e.make(ir::Opcode::convolution, {x, kernel}, std::move(attributes), {}, shape);
}

namespace {

std::int64_t groups_of(NodeContext& n) {
  const std::int64_t groups = n.number("group", 1);
  if (groups < 1) n.wrong("group", fmt::format("is {} (must be positive)", groups));
  return std::max<std::int64_t>(groups, 1);
}

bool fits(NodeContext& n, const Array& x, const Array& kernel) {
  if (x.rank() >= 3 && kernel.rank() == x.rank()) return true;
  n.e.fail(fmt::format("takes arrays of equal rank from 3 on, is given ranks {} and {}", x.rank(),
                       kernel.rank()));
  return false;
}

// One window over one element: a product of [images, channels] by the filters, as the two layers
// of a squeeze and excitation are.
bool is_product(const Array& x, const Array& kernel, const Windows& windows, std::int64_t groups) {
  const auto all = [](const Sizes& sizes, std::int64_t size) {
    return std::all_of(sizes.begin(), sizes.end(), [&](std::int64_t one) { return one == size; });
  };
  return groups == 1 && x.dim(1) == kernel.dim(1) && all(spatial_of(x), 1) &&
         all(spatial_of(kernel), 1) && all(windows.sizes, 1) && all(windows.before, 0) &&
         all(windows.after, 0);
}

// Filters without the first and last elements that meet padding wherever their window lies, as
// those of a wide dilation over a small image do: of 3 x 3 one element is left.
Array without_padded_elements(Emit& e, const Array& x, Array kernel, Windows& windows) {
  for (std::size_t i = 0; i < windows.kernel.size() && e.status().ok(); ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    const std::int64_t size = x.dim(axis), stride = windows.strides[i];
    const std::int64_t dilation = windows.dilations[i], count = windows.sizes[i];
    const auto meets_data = [&](std::int64_t element) {
      const std::int64_t place = element * dilation - windows.before[i];
      const std::int64_t skipped = place >= 0 ? 0 : (-place + stride - 1) / stride;
      return skipped < count && place + skipped * stride < size;
    };
    std::int64_t first = 0, last = windows.kernel[i] - 1;
    while (first < last && !meets_data(first)) ++first;
    while (last > first && !meets_data(last)) --last;
    if (last - first + 1 == windows.kernel[i]) continue;
    kernel = e.slice(kernel, axis, first, last + 1);
    windows.kernel[i] = last - first + 1;
    windows.before[i] -= first * dilation;
    windows.after[i] =
        (count - 1) * stride + (last - first) * dilation + 1 - size - windows.before[i];
  }
  return kernel;
}

void convolution(NodeContext& n) {
  const Array x = n.in(0);
  Array kernel = n.in(1);
  if (!fits(n, x, kernel)) return;
  Array made = convolution_of_quantized(n);
  if (!made.is_null()) {
    if (n.has(2)) made = made + n.e.along(n.in(2), x.rank(), 1);
    return n.set(0, made);
  }
  Windows windows = windows_of(n, spatial_of(x), spatial_of(kernel));
  kernel = without_padded_elements(n.e, x, kernel, windows);
  const std::int64_t groups = groups_of(n);
  if (is_product(x, kernel, windows, groups)) {
    made = n.e.dot(n.e.reshape(x, {x.dim(0), x.dim(1)}),
                   n.e.reshape(kernel, {kernel.dim(0), kernel.dim(1)}), {{1}, {1}, {}, {}});
    Sizes dims = x.dims();
    dims[1] = kernel.dim(0);
    made = n.e.reshape(made, dims);
  } else {
    made = convolve(n.e, x, kernel, window_dimensions(windows, 0), groups);
  }
  if (n.has(2)) made = made + n.e.along(n.in(2), x.rank(), 1);
  n.set(0, made);
}

std::int64_t floor_half(std::int64_t value) { return value >= 0 ? value / 2 : -((1 - value) / 2); }

// A convolution of the input with holes between its elements, by the turned kernel.
void transposed(NodeContext& n) {
  const Array x = n.in(0), given = n.in(1);
  if (!fits(n, x, given)) return;
  const std::int64_t groups = groups_of(n);
  const Sizes spatial = spatial_of(x), kernel = spatial_of(given);
  const std::size_t rank = spatial.size();
  if (!are_near(n, spatial) || !are_near(n, kernel)) return;
  const Sizes strides = list_of(n, "strides", rank, 1, 1);
  const Sizes dilations = list_of(n, "dilations", rank, 1, 1);
  const Sizes pads = list_of(n, "pads", 2 * rank, 0, 0);
  const Sizes extra = list_of(n, "output_padding", rank, 0, 0);
  Sizes wanted = n.numbers("output_shape");
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != rank) {
    return n.wrong("output_shape", "has not one number a spatial dimension");
  }
  const std::string mode = n.text("auto_pad", "NOTSET");
  const bool is_same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  std::vector<ir::WindowDimension> window(rank);
  Sizes axes;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t extent = (kernel[i] - 1) * dilations[i];
    std::int64_t before = mode == "VALID" ? 0 : pads[i],
                 after = mode == "VALID" ? 0 : pads[i + rank];
    if (!wanted.empty() || is_same) {
      const std::int64_t size = wanted.empty() ? spatial[i] * strides[i] : wanted[i];
      if (size < 0 || size > kFarthest) return n.wrong("output_shape", "has no size");
      const std::int64_t total = strides[i] * (spatial[i] - 1) + extra[i] + extent + 1 - size;
      before = mode == "SAME_UPPER" ? floor_half(total) : total - floor_half(total);
      if (wanted.empty() == false && !is_same) before = total - floor_half(total);
      if (total < 0 && !is_same) before = 0;
      after = total - before;
    }
    window[i].size = kernel[i];
    window[i].base_dilation = strides[i];
    window[i].window_dilation = dilations[i];
    window[i].padding_low = extent - before;
    window[i].padding_high = extent - after + extra[i];
    axes.push_back(static_cast<std::int64_t>(i) + 2);
  }
  // [in, out of a group, ...] becomes [out, in of a group, ...].
  if (given.dim(0) % groups != 0) return n.wrong("group", "does not divide the channels");
  Sizes apart{groups, given.dim(0) / groups, given.dim(1)}, order{0, 2, 1};
  Sizes joined{groups * given.dim(1), given.dim(0) / groups};
  for (std::size_t i = 0; i < rank; ++i) {
    apart.push_back(kernel[i]);
    joined.push_back(kernel[i]);
    order.push_back(static_cast<std::int64_t>(i) + 3);
  }
  const Array turned = n.e.reshape(n.e.transpose(n.e.reshape(given, apart), order), joined);
  Array made = convolve(n.e, x, n.e.reverse(turned, axes), window, groups);
  if (n.has(2)) made = made + n.e.along(n.in(2), x.rank(), 1);
  n.set(0, made);
}

}  // namespace

void add_convolutions(OpTable& t) {
  t["Conv"] = {convolution};
  t["ConvTranspose"] = {transposed};
  t["ConvInteger"] = {[](NodeContext& n) { n.set(0, whole_convolution(n, 2, 1, 3)); }};
}

}  // namespace plimsoll::onnx
