// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/spill/spill_file.h"

#include <fmt/core.h>
#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "runtime/memory/spill/file_range.h"

namespace plimsoll::memory {
namespace {

constexpr std::int64_t kMeasuredFileBytes = std::int64_t{16} << 20;

}  // namespace

// A range of the file. Stores and loads come from two threads.
class SpillFile::Block final : public TierBlock {
 public:
  Block(std::shared_ptr<SpillFile> file, std::int64_t begin, std::int64_t bytes)
      : tier_(std::move(file)), begin_(begin), bytes_(bytes) {}
  ~Block() override {
    const std::lock_guard lock(tier_->mutex());
    tier_->give_back(bytes_);
    tier_->release(begin_, bytes_);
  }

  Status store(std::int64_t offset, const void* from, std::int64_t bytes,
               device::Stream& stream) override {
    {
      // A store that fails leaves nothing to load.
      const std::lock_guard lock(mutex_);
      stored_.erase(offset);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const std::uint64_t checksum,
                              store_range(tier_->stores_, begin_ + offset,
                                          static_cast<const std::byte*>(from), bytes, stream));
    if (!tier_->is_direct()) {
      if (tier_->options_.await_disk) PLIMSOLL_RETURN_IF_ERROR(tier_->file_.synchronize());
      tier_->file_.drop_cached(begin_ + offset, bytes);
    }
    const std::lock_guard lock(mutex_);
    stored_[offset] = {bytes, checksum};
    return ok_status();
  }

  // What comes back is compared with a checksum of what was stored, per stored range. A disk that
  // returns other bytes would make wrong gradients, which nobody would notice; here it is an error
  // with its place. It costs a pass over bytes that are in the cache at that moment.
  Status load(std::int64_t offset, void* to, std::int64_t bytes, device::Stream& stream) override {
    Stored stored;
    {
      const std::lock_guard lock(mutex_);
      const auto found = stored_.find(offset);
      if (found == stored_.end() || found->second.bytes != bytes) {
        return internal_error("reading back what was never spilled");
      }
      stored = found->second;
    }
    const NamelessFile& file = tier_->file_;
    PLIMSOLL_ASSIGN_OR_RETURN(
        const std::uint64_t checksum,
        load_range(tier_->loads_, begin_ + offset, static_cast<std::byte*>(to), bytes, stream));
    if (!tier_->is_direct()) file.drop_cached(begin_ + offset, bytes);
    if (checksum != stored.checksum) {
      return data_loss(
          fmt::format("reading back {} bytes at offset {} of the spill file in {}: they have "
                      "changed (the disk or its driver fails)",
                      bytes, begin_ + offset, file.folder()));
    }
    return ok_status();
  }

 private:
  struct Stored {
    std::int64_t bytes = 0;
    std::uint64_t checksum = 0;
  };
  const std::shared_ptr<SpillFile> tier_;
  const std::int64_t begin_, bytes_;
  std::mutex mutex_;
  std::unordered_map<std::int64_t, Stored> stored_;  // by offset
};

Result<std::shared_ptr<SpillFile>> SpillFile::create(const std::string& folder,
                                                     std::int64_t limit_bytes,
                                                     std::shared_ptr<device::Device> device,
                                                     const SpillOptions& options) {
  PLIMSOLL_ASSIGN_OR_RETURN(NamelessFile file, NamelessFile::create(folder, options.direct));
  if (limit_bytes == 0) {
    PLIMSOLL_ASSIGN_OR_RETURN(limit_bytes, file.free_bytes());
  }
  return std::shared_ptr<SpillFile>(
      new SpillFile(std::move(file), limit_bytes, std::move(device), options));
}

SpillFile::SpillFile(NamelessFile file, std::int64_t limit_bytes,
                     std::shared_ptr<device::Device> device, const SpillOptions& options)
    : Tier("the spill file", limit_bytes, device),
      options_(options),
      file_(std::move(file)),
      stores_(make_io(), file_, options.request_bytes, device, staging_bytes()),
      loads_(make_io(), file_, options.request_bytes, device, staging_bytes()) {}

SpillFile::~SpillFile() = default;

std::unique_ptr<FileIo> SpillFile::make_io() {
  auto io = options_.ring ? make_ring_io(file_.descriptor()) : nullptr;
  if (io == nullptr) io = make_blocking_io(file_.descriptor());
  return with_faults(std::move(io), faults_, file_.offset_alignment());
}

// First fit over free ranges in the order of their offsets, joined with their neighbours as they
// come back; the file grows when nothing fits. The disk's bytes are reserved before they are
// promised (NamelessFile::reserve): a plan that has been admitted must not fail on a full disk half
// way.
Result<std::unique_ptr<TierBlock>> SpillFile::allocate_block(std::int64_t bytes) {
  auto self = std::static_pointer_cast<SpillFile>(shared_from_this());
  for (const auto& [offset, size] : free_) {
    if (size < bytes) continue;
    const std::int64_t begin = offset, left = size - bytes;
    free_.erase(begin);
    if (left > 0) free_.emplace(begin + bytes, left);
    return std::unique_ptr<TierBlock>(std::make_unique<Block>(std::move(self), begin, bytes));
  }
  const std::string what = fmt::format("reserving {} bytes of disk in {}", bytes, file_.folder());
  if (bytes > limit_bytes() - end_) {
    return Status::resource_exhausted(
        what + ": no gap in the file is large enough (raise its limit)",
        {limit_bytes(), end_ + bytes, "the spill file"});
  }
  const std::int64_t unit = file_.offset_alignment();
  const std::int64_t needed = (end_ + bytes + unit - 1) / unit * unit;
  if (faults_.is_due(Fault::full_disk)) {
    return Status::resource_exhausted(what + ": failure injected by the test hook",
                                      {end_, needed, "the spill file"});
  }
  PLIMSOLL_RETURN_IF_ERROR(file_.reserve(needed));
  const std::int64_t begin = std::exchange(end_, end_ + bytes);
  return std::unique_ptr<TierBlock>(std::make_unique<Block>(std::move(self), begin, bytes));
}

void SpillFile::release(std::int64_t offset, std::int64_t bytes) {
  if (bytes == 0) return;
  auto [it, inserted] = free_.emplace(offset, bytes);
  const auto next = std::next(it);
  if (next != free_.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it != free_.begin()) {
    const auto before = std::prev(it);
    if (before->first + before->second == it->first) {
      before->second += it->second;
      free_.erase(it);
      it = before;
    }
  }
  if (it->first + it->second == end_) {
    end_ = it->first;
    free_.erase(it);
  }
}

// On a file of its own: this one may be full.
Result<LinkSpeed> SpillFile::measure() {
  SpillOptions options = options_;
  options.await_disk = true;
  const std::int64_t bytes = std::min(kMeasuredFileBytes, limit_bytes());
  PLIMSOLL_ASSIGN_OR_RETURN(const auto scratch, create(file_.folder(), bytes, device(), options));
  return time_transfers(*scratch, *device(), bytes);
}

}  // namespace plimsoll::memory
