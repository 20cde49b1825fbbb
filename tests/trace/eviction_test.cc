// SPDX-License-Identifier: Apache-2.0
// Tensors of earlier cuts are evicted and restored without anybody noticing.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <set>
#include <string>

#include "runtime/device/devices.h"
#include "runtime/memory/tiers.h"
#include "tests/trace/lab.h"
#include "tests/trace/random_eager.h"

namespace plimsoll::trace {
namespace {

using ir::Opcode;

ContextOptions limited(std::int64_t limit_bytes) {
  ContextOptions options;
  options.limit_bytes = limit_bytes;
  return options;
}

ContextOptions with_host(std::int64_t limit_bytes, std::int64_t host_bytes) {
  ContextOptions options = limited(limit_bytes);
  auto tiers = memory::make_tiers({host_bytes, "", 0}, device::default_device());
  EXPECT_TRUE(tiers.ok()) << tiers.status().to_string();
  options.tiers = *tiers;
  return options;
}

ContextOptions with_disk(std::int64_t limit_bytes, std::int64_t disk_bytes) {
  ContextOptions options = limited(limit_bytes);
  auto tiers = memory::make_tiers({0, testing::TempDir(), disk_bytes}, device::default_device());
  EXPECT_TRUE(tiers.ok()) << tiers.status().to_string();
  options.tiers = *tiers;
  return options;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// An evaluated chain: each tensor the tanh of the one before.
std::vector<Handle> chain(Lab& lab, int length, int floats) {
  std::vector<Handle> tensors;
  tensors.push_back(lab.host(std::vector<float>(static_cast<std::size_t>(floats), 0.75F)));
  for (int i = 0; i < length; ++i) {
    tensors.push_back(lab.op(Opcode::tanh, {tensors.back().node()}));
    EXPECT_TRUE(lab.evaluate({tensors.back().node()}).ok());
  }
  return tensors;
}

// An evaluation that is still under way, or has not begun, was planned under the old limit.
TEST(Eviction, LowersTheLimitAfterWhatWasEvaluated) {
  Lab lab;
  const std::vector<float> data(1 << 16, 0.5F);
  const auto x = lab.host(data);
  // Its two results of 256 KiB beside its operand: more than the limit below.
  const auto step = [&](const Handle& from) {
    const auto y = lab.op(Opcode::tanh, {from.node()});
    auto z = lab.op(Opcode::add, {y.node(), from.node()});
    EXPECT_TRUE(lab.evaluate({y.node(), z.node()}).ok());
    return z;
  };
  for (int round = 0; round < 30; ++round) {
    lab->set_limit(planner::kUnlimited);
    const auto first = step(x), second = step(first), third = step(second);
    lab->set_limit(600 << 10);
    EXPECT_EQ(lab.read(third).size(), data.size());
    ASSERT_TRUE(lab->wait_all().ok());
  }
}

TEST(Eviction, RestoresWhatWasEvicted) {
  Lab lab(limited(4 << 10));
  const auto tensors = chain(lab, 20, 256);  // of 1 KiB each
  EXPECT_LE(lab->budget()->statistics().peak_bytes, 4 << 10);
  EXPECT_GT(lab->evictions().evictions, 15);
  float expected = 0.75F;
  Lab free;
  const auto reference = chain(free, 20, 256);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto values = lab.read(tensors[i]);
    EXPECT_EQ(values, free.read(reference[i])) << i;
    EXPECT_NEAR(values[0], expected, 1e-5F);
    expected = std::tanh(expected);
  }
  EXPECT_GT(lab->evictions().recomputes, 15);
  EXPECT_LE(lab->budget()->statistics().peak_bytes, 4 << 10);
}

TEST(Eviction, ReleasedTensorsAreFreeAtOnce) {
  Lab lab(limited(1 << 20));
  auto tensors = chain(lab, 20, 256);
  lab->wait_idle();
  EXPECT_EQ(lab->budget()->statistics().used_bytes, 20 << 10);
  Handle last = std::move(tensors.back());
  tensors.clear();
  lab->wait_idle();
  EXPECT_EQ(lab->budget()->statistics().used_bytes, 1 << 10);
  last.reset();
  lab->wait_idle();
  EXPECT_EQ(lab->budget()->statistics().used_bytes, 0);
}

TEST(Eviction, KeepsWhatItTakesToMakeOthersAgain) {
  Lab lab(limited(3 << 10));
  Handle source = lab.device(std::vector<float>(256, 0.5F));
  const Handle first = lab.op(Opcode::cosine, {source.node()});
  ASSERT_TRUE(lab.evaluate({first.node()}).ok());
  const Handle second = lab.op(Opcode::tanh, {first.node()});
  ASSERT_TRUE(lab.evaluate({second.node()}).ok());
  const Handle third = lab.op(Opcode::tanh, {second.node()});
  ASSERT_TRUE(lab.evaluate({third.node()}).ok());
  EXPECT_GT(lab->evictions().evictions, 0);  // of first: source, second, third are there
  source.reset();
  const auto values = lab.read(first);
  EXPECT_EQ(values[0], std::cos(0.5F));
  EXPECT_EQ(lab.read(third).size(), 256U);
  EXPECT_LE(lab->budget()->statistics().peak_bytes, 3 << 10);
}

TEST(Eviction, DoesNotOverwriteWhatEvictedTensorsNeed) {
  Lab lab(limited(3 << 10));
  const Handle variable = lab.device(std::vector<float>(256, 0.5F));
  const Handle made = lab.op(Opcode::cosine, {variable.node()});
  ASSERT_TRUE(lab.evaluate({made.node()}).ok());
  const auto filler = chain(lab, 3, 256);  // pushes `made` out
  ASSERT_GT(lab->evictions().evictions, 0);
  // Its old value is still needed, and the new one takes its place.
  const Handle next = lab.op(Opcode::tanh, {variable.node()});
  ASSERT_TRUE(lab->assign(*variable, next.node()).ok());
  ASSERT_TRUE(lab.evaluate({}).ok());
  EXPECT_EQ(lab.read(made)[0], std::cos(0.5F));
  EXPECT_NEAR(lab.read(variable)[0], std::tanh(0.5F), 1e-6F);
  EXPECT_LE(lab->budget()->statistics().peak_bytes, 3 << 10);
}

TEST(Eviction, RunsACutWhoseInputsDoNotFitTogether) {
  const auto sum_of_chain = [](Lab& lab) {
    const auto tensors = chain(lab, 12, 256);
    Handle sum = lab.op(Opcode::cosine, {tensors[1].node()});
    for (std::size_t i = 2; i < tensors.size(); ++i) {
      const Handle product = lab.op(Opcode::multiply, {sum.node(), tensors[i].node()});
      sum = lab.op(Opcode::add, {product.node(), tensors[tensors.size() - i].node()});
    }
    return lab.read(sum);
  };
  Lab free;
  const auto expected = sum_of_chain(free);
  Lab lab(limited(6 << 10));
  EXPECT_TRUE(same_bits(sum_of_chain(lab), expected));
  EXPECT_GT(lab->last_cut().segments, 0);
  EXPECT_LE(lab->budget()->statistics().peak_bytes, 6 << 10);
}

TEST(Eviction, FollowsALimitThatIsLoweredAndRaised) {
  Lab lab(limited(1 << 20));
  const auto tensors = chain(lab, 16, 256);
  lab->wait_idle();
  EXPECT_EQ(lab->budget()->statistics().used_bytes, 16 << 10);
  lab->budget()->set_limit(5 << 10);
  const auto first = lab.read(tensors[3]);
  lab->wait_idle();
  EXPECT_LE(lab->budget()->statistics().used_bytes, 5 << 10);
  lab->budget()->set_limit(1 << 20);
  const std::int64_t evicted = lab->evictions().evictions;
  for (const Handle& tensor : tensors) lab.read(tensor);
  EXPECT_EQ(lab->evictions().evictions, evicted);
  EXPECT_EQ(lab.read(tensors[3]), first);
}

TEST(Eviction, ALongLoopKeepsNoMoreThanItsTensors) {
  Lab lab(limited(8 << 10));
  Handle state = lab.host(std::vector<float>(256, 0.3F));
  const Handle bystander = lab.device(std::vector<float>(256, 1.0F));
  for (int i = 0; i < 500; ++i) {
    state = lab.op(i % 2 == 0 ? Opcode::tanh : Opcode::cosine, {state.node()});
    ASSERT_TRUE(lab.evaluate({state.node()}).ok());
    lab->wait_idle();
    ASSERT_LE(lab->budget()->statistics().used_bytes, 3 << 10) << i;
  }
  EXPECT_EQ(lab.read(state).size(), 256U);
}

TEST(Eviction, AnImpossibleRequestLeavesAllAsItWas) {
  Lab lab(limited(4 << 10));
  const auto tensors = chain(lab, 10, 256);
  const Handle wide = lab.host(std::vector<float>(2048, 1.0F));
  const Handle never = lab.op(Opcode::cosine, {wide.node()});
  const Status status = lab.evaluate({never.node()});
  EXPECT_EQ(status.code(), StatusCode::resource_exhausted) << status.to_string();
  Lab free;
  const auto reference = chain(free, 10, 256);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(lab.read(tensors[i]), free.read(reference[i])) << i;
  }
}

// Masks that nothing can recompute, and no tier: they take an eighth as long as nobody reads them.
TEST(Eviction, KeepsMasksInFewerBytes) {
  constexpr int kMasks = 20, kBytes = 4 << 10;
  const auto masks = [](Lab& lab, std::vector<Handle>& made) {
    const Handle x = lab.host(std::vector<float>(kBytes, 0.25F));
    for (int i = 0; i < kMasks; ++i) {
      std::vector<float> bound(kBytes);
      for (std::size_t j = 0; j < bound.size(); ++j) {
        bound[j] = static_cast<float>((j * 7 + static_cast<std::size_t>(i)) % 11) * 0.05F;
      }
      const Handle against = lab.host(std::move(bound));
      made.push_back(lab.greater(x.node(), against.node()));
      EXPECT_TRUE(lab.evaluate({made.back().node()}).ok());
    }
  };
  const auto bits = [](Lab& lab, const Handle& mask) {
    std::vector<std::byte> bytes(kBytes);
    EXPECT_TRUE(lab->read(mask.node(), bytes).ok());
    return bytes;
  };
  ContextOptions options = limited(52 << 10);  // a program holds 36 KiB
  options.planning.remedies.recompute = false;
  Lab lab(std::move(options)), free;
  std::vector<Handle> made, expected;
  masks(lab, made);
  masks(free, expected);
  EXPECT_GT(lab->evictions().encodes, kMasks / 2);
  EXPECT_EQ(lab->evictions().recomputes, 0);
  for (std::size_t i = 0; i < made.size(); ++i)
    EXPECT_EQ(bits(lab, made[i]), bits(free, expected[i]));
  EXPECT_LE(lab->budget()->statistics().peak_bytes, 52 << 10);
  EXPECT_GT(lab->budget()->statistics().used_by_use[static_cast<std::size_t>(memory::Use::encoded)],
            0);
  made.clear();
  lab->wait_idle();
  EXPECT_EQ(lab->budget()->statistics().used_bytes, 0);
}

// A lossy codec where the policy allows one, and never for what nothing can recompute.
TEST(Eviction, KeepsFewerBitsWhereThatIsAllowed) {
  constexpr std::int64_t kLimit = 104 << 10;  // of six, and what it takes to encode one
  ContextOptions options = limited(kLimit);
  options.planning.remedies.lossy = true;
  options.planning.remedies.lossy_codec = ir::CodecKind::int8;
  Lab lab(std::move(options)), free;
  const Handle source = lab.device(std::vector<float>(4096, 0.3F));
  const auto made = chain(lab, 40, 4096), expected = chain(free, 40, 4096);  // of 16 KiB each
  EXPECT_GT(lab->evictions().encodes, 0);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto values = lab.read(made[i]), exact = free.read(expected[i]);
    // Half of 127ths, and what was made of such.
    for (std::size_t j = 0; j < values.size(); ++j) ASSERT_NEAR(values[j], exact[j], 0.02F);
  }
  EXPECT_EQ(lab.read(source), std::vector<float>(4096, 0.3F));
  EXPECT_LE(lab->budget()->statistics().peak_bytes, kLimit);
}

// Copies in device memory go where even they take too much room, and what they hold can be made
// again.
TEST(Eviction, GivesUpCopiesInFewerBytes) {
  ContextOptions options = limited(104 << 10);
  options.planning.remedies.lossy = true;
  options.planning.remedies.lossy_codec = ir::CodecKind::bfloat16;
  Lab lab(std::move(options)), free;
  const auto made = chain(lab, 40, 4096), expected = chain(free, 40, 4096);
  EXPECT_GT(lab->evictions().encodes, 0);
  lab->wait_idle();
  lab->budget()->set_limit(40 << 10);
  for (std::size_t i = made.size(); i-- > 0;) {
    const auto values = lab.read(made[i]), exact = free.read(expected[i]);
    for (std::size_t j = 0; j < values.size(); ++j) ASSERT_NEAR(values[j], exact[j], 0.02F);
    lab->wait_idle();
    EXPECT_LE(lab->budget()->statistics().used_bytes, 40 << 10);
  }
}

// Each tensor that a cut reads may take another's room to come back: the limit that is named does.
TEST(Eviction, NamesALimitThatDoes) {
  for (std::int64_t limit : {2 << 10, 3 << 10, 4 << 10, 5 << 10, 6 << 10}) {
    Lab lab(limited(16 << 10));
    std::vector<Handle> sources;
    for (int i = 0; i < 3; ++i) {
      sources.push_back(lab.device(std::vector<float>(256, 0.25F * static_cast<float>(i))));
    }
    const Handle first = lab.op(Opcode::tanh, {sources[0].node()});
    const Handle second = lab.op(Opcode::cosine, {sources[1].node()});
    ASSERT_TRUE(lab.evaluate({first.node()}).ok());
    ASSERT_TRUE(lab.evaluate({second.node()}).ok());
    const Handle product = lab.op(Opcode::multiply, {first.node(), second.node()});
    ASSERT_TRUE(lab.evaluate({product.node()}).ok());
    const Handle rest = lab.op(Opcode::subtract, {product.node(), sources[0].node()});
    const auto insist = [&](const std::function<Status()>& step) {
      lab->budget()->set_limit(limit);
      Status status = step();
      if (!status.ok()) {
        ASSERT_NE(status.shortage(), nullptr) << status.to_string();
        EXPECT_EQ(status.shortage()->limit_bytes, limit);
        ASSERT_GT(status.shortage()->floor_bytes, limit);
        limit = status.shortage()->floor_bytes;
        EXPECT_LE(limit, 8 << 10);
        lab->budget()->set_limit(limit);
        status = step();
      }
      EXPECT_TRUE(status.ok()) << limit << ": " << status.to_string();
    };
    insist([&] { return lab.evaluate({rest.node()}); });
    insist([&] { return lab.read_status(first); });
  }
}

TEST(Eviction, DoesWhatTheUserAsksFor) {
  Lab lab(with_host(8 << 10, 64 << 10));
  const Handle source = lab.device(std::vector<float>(256, 0.5F));
  const auto made_with = [&](ir::Hint hint) {
    Handle made = lab.op(Opcode::tanh, {source.node()});
    set_hint(*made.node(), hint);
    EXPECT_TRUE(lab.evaluate({made.node()}).ok());
    return made;
  };
  const Handle kept = made_with(ir::Hint::keep);
  const Handle swapped = made_with(ir::Hint::swap);
  const Handle dropped = made_with(ir::Hint::recompute);
  const auto others = chain(lab, 12, 256);
  lab->wait_idle();
  EXPECT_TRUE(kept.node()->value->device);
  EXPECT_FALSE(swapped.node()->value->device);
  EXPECT_TRUE(swapped.node()->value->has_copy());
  EXPECT_FALSE(dropped.node()->value->device);
  EXPECT_FALSE(dropped.node()->value->has_copy());
  EXPECT_EQ(lab.read(kept), lab.read(swapped));
  EXPECT_EQ(lab.read(kept), lab.read(dropped));
  EXPECT_LE(lab->budget()->statistics().peak_bytes, 8 << 10);
}

// Runs of one program: without a limit, and what its peak was.
struct Reference {
  std::vector<float> results;
  std::int64_t peak_bytes = 0;
};

const auto kNeverAgain = [](const Status&) { return false; };

Reference reference_of(std::uint32_t seed) {
  Lab lab;
  const auto results = RandomEager(seed).run(lab, [](const Status& status) {
    ADD_FAILURE() << status.to_string();
    return false;
  });
  return {results.value_or(std::vector<float>()), lab->budget()->statistics().peak_bytes};
}

void expect_same(std::uint32_t seed, const Reference& reference, ContextOptions options,
                 int& evicted, int& refused) {
  const std::int64_t limit = options.limit_bytes;
  Lab lab(std::move(options));
  const auto results = RandomEager(seed).run(lab, kNeverAgain);
  EXPECT_LE(lab->budget()->statistics().peak_bytes, limit);
  evicted += lab->evictions().evictions > 0;
  if (!results) {
    ++refused;
  } else {
    EXPECT_TRUE(same_bits(*results, reference.results)) << "seed " << seed << ", limit " << limit;
  }
  EXPECT_TRUE(lab.evaluate({}).ok());  // forgets assignments that nobody sees any more
  lab->wait_idle();
  EXPECT_EQ(lab->budget()->statistics().used_bytes, 0) << "seed " << seed << ", limit " << limit;
}

TEST(Eviction, RandomProgramsGiveTheSameBitsAtRandomLimits) {
  int evicted = 0, refused = 0, runs = 0;
  for (std::uint32_t seed = 1; seed <= 25; ++seed) {
    const Reference reference = reference_of(seed);
    std::mt19937 random(seed);
    for (const int percent : {100, 70, 50, 35}) {
      const std::int64_t limit =
          reference.peak_bytes * percent / 100 + static_cast<std::int64_t>(random() % 512);
      expect_same(seed, reference, limited(limit), evicted, refused);
      expect_same(seed, reference, with_host(limit, reference.peak_bytes), evicted, refused);
      runs += 2;
      if (percent == 50) {
        expect_same(seed, reference, with_disk(limit, reference.peak_bytes), evicted, refused);
        ++runs;
      }
    }
  }
  EXPECT_GT(evicted, runs / 3);
  EXPECT_LT(refused, runs / 2);
}

// What a refusal names does, at the first attempt.
TEST(Eviction, RandomProgramsRunAtTheLimitsThatRefusalsName) {
  int refusals = 0, again = 0;
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    const Reference reference = reference_of(seed);
    for (const bool host : {false, true}) {
      const std::int64_t limit = reference.peak_bytes * (20 + seed % 20) / 100;
      Lab lab(host ? with_host(limit, reference.peak_bytes) : limited(limit));
      int refused = -1;
      RandomEager program(seed);
      const auto results = program.run(lab, [&](const Status& status) {
        const MemoryShortage* shortage = status.shortage();
        EXPECT_NE(shortage, nullptr) << status.to_string();
        if (shortage == nullptr) return false;
        ++refusals;
        again += program.done() == std::exchange(refused, program.done());
        EXPECT_GT(shortage->floor_bytes, lab->budget()->limit());
        lab->budget()->set_limit(shortage->floor_bytes);
        return true;
      });
      ASSERT_TRUE(results) << seed;
      EXPECT_TRUE(same_bits(*results, reference.results)) << "seed " << seed;
    }
  }
  EXPECT_GT(refusals, 500);
  EXPECT_EQ(again, 0) << "of " << refusals;
}

// Every way in which something may fail once. What has failed is tried again.
enum class Fault { allocation, host_allocation, store, load, codec };

// Gives what was left of the n before: 0 where that failure has come.
std::int64_t inject(Lab& lab, Fault fault, std::int64_t n) {
  memory::Tier* host = lab->budget()->tiers().host.get();
  switch (fault) {
    case Fault::allocation:
      return lab->budget()->fail_allocation(n);
    case Fault::host_allocation:
      return host->fail_allocation(n);
    case Fault::store:
      return host->out().fail_transfer(n);
    case Fault::load:
      return host->in().fail_transfer(n);
    case Fault::codec:
      return lab->fail_codec(n);
  }
  return 0;
}

// A tight limit under which the program runs with a host tier.
std::int64_t limit_that_does(std::uint32_t seed, const Reference& reference) {
  for (int percent = 50; percent < 100; percent += 5) {
    const std::int64_t limit = reference.peak_bytes * percent / 100;
    Lab lab(with_host(limit, reference.peak_bytes));
    if (RandomEager(seed).run(lab, kNeverAgain)) return limit;
  }
  return reference.peak_bytes;
}

class EvictionFaults : public ::testing::TestWithParam<std::uint32_t> {};

// Of each kind the first, the second and so on, up to one that the program has no place for.
TEST_P(EvictionFaults, SurvivesOneAtEveryPlace) {
  constexpr std::int64_t kMostPlaces = 1000;
  const std::uint32_t seed = GetParam();
  int runs = 0, raised = 0;
  const Reference reference = reference_of(seed);
  const std::int64_t limit = limit_that_does(seed, reference);
  for (const Fault fault :
       {Fault::allocation, Fault::host_allocation, Fault::store, Fault::load, Fault::codec}) {
    std::int64_t n = 1;
    for (bool struck = true; struck; ++n) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", fault " +
                   std::to_string(static_cast<int>(fault)) + ", n " + std::to_string(n));
      ASSERT_LE(n, kMostPlaces);
      Lab lab(with_host(limit, reference.peak_bytes));
      inject(lab, fault, n);
      int failures = 0;
      // Each error reaches whoever asks first. Two steps that were to overwrite what they read,
      // and have both failed, may hold more together than the limit has room for.
      const auto results = RandomEager(seed).run(lab, [&](const Status& status) {
        if (++failures == 20) lab->budget()->set_limit(planner::kUnlimited);
        if (failures > 40) ADD_FAILURE() << status.to_string();
        return failures <= 40;
      });
      lab->wait_idle();
      struck = inject(lab, fault, 0) == 0;
      ++runs;
      raised += failures >= 20;
      if (failures < 20) {
        EXPECT_LE(lab->budget()->statistics().peak_bytes, limit);
      }
      EXPECT_TRUE(struck || failures == 0);
      ASSERT_TRUE(results);
      EXPECT_TRUE(same_bits(*results, reference.results));
      EXPECT_TRUE(lab.evaluate({}).ok());
      lab->wait_idle();
      EXPECT_EQ(lab->budget()->statistics().used_bytes, 0);
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(n, 2) << "nowhere did fault " << static_cast<int>(fault) << " strike";
  }
  EXPECT_LE(raised * 10, runs);
}

// Of programs that have places of each kind.
INSTANTIATE_TEST_SUITE_P(Seeds, EvictionFaults, ::testing::Values(1U, 2U, 4U, 10U));

}  // namespace
}  // namespace plimsoll::trace
