// SPDX-License-Identifier: Apache-2.0
#include "jit/cache/cache_entry.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "jit/native/generator_version.h"
#include "runtime/base/sha256.h"

namespace plimsoll::jit {
namespace {

KernelObject some_kernel() {
  KernelObject kernel;
  kernel.phases = {{"a.sweep", 7, 1.5e-6, -1, -1, 32, 0x8000000000000005},
                   {"a.combine", 1, 2e-9, 2, 0}};
  kernel.workspace_bytes = 4096;
  kernel.object = std::string(
      "\x7f"
      "ELF\0\0 code",
      11);
  return kernel;
}

TEST(CacheEntry, GivesBackWhatItWasGiven) {
  const KernelObject kernel = some_kernel();
  const auto text = read_entry(write_entry("key", write_object(kernel)), "key");
  ASSERT_TRUE(text);
  const auto read = read_object(*text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->workspace_bytes, 4096);
  EXPECT_EQ(read->object, kernel.object);
  ASSERT_EQ(read->phases.size(), 2U);
  EXPECT_EQ(read->phases[0].function, "a.sweep");
  EXPECT_EQ(read->phases[0].units, 7);
  EXPECT_EQ(read->phases[0].unit_seconds, 1.5e-6);
  EXPECT_EQ(read->phases[0].unless_input, -1);
  EXPECT_EQ(read->phases[0].run_elements, 32);
  EXPECT_EQ(read->phases[0].own_inputs, 0x8000000000000005U);
  EXPECT_EQ(read->phases[1].unless_input, 2);
  EXPECT_EQ(read->phases[1].unless_output, 0);
}

TEST(CacheEntry, IsRefusedWithAnyBitFlipped) {
  const std::string entry = write_entry("key", write_object(some_kernel()));
  for (std::size_t bit = 0; bit < 8 * entry.size(); ++bit) {
    std::string other = entry;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(read_entry(other, "key")) << "bit " << bit;
  }
}

TEST(CacheEntry, IsRefusedAtAnyOtherLength) {
  const std::string entry = write_entry("key", write_object(some_kernel()));
  for (std::size_t size = 0; size < entry.size(); ++size) {
    EXPECT_FALSE(read_entry(entry.substr(0, size), "key")) << size;
  }
  EXPECT_FALSE(read_entry(entry + '\0', "key"));
  EXPECT_FALSE(read_entry(entry + entry, "key"));
}

TEST(CacheEntry, IsRefusedUnderAnotherKey) {
  const std::string entry = write_entry("key", write_object(some_kernel()));
  for (const char* key : {"", "ke", "kez", "keys"}) EXPECT_FALSE(read_entry(entry, key)) << key;
}

TEST(CacheEntry, ATextOfAnotherLengthIsNoKernel) {
  const std::string text = write_object(some_kernel());
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(read_object(text.substr(0, size))) << size;
  }
  EXPECT_FALSE(read_object(text + '\0'));
}

TEST(GeneratorVersion, IsTheHashOfTheSourcesAsTheyAre) {
  const auto read = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  };
  const auto hash = [](const std::string& text) { return sha256(std::as_bytes(std::span(text))); };
  std::ifstream list(PLIMSOLL_GENERATOR_SOURCES);
  std::string all;
  int count = 0;
  const std::string root = PLIMSOLL_SOURCE_DIR "/";
  for (std::string path; std::getline(list, path); ++count) {
    ASSERT_TRUE(path.starts_with(root)) << path;
    all += path.substr(root.size()) + ' ' + hash(read(path)) + '\n';
  }
  EXPECT_GT(count, 60);
  EXPECT_NE(all.find("jit/emit/value_emitter.cc "), std::string::npos);
  EXPECT_NE(all.find("runtime/base/math/"), std::string::npos);
  EXPECT_EQ(generator_version(), hash(all)) << "sources were changed since the build";
}

}  // namespace
}  // namespace plimsoll::jit
