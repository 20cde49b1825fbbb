// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/convolution_packed.h"

#include <algorithm>
#include <array>
#include <utility>

namespace plimsoll::kernels {
namespace {

std::int64_t product_from(const std::vector<std::int64_t>& values, std::size_t first) {
  std::int64_t result = 1;
  for (std::size_t i = first; i < values.size(); ++i) result *= values[i];
  return result;
}

std::int64_t positions_of(const LibraryConvolution& c) {
  return c.dst.dims[0] * product_from(c.dst.dims, 2);
}
std::int64_t depth_of(const LibraryConvolution& c) { return product_from(c.weights.dims, 2); }

// The filters as a matrix of window positions and input channels by output channels; row strides of
// 0 where no strides say so.
MatrixStrides filter_matrix(const WeightsView& weights) {
  MatrixStrides strides{weights.strides[2], weights.strides[1]};
  std::int64_t expected = strides.row * weights.dims[2];
  for (std::size_t d = weights.dims.size(); d-- > 3;) {
    if (weights.dims[d] == 1) continue;
    if (weights.strides[d] != expected) return {};
    expected *= weights.dims[d];
  }
  return strides;
}

// What the windows see: a row a position of the result, in it the channels at one place of the
// window after those at another.
class WindowRows final : public ProductRows<float> {
 public:
  static constexpr std::size_t kMostSpatial = 3;
  static constexpr std::int64_t kMostRows = 16;  // of a panel

  WindowRows(const LibraryConvolution& c, const float* images) : c_(c), images_(images) {}

  void pack(std::int64_t first, std::int64_t rows, std::int64_t k0, std::int64_t depth,
            float* to) const override {
    // Where each row's window begins, in the images and as an offset.
    const std::size_t spatial = c_.stride.size();
    std::array<std::array<std::int64_t, kMostSpatial>, kMostRows> starts;
    std::array<const float*, kMostRows> image;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::int64_t rest = first + r;
      for (std::size_t d = spatial; d-- > 0;) {
        const std::int64_t size = c_.dst.dims[d + 2];
        starts[at(r)][d] = rest % size * c_.stride[d] - c_.padding_low[d];
        rest /= size;
      }
      image[at(r)] = images_ + rest * c_.src.strides[0];
    }
    static constexpr float kZeros[PackedProduct<float>::kMostDepth] = {};
    const std::int64_t channels = c_.src.dims[1], width = (rows + 3) / 4 * 4;
    std::array<const float*, kMostRows> from;
    from.fill(kZeros);
    while (depth > 0) {
      const std::int64_t channel = k0 % channels, some = std::min(depth, channels - channel);
      std::array<std::int64_t, kMostSpatial> place{};
      std::int64_t rest = k0 / channels;
      for (std::size_t d = spatial; d-- > 0;) {
        place[d] = rest % c_.weights.dims[d + 3] * c_.dilation[d];
        rest /= c_.weights.dims[d + 3];
      }
      for (std::int64_t r = 0; r < rows; ++r) {
        const float* pixel = image[at(r)] + channel;
        bool is_inside = true;
        for (std::size_t d = 0; d < spatial; ++d) {
          const std::int64_t j = starts[at(r)][d] + place[d];
          is_inside = is_inside && j >= 0 && j < c_.src.dims[d + 2];
          pixel += j * c_.src.strides[d + 2];
        }
        from[at(r)] = is_inside ? pixel : kZeros;
      }
      product_loops<float>().pack_rows(from.data(), width, some, to);
      to += some * width;
      k0 += some;
      depth -= some;
    }
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  const LibraryConvolution& c_;
  const float* images_;
};

}  // namespace

bool PackedConvolution::takes(const LibraryConvolution& c) {
  if (c.mode != ConvolutionMode::forward || c.src.dtype != ir::DType::f32 ||
      c.weights.dtype != ir::DType::f32 || c.dst.dtype != ir::DType::f32) {
    return false;
  }
  for (const bool flips : c.flip) {
    if (flips) return false;
  }
  if (c.weights.dims[1] < PreparedProduct<float>::kLeastColumns) return false;
  if (c.weights.dims[0] != 1 || c.stride.size() > WindowRows::kMostSpatial) return false;
  if (c.src.strides[1] != 1 || !c.dst.is_channels_last()) return false;
  const MatrixStrides filters = filter_matrix(c.weights);
  if (filters.row != 1 && filters.column != 1) return false;
  return true;
}

PackedConvolution::PackedConvolution(LibraryConvolution convolution)
    : KernelBase("convolution.packed", device::KernelOrigin::own),
      c_(std::move(convolution)),
      filters_(filter_matrix(c_.weights)),
      product_(positions_of(c_), c_.weights.dims[1], depth_of(c_)),
      by_prepared_(positions_of(c_), c_.weights.dims[1], depth_of(c_)),
      packed_(
          reserve_workspace(std::max(product_.workspace_bytes(), by_prepared_.workspace_bytes()))) {
}

Status PackedConvolution::launch(device::Stream&, const device::KernelArguments& arguments) const {
  const WindowRows rows(c_, static_cast<const float*>(arguments.inputs[0]));
  const auto* const filters = static_cast<const float*>(arguments.inputs[1]);
  const ProductResult<float> out{static_cast<float*>(arguments.outputs[0]), c_.weights.dims[1]};
  void* const packed = byte_offset(arguments.workspace, packed_);
  if (takes_prepared_) {
    by_prepared_.run(rows, filters, out, packed);
  } else {
    product_.run(rows, filters, filters_, out, packed);
  }
  return ok_status();
}

std::int64_t PackedConvolution::prepared_bytes() const {
  if (takes_prepared_) return 0;
  return by_prepared_.prepared_bytes();
}

Status PackedConvolution::prepare(const void* plain, void* prepared) const {
  by_prepared_.prepare(static_cast<const float*>(plain), filters_, static_cast<float*>(prepared));
  return ok_status();
}

std::shared_ptr<const device::Kernel> PackedConvolution::taking_prepared() const {
  auto kernel = std::make_shared<PackedConvolution>(*this);
  kernel->takes_prepared_ = true;
  return kernel;
}

}  // namespace plimsoll::kernels
