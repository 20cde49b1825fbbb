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
// After so many files of its own a process tells the others, and hears what they have kept.
constexpr std::int64_t kSaveEvery = 16;
// Names are hashes: one file in 256 is such a one, at whose store the folder is counted.
constexpr std::string_view kCountAt = "00";

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

struct SizeName {
  const char* name;
  std::int64_t FolderSize::* part;
};
constexpr SizeName kSizeNames[] = {{"entries", &FolderSize::entries},
                                   {"bytes", &FolderSize::bytes}};

// What the file of counters says.
struct Counted {
  DiskCacheCounters counters;
  std::optional<FolderSize> size;  // empty: it is not known
};

// The number behind the name in lines `name number`.
std::optional<std::int64_t> find_number(std::string_view text, std::string_view name) {
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ') continue;
    std::int64_t value = 0;
    const char* const end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data() + name.size() + 1, end, value);
    if (error == std::errc() && stop == end && value >= 0) return value;
  }
  return std::nullopt;
}

// What is not understood counts as zero, and as a size that is not known.
Counted read_counters(const CacheFolder& folder) {
  Counted counted;
  const auto text = folder.read(kCounters);
  if (!text.ok()) return counted;
  for (const auto& [name, counter] : kCounterNames) {
    counted.counters.*counter = find_number(*text, name).value_or(0);
  }
  counted.size.emplace();
  for (const auto& [name, part] : kSizeNames) {
    const auto number = find_number(*text, name);
    if (!number) {
      counted.size.reset();
      break;
    }
    (*counted.size).*part = *number;
  }
  return counted;
}

// `change` of what the file says; gives what it says then.
template <typename Change>
Counted change_counters(const CacheFolder& folder, Change change) {
  const CacheFolder::Lock lock(folder);
  Counted counted = read_counters(folder);
  change(counted);
  std::string text;
  for (const auto& [name, counter] : kCounterNames) {
    text += fmt::format("{} {}\n", name, counted.counters.*counter);
  }
  for (const auto& [name, part] : kSizeNames) {
    if (counted.size) text += fmt::format("{} {}\n", name, (*counted.size).*part);
  }
  (void)folder.write(kCounters, text);
  return counted;
}

void add(const DiskCacheCounters& more, DiskCacheCounters& sum) {
  for (const auto& [name, counter] : kCounterNames) sum.*counter += more.*counter;
}

std::vector<CacheFolder::File> entries_of(const CacheFolder& folder) {
  std::vector<CacheFolder::File> files = folder.files();
  std::erase_if(files, [](const CacheFolder::File& file) { return !is_entry_name(file.name); });
  return files;
}

DiskCacheContents describe(const CacheFolder& folder,
                           const std::vector<CacheFolder::File>& entries) {
  DiskCacheContents contents;
  contents.counters = read_counters(folder).counters;
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
  if (folder_ && options_.mode == DiskCacheMode::read_write && counted) save_counters();
}

void DiskCache::give_up(const Status& why) {
  log_line(LogLevel::warning, "compiled kernels are not kept on disk: " + why.message());
}

std::optional<std::string> DiskCache::find(const std::string& key) {
  if (!folder_) return std::nullopt;
  const std::string full = full_key(key);
  const std::string name = file_name(full);
  const auto bytes = folder_->read(name);
  std::optional<std::string> kernel;
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

void DiskCache::store(const std::string& key, std::string_view kernel) {
  {
    const std::lock_guard lock(mutex_);
    if (!folder_ || !writable_) return;
  }
  const std::string full = full_key(key);
  const std::string entry = write_entry(full, kernel);
  const auto size = static_cast<std::int64_t>(entry.size());
  if (size > options_.limit_bytes / kLargestShare) return;
  const std::string name = file_name(full);
  const Status written = folder_->write(name, entry);
  const std::lock_guard lock(mutex_);
  if (!written.ok()) {
    // A full disk or a folder that may only be read: what is there is still good to read.
    if (std::exchange(writable_, false)) give_up(written);
    return;
  }
  ++counters_.stored;
  if (!size_) size_ = read_counters(*folder_).size;
  const FolderSize one{1, size};
  stored_ += one;
  if (size_) *size_ += one;
  if (stored_.entries >= kSaveEvery) save_counters();
  if (!size_ || is_too_much(*size_) || name.starts_with(kCountAt)) evict();
}

bool DiskCache::is_too_much(const FolderSize& size) const {
  return size.bytes > options_.limit_bytes || size.entries > options_.most_entries;
}

// Files that replace others are counted twice, until the folder is listed again.
void DiskCache::save_counters() {
  size_ = change_counters(*folder_, [&](Counted& counted) {
            add(counters_, counted.counters);
            if (counted.size) *counted.size += stored_;
          }).size;
  counters_ = {};
  stored_ = {};
}

// Least recently used first, by the files' times, which find() touches every ten minutes of use at
// most. A tenth more than necessary is removed: at the limit every store would otherwise list the
// whole folder.
void DiskCache::evict() {
  folder_->remove_leftovers(kLeftoverSeconds);
  std::vector<CacheFolder::File> files = entries_of(*folder_);
  FolderSize size;
  for (const CacheFolder::File& file : files) size += {1, file.bytes};
  if (is_too_much(size)) {
    const std::int64_t wanted_bytes = options_.limit_bytes - options_.limit_bytes / 10;
    const std::int64_t wanted_entries = options_.most_entries - options_.most_entries / 10;
    std::sort(files.begin(), files.end(),
              [](const auto& a, const auto& b) { return a.age_seconds > b.age_seconds; });
    for (const CacheFolder::File& file : files) {
      if (size.bytes <= wanted_bytes && size.entries <= wanted_entries) break;
      if (!folder_->remove(file.name)) continue;
      size += {-1, -file.bytes};
      ++counters_.evicted;
    }
  }
  size_ = size;
  stored_ = {};
  change_counters(*folder_, [&](Counted& counted) {
    add(counters_, counted.counters);
    counted.size = size;
  });
  counters_ = {};
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
