// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/safetensors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "runtime/import/named_arrays.h"
#include "runtime/import/npz.h"

namespace plimsoll::import {
namespace {

namespace fs = std::filesystem;
using ir::DType;

struct TemporaryFolder {
  TemporaryFolder() {
    path = (fs::temp_directory_path() / "plimsoll_arrays_XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) std::abort();
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::string path;
};

constexpr DType kSafetensorsDTypes[] = {
    DType::pred, DType::s8,  DType::s16,    DType::s32,      DType::s64,      DType::u8,
    DType::u16,  DType::u32, DType::u64,    DType::f16,      DType::bf16,     DType::f32,
    DType::f64,  DType::c64, DType::f8e5m2, DType::f8e4m3fn, DType::f8e8m0fnu};
constexpr DType kNpzDTypes[] = {DType::pred, DType::s8,  DType::s16, DType::s32, DType::s64,
                                DType::u8,   DType::u16, DType::u32, DType::u64, DType::f16,
                                DType::bf16, DType::f32, DType::f64, DType::c64, DType::c128};

// Arrays of every dtype and several ranks, with some bytes; keeps what they refer to.
struct Samples {
  explicit Samples(std::span<const DType> dtypes) {
    std::mt19937 random(5);
    const ir::Dims dims[] = {{3, 5}, {}, {0, 4}, {2, 1, 3}};
    for (const DType dtype : dtypes) {
      for (const ir::Dims& one : dims) {
        const ir::Shape shape(dtype, one);
        bytes.emplace_back(static_cast<std::size_t>(shape.byte_size()));
        for (std::byte& byte : bytes.back()) {
          byte = static_cast<std::byte>(dtype == DType::pred ? random() % 2 : random());
        }
        arrays.push_back({"layer." + std::to_string(arrays.size()) + "/\"w\" \xc3\xa4", shape, {}});
      }
    }
    for (std::size_t i = 0; i < arrays.size(); ++i) arrays[i].bytes = bytes[i];
  }
  std::vector<std::vector<std::byte>> bytes;
  std::vector<NamedArray> arrays;
};

void expect_same(std::span<const NamedArray> expected, const NamedArrays& read) {
  ASSERT_EQ(read.arrays.size(), expected.size());
  for (const NamedArray& array : expected) {
    const auto found = std::find_if(read.arrays.begin(), read.arrays.end(),
                                    [&](const NamedArray& one) { return one.name == array.name; });
    ASSERT_NE(found, read.arrays.end()) << array.name;
    EXPECT_EQ(found->shape, array.shape) << array.name;
    EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), array.bytes.begin(),
                           array.bytes.end()))
        << array.name;
  }
}

std::string file_of(const std::string& header, const std::string& data) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i) & 255U);
  return text + header + data;
}

std::string error_of(const std::string& file) {
  NamedArrays out;
  const Status status = parse_safetensors(std::as_bytes(std::span(file)), "f", out);
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message().rfind("f: ", 0), 0u) << status.message();
  EXPECT_TRUE(out.arrays.empty());
  return status.message();
}

TEST(Safetensors, EveryDtypeComesBackWithItsBits) {
  const TemporaryFolder folder;
  const Samples samples(kSafetensorsDTypes);
  const std::map<std::string, std::string> metadata = {{"step", "12"}, {"", "\n\"\xe2\x82\xac"}};
  const std::string path = folder.path + "/a.safetensors";
  ASSERT_TRUE(write_named_arrays(path, samples.arrays, metadata).ok());
  const auto read = read_named_arrays(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  expect_same(samples.arrays, *read);
  EXPECT_EQ(read->metadata, metadata);
  // Aligned, as every size is a multiple of its element's.
  for (const NamedArray& array : read->arrays) {
    const auto address = reinterpret_cast<std::uintptr_t>(array.bytes.data());
    EXPECT_EQ(address % static_cast<std::uintptr_t>(ir::dtype_bytes(array.shape.dtype())) % 8, 0u);
  }
  ASSERT_TRUE(write_named_arrays(path, {}).ok());
  EXPECT_TRUE(read_named_arrays(path)->arrays.empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), {}), 1);
}

TEST(Safetensors, WhatTheFormatCannotSayIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.path + "/a.safetensors";
  const std::byte bytes[16] = {};
  const auto error = [&](const NamedArray& array) {
    return write_named_arrays(path, std::span(&array, 1)).message();
  };
  EXPECT_NE(error({"x", ir::Shape(DType::c128, {1}), bytes}).find("c128[1]"), std::string::npos);
  EXPECT_NE(error({"__metadata__", ir::Shape(DType::f64, {2}), bytes}), "");
  EXPECT_NE(error({"\xff", ir::Shape(DType::f64, {2}), bytes}).find("UTF-8"), std::string::npos);
  const NamedArray twice[] = {{"x", ir::Shape(DType::f64, {2}), bytes},
                              {"x", ir::Shape(DType::f64, {2}), bytes}};
  EXPECT_NE(write_named_arrays(path, twice).message().find("'x'"), std::string::npos);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(write_named_arrays(folder.path + "/no/a", {}).code(), StatusCode::unavailable);
  EXPECT_EQ(read_named_arrays(path).status().code(), StatusCode::not_found);
  EXPECT_EQ(read_named_arrays(folder.path).status().code(), StatusCode::not_found);
}

TEST(Safetensors, HeadersThatLieAreRefusedByName) {
  const std::string eight(8, '\0');
  const auto one = [](const std::string& entry) { return "{\"w\":{" + entry + "}}"; };
  EXPECT_EQ(error_of(file_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), eight)), "");
  EXPECT_EQ(error_of(file_of("{}", "")), "");
  const struct {
    std::string header;
    const char* part;
  } cases[] = {
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "'w' has 4 bytes, f32[2] takes 8"},
      {one(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"), "'w' lies at bytes 0 to 16 of 8"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "'w' lies at"},
      {one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "'w' begins at byte 4"},
      {one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "4 bytes behind"},
      {one(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), "'w' has elements of F33"},
      {one(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8])"), "too large"},
      {one(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])"), "too large"},
      {one(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])"), "10 dims"},
      {one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "negative"},
      {one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "fraction"},
      {one(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"), "list"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"), "more than two"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), "'w' lacks"},
      {one(R"("dtype":"F32","data_offsets":[0,8])"), "'w' lacks"},
      {one(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"), "twice"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)"), "'x'"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "'w' stands in the header twice"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "'b' begins at byte 4"},
      {R"({"w":[1]})", "list"},
      {R"({"__metadata__":{"k":1}})", "number"},
      {R"({"__metadata__":{"k":"1","k":"2"}})", "twice"},
      {R"({"w":)", "no JSON at its byte"},
      {"[]", "'{'"},
      {"", "'{'"},
      {" {}", "'{'"},
      {std::string(100000, '{'), "JSON"}};
  for (const auto& [header, part] : cases) {
    EXPECT_NE(error_of(file_of(header, eight)).find(part), std::string::npos)
        << header.substr(0, 100) << ": " << error_of(file_of(header, eight));
  }
  EXPECT_NE(error_of(file_of(one(R"("dtype":"BOOL","shape":[1],"data_offsets":[0,1])"), "\x02"))
                .find("more than 0 and 1"),
            std::string::npos);
  EXPECT_NE(error_of("short"), "");
  EXPECT_NE(error_of(std::string(8, '\xff') + "{}").find("cut off"), std::string::npos);
}

TEST(Npz, EveryDtypeComesBackWithItsBits) {
  const TemporaryFolder folder;
  const Samples samples(kNpzDTypes);
  const std::string path = folder.path + "/a.npz";
  ASSERT_TRUE(write_named_arrays(path, samples.arrays).ok());
  const auto read = read_named_arrays(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  expect_same(samples.arrays, *read);
  EXPECT_FALSE(write_named_arrays(path, samples.arrays, {{"k", "v"}}).ok());
  ASSERT_TRUE(write_named_arrays(path, {}).ok());
  EXPECT_TRUE(read_named_arrays(path)->arrays.empty());
}

// What np.savez_compressed(file, a=np.arange(6, dtype='<i2').reshape(2, 3), b=np.zeros(40)) wrote.
const unsigned char kNumpyNpz[] = {
    0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x1a, 0x4e,
    0x98, 0x7e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x05, 0x00, 0x14, 0x00, 0x61, 0x2e,
    0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0x8c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x52,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17, 0xea, 0x1b, 0x10, 0xc9, 0xc8, 0x50,
    0xc6, 0x50, 0xad, 0x9e, 0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e, 0xa5, 0xa0, 0x6e, 0x93, 0x69, 0xa4,
    0xae, 0xa3, 0xa0, 0x9e, 0x96, 0x5f, 0x54, 0x52, 0x94, 0x98, 0x17, 0x9f, 0x5f, 0x94, 0x92, 0x0a,
    0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e, 0x05, 0x8a, 0x17, 0x67, 0x24, 0x16, 0xa4, 0x02, 0xf9, 0x1a,
    0x46, 0x3a, 0x0a, 0xc6, 0x9a, 0x3a, 0x0a, 0xb5, 0x0a, 0x64, 0x03, 0x2e, 0x06, 0x06, 0x46, 0x06,
    0x26, 0x06, 0x66, 0x06, 0x16, 0x06, 0x56, 0x06, 0x00, 0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00,
    0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x5f, 0x9c, 0xe2, 0x71, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0x05, 0x00, 0x14, 0x00, 0x62, 0x2e, 0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00,
    0xc0, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x9b, 0xec, 0x17, 0xea, 0x1b, 0x10, 0xc9, 0xc8, 0x50, 0xc6, 0x50, 0xad, 0x9e, 0x92, 0x5a, 0x9c,
    0x5c, 0xa4, 0x6e, 0xa5, 0xa0, 0x6e, 0x93, 0x66, 0xa1, 0xae, 0xa3, 0xa0, 0x9e, 0x96, 0x5f, 0x54,
    0x52, 0x94, 0x98, 0x17, 0x9f, 0x5f, 0x94, 0x92, 0x0a, 0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e, 0x05,
    0x8a, 0x17, 0x67, 0x24, 0x16, 0xa4, 0x02, 0xf9, 0x1a, 0x26, 0x06, 0x3a, 0x9a, 0x3a, 0x0a, 0xb5,
    0x0a, 0xe4, 0x03, 0x2e, 0x86, 0x51, 0x40, 0x11, 0x00, 0x00, 0x50, 0x4b, 0x01, 0x02, 0x2d, 0x03,
    0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x1a, 0x4e, 0x98, 0x7e, 0x52, 0x00,
    0x00, 0x00, 0x8c, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x61, 0x2e, 0x6e, 0x70, 0x79, 0x50, 0x4b, 0x01,
    0x02, 0x2d, 0x03, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x5f, 0x9c, 0xe2,
    0x71, 0x4a, 0x00, 0x00, 0x00, 0xc0, 0x01, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x01, 0x89, 0x00, 0x00, 0x00, 0x62, 0x2e, 0x6e, 0x70, 0x79,
    0x50, 0x4b, 0x05, 0x06, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x02, 0x00, 0x66, 0x00, 0x00, 0x00,
    0x0a, 0x01, 0x00, 0x00, 0x00, 0x00};
const std::size_t kNumpyNpzBytes = sizeof kNumpyNpz;

// Every mutant of a file is arrays within it or an error that names the source.
void mutate(const std::string& file, int rounds) {
  std::mt19937 random(17);
  int good = 0, bad = 0;
  for (int i = 0; i < rounds; ++i) {
    std::string text = file;
    for (std::size_t k = 0; k < 1 + random() % 4; ++k) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
          break;
        case 2:
          text.erase(at, 1 + random() % 6);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 12));
      }
      if (text.empty()) text = "x";
    }
    NamedArrays out;
    const auto bytes = std::as_bytes(std::span(text));
    const Status status =
        is_npz(bytes) ? parse_npz(bytes, "f", out) : parse_safetensors(bytes, "f", out);
    if (!status.ok()) {
      ASSERT_EQ(status.code(), StatusCode::invalid_argument) << status.message();
      ASSERT_EQ(status.message().rfind("f: ", 0), 0u) << status.message();
      ++bad;
      continue;
    }
    ++good;
    std::size_t sum = 0;
    for (const NamedArray& array : out.arrays) {
      ASSERT_EQ(array.bytes.size(), static_cast<std::size_t>(array.shape.byte_size()));
      for (const std::byte byte : array.bytes) sum += std::to_integer<std::size_t>(byte);
    }
    ASSERT_LE(sum, text.size() * 255 * 1032);
  }
  EXPECT_GT(good, 0);
  EXPECT_GT(bad, rounds / 4);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int fuzz_rounds() {
  const char* const asked = std::getenv("PLIMSOLL_FUZZ_MUTANTS");
  return asked == nullptr ? 6000 : 10 * std::atoi(asked);
}

TEST(ArrayFileFuzz, DamagedSafetensorsAreErrors) {
  const TemporaryFolder folder;
  const Samples samples(std::span<const DType>(kSafetensorsDTypes).first(3));
  const std::string path = folder.path + "/a";
  ASSERT_TRUE(write_named_arrays(path, samples.arrays, {{"k", "v"}}).ok());
  mutate(contents(path), fuzz_rounds());
}

TEST(ArrayFileFuzz, DamagedNpzAreErrors) {
  const TemporaryFolder folder;
  const Samples samples(std::span<const DType>(kNpzDTypes).first(2));
  const std::string path = folder.path + "/a.npz";
  ASSERT_TRUE(write_named_arrays(path, samples.arrays).ok());
  mutate(contents(path), fuzz_rounds());
  mutate(std::string(reinterpret_cast<const char*>(kNumpyNpz), kNumpyNpzBytes), fuzz_rounds());
}

TEST(Npz, ReadsWhatNumPyDeflated) {
  NamedArrays out;
  const auto bytes = std::as_bytes(std::span(kNumpyNpz, kNumpyNpzBytes));
  ASSERT_TRUE(is_npz(bytes));
  const Status status = parse_npz(bytes, "f", out);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(out.arrays.size(), 2u);
  EXPECT_EQ(out.arrays[0].name, "a");
  EXPECT_EQ(out.arrays[0].shape.to_string(), "s16[2,3]");
  std::int16_t values[6];
  std::memcpy(values, out.arrays[0].bytes.data(), sizeof values);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(values[i], i);
  EXPECT_EQ(out.arrays[1].shape.to_string(), "f64[40]");
}

// An archive of 42 bytes that says it holds a gigabyte.
TEST(Npz, AClaimOfMoreThanDeflatePacksIsRefusedBeforeItIsUnpacked) {
  std::string file(reinterpret_cast<const char*>(kNumpyNpz), kNumpyNpzBytes);
  const std::size_t central = file.find("PK\x01\x02");
  ASSERT_NE(central, std::string::npos);
  file[central + 27] = '\x40';  // of the unpacked size, the highest byte
  NamedArrays out;
  const Status status = parse_npz(std::as_bytes(std::span(file)), "f", out);
  EXPECT_NE(status.message().find("'a.npy' claims"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace plimsoll::import
