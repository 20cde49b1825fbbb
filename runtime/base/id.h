// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/index.h"

namespace plimsoll {

// The number of one thing of a kind, from 0 up; by default that of none. Numbers of different kinds
// can't be mixed up: neither are they compared with each other, nor do they index each other's
// vectors, nor is one made of a plain number unless that is written out. Compiles to an int32_t.
template <typename Tag>
class Id {
  // What `id < 0` and `id >= 0` compare with, as for std::strong_ordering: only the literal 0
  // becomes a null pointer.
  struct Zero {
    consteval Zero(Zero*) noexcept {}
  };

 public:
  constexpr Id() = default;
  constexpr explicit Id(std::integral auto value) : value_(static_cast<std::int32_t>(value)) {}

  constexpr std::int32_t value() const { return value_; }
  // As containers want it. Precondition: not the number of none.
  constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }

  constexpr Id& operator++() { return ++value_, *this; }
  constexpr Id& operator--() { return --value_, *this; }
  constexpr Id& operator+=(std::int32_t steps) { return value_ += steps, *this; }
  constexpr Id& operator-=(std::int32_t steps) { return value_ -= steps, *this; }
  constexpr Id operator++(int) { return Id(value_++); }
  constexpr Id operator--(int) { return Id(value_--); }
  // Ids are numbered in an order: so far behind this one, or before it.
  friend constexpr Id operator+(Id id, std::int32_t steps) { return Id(id.value_ + steps); }
  friend constexpr Id operator-(Id id, std::int32_t steps) { return Id(id.value_ - steps); }
  friend constexpr std::int32_t operator-(Id a, Id b) { return a.value_ - b.value_; }

  friend constexpr bool operator==(Id, Id) = default;
  friend constexpr auto operator<=>(Id, Id) = default;
  // None: below 0.
  friend constexpr bool operator<(Id id, Zero) { return id.value_ < 0; }
  friend constexpr bool operator>=(Id id, Zero) { return id.value_ >= 0; }

 private:
  std::int32_t value_ = -1;
};

template <typename Tag>
constexpr std::size_t at(Id<Tag> id) {
  return id.index();
}

// The ids from `first` up to but not including `end`.
template <typename IdType>
class IdRange {
 public:
  class Iterator {
   public:
    constexpr explicit Iterator(IdType id) : id_(id) {}
    constexpr IdType operator*() const { return id_; }
    constexpr Iterator& operator++() { return ++id_, *this; }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    IdType id_;
  };

  constexpr IdRange(IdType first, IdType end) : first_(first), end_(end) {}
  constexpr Iterator begin() const { return Iterator(first_); }
  constexpr Iterator end() const { return Iterator(end_); }

 private:
  IdType first_, end_;
};

// A vector with one element per thing that `IdType` numbers, which nothing else indexes.
template <typename IdType, typename T>
class IdVector {
 public:
  using value_type = T;

  IdVector() = default;
  explicit IdVector(std::size_t size) : items_(size) {}
  IdVector(std::size_t size, const T& value) : items_(size, value) {}
  IdVector(std::initializer_list<T> items) : items_(items) {}
  explicit IdVector(std::vector<T> items) : items_(std::move(items)) {}

  T& operator[](IdType id) { return items_[id.index()]; }
  const T& operator[](IdType id) const { return items_[id.index()]; }

  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  // All of its ids, by rising number; the first that it does not have yet.
  IdRange<IdType> ids() const { return {IdType(0), end_id()}; }
  IdType end_id() const { return IdType(items_.size()); }

  // Returns the new element's id.
  IdType push_back(T item) {
    items_.push_back(std::move(item));
    return end_id() - 1;
  }
  T& emplace_back() { return items_.emplace_back(); }
  void assign(std::size_t size, const T& value) { items_.assign(size, value); }
  void resize(std::size_t size) { items_.resize(size); }
  void resize(std::size_t size, const T& value) { items_.resize(size, value); }
  void reserve(std::size_t size) { items_.reserve(size); }
  void clear() { items_.clear(); }

  T& front() { return items_.front(); }
  T& back() { return items_.back(); }
  const T& front() const { return items_.front(); }
  const T& back() const { return items_.back(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  // Where elements are numbered by something else of the same order.
  const std::vector<T>& items() const { return items_; }

  bool operator==(const IdVector&) const = default;

 private:
  std::vector<T> items_;
};

// Lists of ids, one per row, stored back to back.
template <typename RowId, typename ItemId>
struct Rows {
  std::vector<std::int32_t> begin{0};  // per row, in items; and where the last one ends
  std::vector<ItemId> items;

  int size() const { return static_cast<int>(begin.size()) - 1; }
  void push(ItemId item) { items.push_back(item); }
  void close() { begin.push_back(static_cast<std::int32_t>(items.size())); }
  void push_row(std::span<const ItemId> row) {
    items.insert(items.end(), row.begin(), row.end());
    close();
  }
  // One more item for the row that was closed last.
  void extend(ItemId item) {
    push(item);
    begin.back() = static_cast<std::int32_t>(items.size());
  }
  std::span<const ItemId> operator[](RowId row) const {
    return {items.data() + begin[row.index()], items.data() + begin[row.index() + 1]};
  }
  IdRange<RowId> ids() const { return {RowId(0), RowId(size())}; }
};

// Per item, the rows that list it, rising.
template <typename RowId, typename ItemId>
Rows<ItemId, RowId> invert(const Rows<RowId, ItemId>& rows, std::size_t item_count) {
  Rows<ItemId, RowId> result;
  std::vector<std::int32_t> fill(item_count + 1, 0);
  for (const ItemId item : rows.items) ++fill[item.index() + 1];
  for (std::size_t i = 0; i < item_count; ++i) fill[i + 1] += fill[i];
  result.begin = fill;
  result.items.resize(rows.items.size());
  for (const RowId row : rows.ids()) {
    for (const ItemId item : rows[row]) {
      result.items[at(fill[item.index()]++)] = row;
    }
  }
  return result;
}

}  // namespace plimsoll

template <typename Tag>
struct std::hash<plimsoll::Id<Tag>> {
  std::size_t operator()(plimsoll::Id<Tag> id) const {
    return std::hash<std::int32_t>()(id.value());
  }
};
