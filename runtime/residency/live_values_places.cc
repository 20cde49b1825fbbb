// SPDX-License-Identifier: Apache-2.0
// Where LiveValues keeps copies of what it evicts, and at what price.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/program/machine.h"
#include "runtime/residency/live_values.h"

namespace plimsoll::trace {

using memory::StorageId;

planner::Machine LiveValues::free_machine() const {
  planner::Machine machine = executor::machine_of(budget_->tiers());
  for (const MemorySpace tier : kTiers) {
    const Place& place = place_at(place_on(tier));
    if (place.tier == nullptr || place.used_bytes == 0) continue;
    // Room for no value, but a tier still.
    machine[tier].bytes = std::max<std::int64_t>(1, machine[tier].bytes - place.used_bytes);
  }
  return machine;
}

void LiveValues::reserve(const planner::Plan& plan) {
  for (const MemorySpace tier : kTiers) {
    Place& place = place_at(place_on(tier));
    place.reserved_bytes = std::max(place.reserved_bytes, plan.tier_bytes[tier]);
  }
}

// Of the value as it may be kept now: what nothing can recompute keeps its bits.
const EncodedForm* LiveValues::form_of(StorageId id) const {
  if (!planning_.remedies.compress || at(id) >= entries_.size()) {
    return nullptr;
  }
  const auto& value = entries_[at(id)].value;
  const EncodedForm* form = value == nullptr ? nullptr : value->form.get();
  const bool allowed =
      form != nullptr && (form->codec.lossless() || !lineage_.tensor(id).is_source);
  return allowed ? form : nullptr;
}

LiveValues::StorePrice LiveValues::price_at(std::int8_t where, StorageId id,
                                            std::int64_t bytes) const {
  const Place& place = places_[at(where)];
  if (place.pause > 0) return {};
  if (where == kEncoded) {
    const EncodedForm* form = form_of(id);
    // It is made while the value is there.
    if (form == nullptr || lineage_.used_bytes() + form->bytes > evictor_.limit()) return {};
    return {form->encode_seconds, form->decode_seconds, form->bytes};
  }
  if (place.tier == nullptr) return {};
  const std::int64_t taken = place.used_bytes + place.reserved_bytes;
  if (bytes > place.tier->statistics().limit_bytes - taken) return {};
  const auto size = static_cast<double>(bytes);
  return {place.speed.latency_seconds + size / place.speed.out_bytes_per_second,
          place.speed.latency_seconds + size / place.speed.in_bytes_per_second};
}

ir::Hint LiveValues::hint_of(StorageId id) const {
  const bool known = at(id) < entries_.size() && entries_[at(id)].value != nullptr;
  return known ? entries_[at(id)].value->hint : ir::Hint::none;
}

LiveValues::Wish LiveValues::wish(StorageId id) const {
  switch (hint_of(id)) {
    case ir::Hint::none:
      break;
    case ir::Hint::keep:
      return Wish::keep;
    case ir::Hint::recompute:
      return Wish::recompute;
    case ir::Hint::compress:
    case ir::Hint::swap:
      return Wish::copy;
  }
  return Wish::none;
}

// The cheapest per byte that is free then, of those that its user asks for if there are such.
//
// Example: 16 MB; the host takes 3 ms both ways, an encoding to a quarter 2 ms. Per byte freed: the
// host 3 / 16 = 0.19 ms per MB, the encoding 2 / 12 = 0.17. The value is encoded.
std::int8_t LiveValues::place_for(StorageId id, std::int64_t bytes) const {
  const ir::Hint hint = hint_of(id);
  if (hint == ir::Hint::compress && std::isfinite(price_at(kEncoded, id, bytes).store_seconds)) {
    return kEncoded;
  }
  std::int8_t best = kNowhere;
  double least = std::numeric_limits<double>::infinity();
  for (std::int8_t place = 0; place < static_cast<std::int8_t>(places_.size()); ++place) {
    if (place == kEncoded && hint == ir::Hint::swap && best != kNowhere) continue;
    const StorePrice price = price_at(place, id, bytes);
    const double cost =
        (price.store_seconds + price.load_seconds) / static_cast<double>(bytes - price.kept_bytes);
    if (!(cost < least)) continue;
    least = cost;
    best = place;
  }
  return best;
}

LiveValues::StorePrice LiveValues::store_price(StorageId id, std::int64_t bytes) const {
  const std::int8_t place = place_for(id, bytes);
  return place == kNowhere ? StorePrice() : price_at(place, id, bytes);
}

double LiveValues::load_seconds(StorageId id) const {
  const Entry& of = entries_[at(id)];
  if (of.place == kEncoded) return of.value->form->decode_seconds;
  const memory::LinkSpeed& speed = places_[at(of.place)].speed;
  return speed.latency_seconds + static_cast<double>(of.value->bytes) / speed.in_bytes_per_second;
}

void LiveValues::book_copy(Entry& of, std::int8_t place, std::int64_t saved_bytes) {
  of.place = place;
  of.store = 0;
  of.saved_bytes = saved_bytes;
  place_at(place).used_bytes += of.value->bytes - saved_bytes;
}

void LiveValues::unbook_copy(Entry& of) {
  if (of.place == kNowhere) return;
  place_at(of.place).used_bytes -= of.value->bytes - of.saved_bytes;
  of.place = kNowhere;
  of.store = 0;
  of.saved_bytes = 0;
}

void LiveValues::credit_savings() {
  if (worker_ == nullptr) return;
  for (const Saving& saving : worker_->take_savings()) {
    const auto value = saving.value.lock();
    if (value == nullptr || value->tensor < 0) continue;
    Entry& of = entry(value->tensor);
    if (of.value != value || of.place == kNowhere || of.store != saving.number) continue;
    of.saved_bytes = saving.bytes;
    place_at(of.place).used_bytes -= saving.bytes;
  }
}

void LiveValues::store(StorageId id) {
  Entry& of = entry(id);
  book_copy(of, place_for(id, of.value->bytes), 0);
  if (of.place == kEncoded) return encode(of.value);
  of.store = ++stores_;
  submit([&](Worker& worker) {
    return worker.store(of.value, *place_at(of.place).tier, planning_.remedies.compress, of.store);
  });
}

void LiveValues::encode(const std::shared_ptr<Value>& value) {
  const EncodedForm& form = *value->form;
  ir::Codec codec = form.codec;
  // Each time other roundings, the same ones in each run.
  codec.seed = static_cast<std::uint64_t>(evictor_.statistics().stores);
  submit([&](Worker& worker) -> Status {
    PLIMSOLL_ASSIGN_OR_RETURN(auto kernels, form.provider->codec(codec, form.shape));
    return worker.encode(value, form.bytes, std::move(kernels));
  });
}

void LiveValues::load(StorageId id) {
  Entry& of = entry(id);
  const std::int8_t place = of.place;
  of.there = true;
  unbook_copy(of);
  submit([&](Worker& worker) {
    return place == kEncoded ? worker.decode(of.value)
                             : worker.load(of.value, *place_at(place).tier);
  });
}

void LiveValues::discard_copy(StorageId id) {
  Entry& of = entry(id);
  if (of.place == kNowhere) return;
  unbook_copy(of);
  submit([&](Worker& worker) { return worker.discard_copy(of.value); });
}

}  // namespace plimsoll::trace
