// SPDX-License-Identifier: Apache-2.0
// What every device keeps to (runtime/device/): a further one is added to the list at the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/backend/backends.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/devices.h"
#include "runtime/ir/codec/codec.h"
#include "runtime/ir/text/text.h"
#include "tests/device/cuda/recorded_gpu.h"
#include "tests/device/fake_async.h"

namespace plimsoll::device {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr std::int64_t kFloats = 1000;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

struct DeviceCase {
  std::string name;
  std::shared_ptr<Device> (*make)();
};
void PrintTo(const DeviceCase& device, std::ostream* out) { *out << device.name; }

class Conformance : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    device_ = GetParam().make();
    if (device_ == nullptr) GTEST_SKIP() << find_device(GetParam().name).status().message();
    provider_ = backend::create_kernels(device_).value();
    stream_ = device_->create_stream().value();
  }
  void TearDown() override {
    stream_ = nullptr;
    blocks_.clear();
    if (auto* const fake = dynamic_cast<FakeAsyncDevice*>(device_.get())) {
      EXPECT_EQ(fake->allocations(), 0);
    }
#ifndef PLIMSOLL_GPU_TESTS
    if (const std::string name = GetParam().name; name.starts_with("cuda:")) {
      EXPECT_EQ(cuda::complaints(cuda::recorded_gpu(name.back() - '0')), "");
    }
#endif
  }

  // Device memory until the end of the test.
  void* block(std::int64_t bytes) {
    auto made = device_->allocate(bytes);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (!made.ok()) return nullptr;
    blocks_.emplace_back(*made,
                         [device = device_, bytes](void* p) { device->deallocate(p, bytes); });
    return *made;
  }
  template <typename T>
  void* block_of(const std::vector<T>& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    void* const made = block(bytes);
    EXPECT_TRUE(stream_->copy(made, values.data(), bytes, CopyKind::host_to_device).ok());
    EXPECT_TRUE(stream_->synchronize().ok());
    return made;
  }
  template <typename T>
  std::vector<T> read(const void* from, std::int64_t count, Stream& stream) {
    std::vector<T> values(static_cast<std::size_t>(count));
    EXPECT_TRUE(stream
                    .copy(values.data(), from, count * static_cast<std::int64_t>(sizeof(T)),
                          CopyKind::device_to_host)
                    .ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return values;
  }
  std::vector<float> read_floats(const void* from, std::int64_t count = kFloats) {
    return read<float>(from, count, *stream_);
  }
  std::unique_ptr<Event> event() { return device_->create_event().value(); }

  // The root of `body`, parameters a and b, as a kernel.
  std::shared_ptr<const Kernel> kernel(const std::string& root, std::int64_t floats = kFloats) {
    const std::string shape = "f32[" + std::to_string(floats) + "]";
    const auto module = ir::parse_module(
        "HloModule m\nENTRY e {\n  a = " + shape + " parameter(0)\n  b = " + shape +
            " parameter(1)\n  ROOT r = " + shape + " " + root + "\n}\n",
        "conformance");
    EXPECT_TRUE(module.ok()) << module.status().to_string();
    auto made = provider_->kernel(*(*module)->entry()->root());
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return *made;
  }
  Status launch(Stream& stream, const Kernel& kernel, std::vector<const void*> inputs,
                std::vector<void*> outputs, void* workspace = nullptr) {
    return stream.launch(kernel, {inputs, outputs, workspace});
  }
  // Of a launch that may fail then or later.
  Status run(const Kernel& kernel, std::vector<const void*> inputs, std::vector<void*> outputs,
             void* workspace = nullptr) {
    const Status launched =
        launch(*stream_, kernel, std::move(inputs), std::move(outputs), workspace);
    const Status done = stream_->synchronize();
    return launched.ok() ? done : launched;
  }

  static std::vector<float> count_up(float first, std::int64_t count = kFloats) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), first);
    return values;
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<KernelProvider> provider_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::shared_ptr<void>> blocks_;
};

TEST_P(Conformance, HasAName) {
  EXPECT_EQ(device_->name(), GetParam().name);
  EXPECT_GT(device_->total_bytes(), 0);
  EXPECT_FALSE(device_->properties().model.empty());
  EXPECT_GT(device_->properties().near_memory_bytes, 0);
  EXPECT_EQ(provider_->device(), device_);
}

// Memory.

TEST_P(Conformance, MemoryIsAlignedAndApart) {
  std::vector<std::uintptr_t> begins;
  const std::int64_t sizes[] = {0, 1, 63, 64, 65, 4096, 100'000, 5 * kMiB};
  for (int round = 0; round < 3; ++round) {
    for (const std::int64_t bytes : sizes) {
      const auto at = reinterpret_cast<std::uintptr_t>(block(bytes));
      ASSERT_NE(at, 0u);
      EXPECT_EQ(at % kBufferAlignment, 0u) << bytes;
      begins.push_back(at);
    }
  }
  std::vector<std::pair<std::uintptr_t, std::int64_t>> ranges;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    ranges.emplace_back(begins[i], std::max<std::int64_t>(1, sizes[i % std::size(sizes)]));
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    EXPECT_LE(ranges[i - 1].first + static_cast<std::uintptr_t>(ranges[i - 1].second),
              ranges[i].first);
  }
}

TEST_P(Conformance, MemoryThatIsNotThereIsRefusedAndNothingElse) {
  const auto refused = device_->allocate(std::int64_t{1} << 60);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::resource_exhausted);
  EXPECT_NE(block(kMiB), nullptr);
}

TEST_P(Conformance, MemoryGivenBackIsGivenOutAgain) {
  // Far more than there is, one after the other.
  const std::int64_t bytes = std::max<std::int64_t>(device_->total_bytes() / 16, kMiB);
  for (int i = 0; i < 64; ++i) {
    const auto made = device_->allocate(bytes);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    device_->deallocate(*made, bytes);
  }
}

TEST_P(Conformance, HostMemoryIsTheHosts) {
  auto made = device_->allocate_host(1000);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*made) % kBufferAlignment, 0u);
  std::memset(*made, 7, 1000);
  EXPECT_EQ(static_cast<unsigned char*>(*made)[999], 7);
  device_->deallocate_host(*made, 1000);
}

// Copies.

TEST_P(Conformance, CopiesAllWaysOfAllSizes) {
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{3}, std::int64_t{64},
                                   std::int64_t{1001}, kMiB + 13, 9 * kMiB + 1}) {
    Bytes from(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < from.size(); ++i)
      from[i] = static_cast<unsigned char>(i * 31 + i / 251);
    void* const first = block(bytes);
    void* const second = block(bytes);
    ASSERT_TRUE(stream_->copy(first, from.data(), bytes, CopyKind::host_to_device).ok());
    ASSERT_TRUE(stream_->copy(second, first, bytes, CopyKind::device_to_device).ok());
    EXPECT_EQ(read<unsigned char>(second, bytes, *stream_), from) << bytes;
  }
}

TEST_P(Conformance, CopiesFromOddPlacesToOddPlaces) {
  const Bytes from = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  auto* const there = static_cast<char*>(block_of(Bytes(64, 0)));
  ASSERT_TRUE(stream_->copy(there + 13, from.data() + 1, 9, CopyKind::host_to_device).ok());
  ASSERT_TRUE(stream_->copy(there + 33, there + 14, 7, CopyKind::device_to_device).ok());
  const Bytes all = read<unsigned char>(there, 64, *stream_);
  Bytes expected(64, 0);
  std::copy(from.begin() + 1, from.begin() + 10, expected.begin() + 13);
  std::copy(from.begin() + 2, from.begin() + 9, expected.begin() + 33);
  EXPECT_EQ(all, expected);
}

TEST_P(Conformance, NothingIsCopiedFromNowhereToNowhere) {
  EXPECT_TRUE(stream_->copy(nullptr, nullptr, 0, CopyKind::host_to_device).ok());
  void* const there = block(0);
  EXPECT_TRUE(stream_->copy(there, there, 0, CopyKind::device_to_device).ok());
  EXPECT_TRUE(stream_->synchronize().ok());
}

TEST_P(Conformance, CopiesAreDoneWhenTheStreamHasBeenWaitedFor) {
  void* const there = block(4 * kMiB);
  for (int i = 0; i < 5; ++i) {
    Bytes from(static_cast<std::size_t>(4 * kMiB), static_cast<unsigned char>(i + 1));
    ASSERT_TRUE(stream_->copy(there, from.data(), 4 * kMiB, CopyKind::host_to_device).ok());
    ASSERT_TRUE(stream_->synchronize().ok());
    std::fill(from.begin(), from.end(), static_cast<unsigned char>(0xFF));  // of no more use to it
    EXPECT_EQ(read<unsigned char>(there, 4 * kMiB, *stream_).back(), i + 1);
  }
}

// Launches.

TEST_P(Conformance, LaunchesAKernel) {
  const auto add = kernel("add(a, b)");
  void* const a = block_of(count_up(0));
  void* const b = block_of(count_up(1000));
  void* const sum = block(kFloats * 4);
  ASSERT_TRUE(run(*add, {a, b}, {sum}).ok());
  const std::vector<float> values = read_floats(sum);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], 1000.0F + 2.0F * static_cast<float>(i));
}

TEST_P(Conformance, LaunchesReadTheirArgumentsAtOnce) {
  const auto add = kernel("add(a, b)");
  void* const a = block_of(count_up(0));
  void* const sum = block(kFloats * 4);
  {
    std::vector<const void*> inputs = {a, a};
    std::vector<void*> outputs = {sum};
    ASSERT_TRUE(stream_->launch(*add, {inputs, outputs}).ok());
    std::fill(inputs.begin(), inputs.end(), nullptr);
    std::fill(outputs.begin(), outputs.end(), nullptr);
  }
  EXPECT_EQ(read_floats(sum)[7], 14);
}

TEST_P(Conformance, AKernelThatIsGivenTooLittleSaysSo) {
  const auto add = kernel("add(a, b)");
  void* const a = block_of(count_up(0));
  const Status status = run(*add, {a}, {a});
  EXPECT_EQ(status.code(), StatusCode::internal);
}

TEST_P(Conformance, ResultsAreTheSameAtEveryLaunch) {
  const auto exponential = kernel("tanh(a)", 100'000);
  void* const a = block_of(count_up(-50'000, 100'000));
  void* const first = block(400'000);
  void* const second = block(400'000);
  ASSERT_TRUE(run(*exponential, {a}, {first}).ok());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(run(*exponential, {a}, {second}).ok());
    EXPECT_EQ(read<unsigned char>(second, 400'000, *stream_),
              read<unsigned char>(first, 400'000, *stream_));
  }
}

TEST_P(Conformance, KernelsOfManyInstructionsAreThoseOfEach) {
  const auto module = ir::parse_module(
      "HloModule m\nENTRY e {\n  a = f32[8] parameter(0)\n  n = f32[8] negate(a)\n"
      "  x = f32[8] exponential(n)\n  ROOT r = f32[8] add(x, a)\n}\n",
      "conformance");
  ASSERT_TRUE(module.ok());
  std::vector<const ir::Instruction*> wanted;
  for (const char* name : {"n", "x", "r", "a"}) wanted.push_back((*module)->entry()->find(name));
  const auto made = provider_->kernels(wanted);
  ASSERT_EQ(made.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(made[i].ok());
    EXPECT_EQ((*made[i])->name(), (*provider_->kernel(*wanted[i]))->name());
  }
  EXPECT_EQ(made[3].status().code(), StatusCode::unimplemented);  // a parameter
}

// Joint launches.

TEST_P(Conformance, PartsOfAJointLaunchDoWhatTheyDoAlone) {
  const auto add = kernel("add(a, b)");
  const auto multiply = kernel("multiply(a, b)", 100'000);
  const auto negate = kernel("negate(a)");
  if (!add->may_join(2, 1)) GTEST_SKIP() << "this device joins nothing";
  EXPECT_FALSE(add->may_join(1, 1));
  const Kernel* const parts[] = {add.get(), multiply.get(), negate.get(), add.get()};
  const auto joint = provider_->join(parts);
  ASSERT_TRUE(joint.ok()) << joint.status().to_string();
  EXPECT_EQ((*joint)->input_count(), 7u);
  EXPECT_EQ((*joint)->output_count(), 4u);
  void* const a = block_of(count_up(0));
  void* const large = block_of(count_up(0, 100'000));
  void* const out[] = {block(kFloats * 4), block(400'000), block(kFloats * 4), block(kFloats * 4)};
  void* const none[] = {nullptr, nullptr, nullptr, nullptr};
  const void* const inputs[] = {a, a, large, large, a, a, a};
  // In order with what stands before and behind it.
  void* const copied = block(kFloats * 4);
  ASSERT_TRUE(stream_->launch(**joint, inputs, out, none).ok());
  ASSERT_TRUE(stream_->copy(copied, out[2], kFloats * 4, CopyKind::device_to_device).ok());
  EXPECT_EQ(read_floats(copied)[5], -5);
  EXPECT_EQ(read_floats(out[0])[9], 18);
  EXPECT_EQ(read_floats(out[3])[999], 1998);
  void* const alone = block(400'000);
  ASSERT_TRUE(run(*multiply, {large, large}, {alone}).ok());
  EXPECT_EQ(read_floats(out[1], 100'000), read_floats(alone, 100'000));
}

TEST_P(Conformance, PartsMayWriteOverWhatTheyReadThemselves) {
  const auto add = kernel("add(a, b)");
  if (!add->may_join(2, 1)) GTEST_SKIP() << "this device joins nothing";
  const Kernel* const parts[] = {add.get(), add.get()};
  const auto joint = provider_->join(parts).value();
  void* const a = block_of(count_up(0));
  void* const b = block_of(count_up(5));
  const void* const inputs[] = {a, a, b, b};
  void* const outputs[] = {a, b};
  void* const none[] = {nullptr, nullptr};
  ASSERT_TRUE(stream_->launch(*joint, inputs, outputs, none).ok());
  EXPECT_EQ(read_floats(a)[4], 8);
  EXPECT_EQ(read_floats(b)[4], 18);
}

// Streams.

TEST_P(Conformance, WorkOfAStreamIsInOrder) {
  const auto add = kernel("add(a, b)");
  void* const one = block_of(std::vector<float>(kFloats, 1));
  void* const there = block_of(std::vector<float>(kFloats, 0));
  std::vector<std::vector<float>> seen(40, std::vector<float>(kFloats));
  for (auto& values : seen) {
    ASSERT_TRUE(launch(*stream_, *add, {there, one}, {there}).ok());
    ASSERT_TRUE(stream_->copy(values.data(), there, kFloats * 4, CopyKind::device_to_host).ok());
  }
  ASSERT_TRUE(stream_->synchronize().ok());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i], std::vector<float>(kFloats, static_cast<float>(i + 1)));
  }
}

TEST_P(Conformance, StreamsDoNotWaitForEachOther) {
  // Each waits for the other's first half of the work only.
  const auto other = device_->create_stream().value();
  const auto add = kernel("add(a, b)");
  void* const one = block_of(std::vector<float>(kFloats, 1));
  void* const left = block_of(std::vector<float>(kFloats, 0));
  void* const right = block_of(std::vector<float>(kFloats, 0));
  const auto half_left = event(), half_right = event();
  ASSERT_TRUE(launch(*stream_, *add, {left, one}, {left}).ok());
  ASSERT_TRUE(stream_->record(*half_left).ok());
  ASSERT_TRUE(launch(*other, *add, {right, one}, {right}).ok());
  ASSERT_TRUE(other->record(*half_right).ok());
  ASSERT_TRUE(stream_->wait(*half_right).ok());
  ASSERT_TRUE(other->wait(*half_left).ok());
  void* const of_left = block(kFloats * 4);
  void* const of_right = block(kFloats * 4);
  ASSERT_TRUE(launch(*stream_, *add, {left, right}, {of_left}).ok());
  ASSERT_TRUE(launch(*other, *add, {left, right}, {of_right}).ok());
  ASSERT_TRUE(stream_->synchronize().ok());
  ASSERT_TRUE(other->synchronize().ok());
  EXPECT_EQ(read_floats(of_left)[0], 2);
  EXPECT_EQ(read_floats(of_right)[0], 2);
}

TEST_P(Conformance, WorkOverlapsAndEndsInAnyOrder) {
  // Ten streams, each with a chain of its own, waited for from the last to the first.
  constexpr int kStreams = 10;
  const auto add = kernel("add(a, b)");
  void* const one = block_of(std::vector<float>(kFloats, 1));
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<void*> sums;
  std::vector<std::unique_ptr<Event>> ends;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(device_->create_stream().value());
    sums.push_back(block_of(std::vector<float>(kFloats, static_cast<float>(i))));
    ends.push_back(event());
  }
  for (int step = 0; step < 20; ++step) {
    for (std::size_t i = 0; i < kStreams; ++i) {
      ASSERT_TRUE(launch(*streams[i], *add, {sums[i], one}, {sums[i]}).ok());
    }
  }
  for (std::size_t i = 0; i < kStreams; ++i) ASSERT_TRUE(streams[i]->record(*ends[i]).ok());
  for (std::size_t i = kStreams; i-- > 0;) {
    ASSERT_TRUE(ends[i]->wait().ok());
    EXPECT_TRUE(ends[i]->is_reached());
    EXPECT_EQ(read_floats(sums[i])[3], static_cast<float>(i + 20));
  }
}

TEST_P(Conformance, CopiesGoOnBesideKernels) {
  const auto other = device_->create_stream().value();
  const auto multiply = kernel("multiply(a, b)", 1 << 20);
  void* const a = block_of(std::vector<float>(1 << 20, 2));
  void* const product = block(4 * kMiB);
  void* const there = block(4 * kMiB);
  std::vector<float> back(1 << 20);
  for (int i = 0; i < 10; ++i) {
    const std::vector<float> values(1 << 20, static_cast<float>(i));
    ASSERT_TRUE(launch(*stream_, *multiply, {a, a}, {product}).ok());
    ASSERT_TRUE(other->copy(there, values.data(), 4 * kMiB, CopyKind::host_to_device).ok());
    ASSERT_TRUE(other->copy(back.data(), there, 4 * kMiB, CopyKind::device_to_host).ok());
    ASSERT_TRUE(other->synchronize().ok());
    EXPECT_EQ(back, values);
    ASSERT_TRUE(stream_->synchronize().ok());
    EXPECT_EQ(read_floats(product, 1)[0], 4);
  }
}

TEST_P(Conformance, AStreamThatGoesEndsItsWork) {
  std::vector<float> back(kFloats);
  void* const there = block_of(count_up(3));
  {
    const auto other = device_->create_stream().value();
    ASSERT_TRUE(other->copy(back.data(), there, kFloats * 4, CopyKind::device_to_host).ok());
  }
  EXPECT_EQ(back, count_up(3));
}

TEST_P(Conformance, StreamsWorkForThreads) {
  const auto add = kernel("add(a, b)");
  void* const one = block_of(std::vector<float>(kFloats, 1));
  std::vector<void*> sums;
  for (int i = 0; i < 4; ++i) sums.push_back(block_of(std::vector<float>(kFloats, 0)));
  std::vector<std::thread> threads;
  for (void* const sum : sums) {
    threads.emplace_back([&, sum] {
      const auto mine = device_->create_stream().value();
      for (int i = 0; i < 25; ++i) EXPECT_TRUE(launch(*mine, *add, {sum, one}, {sum}).ok());
      EXPECT_TRUE(mine->synchronize().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (void* const sum : sums) EXPECT_EQ(read_floats(sum)[1], 25);
}

// Events.

TEST_P(Conformance, AnEventThatWasNeverRecordedHoldsNobodyUp) {
  const auto never = event();
  EXPECT_TRUE(never->is_reached());
  EXPECT_TRUE(never->wait().ok());
  ASSERT_TRUE(stream_->wait(*never).ok());
  EXPECT_TRUE(stream_->synchronize().ok());
  const auto recorded = event();
  ASSERT_TRUE(stream_->record(*recorded).ok());
  ASSERT_TRUE(recorded->wait().ok());
  EXPECT_EQ(recorded->seconds_since(*never).status().code(), StatusCode::failed_precondition);
  EXPECT_EQ(never->seconds_since(*recorded).status().code(), StatusCode::failed_precondition);
}

TEST_P(Conformance, AnEventIsReachedWhenWhatStoodBeforeItIsDone) {
  std::vector<float> back(kFloats);
  void* const there = block_of(count_up(1));
  const auto after = event();
  ASSERT_TRUE(stream_->copy(back.data(), there, kFloats * 4, CopyKind::device_to_host).ok());
  ASSERT_TRUE(stream_->record(*after).ok());
  ASSERT_TRUE(after->wait().ok());
  EXPECT_TRUE(after->is_reached());
  EXPECT_EQ(back, count_up(1));
}

TEST_P(Conformance, AnEventCanBeRecordedAgain) {
  const auto point = event();
  void* const there = block_of(count_up(0));
  std::vector<float> back(kFloats);
  for (int i = 0; i < 10; ++i) {
    std::fill(back.begin(), back.end(), 0.0F);
    ASSERT_TRUE(stream_->copy(back.data(), there, kFloats * 4, CopyKind::device_to_host).ok());
    ASSERT_TRUE(stream_->record(*point).ok());
    ASSERT_TRUE(point->wait().ok());
    EXPECT_EQ(back[999], 999);
  }
}

TEST_P(Conformance, AStreamWaitsForAnotherOne) {
  const auto other = device_->create_stream().value();
  const auto add = kernel("add(a, b)");
  void* const one = block_of(std::vector<float>(kFloats, 1));
  void* const sum = block_of(std::vector<float>(kFloats, 0));
  for (int i = 0; i < 20; ++i) {
    Stream& first = i % 2 == 0 ? *stream_ : *other;
    Stream& second = i % 2 == 0 ? *other : *stream_;
    const auto done = event();
    ASSERT_TRUE(launch(first, *add, {sum, one}, {sum}).ok());
    ASSERT_TRUE(first.record(*done).ok());
    ASSERT_TRUE(second.wait(*done).ok());
  }
  ASSERT_TRUE(stream_->synchronize().ok());
  ASSERT_TRUE(other->synchronize().ok());
  EXPECT_EQ(read_floats(sum)[0], 20);
}

TEST_P(Conformance, EventsSayHowLongItTook) {
  const auto multiply = kernel("multiply(a, b)", 1 << 20);
  void* const a = block_of(std::vector<float>(1 << 20, 1));
  void* const product = block(4 * kMiB);
  const auto before = event(), between = event(), after = event();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(stream_->record(*before).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(launch(*stream_, *multiply, {a, a}, {product}).ok());
  ASSERT_TRUE(stream_->record(*between).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(launch(*stream_, *multiply, {a, a}, {product}).ok());
  ASSERT_TRUE(stream_->record(*after).ok());
  ASSERT_TRUE(after->wait().ok());
  const double passed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double first = between->seconds_since(*before).value();
  const double second = after->seconds_since(*between).value();
  const double both = after->seconds_since(*before).value();
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0);
  EXPECT_NEAR(first + second, both, 1e-6);
  EXPECT_LE(both, passed * 1.001 + 1e-6);
  EXPECT_NEAR(before->seconds_since(*after).value(), -both, 1e-9);
}

// Errors.

TEST_P(Conformance, TheNthAllocationFailsAndTheNextOneDoesNot) {
  for (int n = 1; n <= 3; ++n) {
    device_->fail(Call::allocate, n);
    for (int i = 1; i <= 4; ++i) {
      const auto made = device_->allocate(1000);
      EXPECT_EQ(made.ok(), i != n);
      if (made.ok()) {
        device_->deallocate(*made, 1000);
      } else {
        EXPECT_EQ(made.status().code(), StatusCode::resource_exhausted);
      }
    }
  }
}

TEST_P(Conformance, TheNthCopyFailsAndTheNextOneDoesNot) {
  const std::vector<float> values = count_up(0);
  void* const there = block(kFloats * 4);
  for (int n = 1; n <= 3; ++n) {
    device_->fail(Call::copy, n);
    for (int i = 1; i <= 4; ++i) {
      const Status copied =
          stream_->copy(there, values.data(), kFloats * 4, CopyKind::host_to_device);
      const Status done = stream_->synchronize();
      EXPECT_EQ(copied.ok() && done.ok(), i != n);
    }
  }
  EXPECT_EQ(read_floats(there), values);
}

TEST_P(Conformance, TheNthLaunchFailsAndTheNextOneDoesNot) {
  const auto add = kernel("add(a, b)");
  void* const a = block_of(count_up(0));
  void* const sum = block(kFloats * 4);
  for (int n = 1; n <= 3; ++n) {
    device_->fail(Call::launch, n);
    for (int i = 1; i <= 4; ++i) {
      const Status status = run(*add, {a, a}, {sum});
      EXPECT_EQ(status.ok(), i != n);
      if (i == n) {
        EXPECT_EQ(status.code(), StatusCode::unavailable);
      }
    }
  }
  EXPECT_EQ(read_floats(sum)[21], 42);
}

TEST_P(Conformance, AKernelsOwnErrorComesOutOnceAndWhatIsBehindItRuns) {
  if (!provider_->has_codecs()) GTEST_SKIP() << "this device has no codecs";
  // A mask of bytes that are neither 0 nor 1.
  const auto mask =
      provider_->codec({.kind = ir::CodecKind::bit_mask}, ir::Shape(ir::DType::pred, {kFloats}));
  ASSERT_TRUE(mask.ok()) << mask.status().to_string();
  void* const bad = block_of(Bytes(kFloats, 7));
  void* const good = block_of(Bytes(kFloats, 1));
  void* const code = block(kFloats);
  void* const workspace = block(mask->encode->workspace_bytes());
  const auto add = kernel("add(a, b)");
  void* const a = block_of(count_up(0));
  void* const sum = block(kFloats * 4);
  const Status enqueued = launch(*stream_, *mask->encode, {bad}, {code}, workspace);
  ASSERT_TRUE(launch(*stream_, *add, {a, a}, {sum}).ok());
  const Status done = stream_->synchronize();
  EXPECT_EQ((enqueued.ok() ? done : enqueued).code(), StatusCode::data_loss);
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(read_floats(sum)[11], 22);
  EXPECT_TRUE(run(*mask->encode, {good}, {code}, workspace).ok());
}

TEST_P(Conformance, ACodecGoesThereAndBack) {
  if (!provider_->has_codecs()) GTEST_SKIP() << "this device has no codecs";
  const auto narrow = provider_->codec({.kind = ir::CodecKind::narrow, .stored = ir::DType::bf16},
                                       ir::Shape(ir::DType::f32, {100}));
  ASSERT_TRUE(narrow.ok()) << narrow.status().to_string();
  void* const value = block_of(count_up(0, 100));
  void* const code = block(200);
  void* const back = block(400);
  void* const workspace =
      block(std::max(narrow->encode->workspace_bytes(), narrow->decode->workspace_bytes()));
  ASSERT_TRUE(run(*narrow->encode, {value}, {code}, workspace).ok());
  ASSERT_TRUE(run(*narrow->decode, {code}, {back}, workspace).ok());
  EXPECT_EQ(read_floats(back, 100), count_up(0, 100));
}

std::shared_ptr<Device> known_fake_async() {
  [[maybe_unused]] static const bool kIsKnown = register_fake_async().ok();
  return find_device("fake_async").value();
}

#ifdef PLIMSOLL_GPU_TESTS
std::shared_ptr<Device> real_gpu() {
  const auto device = find_device("cuda:0");
  return device.ok() ? *device : nullptr;
}
const DeviceCase kDevices[] = {{"cuda:0", real_gpu}};
#else
template <int kOrdinal>
std::shared_ptr<Device> known_gpu() {
  return cuda::recorded_gpu(kOrdinal).device;
}
const DeviceCase kDevices[] = {{"cpu", cpu_device},
                               {"fake_async", known_fake_async},
                               {"cuda:0", known_gpu<0>},
                               {"cuda:1", known_gpu<1>},
                               {"cuda:2", known_gpu<2>}};
#endif

INSTANTIATE_TEST_SUITE_P(Devices, Conformance, ::testing::ValuesIn(kDevices), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

#ifndef PLIMSOLL_GPU_TESTS
TEST(Devices, AreFoundByTheirNames) {
  EXPECT_EQ(find_device("cpu").value(), cpu_device());
  EXPECT_EQ(known_fake_async(), fake_async_device());
  EXPECT_EQ(register_device(cpu_device()).code(), StatusCode::already_exists);
  const auto missing = find_device("abacus");
  EXPECT_EQ(missing.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(missing.status().message().find("cpu"), std::string::npos)
      << missing.status().message();
}

TEST(Devices, TheEnvironmentSaysWhichOneIsMeant) {
  (void)known_fake_async();
  ::setenv("PLIMSOLL_DEVICE", "fake_async", 1);
  EXPECT_EQ(default_device(), fake_async_device());
  EXPECT_TRUE(check_device().ok());
  ::setenv("PLIMSOLL_DEVICE", "abacus", 1);
  EXPECT_NE(check_device().message().find("PLIMSOLL_DEVICE"), std::string::npos);
  ::unsetenv("PLIMSOLL_DEVICE");
  EXPECT_EQ(default_device(), cpu_device());
  EXPECT_TRUE(check_device().ok());
}

// What a host does with an address of the fake's, to be sure that tests on it would notice.
TEST(FakeAsyncDeathTest, TheHostCannotReadWhatIsThere) {
  const auto& device = fake_async_device();
  auto* const there = static_cast<volatile char*>(device->allocate(64).value());
  EXPECT_DEATH(
      {
        const char read = *there;
        (void)read;
      },
      "");
  device->deallocate(const_cast<char*>(there), 64);
}

TEST(FakeAsync, RefusesHostPointersAndWrongDirections) {
  const auto& device = fake_async_device();
  const auto stream = device->create_stream().value();
  void* const there = device->allocate(64).value();
  char here[64] = {};
  EXPECT_FALSE(stream->copy(there, here, 64, CopyKind::device_to_host).ok());
  EXPECT_FALSE(stream->copy(here, here, 64, CopyKind::device_to_device).ok());
  ASSERT_TRUE(stream->copy(here, there, 64, CopyKind::device_to_host).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(static_cast<std::byte>(here[63]), FakeAsyncDevice::kFill);
  device->deallocate(there, 64);
}
#endif

}  // namespace
}  // namespace plimsoll::device
