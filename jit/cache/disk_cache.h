// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "jit/jit.h"
#include "runtime/base/cache_folder.h"

namespace plimsoll::jit {

// Files of a folder.
struct FolderSize {
  std::int64_t entries = 0, bytes = 0;

  FolderSize& operator+=(const FolderSize& more) {
    entries += more.entries;
    bytes += more.bytes;
    return *this;
  }
};

// Compiled kernels in a folder, one file each, for later processes. Any number of processes may use
// one folder; a file is replaced as a whole. Whatever is wrong with the folder or a file, the
// answer is that nothing is kept, with one warning per object for a folder that can't be used.
// Thread-safe.
//
// How much there is stands in a file of counters, so that a process that keeps a kernel need not
// list the folder: it is listed where that is not known, where it is too much, and by one store in
// 256, as processes that end early tell nobody what they kept. The limits are held in the long run,
// and not at every moment.
class DiskCache {
 public:
  // `identity`: what kernels depend on beside their own text: the target, LLVM, our generator.
  DiskCache(const DiskCacheOptions& options, std::string identity);
  // Adds what was counted to the folder's own counters, as far as that has not been done.
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  // The text of the kernel that was stored under `key`, and under this identity (cache_entry.h).
  std::optional<std::string> find(const std::string& key);
  // Keeps a kernel; those not used for the longest time go when the folder becomes too large.
  void store(const std::string& key, std::string_view kernel);

 private:
  std::string full_key(const std::string& key) const { return identity_ + '\n' + key; }
  void give_up(const Status& why);
  bool is_too_much(const FolderSize& size) const;
  void save_counters();
  void evict();

  const DiskCacheOptions options_;
  const std::string identity_;
  std::mutex mutex_;
  std::optional<CacheFolder> folder_;  // empty: nothing is kept
  bool writable_ = false;
  std::optional<FolderSize> size_;  // of the folder, as far as is known; empty: nothing is
  // What the folder's counters have not been told yet.
  FolderSize stored_;
  DiskCacheCounters counters_;
};

}  // namespace plimsoll::jit
