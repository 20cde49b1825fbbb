// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/ir/shape.h"

namespace plimsoll::ir {

// A value in host memory: a dense row-major array, or a tuple of literals. Value semantics; the
// bytes are shared between copies until one of them asks for mutable access.
class Literal {
 public:
  Literal() = default;                   // f32[] zero
  explicit Literal(const Shape& shape);  // zero-filled; tuples get zero-filled elements
  static Literal from_bytes(const Shape& shape, std::span<const std::byte> bytes);
  // An array whose bytes stay where they are, for as long as `owner` lives, which the literal and
  // its copies share; asking for mutable access copies them. Precondition: `bytes` has the shape's
  // size, and lies as its elements want it.
  static Literal borrowed(const Shape& shape, std::shared_ptr<const void> owner,
                          std::span<const std::byte> bytes);
  // An array whose bytes are made when they are first asked for: `make` fills them, the same ones
  // whenever it is called and on whatever thread, from what it holds. `forget` gives them back.
  static Literal deferred(const Shape& shape, std::function<void(std::span<std::byte>)> make);
  static Literal tuple(std::vector<Literal> elements);
  // An array whose text was `{...}`: it has a shape and no values. Executing it is an error.
  static Literal elided(const Shape& shape);

  template <typename T>
  static Literal scalar(T value) {
    Literal literal(Shape(DTypeOf<T>::value, {}));
    literal.mutable_data<T>()[0] = value;
    return literal;
  }
  template <typename T>
  static Literal array(const Dims& dims, std::span<const T> values) {
    return from_bytes(Shape(DTypeOf<T>::value, dims), std::as_bytes(values));
  }

  const Shape& shape() const { return shape_; }
  bool is_elided() const { return elided_; }
  // Arrays only.
  std::span<const std::byte> bytes() const;
  std::span<std::byte> mutable_bytes();  // copies shared bytes first
  // The same bytes for as long as the result lives, and no longer: those of a deferred array that
  // nobody has asked for are made for it alone.
  std::shared_ptr<const std::byte> held_bytes() const;
  // Copies them; deferred ones that nobody has asked for are made there. Precondition: `to` has as
  // many.
  void copy_to(std::span<std::byte> to) const;
  // The same array; a deferred one for which nobody has asked yet.
  Literal unread() const;
  // This array's bytes as one of that shape, shared. Precondition: it has as many.
  Literal reshaped(const Shape& shape) const;
  // Whether the bytes are borrowed or can be made again, so that keeping this takes no memory.
  bool is_kept_elsewhere() const { return owner_ != nullptr || deferred_ != nullptr; }
  // Gives the bytes of a deferred array and its copies back until they are asked for again.
  // Precondition: nobody holds a span of them.
  void forget() const;
  // The same for arrays that share deferred bytes; null for others.
  const void* deferred_bytes() const { return deferred_.get(); }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes().data());
  }
  template <typename T>
  T* mutable_data() {
    return reinterpret_cast<T*>(mutable_bytes().data());
  }
  // Element `index` (row-major) as a double; exact for all dtypes but 64-bit integers. Of complex
  // elements the real part.
  double at(std::int64_t index) const;
  void set(std::int64_t index, double value);
  // True when every element has the bits of the first one (and there is at least one).
  bool is_splat() const;

  // Tuples only.
  const std::vector<Literal>& elements() const { return elements_; }
  std::vector<Literal>& mutable_elements() { return elements_; }

  // Same shape and the same bits.
  friend bool operator==(const Literal& a, const Literal& b);

 private:
  Shape shape_;
  bool elided_ = false;
  std::shared_ptr<std::vector<std::byte>> data_;
  // Of borrowed bytes, which `data_` has none of.
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> borrowed_;
  class Deferred;
  std::shared_ptr<const Deferred> deferred_;  // of bytes that neither of those has
  std::vector<Literal> elements_;
};

}  // namespace plimsoll::ir
