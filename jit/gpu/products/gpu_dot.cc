// SPDX-License-Identifier: Apache-2.0
// Dots and convolutions as contractions.
#include <algorithm>

#include "jit/gpu/gpu_library.h"
#include "jit/gpu/products/gpu_contraction.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

int add_digit(Contraction& contraction, std::vector<int>& to, std::int64_t extent) {
  contraction.digits.push_back(extent);
  to.push_back(static_cast<int>(contraction.digits.size()) - 1);
  return to.back();
}

// Dimension `d` of `shape`, at the place that `terms` say.
ContractedDimension dimension_at(const ir::Shape& shape, std::int64_t d,
                                 std::vector<std::pair<int, std::int64_t>> terms) {
  ContractedDimension result;
  result.terms = std::move(terms);
  result.size = shape.dim(static_cast<int>(d));
  result.stride = ir::row_major_strides(shape.dims())[static_cast<int>(d)];
  return result;
}

// Puts digits whose neighbours lie nearest to each other in `array` last. Of rows, whose order
// makes no difference to a result.
void order_by_step(std::vector<int>& digits, const std::vector<ContractedDimension>& array) {
  const auto step = [&](int digit) {
    std::int64_t sum = 0;
    for (const ContractedDimension& dimension : array) {
      for (const auto& [own, factor] : dimension.terms) {
        if (own == digit) sum += factor * dimension.stride;
      }
    }
    return sum;
  };
  std::stable_sort(digits.begin(), digits.end(), [&](int x, int y) { return step(x) > step(y); });
}

bool is_among(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

Status write_gpu_dot(GpuWriter& writer) {
  const ir::Instruction& instruction = writer.instruction;
  const ir::DotDimensions none;
  const ir::DotDimensions& numbers =
      instruction.attributes().dot ? *instruction.attributes().dot : none;
  const ir::Shape& lhs = instruction.operand(0)->shape();
  const ir::Shape& rhs = instruction.operand(1)->shape();
  Contraction c;
  int out = 0;
  const auto give = [&](int digit) {
    c.out.push_back(dimension_at(instruction.shape(), out++, {{digit, 1}}));
  };
  for (std::size_t i = 0; i < numbers.lhs_batch.size(); ++i) {
    const std::int64_t left = numbers.lhs_batch[i];
    const int digit = add_digit(c, c.batch, lhs.dim(static_cast<int>(left)));
    c.lhs.push_back(dimension_at(lhs, left, {{digit, 1}}));
    c.rhs.push_back(dimension_at(rhs, numbers.rhs_batch[i], {{digit, 1}}));
    give(digit);
  }
  const auto add_free = [&](const ir::Shape& shape, const std::vector<std::int64_t>& batch,
                            const std::vector<std::int64_t>& contracting, std::vector<int>& to,
                            std::vector<ContractedDimension>& array) {
    for (std::int64_t d = 0; d < shape.rank(); ++d) {
      if (is_among(batch, d) || is_among(contracting, d)) continue;
      const int digit = add_digit(c, to, shape.dim(static_cast<int>(d)));
      array.push_back(dimension_at(shape, d, {{digit, 1}}));
      give(digit);
    }
  };
  add_free(lhs, numbers.lhs_batch, numbers.lhs_contracting, c.m, c.lhs);
  add_free(rhs, numbers.rhs_batch, numbers.rhs_contracting, c.n, c.rhs);
  for (std::size_t i = 0; i < numbers.lhs_contracting.size(); ++i) {
    const std::int64_t left = numbers.lhs_contracting[i];
    const int digit = add_digit(c, c.k, lhs.dim(static_cast<int>(left)));
    c.lhs.push_back(dimension_at(lhs, left, {{digit, 1}}));
    c.rhs.push_back(dimension_at(rhs, numbers.rhs_contracting[i], {{digit, 1}}));
  }
  return write_gpu_contraction(writer, c);
}

// out[b, f, o] = sum over i, w of lhs[b, i, (o * stride + w * dilation - padding) / base] * rhs[w,
// i, f], the window reversed where it says so. A group of features is a batch: it reads its own
// features of lhs and gives its own of the result; a group of the batch reads its own rows.
Status write_gpu_convolution(GpuWriter& writer) {
  const ir::Instruction& instruction = writer.instruction;
  const ir::Attributes& attributes = instruction.attributes();
  const ir::ConvolutionDimensions& labels = *attributes.convolution;
  const ir::Shape& lhs = instruction.operand(0)->shape();
  const ir::Shape& rhs = instruction.operand(1)->shape();
  const ir::Shape& result = instruction.shape();
  const auto dim = [](const ir::Shape& shape, std::int64_t d) {
    return shape.dim(static_cast<int>(d));
  };
  const std::int64_t feature_groups = attributes.feature_group_count;
  const std::int64_t batch_groups = attributes.batch_group_count;
  const std::int64_t groups = feature_groups * batch_groups;
  const std::int64_t inputs = dim(rhs, labels.kernel_input_feature);
  const std::int64_t outputs = dim(rhs, labels.kernel_output_feature) / groups;
  const std::int64_t rows = dim(result, labels.output_batch);

  Contraction c;
  const int group = add_digit(c, c.batch, groups);
  const int row = add_digit(c, c.m, rows);
  const int feature = add_digit(c, c.n, outputs);
  // Features lie together in channels-last arrays: then they are the last digit.
  const bool channels_last = labels.input_feature == lhs.rank() - 1;
  int input = -1;
  if (!channels_last) input = add_digit(c, c.k, inputs);
  for (std::size_t d = 0; d < labels.input_spatial.size(); ++d) {
    const ir::WindowDimension window =
        d < attributes.window.size() ? attributes.window[d] : ir::WindowDimension{};
    const int place = add_digit(c, c.m, dim(result, labels.output_spatial[d]));
    const int tap = add_digit(c, c.k, dim(rhs, labels.kernel_spatial[d]));
    ContractedDimension read = dimension_at(
        lhs, labels.input_spatial[d], {{place, window.stride}, {tap, window.window_dilation}});
    read.constant = -window.padding_low;
    read.divisor = window.base_dilation;
    c.lhs.push_back(std::move(read));
    ContractedDimension weight =
        dimension_at(rhs, labels.kernel_spatial[d], {{tap, window.reversal ? -1 : 1}});
    if (window.reversal) weight.constant = weight.size - 1;
    c.rhs.push_back(std::move(weight));
    c.out.push_back(dimension_at(result, labels.output_spatial[d], {{place, 1}}));
  }
  if (channels_last) input = add_digit(c, c.k, inputs);
  c.lhs.push_back(
      dimension_at(lhs, labels.input_batch, {{row, 1}, {group, batch_groups > 1 ? rows : 0}}));
  c.lhs.push_back(dimension_at(lhs, labels.input_feature,
                               {{input, 1}, {group, feature_groups > 1 ? inputs : 0}}));
  c.rhs.push_back(dimension_at(rhs, labels.kernel_input_feature, {{input, 1}}));
  c.rhs.push_back(
      dimension_at(rhs, labels.kernel_output_feature, {{feature, 1}, {group, outputs}}));
  c.out.push_back(dimension_at(result, labels.output_batch, {{row, 1}}));
  c.out.push_back(dimension_at(result, labels.output_feature, {{feature, 1}, {group, outputs}}));
  order_by_step(c.m, c.lhs);
  return write_gpu_contraction(writer, c);
}

}  // namespace plimsoll::jit
