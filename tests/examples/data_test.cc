// SPDX-License-Identifier: Apache-2.0
#include "plimsoll/data.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

namespace plimsoll::data {
namespace {

class DataFolder : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::path(testing::TempDir()) / ("plimsoll_data_" + name);
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& bytes) {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::filesystem::path write_gzip(const std::string& name, const std::string& bytes) {
    const std::filesystem::path path = folder_ / name;
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path;
  }

  std::filesystem::path folder_;
};

std::string be32(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string idx(char type, const std::vector<std::uint32_t>& dims, const std::string& data) {
  std::string text = {0, 0, type, static_cast<char>(dims.size())};
  for (const std::uint32_t dim : dims) text += be32(dim);
  return text + data;
}

template <typename F>
Error error_of(F function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::unknown, "");
}

using IdxReader = DataFolder;

TEST_F(IdxReader, ReadsPlainAndGzippedFilesAlike) {
  const std::string text = idx(0x08, {2, 3}, "abcdef");
  for (const auto& path : {write("plain", text), write_gzip("packed.gz", text)}) {
    const IdxArray array = read_idx(path);
    EXPECT_EQ(array.type, IdxType::u8);
    EXPECT_EQ(array.dims, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(std::string(array.bytes.begin(), array.bytes.end()), "abcdef");
  }
}

TEST_F(IdxReader, TurnsWideElementsIntoThisMachinesByteOrder) {
  const IdxArray array = read_idx(write("ints", idx(0x0C, {2}, be32(1) + be32(0xfffffffeu))));
  std::int32_t values[2];
  ASSERT_EQ(array.bytes.size(), sizeof values);
  std::memcpy(values, array.bytes.data(), sizeof values);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], -2);
}

TEST_F(IdxReader, NamesTheFileThatIsMissing) {
  const Error error = error_of([&] { read_idx(folder_ / "absent.gz"); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_NE(error.message().find("absent.gz: No such file"), std::string::npos) << error.what();
}

TEST_F(IdxReader, RefusesAFolder) { EXPECT_THROW(read_idx(folder_), Error); }

TEST_F(IdxReader, RefusesWhatIsNotIdx) {
  for (const std::string& text : {std::string(), std::string("ab"), std::string("no header at all"),
                                  idx(0x07, {1}, "a"), std::string({0, 0, 8, 3, 0, 0})}) {
    EXPECT_EQ(error_of([&] { read_idx(write("bad", text)); }).code(), ErrorCode::data_loss);
  }
}

TEST_F(IdxReader, RefusesTooLittleAndTooMuchData) {
  const Error few = error_of([&] { read_idx(write("few", idx(0x08, {7}, "abcdef"))); });
  EXPECT_NE(few.message().find("holds 6 bytes of data, but its header promises 7"),
            std::string::npos)
      << few.what();
  const Error many = error_of([&] { read_idx(write("many", idx(0x08, {5}, "abcdef"))); });
  EXPECT_NE(many.message().find("more data follows"), std::string::npos) << many.what();
}

TEST_F(IdxReader, DoesNotTrustAHugeHeader) {
  const std::uint32_t huge = 0xffffffffu;
  EXPECT_EQ(error_of([&] { read_idx(write("a", idx(0x08, {huge, 1024}, "a"))); }).code(),
            ErrorCode::data_loss);
  EXPECT_EQ(error_of([&] { read_idx(write("b", idx(0x08, {huge, huge, huge}, "a"))); }).code(),
            ErrorCode::data_loss);
}

TEST_F(IdxReader, RefusesABrokenGzipStream) {
  std::string noise(50000, ' ');
  HostRandom random(1);
  for (char& c : noise) c = static_cast<char>(random.next_word());
  const auto path = write_gzip("cut.gz", idx(0x08, {50000}, noise));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_EQ(error_of([&] { read_idx(path); }).code(), ErrorCode::data_loss);

  const auto flipped = write_gzip("flipped.gz", idx(0x08, {50000}, noise));
  std::fstream file(flipped, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(flipped)) - 6);
  file.write("\x5a\x5a", 2);
  file.close();
  EXPECT_EQ(error_of([&] { read_idx(flipped); }).code(), ErrorCode::data_loss);
}

TEST_F(IdxReader, RefusesLabelsThatDoNotBelongToTheImages) {
  write("t-images-idx3-ubyte", idx(0x08, {2, 1, 1}, "ab"));
  write_gzip("t-labels-idx1-ubyte.gz", idx(0x08, {3}, "abc"));
  const Error error = error_of([&] { read_labeled_images(folder_, "t"); });
  EXPECT_NE(error.message().find("3 labels for 2 images"), std::string::npos) << error.what();
}

LabeledImages tiny_images() {
  LabeledImages images;
  images.count = 2;
  images.height = 1;
  images.width = 3;
  images.pixels = {0, 51, 255, 255, 0, 102};
  images.labels = {7, 4};
  return images;
}

TEST(ImageBatcher, NormalizesTheChosenImagesInOrder) {
  const LabeledImages images = tiny_images();
  std::vector<float> out(6);
  std::vector<std::int32_t> labels(2);
  ImageBatcher(images, 0.5f, 0.25f).write(std::vector<std::int64_t>{1, 0}, out, labels);
  const std::vector<float> expected = {2.0f, -2.0f, -0.4f, -2.0f, -1.2f, 2.0f};
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-6f) << i;
  EXPECT_EQ(labels, (std::vector<std::int32_t>{4, 7}));
}

TEST(ImageBatcher, RefusesAnImageThatIsNotThere) {
  const LabeledImages images = tiny_images();
  std::vector<float> out(3);
  std::vector<std::int32_t> labels(1);
  const ImageBatcher batcher(images, 0, 1);
  EXPECT_THROW(batcher.write(std::vector<std::int64_t>{2}, out, labels), Error);
  EXPECT_THROW(batcher.write(std::vector<std::int64_t>{0, 1}, out, labels), Error);
}

TEST(ImageBatcher, AugmentsAsAFunctionOfSeedEpochAndImageAlone) {
  const LabeledImages images = tiny_images();
  const ImageBatcher batcher(images, 0, 1);
  std::set<std::vector<float>> seen;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    std::vector<float> alone(3), second(6);
    std::vector<std::int32_t> labels(1), two(2);
    batcher.write(std::vector<std::int64_t>{0}, alone, labels, {true, 1}, 5, epoch);
    batcher.write(std::vector<std::int64_t>{1, 0}, second, two, {true, 1}, 5, epoch);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), second.begin() + 3));
    seen.insert(alone);
  }
  // Each of {0,1,2 columns kept from the left, all, from the right} x {flipped, not}.
  EXPECT_GE(seen.size(), 6u);
}

TEST(ShuffledBatches, VisitsEverythingOnceAnEpochInAnOrderOfItsOwn) {
  ShuffledBatches batches(10, 3, 42);
  EXPECT_EQ(batches.batches_per_epoch(), 3);
  std::vector<std::vector<std::int64_t>> epochs(2);
  for (auto& order : epochs) {
    for (int i = 0; i < 3; ++i) {
      const auto batch = batches.next();
      order.insert(order.end(), batch.begin(), batch.end());
    }
    EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 9u);
  }
  EXPECT_EQ(batches.epoch(), 1);
  EXPECT_NE(epochs[0], epochs[1]);

  ShuffledBatches again(10, 3, 42);
  again.start_epoch(1);
  const auto first = again.next();
  EXPECT_TRUE(std::equal(first.begin(), first.end(), epochs[1].begin()));
}

TEST(ShuffledBatches, RefusesABatchLargerThanTheData) {
  EXPECT_THROW(ShuffledBatches(10, 11, 0), Error);
  EXPECT_THROW(ShuffledBatches(10, 0, 0), Error);
}

TEST(HostRandom, GivesThePublishedPhiloxBlocks) {
  const std::array<std::uint32_t, 4> zero = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
  EXPECT_EQ(HostRandom(0, 0).block(0), zero);
  const std::array<std::uint32_t, 4> ones = {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu};
  EXPECT_EQ(HostRandom(~0ull, ~0ull).block(~0ull), ones);
}

TEST(HostRandom, IsUniformBelowABound) {
  HostRandom random(3);
  std::vector<int> counts(5);
  for (int i = 0; i < 50000; ++i) ++counts[static_cast<std::size_t>(random.next_below(5))];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 400);
}

TEST(ByteVocabulary, GoesThereAndBack) {
  const ByteVocabulary vocabulary("hello\xff");
  EXPECT_EQ(vocabulary.size(), 5);
  EXPECT_EQ(vocabulary.decode(vocabulary.encode("hole\xff")), "hole\xff");
  EXPECT_THROW(vocabulary.encode("help"), Error);
}

TEST(TokenWindows, PredictTheNextToken) {
  std::vector<std::int32_t> tokens(20);
  std::iota(tokens.begin(), tokens.end(), 0);
  TokenWindows windows(tokens, 4, 9);
  std::vector<std::int32_t> inputs, targets;
  std::set<std::int32_t> starts;
  for (int i = 0; i < 50; ++i) {
    windows.next(3, inputs, targets);
    ASSERT_EQ(inputs.size(), 12u);
    for (std::size_t j = 0; j < inputs.size(); ++j) EXPECT_EQ(targets[j], inputs[j] + 1);
    for (std::size_t j = 0; j < inputs.size(); j += 4) starts.insert(inputs[j]);
  }
  EXPECT_EQ(starts.size(), 16u);
  EXPECT_THROW(TokenWindows({1, 2, 3, 4}, 4, 0), Error);
}

}  // namespace
}  // namespace plimsoll::data
