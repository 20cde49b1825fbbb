// SPDX-License-Identifier: Apache-2.0
// Copies in tiers that take fewer bytes than their values.
#include "runtime/residency/tier_copy.h"
#include "runtime/device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "runtime/memory/tiers.h"
#include "tests/trace/lab.h"

namespace plimsoll::trace {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr memory::LinkSpeed kFast{20e9, 20e9, 1e-6, 0}, kSlow{0.1e9, 0.1e9, 1e-4, 0};

memory::Tiers tiers(std::int64_t host_bytes, std::int64_t disk_bytes) {
  const std::string folder = disk_bytes > 0 ? testing::TempDir() : "";
  auto made = memory::make_tiers({host_bytes, folder, disk_bytes}, device::cpu_device());
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  if (made->host != nullptr) made->host->set_speed(kFast);
  if (made->disk != nullptr) made->disk->set_speed(kSlow);
  return *made;
}

// `share` of the elements are not zero, of random bits but those of the first byte.
Bytes elements(std::int64_t bytes, int size, double share, std::uint32_t seed, bool noise = true) {
  std::mt19937_64 random(seed);
  Bytes made(static_cast<std::size_t>(bytes), std::byte{0});
  for (std::int64_t at = 0; at + size <= bytes; at += size) {
    if (static_cast<double>(random() >> 11) * 0x1p-53 >= share) continue;
    std::uint64_t value = noise ? random() | 1 : 1 + random() % 7;
    if (size == 8 && noise) value |= std::uint64_t{1} << 63;
    std::memcpy(made.data() + at, &value, static_cast<std::size_t>(size));
  }
  return made;
}

class Copied {
 public:
  Copied(memory::Tier& tier, const Bytes& from, int element_bytes, std::int64_t fail_in = 0)
      : tier_(tier), from_(from), fail_in_(fail_in) {
    auto made =
        TierCopy::create(tier, static_cast<std::int64_t>(from.size()), element_bytes, fail_in_);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    copy_ = std::move(*made);
    EXPECT_GE(tier.statistics().reserved_bytes, static_cast<std::int64_t>(from.size()));
    const auto transfer = tier.out().enqueue(
        1, [&](device::Stream& stream) { return copy_->store(from_.data(), stream); });
    stored_ = tier.out().wait(*transfer);
    EXPECT_EQ(tier.statistics().reserved_bytes, 0);
  }
  Status stored() const { return stored_; }
  std::int64_t held_bytes() const { return copy_->held_bytes(); }
  void fail_in(std::int64_t n) { fail_in_ = n; }
  Status load() {
    Bytes to(from_.size(), std::byte{0x5a});
    const auto transfer = tier_.in().enqueue(
        1, [&](device::Stream& stream) { return copy_->load(to.data(), stream); });
    PLIMSOLL_RETURN_IF_ERROR(tier_.in().wait(*transfer));
    EXPECT_TRUE(to == from_) << from_.size() << " bytes";
    return ok_status();
  }

 private:
  memory::Tier& tier_;
  const Bytes& from_;
  std::atomic<std::int64_t> fail_in_;
  std::unique_ptr<TierCopy> copy_;
  Status stored_;
};

TEST(TierCopy, ComesBackTheSameAndTakesNoMoreThanItsValue) {
  const memory::Tiers both = tiers(64 * kMiB, 64 * kMiB);
  // More than half, so that room counts there.
  const auto taken = both.host->allocate(40 * kMiB, "others");
  ASSERT_TRUE(taken.ok());
  std::mt19937 random(5);
  for (int i = 0; i < 120; ++i) {
    memory::Tier& tier = i % 2 == 0 ? *both.host : static_cast<memory::Tier&>(*both.disk);
    const int size = 1 << (random() % 4);
    const double share = static_cast<double>(random() % 11) / 10;
    const std::int64_t most = i % 5 == 0 ? 5 * kMiB : 200000;
    const std::int64_t bytes = aligned_bytes(static_cast<std::int64_t>(random()) % most + 1);
    SCOPED_TRACE(std::to_string(bytes) + " bytes, elements of " + std::to_string(size) + ", " +
                 std::to_string(share) + " of them not zero");
    const Bytes from = elements(bytes, size, share, random(), random() % 2 == 0);
    const std::int64_t allocated = tier.statistics().used_bytes;
    Copied copied(tier, from, size);
    ASSERT_TRUE(copied.stored().ok()) << copied.stored().to_string();
    EXPECT_LE(copied.held_bytes(), bytes);
    EXPECT_EQ(tier.statistics().used_bytes - allocated, copied.held_bytes());
    if (bytes >= 128 << 10 && share <= 0.4) {
      EXPECT_LT(copied.held_bytes(), bytes * 3 / 4);
    }
    EXPECT_TRUE(copied.load().ok());
    EXPECT_TRUE(copied.load().ok());
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(both.host->statistics().used_bytes, 40 * kMiB);
  EXPECT_EQ(both.disk->statistics().used_bytes, 0);
  EXPECT_EQ(both.host->statistics().staging_bytes, 0);
}

TEST(TierCopy, KeepsDenseValuesAsTheyAre) {
  const memory::Tiers both = tiers(8 * kMiB, 8 * kMiB);
  const Bytes noise = elements(2 * kMiB, 8, 1, 1);
  EXPECT_EQ(Copied(*both.host, noise, 8).held_bytes(), 2 * kMiB);
  EXPECT_EQ(Copied(*both.disk, noise, 8).held_bytes(), 2 * kMiB);
  // Of no known size, too.
  const Bytes zeros(static_cast<std::size_t>(kMiB), std::byte{0});
  EXPECT_EQ(Copied(*both.host, zeros, 0).held_bytes(), kMiB);
}

TEST(TierCopy, TakesNoTimeForACodeWhereThereIsRoom) {
  const memory::Tiers both = tiers(8 * kMiB, 0);
  const Bytes from = elements(3 * kMiB, 4, 0.2, 1);
  const Copied first(*both.host, from, 4);
  EXPECT_EQ(first.held_bytes(), 3 * kMiB);
  const Copied second(*both.host, from, 4);
  EXPECT_LT(second.held_bytes(), kMiB);
}

TEST(TierCopy, CompressesBytePlanesForSlowTiersOnly) {
  const memory::Tiers both = tiers(8 * kMiB, 8 * kMiB);
  const Bytes alike = elements(2 * kMiB, 4, 1, 1, /*noise=*/false);
  EXPECT_EQ(Copied(*both.host, alike, 4).held_bytes(), 2 * kMiB);
  Copied on_disk(*both.disk, alike, 4);
  EXPECT_LT(on_disk.held_bytes(), kMiB);
  EXPECT_TRUE(on_disk.load().ok());
}

// Zero wherever one looks, and nowhere else.
TEST(TierCopy, SurvivesAWrongSample) {
  const memory::Tiers both = tiers(16 * kMiB, 0);
  Bytes from = elements(10 * kMiB, 4, 1, 3);
  const std::int64_t bytes = 10 * kMiB;
  for (std::int64_t i = 0; i < 64; ++i) {
    const std::int64_t at = (bytes - 64) / 63 * i / 64 * 64;
    std::memset(from.data() + at, 0, 64);
  }
  Copied copied(*both.host, from, 4);
  ASSERT_TRUE(copied.stored().ok());
  EXPECT_LE(copied.held_bytes(), bytes);
  EXPECT_TRUE(copied.load().ok());
}

TEST(TierCopy, SurvivesFaults) {
  const memory::Tiers both = tiers(8 * kMiB, 8 * kMiB);
  const Bytes from = elements(3 * kMiB, 4, 0.2, 1);
  Copied plain(*both.host, from, 4, 1);  // what can't be encoded is kept as it is
  EXPECT_TRUE(plain.stored().ok());
  EXPECT_EQ(plain.held_bytes(), 3 * kMiB);
  EXPECT_TRUE(plain.load().ok());
  Copied coded(*both.host, from, 4);
  coded.fail_in(1);
  EXPECT_EQ(coded.load().code(), StatusCode::data_loss);
  EXPECT_TRUE(coded.load().ok());
  Copied damaged(*both.disk, from, 4);
  EXPECT_LT(damaged.held_bytes(), kMiB);
  static_cast<memory::SpillFile&>(*both.disk).inject(memory::SpillFile::Fault::flipped_bit, 1);
  EXPECT_EQ(damaged.load().code(), StatusCode::data_loss);
  EXPECT_TRUE(damaged.load().ok());
  both.host->fail_allocation(1);
  std::atomic<std::int64_t> none{0};
  EXPECT_EQ(TierCopy::create(*both.host, 64, 4, none).status().code(),
            StatusCode::resource_exhausted);
}

// Rectified noise, `shift` of which says how much of it is zero, each tensor evaluated; then all of
// them together.
constexpr std::int64_t kFloats = 32 << 10;
constexpr int kTensors = 12;

std::vector<Handle> rectified(Lab& lab, float shift) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<Handle> made;
  for (int i = 0; i < kTensors; ++i) {
    std::vector<float> values(kFloats);
    for (float& value : values) value = std::max(0.0F, normal(random) - shift);
    made.push_back(lab.device(std::move(values)));
  }
  return made;
}

ContextOptions limited(std::int64_t percent, std::int64_t host_bytes) {
  ContextOptions options;
  options.limit_bytes = kTensors * kFloats * 4 * percent / 100;
  options.tiers = tiers(host_bytes, 0);
  return options;
}

// Room for nearly all of them, so that much of it is taken soon.
constexpr std::int64_t kHostBytes = kTensors * kFloats * 4 * 90 / 100;

TEST(TierCopy, EagerTensorsTakeLessOfATier) {
  Lab free;
  for (const float shift : {0.6F, 0.0F, -9.0F}) {
    const auto expected = rectified(free, shift);
    for (const int percent : {50, 30}) {
      for (const bool compress : {true, false}) {
        ContextOptions options = limited(percent, kHostBytes);
        options.planning.remedies.compress = compress;
        Lab lab(std::move(options));
        const auto made = rectified(lab, shift);
        for (std::size_t i = 0; i < made.size(); ++i) {
          EXPECT_EQ(lab.read(made[i]), free.read(expected[i]));
        }
        lab->wait_idle();
        const StoredBytes stored = lab->stored_bytes();
        const memory::TierStatistics tier = lab->budget()->tiers().host->statistics();
        EXPECT_GT(stored.given, 0);
        const auto evictions = nlohmann::json::parse(report_json(*lab)).at("evictions");
        EXPECT_EQ(evictions.at("stored_bytes"), stored.given);
        EXPECT_EQ(evictions.at("tier_bytes"), stored.taken);
        EXPECT_GT(tier.used_bytes, 0);
        EXPECT_EQ(tier.staging_bytes, 0);
        EXPECT_LE(lab->budget()->statistics().peak_bytes, lab->budget()->limit());
        if (compress && shift > -1) {
          EXPECT_LT(stored.taken, stored.given) << shift;
        } else {
          EXPECT_EQ(stored.taken, stored.given) << shift;
        }
      }
    }
  }
}

// What copies do not take is there for others: a tier that is too small for the values will do.
TEST(TierCopy, MoreTensorsFitInATier) {
  const std::int64_t host_bytes = kTensors * kFloats * 4 * 60 / 100;
  for (const bool compress : {true, false}) {
    ContextOptions options = limited(30, host_bytes);
    options.planning.remedies.compress = compress;
    Lab lab(std::move(options)), free;
    std::mt19937 random(9);
    bool fits = true;
    std::vector<Handle> made, expected;
    for (int i = 0; i < kTensors && fits; ++i) {
      std::vector<float> values(kFloats);
      for (float& value : values) value = random() % 8 == 0 ? static_cast<float>(random()) : 0.0F;
      expected.push_back(free.device(values));
      made.push_back(lab.host(std::move(values)));
      fits = lab.evaluate({made.back().node()}).ok();
      lab->wait_idle();
    }
    EXPECT_EQ(fits, compress);
    for (std::size_t i = 0; fits && i < made.size(); ++i) {
      EXPECT_EQ(lab.read(made[i]), free.read(expected[i]));
    }
    EXPECT_LE(lab->budget()->tiers().host->statistics().peak_bytes, host_bytes);
  }
}

TEST(TierCopy, EagerTensorsSurviveAFaultAtEveryCode) {
  Lab free;
  const auto expected = rectified(free, 0.6F);
  for (std::int64_t n = 1; n <= 40; ++n) {
    Lab lab(limited(30, kHostBytes));
    lab->fail_codec(n);
    const auto made = rectified(lab, 0.6F);
    int failures = 0;
    for (std::size_t i = 0; i < made.size(); ++i) {
      Status status = lab.read_status(made[i]);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), StatusCode::data_loss) << status.to_string();
        ++failures;
      }
      EXPECT_EQ(lab.read(made[i]), free.read(expected[i])) << n;
    }
    EXPECT_LE(failures, 1);
    EXPECT_LE(lab->budget()->statistics().peak_bytes, lab->budget()->limit());
  }
}

}  // namespace
}  // namespace plimsoll::trace
