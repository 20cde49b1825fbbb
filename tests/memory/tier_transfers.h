// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/memory/spill/spill_file.h"
#include "runtime/memory/tiers/tier.h"

namespace plimsoll::memory {

inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;

using Bytes = std::vector<std::byte>;

inline Bytes random_bytes(std::int64_t count, unsigned seed) {
  Bytes bytes(static_cast<std::size_t>(count));
  std::mt19937 random(seed);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// A folder of the test's own, gone afterwards.
class Folder {
 public:
  Folder() {
    path_ = (std::filesystem::temp_directory_path() / "plimsoll-tier-XXXXXX").string();
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

inline std::shared_ptr<SpillFile> spill_file(const Folder& folder, std::int64_t limit,
                                             const SpillOptions& options = {}) {
  auto file = SpillFile::create(folder.path(), limit, device::cpu_device(), options);
  EXPECT_TRUE(file.ok()) << file.status().to_string();
  return std::move(file).value();
}

inline Status store(Tier& tier, TierBlock& block, std::int64_t offset,
                    std::span<const std::byte> from) {
  const auto bytes = static_cast<std::int64_t>(from.size());
  const auto transfer = tier.out().enqueue(bytes, [&, offset, bytes](device::Stream& stream) {
    return block.store(offset, from.data(), bytes, stream);
  });
  return tier.out().wait(*transfer);
}

inline Status load(Tier& tier, TierBlock& block, std::int64_t offset, std::span<std::byte> to) {
  const auto bytes = static_cast<std::int64_t>(to.size());
  const auto transfer = tier.in().enqueue(bytes, [&, offset, bytes](device::Stream& stream) {
    return block.load(offset, to.data(), bytes, stream);
  });
  return tier.in().wait(*transfer);
}

}  // namespace plimsoll::memory
