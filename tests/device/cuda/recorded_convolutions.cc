// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/recorded_convolutions.h"

#include "runtime/base/float16.h"
#include "runtime/base/index.h"

namespace plimsoll::device::cuda {
namespace {

double get_number(const RecordedTensor& tensor, const void* from, std::int64_t at_element) {
  switch (tensor.type) {
    case DnnType::f16:
      return static_cast<float>(static_cast<const Float16*>(from)[at_element]);
    case DnnType::bf16:
      return static_cast<float>(static_cast<const Bfloat16*>(from)[at_element]);
    case DnnType::f32:
      break;
  }
  return static_cast<const float*>(from)[at_element];
}

void put_number(const RecordedTensor& tensor, void* to, std::int64_t at_element, double value) {
  switch (tensor.type) {
    case DnnType::f16:
      static_cast<Float16*>(to)[at_element] = Float16(static_cast<float>(value));
      return;
    case DnnType::bf16:
      static_cast<Bfloat16*>(to)[at_element] = Bfloat16(static_cast<float>(value));
      return;
    case DnnType::f32:
      break;
  }
  static_cast<float*>(to)[at_element] = static_cast<float>(value);
}

// Row-major numbers of an index.
bool next_index(std::vector<std::int64_t>& index, const std::vector<std::int64_t>& dims) {
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (++index[d] < dims[d]) return true;
    index[d] = 0;
  }
  return false;
}

std::int64_t offset_of(const RecordedTensor& tensor, const std::vector<std::int64_t>& index) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * tensor.strides[d];
  return offset;
}

}  // namespace

std::int64_t RecordedTensor::elements() const {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) last += (dims[d] - 1) * strides[d];
  return last + 1;
}

bool is_convolution(const RecordedConvolution& c) {
  const std::size_t rank = c.x.dims.size();
  if (rank < 4 || c.y.dims.size() != rank || c.w.dims.size() != rank ||
      c.padding.size() != rank - 2 || c.x.type != c.y.type || c.x.type != c.w.type ||
      c.groups < 1 || c.x.dims[0] != c.y.dims[0] || c.x.dims[1] != c.w.dims[1] * c.groups ||
      c.y.dims[1] != c.w.dims[0] || c.w.dims[0] % c.groups != 0) {
    return false;
  }
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    const std::int64_t reach = c.dilations[d] * (c.w.dims[d + 2] - 1) + 1;
    const std::int64_t room = c.x.dims[d + 2] + 2 * c.padding[d] - reach;
    if (room < 0 || c.y.dims[d + 2] != room / c.strides[d] + 1) return false;
  }
  return true;
}

// Every product of an element of x, one of w and one of y, by y and w.
void compute_convolution(const RecordedConvolution& c, RecordedDirection direction,
                         const std::array<void*, 3>& pointers) {
  const RecordedTensor& target = direction == RecordedDirection::forward         ? c.y
                                 : direction == RecordedDirection::backward_data ? c.x
                                                                                 : c.w;
  void* const to = direction == RecordedDirection::forward         ? pointers[2]
                   : direction == RecordedDirection::backward_data ? pointers[0]
                                                                   : pointers[1];
  std::vector<double> sums(at(target.elements()));
  const std::size_t rank = c.x.dims.size();
  std::vector<std::int64_t> of_y(rank), of_w(rank), of_x(rank);
  const std::int64_t per_group = c.w.dims[0] / c.groups;
  do {
    std::fill(of_w.begin(), of_w.end(), 0);
    do {
      if (of_w[0] != of_y[1]) continue;
      of_x[0] = of_y[0];
      of_x[1] = of_y[1] / per_group * c.w.dims[1] + of_w[1];
      bool is_inside = true;
      for (std::size_t d = 2; d < rank; ++d) {
        const std::int64_t tap = c.is_flipped ? c.w.dims[d] - 1 - of_w[d] : of_w[d];
        of_x[d] = of_y[d] * c.strides[d - 2] + tap * c.dilations[d - 2] - c.padding[d - 2];
        is_inside = is_inside && of_x[d] >= 0 && of_x[d] < c.x.dims[d];
      }
      if (!is_inside) continue;
      const std::int64_t x = offset_of(c.x, of_x), w = offset_of(c.w, of_w),
                         y = offset_of(c.y, of_y);
      switch (direction) {
        case RecordedDirection::forward:
          sums[at(y)] += get_number(c.x, pointers[0], x) * get_number(c.w, pointers[1], w);
          break;
        case RecordedDirection::backward_data:
          sums[at(x)] += get_number(c.w, pointers[1], w) * get_number(c.y, pointers[2], y);
          break;
        case RecordedDirection::backward_filter:
          sums[at(w)] += get_number(c.x, pointers[0], x) * get_number(c.y, pointers[2], y);
          break;
      }
    } while (next_index(of_w, c.w.dims));
  } while (next_index(of_y, c.y.dims));
  std::vector<std::int64_t> index(rank);
  do {
    const std::int64_t offset = offset_of(target, index);
    put_number(target, to, offset, sums[at(offset)]);
  } while (next_index(index, target.dims));
}

}  // namespace plimsoll::device::cuda
