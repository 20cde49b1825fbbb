// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/literal.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/ir/narrow.h"

namespace plimsoll::ir {

class Literal::Deferred {
 public:
  using Make = std::shared_ptr<const std::function<void(std::span<std::byte>)>>;

  Deferred(std::size_t size, Make make) : size_(size), make_(std::move(make)) {}

  std::shared_ptr<const Deferred> unread() const {
    return std::make_shared<const Deferred>(size_, make_);
  }
  void copy_to(std::span<std::byte> to) const {
    std::shared_ptr<const std::byte[]> kept;
    {
      const std::lock_guard lock(mutex_);
      kept = kept_;
    }
    if (kept == nullptr) {
      (*make_)(to);
    } else if (size_ != 0) {
      std::memcpy(to.data(), kept.get(), size_);
    }
  }

  std::span<const std::byte> bytes() const {
    if (const std::byte* made = data_.load(std::memory_order_acquire); made != nullptr) {
      return {made, size_};
    }
    const std::lock_guard lock(mutex_);
    if (kept_ == nullptr) {
      kept_ = make();
      data_.store(kept_.get(), std::memory_order_release);
    }
    return {kept_.get(), size_};
  }
  std::shared_ptr<const std::byte[]> held() const {
    const std::lock_guard lock(mutex_);
    return kept_ != nullptr ? kept_ : make();
  }
  void forget() const {
    const std::lock_guard lock(mutex_);
    data_.store(nullptr, std::memory_order_release);
    kept_ = nullptr;
  }

 private:
  std::shared_ptr<const std::byte[]> make() const {
    std::shared_ptr<std::byte[]> made(new std::byte[std::max<std::size_t>(size_, 1)]);
    (*make_)({made.get(), size_});
    return made;
  }

  const std::size_t size_;
  const Make make_;
  mutable std::atomic<const std::byte*> data_{nullptr};  // of kept_
  mutable std::mutex mutex_;                             // guards kept_
  mutable std::shared_ptr<const std::byte[]> kept_;
};

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

Literal Literal::deferred(const Shape& shape, std::function<void(std::span<std::byte>)> make) {
  Literal literal;
  literal.shape_ = shape;
  literal.deferred_ = std::make_shared<const Deferred>(
      static_cast<std::size_t>(shape.byte_size()),
      std::make_shared<const std::function<void(std::span<std::byte>)>>(std::move(make)));
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
  if (deferred_ != nullptr) return deferred_->bytes();
  if (data_ == nullptr) return elided_ ? std::span<const std::byte>() : std::span(zero, 4);
  return *data_;
}

std::span<std::byte> Literal::mutable_bytes() {
  if (is_kept_elsewhere()) {
    const auto shared = bytes();
    data_ = std::make_shared<std::vector<std::byte>>(shared.begin(), shared.end());
    owner_ = nullptr;
    borrowed_ = {};
    deferred_ = nullptr;
  } else if (data_ == nullptr) {
    data_ = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(shape_.byte_size()));
    elided_ = false;
  } else if (data_.use_count() > 1) {
    data_ = std::make_shared<std::vector<std::byte>>(*data_);
  }
  return *data_;
}

std::shared_ptr<const std::byte> Literal::held_bytes() const {
  if (deferred_ != nullptr) {
    const auto held = deferred_->held();
    return {held, held.get()};
  }
  if (owner_ != nullptr) return {owner_, borrowed_.data()};
  return {data_, bytes().data()};
}

void Literal::copy_to(std::span<std::byte> to) const {
  if (deferred_ != nullptr) return deferred_->copy_to(to);
  const auto from = bytes();
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

Literal Literal::unread() const {
  Literal other = *this;
  if (deferred_ != nullptr) other.deferred_ = deferred_->unread();
  return other;
}

Literal Literal::reshaped(const Shape& shape) const {
  Literal other = *this;
  other.shape_ = shape;
  return other;
}

void Literal::forget() const {
  if (deferred_ != nullptr) deferred_->forget();
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
