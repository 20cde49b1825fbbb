// SPDX-License-Identifier: Apache-2.0
#include "jit/cache/disk_cache.h"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <span>
#include <vector>

#include "jit/cache/cache_entry.h"
#include "runtime/base/log.h"
#include "runtime/base/sha256.h"

namespace plimsoll::jit {
namespace {

constexpr std::string_view kSuffix = ".kernel";
constexpr const char* kCounters = "counters";
constexpr std::size_t kHashDigits = 64;
// How exactly files say when they were used last; a file is touched at most this often.
constexpr double kUseSeconds = 600;
// Writers that live take no longer than this to finish a file.
constexpr double kLeftoverSeconds = 600;
// An entry that takes up more than this share of the limit is not kept.
constexpr std::int64_t kLargestShare = 4;
// Other processes write too: after so many of our own files, the folder is counted again.
constexpr std::int64_t kCountEvery = 256;

std::string file_name(std::string_view key) {
  return sha256(std::as_bytes(std::span(key.data(), key.size()))) + std::string(kSuffix);
}

bool is_entry_name(std::string_view name) {
  return name.size() == kHashDigits + kSuffix.size() && name.ends_with(kSuffix) &&
         name.find_first_not_of("0123456789abcdef") == kHashDigits;
}

struct CounterName {
  const char* name;
  std::int64_t DiskCacheCounters::* counter;
};
constexpr CounterName kCounterNames[] = {{"hits", &DiskCacheCounters::hits},
                                         {"misses", &DiskCacheCounters::misses},
                                         {"stored", &DiskCacheCounters::stored},
                                         {"evicted", &DiskCacheCounters::evicted},
                                         {"damaged", &DiskCacheCounters::damaged}};

// Lines `name number`; what is not understood counts as zero.
DiskCacheCounters read_counters(const CacheFolder& folder) {
  DiskCacheCounters counters;
  const auto text = folder.read(kCounters);
  if (!text.ok()) return counters;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    for (const auto& [name, counter] : kCounterNames) {
      const std::size_t length = std::string_view(name).size();
      if (!line.starts_with(name) || line.size() <= length || line[length] != ' ') continue;
      std::int64_t value = 0;
      std::from_chars(line.data() + length + 1, line.data() + line.size(), value);
      counters.*counter = std::max<std::int64_t>(value, 0);
    }
  }
  return counters;
}

void add_counters(const CacheFolder& folder, const DiskCacheCounters& more) {
  const CacheFolder::Lock lock(folder);
  DiskCacheCounters sum = read_counters(folder);
  std::string text;
  for (const auto& [name, counter] : kCounterNames) {
    sum.*counter += more.*counter;
    text += fmt::format("{} {}\n", name, sum.*counter);
  }
  (void)folder.write(kCounters, text);
}

std::vector<CacheFolder::File> entries_of(const CacheFolder& folder) {
  std::vector<CacheFolder::File> files = folder.files();
  std::erase_if(files, [](const CacheFolder::File& file) { return !is_entry_name(file.name); });
  return files;
}

DiskCacheContents describe(const CacheFolder& folder,
                           const std::vector<CacheFolder::File>& entries) {
  DiskCacheContents contents;
  contents.counters = read_counters(folder);
  contents.entries = static_cast<std::int64_t>(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const double age = entries[i].age_seconds;
    contents.bytes += entries[i].bytes;
    contents.oldest_use_seconds = i == 0 ? age : std::max(contents.oldest_use_seconds, age);
    contents.newest_use_seconds = i == 0 ? age : std::min(contents.newest_use_seconds, age);
  }
  return contents;
}

}  // namespace

DiskCache::DiskCache(const DiskCacheOptions& options, std::string identity)
    : options_(options), identity_(std::move(identity)) {
  if (options.mode == DiskCacheMode::off || options.folder.empty()) return;
  writable_ = options.mode == DiskCacheMode::read_write;
  auto folder = CacheFolder::open(options.folder, writable_);
  if (folder.ok()) {
    folder_ = std::move(*folder);
  } else if (folder.status().code() != StatusCode::not_found) {
    give_up(folder.status());
  }
}

DiskCache::~DiskCache() {
  const bool counted = std::any_of(std::begin(kCounterNames), std::end(kCounterNames),
                                   [&](const auto& c) { return counters_.*c.counter != 0; });
  if (folder_ && options_.mode == DiskCacheMode::read_write && counted) {
    add_counters(*folder_, counters_);
  }
}

void DiskCache::give_up(const Status& why) {
  log_line(LogLevel::warning, "compiled kernels are not kept on disk: " + why.message());
}

std::optional<KernelObject> DiskCache::find(const std::string& key) {
  if (!folder_) return std::nullopt;
  const std::string full = full_key(key);
  const std::string name = file_name(full);
  const auto bytes = folder_->read(name);
  std::optional<KernelObject> kernel;
  if (bytes.ok()) kernel = read_entry(*bytes, full);
  if (kernel && options_.mode == DiskCacheMode::read_write) folder_->touch(name, kUseSeconds);
  const bool damaged = !kernel && bytes.status().code() != StatusCode::not_found;
  if (damaged && logs(LogLevel::info)) {
    log_line(LogLevel::info, options_.folder + "/" + name + ": not fit to be used" +
                                 (bytes.ok() ? "" : ": " + bytes.status().message()) +
                                 "; the kernel is compiled again");
  }
  const std::lock_guard lock(mutex_);
  ++(kernel ? counters_.hits : counters_.misses);
  if (damaged) ++counters_.damaged;
  return kernel;
}

void DiskCache::store(const std::string& key, const KernelObject& kernel) {
  {
    const std::lock_guard lock(mutex_);
    if (!folder_ || !writable_) return;
  }
  const std::string full = full_key(key);
  const std::string entry = write_entry(full, kernel);
  const auto size = static_cast<std::int64_t>(entry.size());
  if (size > options_.limit_bytes / kLargestShare) return;
  const Status written = folder_->write(file_name(full), entry);
  const std::lock_guard lock(mutex_);
  if (!written.ok()) {
    // A full disk or a folder that may only be read: what is there is still good to read.
    if (std::exchange(writable_, false)) give_up(written);
    return;
  }
  ++counters_.stored;
  bytes_ = bytes_ < 0 ? -1 : bytes_ + size;
  if (bytes_ < 0 || bytes_ > options_.limit_bytes || ++stored_since_ >= kCountEvery) evict();
}

// Least recently used first, by the files' times, which find() touches every ten minutes of use at
// most. A tenth more than necessary is removed: at the limit every store would otherwise list the
// whole folder. Other processes write to the folder as well, so sizes are counted anew now and then
// (kCountEvery); the limit is kept in the long run and not at every moment.
void DiskCache::evict() {
  if (bytes_ < 0) folder_->remove_leftovers(kLeftoverSeconds);
  stored_since_ = 0;
  std::vector<CacheFolder::File> files = entries_of(*folder_);
  bytes_ = 0;
  for (const CacheFolder::File& file : files) bytes_ += file.bytes;
  if (bytes_ <= options_.limit_bytes) return;
  // Some room is made at once, so that not every later store has to.
  const std::int64_t wanted = options_.limit_bytes - options_.limit_bytes / 10;
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.age_seconds > b.age_seconds; });
  for (const CacheFolder::File& file : files) {
    if (bytes_ <= wanted) break;
    if (!folder_->remove(file.name)) continue;
    bytes_ -= file.bytes;
    ++counters_.evicted;
  }
}

Result<DiskCacheContents> disk_cache_contents(const std::string& folder) {
  const auto opened = CacheFolder::open(folder, false);
  if (opened.status().code() == StatusCode::not_found) return DiskCacheContents{};
  PLIMSOLL_RETURN_IF_ERROR(opened.status());
  return describe(*opened, entries_of(*opened));
}

Result<DiskCacheContents> clear_disk_cache(const std::string& folder) {
  const auto opened = CacheFolder::open(folder, false);
  if (opened.status().code() == StatusCode::not_found) return DiskCacheContents{};
  PLIMSOLL_RETURN_IF_ERROR(opened.status());
  const std::vector<CacheFolder::File> entries = entries_of(*opened);
  const DiskCacheContents contents = describe(*opened, entries);
  for (const CacheFolder::File& file : entries) {
    if (!opened->remove(file.name)) {
      return unavailable(folder + "/" + file.name + ": cannot be removed");
    }
  }
  opened->remove(kCounters);
  opened->remove_leftovers(kLeftoverSeconds);
  return contents;
}

}  // namespace plimsoll::jit
