// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/budget/budget.h"

#include <fmt/core.h>
#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/base/alignment.h"
#include "runtime/base/index.h"
#include "runtime/memory/budget/admission.h"

namespace plimsoll::memory {
namespace {

constexpr std::int64_t kSmallestCachedBlock = std::int64_t{256} << 10;
constexpr std::size_t kMostCachedBlocks = 4;

}  // namespace

std::string_view to_string(Tag tag) {
  switch (tag) {
    case Tag::parameters:
      return "parameters";
    case Tag::constants:
      return "constants";
    case Tag::outputs:
      return "outputs";
    case Tag::arena:
      return "arena";
    case Tag::staging:
      return "staging";
  }
  return "?";
}

std::string_view to_string(Use use) {
  switch (use) {
    case Use::parameters:
      return "parameters";
    case Use::activations:
      return "activations";
    case Use::workspaces:
      return "workspaces";
    case Use::encoded:
      return "encoded";
    case Use::staging:
      return "staging";
    case Use::constants:
      return "constants";
  }
  return "?";
}

Allocation::Allocation(Allocation&& other) noexcept { *this = std::move(other); }

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  budget_ = std::move(other.budget_);
  drawn_from_ = std::move(other.drawn_from_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  tag_ = other.tag_;
  parts_ = other.parts_;
  key_ = other.key_;
  holds_content_ = other.holds_content_;
  keep_ = other.keep_;
  is_callers_ = other.is_callers_;
  return *this;
}

Allocation::~Allocation() { give_back(); }

void Allocation::give_back() {
  if (budget_ == nullptr) return;
  const bool more = budget_->release(*this);
  if (more) budget_->admission().availability_changed();
}

void Allocation::retag(Tag tag) {
  if (budget_ == nullptr || tag == tag_) return;
  const std::lock_guard lock(budget_->mutex_);
  budget_->count(bytes_, tag_, parts_, -1);
  budget_->count(bytes_, tag, parts_, 1);
  tag_ = tag;
}

Reservation::Reservation(std::shared_ptr<Budget> budget)
    : budget_(std::move(budget)), state_(std::make_shared<State>()) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  close();
  budget_ = std::move(other.budget_);
  state_ = std::move(other.state_);
  return *this;
}

Result<Allocation> Reservation::allocate(std::int64_t bytes, Tag tag, std::string_view what,
                                         const ArenaParts& parts, ContentKey key) {
  return budget_->allocate(bytes, tag, what, parts, key, state_);
}

Result<Allocation> Reservation::book(void* data, std::int64_t bytes, Tag tag,
                                     std::string_view what) {
  return budget_->allocate(bytes, tag, what, {}, nullptr, state_, data);
}

void Reservation::close() {
  if (state_ == nullptr) return;
  const std::shared_ptr<State> state = std::move(state_);
  const std::shared_ptr<Budget> budget = std::move(budget_);
  budget->close(*state);
  budget->admission().availability_changed();
}

std::shared_ptr<Budget> Budget::create(std::shared_ptr<device::Device> device,
                                       std::int64_t limit_bytes, Tiers tiers) {
  return std::shared_ptr<Budget>(new Budget(std::move(device), limit_bytes, std::move(tiers)));
}

Budget::Budget(std::shared_ptr<device::Device> device, std::int64_t limit_bytes, Tiers tiers)
    : device_(std::move(device)),
      tiers_(std::move(tiers)),
      admission_(std::make_unique<Admission>(*this)) {
  statistics_.limit_bytes = limit_bytes;
}

// Also what has no bytes, which trim does not look at.
Budget::~Budget() {
  while (!cached_.empty()) drop_oldest(cached_);
  while (!kept_.empty()) drop_oldest(kept_);
}

void Budget::drop_oldest(std::vector<Block>& blocks) {
  const Block block = blocks.front();
  blocks.erase(blocks.begin());
  statistics_.cached_bytes -= block.bytes;
  device_->deallocate(block.data, block.bytes);
}

void Budget::trim(std::int64_t bytes_wanted) {
  const std::int64_t least = statistics_.cached_bytes - bytes_wanted;
  while (statistics_.cached_bytes > least && !cached_.empty()) drop_oldest(cached_);
  while (statistics_.cached_bytes > least && !kept_.empty()) drop_oldest(kept_);
}

void Budget::forget(ContentKey key) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const Block& block) { return block.key == key; });
  if (found == kept_.end()) return;
  statistics_.cached_bytes -= found->bytes;
  device_->deallocate(found->data, found->bytes);
  kept_.erase(found);
}

std::int64_t Budget::allowed_bytes() const {
  constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  if (statistics_.limit_bytes == kNoLimit) return kNoLimit;
  return statistics_.limit_bytes - device_->overhead_bytes();
}

Status Budget::refusal(std::int64_t bytes, std::string_view what) const {
  const std::int64_t taken = statistics_.used_bytes + statistics_.reserved_bytes;
  std::string message = fmt::format("allocating {} bytes for {}: {} of {} bytes are in use", bytes,
                                    what, statistics_.used_bytes, statistics_.limit_bytes);
  if (statistics_.reserved_bytes > 0) {
    message += fmt::format(", {} reserved by runs", statistics_.reserved_bytes);
  }
  const std::int64_t overhead = device_->overhead_bytes();
  if (overhead > 0) message += fmt::format(", {} taken by code and libraries", overhead);
  return Status::resource_exhausted(
      message + " (raise the memory limit or release tensors)",
      {statistics_.limit_bytes, taken + bytes + overhead, std::string(what)});
}

// Giving pages back to the system and getting them again costs a page fault and zeroing for each,
// which is more than most kernels take. So a few large blocks are kept for the next allocation of
// exactly that size, which a program that runs again and again always finds. They never count
// against anybody: whoever needs room gets theirs (trim), and used + cached stays within the limit,
// so that the process does not outgrow it either.
Result<void*> Budget::take_block(std::int64_t bytes, ContentKey key, bool& holds_content) {
  if (key != nullptr) {
    const auto kept = std::find_if(kept_.begin(), kept_.end(),
                                   [&](const Block& block) { return block.key == key; });
    holds_content = kept != kept_.end() && kept->bytes == bytes;
    if (holds_content) {
      void* const data = kept->data;
      kept_.erase(kept);
      statistics_.cached_bytes -= bytes;
      return data;
    }
  }
  const auto cached = std::find_if(cached_.rbegin(), cached_.rend(),
                                   [&](const Block& block) { return block.bytes == bytes; });
  if (cached != cached_.rend()) {
    void* data = cached->data;
    cached_.erase(std::next(cached).base());
    statistics_.cached_bytes -= bytes;
    return data;
  }
  trim(bytes - (allowed_bytes() - statistics_.used_bytes - statistics_.cached_bytes));
  auto allocated = device_->allocate(bytes);
  if (!allocated.ok()) {
    trim(statistics_.cached_bytes);
    allocated = device_->allocate(bytes);
  }
  return allocated;
}

Result<Allocation> Budget::allocate(std::int64_t bytes, Tag tag, std::string_view what,
                                    const ArenaParts& parts, ContentKey key) {
  return allocate(bytes, tag, what, parts, key, nullptr);
}

void Budget::count(std::int64_t bytes, Tag tag, const ArenaParts& parts, int sign) {
  statistics_.used_by_tag[at(tag)] += sign * bytes;
  const auto add = [&](Use use, std::int64_t part) {
    statistics_.used_by_use[at(use)] += sign * part;
  };
  switch (tag) {
    case Tag::parameters:
      return add(Use::parameters, bytes);
    case Tag::constants:
      return add(Use::constants, bytes);
    case Tag::outputs:
      return add(Use::activations, bytes);
    case Tag::staging:
      return add(Use::staging, bytes);
    case Tag::arena:
      break;
  }
  add(Use::workspaces, parts.workspaces);
  add(Use::encoded, parts.encoded);
  add(Use::staging, parts.staging);
  add(Use::activations, bytes - parts.workspaces - parts.encoded - parts.staging);
}

Result<Allocation> Budget::allocate(std::int64_t bytes, Tag tag, std::string_view what,
                                    const ArenaParts& parts, ContentKey key,
                                    const std::shared_ptr<Reservation::State>& from,
                                    void* callers) {
  const std::int64_t rounded = aligned_bytes(bytes);
  const std::lock_guard lock(mutex_);
  if (fail_in_ > 0 && --fail_in_ == 0) {
    return Status::resource_exhausted(
        fmt::format("allocating {} bytes for {}: failure injected by the test hook", rounded, what),
        {statistics_.limit_bytes, 0, std::string(what)});
  }
  if (from != nullptr && rounded > from->left) {
    return internal_error(fmt::format("allocating {} bytes for {}: the run has {} reserved",
                                      rounded, what, from->left));
  }
  if (from == nullptr &&
      rounded > allowed_bytes() - statistics_.used_bytes - statistics_.reserved_bytes) {
    return refusal(rounded, what);
  }
  bool holds_content = false;
  const Result<void*> data =
      callers != nullptr ? Result<void*>(callers) : take_block(rounded, key, holds_content);
  if (!data.ok()) return data.status().with_context(what);
  if (from != nullptr) {
    from->left -= rounded;
    statistics_.reserved_bytes -= rounded;
  }
  statistics_.used_bytes += rounded;
  count(rounded, tag, parts, 1);
  ++statistics_.allocations;
  if (statistics_.used_bytes > statistics_.peak_bytes) {
    statistics_.peak_bytes = statistics_.used_bytes;
    statistics_.peak_by_tag = statistics_.used_by_tag;
    statistics_.peak_by_use = statistics_.used_by_use;
  }
  Allocation allocation;
  allocation.budget_ = shared_from_this();
  allocation.drawn_from_ = from;
  allocation.data_ = data.value();
  allocation.bytes_ = rounded;
  allocation.tag_ = tag;
  allocation.parts_ = parts;
  allocation.key_ = key;
  allocation.holds_content_ = holds_content;
  allocation.is_callers_ = callers != nullptr;
  return allocation;
}

// Bytes of a reservation go back to it while its run goes on: the plan has promised to need them
// again.
//
// Example: a limit of 100, a run that has reserved 60 and taken 40 of it. Others see 100 - 40 - 20
// = 40 available, now and after it has given back 30: 10 are used, 50 reserved. When the run is
// over, the reservation closes and 90 are there.
bool Budget::release(const Allocation& allocation) {
  void* const data = allocation.data_;
  const std::int64_t bytes = allocation.bytes_;
  Reservation::State* const drawn_from = allocation.drawn_from_.get();
  const std::lock_guard lock(mutex_);
  statistics_.used_bytes -= bytes;
  count(bytes, allocation.tag_, allocation.parts_, -1);
  const bool stays_reserved = drawn_from != nullptr && drawn_from->open;
  if (stays_reserved) {
    drawn_from->left += bytes;
    statistics_.reserved_bytes += bytes;
  }
  if (allocation.is_callers_) return !stays_reserved;
  // Above the limit (it was lowered) nothing is kept.
  const bool has_room =
      statistics_.used_bytes + statistics_.cached_bytes + bytes <= allowed_bytes();
  const bool is_kept = allocation.keep_ && allocation.key_ != nullptr && has_room &&
                       std::none_of(kept_.begin(), kept_.end(), [&](const Block& block) {
                         return block.key == allocation.key_;
                       });
  if (is_kept) {
    kept_.push_back({data, bytes, allocation.key_});
    statistics_.cached_bytes += bytes;
    return !stays_reserved;
  }
  if (!has_room || bytes < kSmallestCachedBlock) {
    device_->deallocate(data, bytes);
    return !stays_reserved;
  }
  if (cached_.size() == kMostCachedBlocks) trim(1);
  cached_.push_back({data, bytes});
  statistics_.cached_bytes += bytes;
  return !stays_reserved;
}

bool Budget::reserve(std::int64_t bytes, Reservation& into) noexcept {
  const std::lock_guard lock(mutex_);
  // Nothing is always there, also where the limit was lowered below what is in use.
  if (bytes > 0 && bytes > allowed_bytes() - statistics_.used_bytes - statistics_.reserved_bytes) {
    return false;
  }
  *into.state_ = {bytes, bytes, true};
  statistics_.reserved_bytes += bytes;
  open_bytes_ += bytes;
  return true;
}

void Budget::close(Reservation::State& reservation) {
  const std::lock_guard lock(mutex_);
  if (!reservation.open) return;
  reservation.open = false;
  statistics_.reserved_bytes -= reservation.left;
  open_bytes_ -= reservation.bytes;
}

Statistics Budget::statistics() const {
  const std::lock_guard lock(mutex_);
  Statistics now = statistics_;
  now.overhead_bytes = device_->overhead_bytes();
  return now;
}

void Budget::count_remedies(std::int64_t recomputed_bytes, std::int64_t encoded_bytes) {
  if (recomputed_bytes == 0 && encoded_bytes == 0) return;
  const std::lock_guard lock(mutex_);
  statistics_.recomputed_bytes += recomputed_bytes;
  statistics_.encoded_bytes += encoded_bytes;
}

void Budget::reset_peak() {
  const std::lock_guard lock(mutex_);
  statistics_.peak_bytes = statistics_.used_bytes;
  statistics_.peak_by_tag = statistics_.used_by_tag;
  statistics_.peak_by_use = statistics_.used_by_use;
}

void Budget::set_limit(std::int64_t limit_bytes) {
  {
    const std::lock_guard lock(mutex_);
    statistics_.limit_bytes = limit_bytes;
    trim(statistics_.used_bytes + statistics_.cached_bytes - allowed_bytes());
  }
  admission_->availability_changed();
}

std::int64_t Budget::limit() const {
  const std::lock_guard lock(mutex_);
  return allowed_bytes();
}

std::int64_t Budget::available() const {
  const std::lock_guard lock(mutex_);
  return std::max<std::int64_t>(
      0, allowed_bytes() - statistics_.used_bytes - statistics_.reserved_bytes);
}

std::int64_t Budget::available_when_idle() const {
  const std::lock_guard lock(mutex_);
  const std::int64_t taken = statistics_.used_bytes + statistics_.reserved_bytes;
  return allowed_bytes() - (taken - open_bytes_);
}

std::int64_t Budget::fail_allocation(std::int64_t n) {
  const std::lock_guard lock(mutex_);
  return std::exchange(fail_in_, n);
}

}  // namespace plimsoll::memory
