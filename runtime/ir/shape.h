// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/dtype.h"

namespace plimsoll::ir {

// Highest rank of an array; the reader refuses more.
inline constexpr int kMaxRank = 10;

// Dimension sizes, major to minor; a fixed-capacity vector, so that shapes of arrays need no heap.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) : Dims(values.begin(), values.end()) {}
  Dims(const std::vector<std::int64_t>& values) : Dims(values.begin(), values.end()) {}
  Dims(std::span<const std::int64_t> values) : Dims(values.begin(), values.end()) {}
  template <typename It>
  Dims(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t& operator[](int i) { return values_[at(i)]; }
  std::int64_t operator[](int i) const { return values_[at(i)]; }
  std::int64_t* begin() { return values_.data(); }
  std::int64_t* end() { return values_.data() + size_; }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + size_; }
  // Precondition: size() < kMaxRank.
  void push_back(std::int64_t value) { values_[at(size_++)] = value; }
  operator std::span<const std::int64_t>() const { return {begin(), end()}; }
  std::vector<std::int64_t> to_vector() const { return {begin(), end()}; }
  friend bool operator==(const Dims& a, const Dims& b);

 private:
  std::array<std::int64_t, kMaxRank> values_{};
  std::int32_t size_ = 0;
};

// A layout annotation. Buffers are always dense and row-major here; the annotation is kept for
// round trips, gives `bitcast` its meaning, and names the memory space.
struct Layout {
  std::vector<std::int64_t> minor_to_major;
  std::string tiling;    // what stands between ':' and 'S(n)', verbatim
  int memory_space = 0;  // S(n)
  friend bool operator==(const Layout&, const Layout&) = default;
};

enum class ShapeKind : std::uint8_t { array, tuple, token, opaque };

// The static type of a value: an array of a dtype, a tuple of shapes, or a token. A value type.
class Shape {
 public:
  Shape() = default;  // f32[]
  Shape(DType dtype, Dims dims) : dtype_(dtype), dims_(dims) {}
  static Shape tuple(std::vector<Shape> elements);
  static Shape token();
  static Shape opaque();

  ShapeKind kind() const { return kind_; }
  bool is_array() const { return kind_ == ShapeKind::array; }
  bool is_tuple() const { return kind_ == ShapeKind::tuple; }
  bool is_token() const { return kind_ == ShapeKind::token; }
  bool is_scalar() const { return is_array() && dims_.empty(); }

  // Arrays only.
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int rank() const { return dims_.size(); }
  std::int64_t dim(int i) const { return dims_[i]; }
  std::int64_t element_count() const;
  // Null when the layout is the default (row-major, memory space 0).
  const Layout* layout() const { return layout_.get(); }
  void set_layout(std::shared_ptr<const Layout> layout) { layout_ = std::move(layout); }

  // Tuples only.
  const std::vector<Shape>& elements() const { return elements_; }

  // Bytes of the dense row-major array (packed); for a tuple the sum of its leaves; 0 for a token.
  std::int64_t byte_size() const;

  // HLO text, e.g. `f32[2,3]{1,0}` (layout only when `with_layout`), `(f32[], s32[4])`, `token[]`.
  std::string to_string(bool with_layout = false) const;

  // Equal kind, dtype, dims and elements; layouts are not compared.
  friend bool operator==(const Shape& a, const Shape& b);

 private:
  ShapeKind kind_ = ShapeKind::array;
  DType dtype_ = DType::f32;
  Dims dims_;
  std::shared_ptr<const Layout> layout_;
  std::vector<Shape> elements_;
};

// The array (and token) leaves of a shape in depth-first order; an array is its own single leaf.
// Everything downstream (plans, executors, the C ABI) numbers the parts of a tuple by this order.
std::vector<const Shape*> leaves(const Shape& shape);
// Precondition: there is one.
const Shape& first_leaf(const Shape& shape);
int leaf_count(const Shape& shape);
// Number of the first leaf of element `index` of the tuple `shape`.
int leaf_offset(const Shape& shape, int index);

// Whether the last dimension is the minor one, the one before it the next, and so on: as where no
// layout is given.
bool is_row_major(const Shape& shape);

// Row-major strides in elements.
Dims row_major_strides(const Dims& dims);

// True when every dim is >= 0, and all but those of zero times the element size are at most 2^56.
bool fits_address_space(DType dtype, const Dims& dims);

}  // namespace plimsoll::ir
