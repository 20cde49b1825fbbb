// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "jit/cache/disk_cache.h"
#include "runtime/base/log.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit {
namespace {

namespace fs = std::filesystem;
using namespace testing;

// Programs whose roots are kernels of several kinds: a loop, a cut reduction, a table, in place.
std::vector<std::string> programs() {
  return {
      "x = f32[37] parameter(0)\nROOT y = f32[37] exponential(x)",
      R"(HloModule m
        add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
        fused { p = f32[9,70000] parameter(0)
                z = f32[] constant(0)
                s = f32[9,70000] multiply(p, p)
                ROOT r = f32[9] reduce(s, z), dimensions={1}, to_apply=add }
        ENTRY main { x = f32[9,70000] parameter(0)
                     ROOT f = f32[9] fusion(x), kind=kLoop, calls=fused })",
      R"(HloModule m
        fused { p = s32[5] parameter(0)
                t = s32[5] constant({3, 1, 4, 1, 5})
                ROOT r = s32[5] add(p, t) }
        ENTRY main { x = s32[5] parameter(0)
                     ROOT f = s32[5] fusion(x), kind=kLoop, calls=fused })",
  };
}

class DiskCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "plimsoll-kernels-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    base_ = name;
    folder_ = base_ / "cache" / "kernels";
    set_log_sink([this](LogLevel, std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    });
  }
  void TearDown() override {
    set_log_sink(nullptr);
    fs::remove_all(base_);
  }

  Options options(DiskCacheMode mode = DiskCacheMode::read_write) const {
    Options options;
    options.disk_cache = {mode, folder_.string(), std::int64_t{64} << 20};
    return options;
  }

  // Runs the programs by a compiler of its own; the results are the interpreter's bits.
  Statistics run_all(const Options& options,
                     const std::vector<std::string>& texts = programs()) const {
    auto compiler = Compiler::create(options);
    EXPECT_TRUE(compiler.ok()) << compiler.status().to_string();
    for (const std::string& text : texts) {
      const auto module = parse(text);
      const auto arguments = arguments_for(*module->entry());
      const auto expected = ir::interpret(*module, arguments);
      const auto results = testing::run(*module->entry()->root(), arguments, -1, **compiler);
      EXPECT_TRUE(results.ok()) << results.status().to_string();
      if (!results.ok()) continue;
      // The interpreter's exponential is another one.
      EXPECT_TRUE(close(*expected, (*results)[0], 1e-5));
      const auto unkept = testing::run(*module->entry()->root(), arguments);
      EXPECT_TRUE(same_bits((*unkept)[0], (*results)[0]));
    }
    return (*compiler)->statistics();
  }

  std::vector<fs::path> entries() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".kernel") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  fs::path only_entry() const {
    const auto files = entries();
    EXPECT_EQ(files.size(), 1U);
    return files.empty() ? fs::path() : files[0];
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // One kernel is kept, damaged by `damage`, and must be compiled again, and kept again.
  template <typename Damage>
  void expect_mended(Damage damage, bool counts_as_damaged = true) {
    const std::vector<std::string> one = {programs()[0]};
    fs::remove_all(folder_);
    run_all(options(), one);
    const std::string good = read(only_entry());
    damage(only_entry());
    const Statistics again = run_all(options(), one);
    EXPECT_EQ(again.kernels_compiled, 1);
    EXPECT_EQ(again.kernels_loaded, 0);
    EXPECT_EQ(fs::symlink_status(only_entry()).type(), fs::file_type::regular);
    EXPECT_EQ(read(only_entry()).size(), good.size());
    EXPECT_EQ(run_all(options(), one).kernels_loaded, 1);
    EXPECT_EQ(disk_cache_contents(folder_.string())->counters.damaged, counts_as_damaged ? 1 : 0);
  }

  fs::path base_, folder_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST_F(DiskCacheTest, ALaterCompilerLoadsWhatAnEarlierOneCompiled) {
  const auto count = static_cast<std::int64_t>(programs().size());
  const Statistics cold = run_all(options());
  EXPECT_EQ(cold.kernels_compiled, count);
  EXPECT_EQ(cold.kernels_loaded, 0);
  const Statistics warm = run_all(options());
  EXPECT_EQ(warm.kernels_compiled, 0);
  EXPECT_EQ(warm.kernels_loaded, count);
  EXPECT_TRUE(lines_.empty()) << lines_[0];
}

TEST_F(DiskCacheTest, FolderAndFilesAreThisUsersOnly) {
  run_all(options());
  EXPECT_EQ(fs::status(folder_).permissions() & fs::perms::all, fs::perms::owner_all);
  for (const fs::path& file : entries()) {
    EXPECT_EQ(fs::status(file).permissions() & fs::perms::all,
              fs::perms::owner_read | fs::perms::owner_write);
  }
}

TEST_F(DiskCacheTest, ReadOnlyReadsButWritesNothing) {
  EXPECT_EQ(run_all(options(DiskCacheMode::read_only)).kernels_loaded, 0);
  EXPECT_FALSE(fs::exists(folder_));
  const std::vector<std::string> one = {programs()[0]};
  run_all(options(), one);
  const fs::path counters = folder_ / "counters";
  const std::string counted = read(counters);
  const Statistics all = run_all(options(DiskCacheMode::read_only));
  EXPECT_EQ(all.kernels_loaded, 1);
  EXPECT_EQ(all.kernels_compiled, static_cast<std::int64_t>(programs().size()) - 1);
  EXPECT_EQ(entries().size(), 1U);
  EXPECT_EQ(read(counters), counted);
  write(only_entry(), "nonsense");
  EXPECT_EQ(run_all(options(DiskCacheMode::read_only), one).kernels_compiled, 1);
  EXPECT_EQ(read(only_entry()), "nonsense");
}

TEST_F(DiskCacheTest, OffTouchesNothing) {
  run_all(options(DiskCacheMode::off));
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(DiskCacheTest, AFlippedBitIsCompiledAgain) {
  for (const double place : {0.0, 0.2, 0.5, 0.8, 1.0}) {
    expect_mended([place](const fs::path& file) {
      std::string bytes = read(file);
      char& byte = bytes[static_cast<std::size_t>(place * static_cast<double>(bytes.size() - 1))];
      byte = static_cast<char>(byte ^ 16);
      write(file, bytes);
    });
  }
}

TEST_F(DiskCacheTest, ACutOffFileIsCompiledAgain) {
  for (const double part : {0.0, 0.01, 0.5, 0.99}) {
    expect_mended([part](const fs::path& file) {
      const auto size = static_cast<double>(fs::file_size(file));
      fs::resize_file(file, static_cast<std::uintmax_t>(part * size));
    });
  }
}

// As if the names' hash had collided.
TEST_F(DiskCacheTest, AnotherKernelUnderThisNameIsNotUsed) {
  run_all(options(), {programs()[2]});
  const std::string other = read(only_entry());
  expect_mended([&other](const fs::path& file) { write(file, other); });
}

TEST_F(DiskCacheTest, ALinkIsNotFollowed) {
  const fs::path elsewhere = base_ / "elsewhere";
  expect_mended([&elsewhere](const fs::path& file) {
    fs::rename(file, elsewhere);
    fs::create_symlink(elsewhere, file);
  });
  EXPECT_TRUE(fs::exists(elsewhere));
}

TEST_F(DiskCacheTest, APipeIsNotWaitedFor) {
  expect_mended([](const fs::path& file) {
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  });
}

TEST_F(DiskCacheTest, AFileThatOthersMayWriteIsNotTrusted) {
  expect_mended([](const fs::path& file) {
    fs::permissions(file, fs::perms::group_write, fs::perm_options::add);
  });
}

TEST_F(DiskCacheTest, AnotherUsersFileIsNotTrusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  expect_mended([](const fs::path& file) { ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0); });
}

TEST_F(DiskCacheTest, AFolderThatOthersMayWriteIsRefusedWithOneWarning) {
  run_all(options());
  fs::permissions(folder_, fs::perms::others_write, fs::perm_options::add);
  const Statistics all = run_all(options());
  EXPECT_EQ(all.kernels_loaded, 0);
  EXPECT_EQ(all.kernels_compiled, static_cast<std::int64_t>(programs().size()));
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_NE(lines_[0].find(folder_.string()), std::string::npos) << lines_[0];
  EXPECT_NE(lines_[0].find("chmod 700"), std::string::npos) << lines_[0];
  EXPECT_EQ(disk_cache_contents(folder_.string()).status().code(), StatusCode::failed_precondition);
}

TEST_F(DiskCacheTest, AnotherUsersFolderIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give folders away";
  run_all(options());
  ASSERT_EQ(::chown(folder_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(run_all(options()).kernels_loaded, 0);
  EXPECT_EQ(lines_.size(), 1U);
}

TEST_F(DiskCacheTest, AFolderThatCannotBeMadeIsNoError) {
  fs::create_directories(folder_.parent_path());
  std::ofstream(folder_) << "a file";
  EXPECT_EQ(run_all(options()).kernels_loaded, 0);
  EXPECT_EQ(lines_.size(), 1U);
}

// Nobody can make files in there, not even root.
TEST_F(DiskCacheTest, AFolderThatCannotBeWrittenIsNoErrorAndOneWarning) {
  folder_ = "/proc/self";
  EXPECT_EQ(run_all(options()).kernels_compiled, static_cast<std::int64_t>(programs().size()));
  EXPECT_EQ(lines_.size(), 1U);
  folder_ = base_ / "read-only";
  fs::create_directory(folder_);
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  run_all(options());
  EXPECT_LE(lines_.size(), 2U);  // root may write everywhere
  fs::permissions(folder_, fs::perms::owner_all);
}

// A write that ends half-way, as on a full disk.
TEST_F(DiskCacheTest, AFullDiskIsNoErrorAndLeavesNothingBehind) {
  fs::create_directories(folder_);
  fs::permissions(folder_, fs::perms::owner_all);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit little = before;
  little.rlim_cur = 512;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  Statistics all;
  {
    auto compiler = Compiler::create(options());
    const auto module = parse(programs()[0]);
    EXPECT_TRUE((*compiler)->compile(*module->entry()->root()).ok());
    all = (*compiler)->statistics();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(all.kernels_compiled, 1);
  EXPECT_EQ(lines_.size(), 1U);
  EXPECT_TRUE(entries().empty());
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().filename(), "counters");
  }
  run_all(options());
  EXPECT_EQ(entries().size(), programs().size());
}

TEST_F(DiskCacheTest, ACpuWithOtherFeaturesHasKernelsOfItsOwn) {
  Options lesser = options();
  lesser.without_features = "-avx512f,-avx512vl,-avx512dq,-avx512bw";
  const auto count = static_cast<std::int64_t>(programs().size());
  run_all(options());
  EXPECT_EQ(run_all(lesser).kernels_compiled, count);
  EXPECT_EQ(run_all(lesser).kernels_loaded, count);
  EXPECT_EQ(run_all(options()).kernels_loaded, count);
  EXPECT_EQ(entries().size(), 2 * programs().size());
}

TEST_F(DiskCacheTest, OtherOptionsOfCodeGenerationHaveKernelsOfTheirOwn) {
  Options plain = options();
  plain.optimization_level = 0;
  const auto count = static_cast<std::int64_t>(programs().size());
  run_all(options());
  EXPECT_EQ(run_all(plain).kernels_compiled, count);
}

std::vector<std::string> many_programs(int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    const std::string shape = "f32[" + std::to_string(100 + i) + "]";
    texts.push_back("x = " + shape + " parameter(0)\nROOT y = " + shape + " negate(x)");
  }
  return texts;
}

TEST_F(DiskCacheTest, TheLeastRecentlyUsedGoWhenTheLimitIsReached) {
  const auto texts = many_programs(12);
  run_all(options(), texts);
  const auto files = entries();
  ASSERT_EQ(files.size(), texts.size());
  std::int64_t bytes = 0;
  // Every other one was used long ago.
  std::vector<fs::path> young;
  for (std::size_t i = 0; i < files.size(); ++i) {
    bytes += static_cast<std::int64_t>(fs::file_size(files[i]));
    if (i % 2 != 0) {
      young.push_back(files[i]);
      continue;
    }
    fs::last_write_time(files[i], fs::file_time_type::clock::now() - std::chrono::hours(48));
  }
  Options small = options();
  small.disk_cache.limit_bytes = bytes * 3 / 4;
  run_all(small, {programs()[2]});
  const DiskCacheContents after = *disk_cache_contents(folder_.string());
  EXPECT_LE(after.bytes, small.disk_cache.limit_bytes);
  EXPECT_GE(after.counters.evicted, 3);
  for (const fs::path& file : young) EXPECT_TRUE(fs::exists(file)) << file;
}

TEST_F(DiskCacheTest, TheLeastRecentlyUsedGoWhenThereAreTooMany) {
  const auto texts = many_programs(12);
  run_all(options(), texts);
  const std::vector<fs::path> files = entries();
  for (std::size_t i = 0; i < 6; ++i) {
    fs::last_write_time(files[i], fs::file_time_type::clock::now() - std::chrono::hours(48));
  }
  Options few = options();
  few.disk_cache.most_entries = 10;
  run_all(few, {programs()[2]});
  EXPECT_EQ(entries().size(), 9u);
  for (std::size_t i = 6; i < files.size(); ++i) EXPECT_TRUE(fs::exists(files[i])) << files[i];
  EXPECT_EQ(disk_cache_contents(folder_.string())->counters.evicted, 4);
}

// What tells that a folder was listed: files beyond the limit, of which its counters say nothing,
// are there or gone.
class CountedFolderTest : public DiskCacheTest {
 protected:
  // As an earlier process would have kept it, and told nobody.
  void plant(int count) {
    for (int i = 0; i < count; ++i) {
      std::string name = std::to_string(i);
      name.insert(0, 64 - name.size(), 'e');
      write(folder_ / (name + ".kernel"), "a kernel");
      fs::last_write_time(folder_ / (name + ".kernel"),
                          fs::file_time_type::clock::now() - std::chrono::hours(48));
    }
  }
  DiskCacheOptions few() const {
    return {.mode = DiskCacheMode::read_write,
            .folder = folder_.string(),
            .limit_bytes = std::int64_t{64} << 20,
            .most_entries = 200};
  }
  // By a process of its own, as it were.
  void store(const std::string& key) const { DiskCache(few(), "test").store(key, {}); }
};

TEST_F(CountedFolderTest, IsNotListedWhereItsSizeIsKnown) {
  store("a");
  plant(300);
  store("b");
  EXPECT_EQ(entries().size(), 302u);
  EXPECT_NE(read(folder_ / "counters").find("entries 2\n"), std::string::npos);
  // It is where the size is not known, or not understood.
  write(folder_ / "counters", "entries many\nbytes 7\n");
  store("c");
  EXPECT_EQ(entries().size(), 180u);
  EXPECT_NE(read(folder_ / "counters").find("entries 180\n"), std::string::npos);
  fs::remove(folder_ / "counters");
  store("d");
  EXPECT_NE(read(folder_ / "counters").find("entries 181\n"), std::string::npos);
}

// Of two that live at a time each hears what the other has kept.
TEST_F(CountedFolderTest, IsBoundedForAllTogether) {
  DiskCache one(few(), "one"), other(few(), "other");
  for (int i = 0; i < 400; ++i) {
    (i % 2 == 0 ? one : other).store(std::to_string(i), {});
    ASSERT_LE(entries().size(), 200u + 2 * 16);
  }
}

// Processes that are killed never say what they have kept; all the same, there is an end to it.
TEST_F(CountedFolderTest, IsListedNowAndThenWhateverItsCountersSay) {
  store("first");
  const std::string counters = read(folder_ / "counters");
  plant(300);
  // The name of number 325 is the first at which it is.
  for (int i = 0; i < 330; ++i) {
    if (i == 320) {
      EXPECT_EQ(entries().size(), 621u);
    }
    store(std::to_string(i));
    write(folder_ / "counters", counters);
  }
  EXPECT_LT(entries().size(), 200u);
}

TEST_F(DiskCacheTest, UseMakesAnEntryYoung) {
  run_all(options());
  for (const fs::path& file : entries()) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(48));
  }
  run_all(options(), {programs()[0]});
  const DiskCacheContents contents = *disk_cache_contents(folder_.string());
  EXPECT_LT(contents.newest_use_seconds, 3600);
  EXPECT_GT(contents.oldest_use_seconds, 3600);
}

TEST_F(DiskCacheTest, AKernelLargerThanAShareOfTheLimitIsNotKept) {
  Options tiny = options();
  tiny.disk_cache.limit_bytes = 1000;
  run_all(tiny);
  EXPECT_TRUE(entries().empty());
  EXPECT_TRUE(lines_.empty());
}

TEST_F(DiskCacheTest, WhatACrashedWriterLeftGoesAndIsNeverRead) {
  run_all(options(), {programs()[0]});
  const fs::path old = folder_ / ".half-1-0", fresh = folder_ / ".half-1-1";
  write(old, "half a kernel");
  write(fresh, "half a kernel");
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(disk_cache_contents(folder_.string())->entries, 1);
  fs::remove(folder_ / "counters");
  run_all(options());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh)) << "its writer may still be at work";
}

TEST_F(DiskCacheTest, CompilersThatRaceForOneFolderAllSucceed) {
  const auto texts = many_programs(8);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      auto compiler = Compiler::create(options());
      ASSERT_TRUE(compiler.ok());
      for (const std::string& text : texts) {
        const auto module = parse(text);
        EXPECT_TRUE((*compiler)->compile(*module->entry()->root()).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(run_all(options(), texts).kernels_loaded, static_cast<std::int64_t>(texts.size()));
  const DiskCacheCounters counters = disk_cache_contents(folder_.string())->counters;
  EXPECT_EQ(counters.hits + counters.misses, 5 * static_cast<std::int64_t>(texts.size()));
  EXPECT_EQ(counters.damaged, 0);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(DiskCacheTest, ClearingRemovesOurFilesOnly) {
  run_all(options());
  write(folder_ / "notes.txt", "mine");
  write(folder_ / "x.kernel", "mine");
  const auto before = clear_disk_cache(folder_.string());
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(before->entries, static_cast<std::int64_t>(programs().size()));
  EXPECT_GT(before->bytes, 0);
  const DiskCacheContents after = *disk_cache_contents(folder_.string());
  EXPECT_EQ(after.entries, 0);
  EXPECT_EQ(after.counters.stored, 0);
  EXPECT_EQ(read(folder_ / "notes.txt"), "mine");
  EXPECT_EQ(read(folder_ / "x.kernel"), "mine");
  EXPECT_EQ(clear_disk_cache((base_ / "none").string())->entries, 0);
}

TEST_F(DiskCacheTest, KernelsThatAreShownAreMade) {
  run_all(options());
  Options shows = options();
  shows.dump = {.llvm = true, .assembly = false, .hlo = false, .folder = (base_ / "dump").string()};
  const auto count = static_cast<std::int64_t>(programs().size());
  EXPECT_EQ(run_all(shows).kernels_compiled, count);
  EXPECT_EQ(std::distance(fs::directory_iterator(base_ / "dump"), fs::directory_iterator()), count);
}

}  // namespace
}  // namespace plimsoll::jit
