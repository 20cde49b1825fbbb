// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/literal.h"

#include <cstring>
#include <utility>

#include "runtime/ir/narrow.h"

namespace plimsoll::ir {

Literal::Literal(const Shape& shape) : shape_(shape) {
  if (shape.is_array()) {
    data_ = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(shape.byte_size()));
  } else if (shape.is_tuple()) {
    for (const Shape& element : shape.elements()) elements_.emplace_back(element);
  }
}

Literal Literal::from_bytes(const Shape& shape, std::span<const std::byte> bytes) {
  Literal literal;
  literal.shape_ = shape;
  literal.data_ = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  literal.data_->resize(static_cast<std::size_t>(shape.byte_size()));
  return literal;
}

Literal Literal::borrowed(const Shape& shape, std::shared_ptr<const void> owner,
                          std::span<const std::byte> bytes) {
  Literal literal;
  literal.shape_ = shape;
  literal.owner_ = std::move(owner);
  literal.borrowed_ = bytes;
  return literal;
}

Literal Literal::tuple(std::vector<Literal> elements) {
  std::vector<Shape> shapes;
  for (const Literal& element : elements) shapes.push_back(element.shape());
  Literal literal;
  literal.shape_ = Shape::tuple(std::move(shapes));
  literal.elements_ = std::move(elements);
  return literal;
}

Literal Literal::elided(const Shape& shape) {
  Literal literal;
  literal.shape_ = shape;
  literal.elided_ = true;
  return literal;
}

std::span<const std::byte> Literal::bytes() const {
  static const std::byte zero[8] = {};
  if (owner_ != nullptr) return borrowed_;
  if (data_ == nullptr) return elided_ ? std::span<const std::byte>() : std::span(zero, 4);
  return *data_;
}

std::span<std::byte> Literal::mutable_bytes() {
  if (owner_ != nullptr) {
    data_ = std::make_shared<std::vector<std::byte>>(borrowed_.begin(), borrowed_.end());
    owner_ = nullptr;
    borrowed_ = {};
  } else if (data_ == nullptr) {
    data_ = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(shape_.byte_size()));
    elided_ = false;
  } else if (data_.use_count() > 1) {
    data_ = std::make_shared<std::vector<std::byte>>(*data_);
  }
  return *data_;
}

double Literal::at(std::int64_t index) const {
  if (shape_.dtype() == DType::c64) return data<float>()[2 * index];
  if (shape_.dtype() == DType::c128) return data<double>()[2 * index];
  if (is_narrow(shape_.dtype())) {
    return narrow_number(shape_.dtype(), code_at(shape_.dtype(), bytes(), index));
  }
  return visit_dtype(shape_.dtype(), [&](auto tag) -> double {
    using T = decltype(tag);
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
      return static_cast<float>(data<T>()[index]);
    } else {
      return static_cast<double>(data<T>()[index]);
    }
  });
}

void Literal::set(std::int64_t index, double value) {
  if (shape_.dtype() == DType::c64) {
    mutable_data<float>()[2 * index] = static_cast<float>(value);
    return;
  }
  if (shape_.dtype() == DType::c128) {
    mutable_data<double>()[2 * index] = value;
    return;
  }
  if (is_narrow(shape_.dtype())) {
    set_code_at(shape_.dtype(), mutable_bytes(), index, narrow_code(shape_.dtype(), value));
    return;
  }
  visit_dtype(shape_.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
      mutable_data<T>()[index] = T(static_cast<float>(value));
    } else {
      mutable_data<T>()[index] = static_cast<T>(value);
    }
  });
}

bool Literal::is_splat() const {
  const auto all = bytes();
  if (is_narrow(shape_.dtype())) {
    const std::int64_t count = shape_.element_count();
    if (!shape_.is_array() || count == 0 || is_elided()) return false;
    const std::uint8_t first = code_at(shape_.dtype(), all, 0);
    for (std::int64_t i = 1; i < count; ++i) {
      if (code_at(shape_.dtype(), all, i) != first) return false;
    }
    return true;
  }
  const auto size = static_cast<std::size_t>(dtype_bytes(shape_.dtype()));
  if (!shape_.is_array() || all.size() < size) return false;
  for (std::size_t i = size; i + size <= all.size(); i += size) {
    if (std::memcmp(all.data(), all.data() + i, size) != 0) return false;
  }
  return true;
}

bool operator==(const Literal& a, const Literal& b) {
  if (!(a.shape_ == b.shape_) || a.elided_ != b.elided_) return false;
  if (a.shape_.is_tuple()) return a.elements_ == b.elements_;
  const auto x = a.bytes();
  const auto y = b.bytes();
  return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0);
}

}  // namespace plimsoll::ir
