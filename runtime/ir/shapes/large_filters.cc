// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/large_filters.h"

namespace plimsoll::ir {

bool has_large_filters(const Instruction& convolution) {
  constexpr std::int64_t kPerPosition = 1024;
  // Fewer channels leave vectors, or runs of memory, half empty.
  constexpr std::int64_t kLeastChannels = 32;
  const Attributes& attributes = convolution.attributes();
  const Shape& images = convolution.operand(0)->shape();
  const Shape& filters = convolution.operand(1)->shape();
  const Shape& result = convolution.shape();
  if (attributes.convolution == nullptr || attributes.feature_group_count != 1 ||
      attributes.batch_group_count != 1) {
    return false;
  }
  for (const Shape* shape : {&images, &filters, &result}) {
    if (shape->dtype() != DType::f32) return false;
  }
  for (const WindowDimension& w : attributes.window) {
    if (w.base_dilation != 1 || w.reversal) return false;
  }
  const auto size = [](const Shape& shape, std::int64_t d) {
    return shape.dim(static_cast<int>(d));
  };
  const ConvolutionDimensions& labels = *attributes.convolution;
  if (size(filters, labels.kernel_input_feature) < kLeastChannels ||
      size(filters, labels.kernel_output_feature) < kLeastChannels) {
    return false;
  }
  // A window larger than the result is how a filter's gradient is written.
  std::int64_t window = 1, positions = 1;
  for (const std::int64_t d : labels.kernel_spatial) window *= size(filters, d);
  for (const std::int64_t d : labels.output_spatial) positions *= size(result, d);
  if (window > positions) return false;
  positions *= size(result, labels.output_batch);
  return positions > 0 && filters.element_count() / kPerPosition >= positions;
}

}  // namespace plimsoll::ir
