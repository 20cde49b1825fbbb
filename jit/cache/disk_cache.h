// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "jit/graph/phase.h"
#include "jit/jit.h"
#include "runtime/base/cache_folder.h"

namespace plimsoll::jit {

// Compiled kernels in a folder, one file each, for later processes. Any number of processes may use
// one folder; a file is replaced as a whole. Whatever is wrong with the folder or a file, the
// answer is that nothing is kept, with one warning per object for a folder that can't be used.
// Thread-safe.
class DiskCache {
 public:
  // `identity`: what kernels depend on beside their own text: the target, LLVM, our generator.
  DiskCache(const DiskCacheOptions& options, std::string identity);
  // Adds what was counted to the folder's own counters.
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  // The kernel that was stored under `key`, and under this identity.
  std::optional<KernelObject> find(const std::string& key);
  // Keeps a kernel; those not used for the longest time go when the folder becomes too large.
  void store(const std::string& key, const KernelObject& kernel);

 private:
  std::string full_key(const std::string& key) const { return identity_ + '\n' + key; }
  void give_up(const Status& why);
  void evict();

  const DiskCacheOptions options_;
  const std::string identity_;
  std::mutex mutex_;
  std::optional<CacheFolder> folder_;  // empty: nothing is kept
  bool writable_ = false;
  std::int64_t bytes_ = -1;        // in the folder as far as known; -1: not counted yet
  std::int64_t stored_since_ = 0;  // since they were counted
  DiskCacheCounters counters_;
};

}  // namespace plimsoll::jit
