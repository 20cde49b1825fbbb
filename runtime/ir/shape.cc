// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shape.h"

#include <fmt/core.h>
#include <algorithm>

#include "runtime/base/index.h"

namespace plimsoll::ir {

std::string_view to_string(DType dtype) {
  switch (dtype) {
#define PLIMSOLL_DTYPE(name, text, type, bytes, kind) \
  case DType::name:                                   \
    return text;
#define PLIMSOLL_COMPLEX_DTYPE(name, text, part, bytes) \
  case DType::name:                                     \
    return text;
#define PLIMSOLL_NARROW_DTYPE(name, text, bits, kind) \
  case DType::name:                                   \
    return text;
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
  }
  return "?";
}

std::optional<DType> parse_dtype(std::string_view text) {
#define PLIMSOLL_DTYPE(name, spelling, type, bytes, kind) \
  if (text == spelling) return DType::name;
#define PLIMSOLL_COMPLEX_DTYPE(name, spelling, part, bytes) \
  if (text == spelling) return DType::name;
#define PLIMSOLL_NARROW_DTYPE(name, spelling, bits, kind) \
  if (text == spelling) return DType::name;
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
  return std::nullopt;
}

int dtype_bytes(DType dtype) {
  switch (dtype) {
#define PLIMSOLL_DTYPE(name, text, type, size, kind) \
  case DType::name:                                  \
    static_assert(sizeof(type) == size);             \
    return size;
#define PLIMSOLL_COMPLEX_DTYPE(name, text, part, size) \
  case DType::name:                                    \
    return size;
#define PLIMSOLL_NARROW_DTYPE(name, text, bits, kind) \
  case DType::name:                                   \
    return 1;
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
  }
  return 0;
}

int dtype_bits(DType dtype) {
  switch (dtype) {
#define PLIMSOLL_DTYPE(...)
#define PLIMSOLL_NARROW_DTYPE(name, text, bits, kind) \
  case DType::name:                                   \
    return bits;
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
    default:
      return 8 * dtype_bytes(dtype);
  }
}

bool is_narrow(DType dtype) {
  switch (dtype) {
#define PLIMSOLL_DTYPE(...)
#define PLIMSOLL_NARROW_DTYPE(name, text, bits, kind) case DType::name:
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
    return true;
    default:
      return false;
  }
}

DTypeClass dtype_class(DType dtype) {
  switch (dtype) {
#define PLIMSOLL_DTYPE(name, text, type, bytes, kind) \
  case DType::name:                                   \
    return DTypeClass::kind;
#define PLIMSOLL_COMPLEX_DTYPE(name, text, part, bytes) \
  case DType::name:                                     \
    return DTypeClass::complex;
#define PLIMSOLL_NARROW_DTYPE(name, text, bits, kind) \
  case DType::name:                                   \
    return DTypeClass::kind;
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
  }
  return DTypeClass::pred;
}

DType part_dtype(DType dtype) {
  switch (dtype) {
#define PLIMSOLL_DTYPE(...)
#define PLIMSOLL_COMPLEX_DTYPE(name, text, part, bytes) \
  case DType::name:                                     \
    return DType::part;
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
    default:
      return dtype;
  }
}

bool operator==(const Dims& a, const Dims& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

Shape Shape::tuple(std::vector<Shape> elements) {
  Shape shape;
  shape.kind_ = ShapeKind::tuple;
  shape.elements_ = std::move(elements);
  return shape;
}

Shape Shape::token() {
  Shape shape;
  shape.kind_ = ShapeKind::token;
  return shape;
}

Shape Shape::opaque() {
  Shape shape;
  shape.kind_ = ShapeKind::opaque;
  return shape;
}

std::int64_t Shape::element_count() const {
  std::int64_t count = 1;
  for (std::int64_t d : dims_) count *= d;
  return count;
}

std::int64_t Shape::byte_size() const {
  switch (kind_) {
    case ShapeKind::array:
      return (element_count() * dtype_bits(dtype_) + 7) / 8;
    case ShapeKind::tuple: {
      std::int64_t total = 0;
      for (const Shape& element : elements_) total += element.byte_size();
      return total;
    }
    case ShapeKind::token:
    case ShapeKind::opaque:
      return 0;
  }
  return 0;
}

std::string Shape::to_string(bool with_layout) const {
  if (kind_ == ShapeKind::token) return "token[]";
  if (kind_ == ShapeKind::opaque) return "opaque[]";
  std::string text;
  if (kind_ == ShapeKind::tuple) {
    text = "(";
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      if (i > 0) text += ", ";
      text += elements_[i].to_string(with_layout);
    }
    return text + ")";
  }
  text = ir::to_string(dtype_);
  text += "[";
  for (int i = 0; i < rank(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(dims_[i]);
  }
  text += "]";
  if (with_layout && layout_ != nullptr) {
    text += "{";
    for (std::size_t i = 0; i < layout_->minor_to_major.size(); ++i) {
      if (i > 0) text += ",";
      text += std::to_string(layout_->minor_to_major[i]);
    }
    if (!layout_->tiling.empty() || layout_->memory_space != 0) text += ":" + layout_->tiling;
    if (layout_->memory_space != 0) text += fmt::format("S({})", layout_->memory_space);
    text += "}";
  }
  return text;
}

bool operator==(const Shape& a, const Shape& b) {
  if (a.kind_ != b.kind_) return false;
  if (a.kind_ == ShapeKind::array) return a.dtype_ == b.dtype_ && a.dims_ == b.dims_;
  return a.elements_ == b.elements_;
}

namespace {

void append_leaves(const Shape& shape, std::vector<const Shape*>& out) {
  if (!shape.is_tuple()) {
    out.push_back(&shape);
    return;
  }
  for (const Shape& element : shape.elements()) append_leaves(element, out);
}

}  // namespace

std::vector<const Shape*> leaves(const Shape& shape) {
  std::vector<const Shape*> out;
  append_leaves(shape, out);
  return out;
}

const Shape& first_leaf(const Shape& shape) { return shape.is_tuple() ? *leaves(shape)[0] : shape; }

int leaf_count(const Shape& shape) {
  if (!shape.is_tuple()) return 1;
  int count = 0;
  for (const Shape& element : shape.elements()) count += leaf_count(element);
  return count;
}

int leaf_offset(const Shape& shape, int index) {
  int offset = 0;
  for (int i = 0; i < index; ++i) offset += leaf_count(shape.elements()[at(i)]);
  return offset;
}

bool is_row_major(const Shape& shape) {
  if (shape.layout() == nullptr) return true;
  const std::vector<std::int64_t>& order = shape.layout()->minor_to_major;
  return std::is_sorted(order.rbegin(), order.rend());
}

Dims row_major_strides(const Dims& dims) {
  Dims strides = dims;
  std::int64_t stride = 1;
  for (int i = dims.size() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

bool fits_address_space(DType dtype, const Dims& dims) {
  std::int64_t bytes = dtype_bytes(dtype);
  for (std::int64_t d : dims) {
    if (d < 0 || __builtin_mul_overflow(bytes, std::max<std::int64_t>(d, 1), &bytes)) return false;
  }
  return bytes <= (std::int64_t{1} << 56);
}

}  // namespace plimsoll::ir
