// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace plimsoll::replayer {

// What every transfer takes beside its bytes.
inline constexpr std::int64_t kTransferLatencyNanoseconds = 10'000;

// Copies of storages to and from host memory. One engine per direction does one transfer at a time,
// in the order in which they are started.
class Link {
 public:
  enum class Way : std::uint8_t { none, out, in };

  // At 0 bytes per second there is no link.
  Link(std::int64_t bytes_per_second, std::size_t storages)
      : bytes_per_second_(bytes_per_second), transfers_(storages) {}

  bool exists() const { return bytes_per_second_ > 0; }
  Way under_way(std::int32_t storage) const { return at(storage).way; }
  // In host memory, since a transfer out that was waited for.
  bool has_copy(std::int32_t storage) const { return at(storage).has_copy; }

  // False where it ends later than can be counted.
  bool start(std::int32_t storage, Way way, std::int64_t bytes, std::int64_t now) {
    std::int64_t& engine = way == Way::out ? out_free_ : in_free_;
    const std::int64_t begin = std::max(now, engine);
    // Part of a nanosecond counts as a whole one.
    const double lasts =
        kTransferLatencyNanoseconds +
        std::ceil(static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_second_));
    if (lasts > static_cast<double>(kMostNanoseconds - begin)) return false;
    engine = begin + static_cast<std::int64_t>(lasts);
    Transfer& transfer = transfers_[static_cast<std::size_t>(storage)];
    transfer.way = way;
    transfer.end = engine;
    return true;
  }

  // The transfer is waited for. Returns when it is over.
  std::int64_t finish(std::int32_t storage) {
    Transfer& transfer = transfers_[static_cast<std::size_t>(storage)];
    if (transfer.way == Way::out) transfer.has_copy = true;
    transfer.way = Way::none;
    return transfer.end;
  }

 private:
  static constexpr std::int64_t kMostNanoseconds = std::numeric_limits<std::int64_t>::max() / 4;

  struct Transfer {
    Way way = Way::none;
    bool has_copy = false;
    std::int64_t end = 0;
  };
  const Transfer& at(std::int32_t storage) const {
    return transfers_[static_cast<std::size_t>(storage)];
  }

  std::int64_t bytes_per_second_;
  std::int64_t out_free_ = 0, in_free_ = 0;  // from when on an engine has nothing to do
  std::vector<Transfer> transfers_;
};

}  // namespace plimsoll::replayer
