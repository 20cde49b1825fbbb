// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "tests/c_api/shared_budget.h"
#include "tests/import/onnx/model_writer.h"

namespace plimsoll::testing {
namespace {

struct FreeBuffer {
  void operator()(plm_buffer* buffer) const { plm_buffer_release(buffer); }
};
using BufferHandle = std::unique_ptr<plm_buffer, FreeBuffer>;

// A step that updates its first parameter in place and gives the sum of it, too.
constexpr const char* kStep = R"(HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  w = f32[64,64] parameter(0)
  x = f32[64,64] parameter(1)
  n = f32[64,64] add(w, x)
  zero = f32[] constant(0)
  s = f32[] reduce(n, zero), dimensions={0,1}, to_apply=add
  ROOT r = (f32[64,64], f32[]) tuple(n, s)
}
)";
constexpr std::int64_t kDims[2] = {64, 64};
constexpr std::size_t kCount = 64 * 64, kBytes = kCount * sizeof(float);

class Buffers : public ::testing::Test {
 protected:
  void SetUp() override {
    context_ = make_context();
    step_ = compile(kStep, PLM_PLACEMENT_PROGRAM);
    ASSERT_NE(step_, nullptr);
  }

  static ContextHandle make_context() {
    plm_context_options options = {};
    options.struct_size = sizeof options;
    options.memory_limit_bytes = PLM_NO_LIMIT;
    plm_context* made = nullptr;
    EXPECT_EQ(take(plm_context_create(&options, &made)).code, PLM_OK);
    return ContextHandle(made);
  }
  ExecutableHandle compile(const std::string& text, plm_placement placement) {
    plm_executable_options options = {};
    options.struct_size = sizeof options;
    options.default_placement = placement;
    plm_executable* made = nullptr;
    const Outcome outcome =
        take(plm_executable_create(context_.get(), text.data(), text.size(), "p", &options, &made));
    EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
    return ExecutableHandle(made);
  }
  BufferHandle filled(float value) {
    const std::vector<float> data(kCount, value);
    plm_buffer* made = nullptr;
    const Outcome outcome =
        take(plm_buffer_from_host(context_.get(), PLM_F32, kDims, 2, data.data(), nullptr, &made));
    EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
    return BufferHandle(made);
  }
  static std::vector<float> values(plm_buffer* buffer) {
    std::vector<float> out(plm_buffer_byte_size(buffer) / sizeof(float));
    const Outcome outcome = take(plm_buffer_read(buffer, out.data(), plm_buffer_byte_size(buffer)));
    EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
    return out;
  }
  static void* address(plm_buffer* buffer) {
    void* data = nullptr;
    plm_hold* hold = nullptr;
    EXPECT_EQ(take(plm_buffer_hold(buffer, &data, &hold)).code, PLM_OK);
    plm_hold_release(hold);
    return data;
  }
  // The results of the step, empty when it is refused.
  std::vector<BufferHandle> run(plm_buffer* w, plm_buffer* x, Outcome& outcome,
                                plm_buffer_run_options options = {}) {
    options.struct_size = sizeof options;
    plm_buffer* parameters[2] = {w, x};
    plm_buffer* results[2] = {};
    outcome = take(plm_executable_run_buffers(step_.get(), parameters, 2, results, 2, &options));
    std::vector<BufferHandle> made;
    if (outcome.code != PLM_OK) return made;
    made.emplace_back(results[0]);
    made.emplace_back(results[1]);
    return made;
  }
  std::vector<BufferHandle> run(plm_buffer* w, plm_buffer* x, plm_run_mode mode) {
    plm_buffer_run_options options = {};
    options.mode = mode;
    Outcome outcome;
    auto made = run(w, x, outcome, options);
    EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
    return made;
  }
  std::int64_t used() const { return memory_of(context_.get()).used_bytes; }

  ContextHandle context_;
  ExecutableHandle step_;
};

TEST_F(Buffers, PackElementsOfLessThanAByte) {
  const std::int64_t dims[] = {2, 3};
  const std::uint8_t codes[] = {1, 2, 15, 8, 5, 6}, packed[] = {0x21, 0x8F, 0x65};
  const std::int64_t strides[] = {3, 1};
  const ExecutableHandle twice =
      compile("ENTRY main { x = s4[2,3] parameter(0)\n ROOT r = s4[2,3] add(x, x) }",
              PLM_PLACEMENT_RESIDENT);
  ASSERT_NE(twice, nullptr);
  for (const bool by_byte : {false, true}) {
    plm_buffer* made = nullptr;
    ASSERT_EQ(take(plm_buffer_from_host(context_.get(), PLM_S4, dims, 2, by_byte ? codes : packed,
                                        by_byte ? strides : nullptr, &made))
                  .code,
              PLM_OK);
    const BufferHandle given(made);
    EXPECT_EQ(plm_buffer_byte_size(given.get()), 3U);
    std::uint8_t read[3] = {};
    ASSERT_EQ(take(plm_buffer_read(given.get(), read, sizeof read)).code, PLM_OK);
    EXPECT_TRUE(std::equal(read, read + 3, packed));
    ASSERT_EQ(take(plm_executable_run_buffers(twice.get(), &made, 1, &made, 1, nullptr)).code,
              PLM_OK);
    const BufferHandle result(made);
    EXPECT_EQ(plm_buffer_dtype(result.get()), PLM_S4);
    ASSERT_EQ(take(plm_buffer_read(result.get(), read, sizeof read)).code, PLM_OK);
    const std::uint8_t wanted[] = {0x42, 0x0E, 0xCA};
    EXPECT_TRUE(std::equal(read, read + 3, wanted));
  }
}

TEST_F(Buffers, HoldWhatTheHostGave) {
  std::vector<float> data(kCount);
  std::iota(data.begin(), data.end(), 0.0F);
  plm_buffer* made = nullptr;
  ASSERT_EQ(
      take(plm_buffer_from_host(context_.get(), PLM_F32, kDims, 2, data.data(), nullptr, &made))
          .code,
      PLM_OK);
  const BufferHandle buffer(made);
  EXPECT_EQ(plm_buffer_dtype(made), PLM_F32);
  ASSERT_EQ(plm_buffer_rank(made), 2U);
  EXPECT_EQ(plm_buffer_dims(made)[1], 64);
  EXPECT_EQ(plm_buffer_byte_size(made), kBytes);
  EXPECT_EQ(plm_buffer_is_ready(made), 1);
  EXPECT_EQ(values(made), data);
  EXPECT_EQ(used(), static_cast<std::int64_t>(kBytes));
}

TEST_F(Buffers, AreFilledByStrides) {
  std::vector<std::int16_t> data(24);
  std::iota(data.begin(), data.end(), std::int16_t{0});
  struct Case {
    std::vector<std::int64_t> dims, strides;
    std::ptrdiff_t first;
  };
  const std::vector<Case> cases = {
      {{2, 3, 4}, {24, 8, 2}, 0},   // dense
      {{4, 3, 2}, {2, 8, 24}, 0},   // reversed order
      {{3, 4}, {-8, 2}, 8},         // rows from the last
      {{2, 3, 2}, {24, 8, 4}, 0},   // every second
      {{5, 4}, {0, 2}, 4},          // one row five times
      {{1, 4, 1}, {99, 2, 77}, 3},  // strides of dims of one say nothing
      {{4}, {-2}, 11},
      {{}, {}, 5},
      {{0, 4}, {8, 2}, 0},
  };
  for (const Case& one : cases) {
    std::vector<std::int16_t> expected;
    const std::size_t rank = one.dims.size();
    std::vector<std::int64_t> index(rank, 0);
    const std::int64_t count =
        std::accumulate(one.dims.begin(), one.dims.end(), std::int64_t{1}, std::multiplies<>());
    for (std::int64_t n = 0; n < count; ++n) {
      std::int64_t offset = one.first * 2;
      for (std::size_t d = 0; d < rank; ++d) offset += index[d] * one.strides[d];
      expected.push_back(data[static_cast<std::size_t>(offset / 2)]);
      for (std::size_t d = rank; d-- > 0;) {
        if (++index[d] < one.dims[d]) break;
        index[d] = 0;
      }
    }
    plm_buffer* made = nullptr;
    ASSERT_EQ(take(plm_buffer_from_host(context_.get(), PLM_S16, one.dims.data(), rank,
                                        data.data() + one.first, one.strides.data(), &made))
                  .code,
              PLM_OK);
    const BufferHandle buffer(made);
    std::vector<std::int16_t> out(expected.size());
    ASSERT_EQ(take(plm_buffer_read(made, out.data(), out.size() * 2)).code, PLM_OK);
    EXPECT_EQ(out, expected);
  }
}

TEST_F(Buffers, AreRefusedWhereStridesLeaveTheAddressSpace) {
  const float value = 1;
  constexpr std::int64_t kFar = std::int64_t{1} << 61;
  struct Case {
    std::vector<std::int64_t> dims, strides;
    std::string part;
  };
  const std::vector<Case> cases = {
      {{2}, {kFar}, "stride of 2305843009213693952 bytes along dim 0 of f32[2]"},
      {{2}, {-kFar}, "along dim 0"},
      {{2, 3}, {4, std::numeric_limits<std::int64_t>::min()}, "along dim 1"},
      {{5, 9}, {kFar, 4}, "along dim 0"},
      {{2, 2}, {std::int64_t{1} << 55, std::int64_t{1} << 55}, "the strides of f32[2,2]"},
      {{2}, {-(std::int64_t{1} << 55)}, "the strides of f32[2]"},  // below the first address
  };
  for (const Case& one : cases) {
    for (const plm_memory memory : {PLM_MEMORY_DEVICE, PLM_MEMORY_HOST}) {
      plm_buffer* made = nullptr;
      const Outcome outcome =
          take(plm_buffer_from_host_in(context_.get(), memory, PLM_F32, one.dims.data(),
                                       one.dims.size(), &value, one.strides.data(), &made));
      EXPECT_EQ(outcome.code, PLM_INVALID_ARGUMENT);
      EXPECT_NE(outcome.message.find(one.part), std::string::npos) << outcome.message;
    }
  }
  // What no element is multiplied by does not matter.
  for (const std::vector<std::int64_t>& dims : {std::vector<std::int64_t>{1, 1}, {0, 2}}) {
    const std::int64_t strides[] = {kFar, -kFar};
    plm_buffer* made = nullptr;
    EXPECT_EQ(
        take(plm_buffer_from_host(context_.get(), PLM_F32, dims.data(), 2, &value, strides, &made))
            .code,
        PLM_OK);
    plm_buffer_release(made);
  }
}

struct Release {
  static void count(void* user) { ++*static_cast<std::atomic<int>*>(user); }
};

TEST_F(Buffers, BorrowMemoryUntilNobodyUsesIt) {
  alignas(PLM_BUFFER_ALIGNMENT) static float data[kCount];
  std::fill(std::begin(data), std::end(data), 2.0F);
  std::atomic<int> released{0};
  plm_buffer* made = nullptr;
  ASSERT_EQ(take(plm_buffer_borrow(context_.get(), PLM_F32, kDims, 2, data, Release::count,
                                   &released, &made))
                .code,
            PLM_OK);
  BufferHandle lent(made);
  EXPECT_EQ(address(made), data);
  EXPECT_EQ(used(), static_cast<std::int64_t>(kBytes));
  // Donated, it is copied: it is the caller's.
  const auto results = run(made, filled(1).get(), PLM_RUN_ASYNCHRONOUS);
  EXPECT_EQ(values(results[0].get())[5], 3.0F);
  EXPECT_EQ(data[5], 2.0F);
  EXPECT_EQ(plm_buffer_is_deleted(made), 1);
  EXPECT_EQ(released, 1);
  lent.reset();
  EXPECT_EQ(released, 1);

  ASSERT_EQ(take(plm_buffer_borrow(context_.get(), PLM_F32, kDims, 1, data + 1, Release::count,
                                   &released, &made))
                .code,
            PLM_OK);
  const BufferHandle copied(made);
  EXPECT_EQ(released, 2);
  data[1] = 7;
  EXPECT_EQ(values(made)[0], 2.0F);

  ASSERT_EQ(take(plm_context_set_limit(context_.get(), used() + 64)).code, PLM_OK);
  EXPECT_EQ(take(plm_buffer_borrow(context_.get(), PLM_F32, kDims, 2, data, Release::count,
                                   &released, &made))
                .code,
            PLM_RESOURCE_EXHAUSTED);
  EXPECT_EQ(released, 2);
}

// A truth that is neither 0 nor 1 would be one thing to one kernel and another to the next.
TEST_F(Buffers, TruthsBecomeZeroOrOne) {
  const std::int64_t dims[] = {4}, strides[] = {-1};
  alignas(64) std::uint8_t wild[] = {0, 2, 1, 255}, tame[] = {0, 1, 1, 1};
  const std::vector<std::uint8_t> expected = {0, 1, 1, 1}, turned = {1, 1, 1, 0};
  const auto bytes_of = [&](plm_buffer* buffer) {
    std::vector<std::uint8_t> bytes(4);
    EXPECT_EQ(take(plm_buffer_read(buffer, bytes.data(), bytes.size())).code, PLM_OK);
    return bytes;
  };
  for (const plm_memory memory : {PLM_MEMORY_DEVICE, PLM_MEMORY_HOST}) {
    for (const bool backwards : {false, true}) {
      plm_buffer* made = nullptr;
      ASSERT_EQ(take(plm_buffer_from_host_in(context_.get(), memory, PLM_PRED, dims, 1,
                                             wild + (backwards ? 3 : 0),
                                             backwards ? strides : nullptr, &made))
                    .code,
                PLM_OK);
      const BufferHandle buffer(made);
      EXPECT_EQ(bytes_of(made), backwards ? turned : expected);
    }
  }
  for (const bool is_wild : {true, false}) {
    std::atomic<int> released{0};
    plm_buffer* made = nullptr;
    ASSERT_EQ(take(plm_buffer_borrow(context_.get(), PLM_PRED, dims, 1, is_wild ? wild : tame,
                                     Release::count, &released, &made))
                  .code,
              PLM_OK);
    EXPECT_EQ(released, is_wild ? 1 : 0);
    EXPECT_EQ(bytes_of(made), expected);
    plm_buffer_release(made);
    EXPECT_EQ(released, 1);
  }
  EXPECT_EQ(wild[3], 255);  // the caller's
  for (const plm_placement placement : {PLM_PLACEMENT_HOST, PLM_PLACEMENT_RESIDENT}) {
    const ExecutableHandle program = compile(
        "ENTRY main { x = pred[4] parameter(0)\n ROOT r = pred[4] reverse(x), dimensions={0} }",
        placement);
    ASSERT_NE(program, nullptr);
    std::vector<std::uint8_t> result(4);
    const void* const given[] = {wild};
    void* const results[] = {result.data()};
    ASSERT_EQ(take(plm_executable_run(program.get(), given, 1, results, 1)).code, PLM_OK);
    EXPECT_EQ(result, turned);
  }
  plm_tensor* tensor = nullptr;
  ASSERT_EQ(take(plm_tensor_from_host(context_.get(), PLM_PRED, dims, 1, wild, &tensor)).code,
            PLM_OK);
  std::vector<std::uint8_t> read(4);
  EXPECT_EQ(take(plm_tensor_read(tensor, read.data(), read.size())).code, PLM_OK);
  EXPECT_EQ(read, expected);
  plm_tensor_release(tensor);
}

TEST_F(Buffers, TruthsThatDecideAShapeAreZeroOrOne) {
  GraphParts parts;
  parts.inputs = {value_info("x", 1, {"4"}), value_info("kept", 9, {"4"})};
  parts.nodes = {node("Compress", {"x", "kept"}, {"y"}), node("Identity", {"kept"}, {"z"})};
  parts.outputs = {value_info("y", 1, {"n"}), value_info("z", 9, {"4"})};
  const std::string bytes = model(parts);
  const std::int64_t dims[] = {4};
  const std::uint8_t wild[] = {0, 2, 1, 255};
  const plm_model_input kept = {"kept", PLM_PRED, 1, dims, wild};
  plm_executable_options options = {};
  options.struct_size = sizeof options;
  options.inputs = &kept;
  options.input_count = 1;
  // A program that is only checked is read by the same rules.
  const Outcome open = take(plm_program_check(bytes.data(), bytes.size(), "m", nullptr, 0));
  EXPECT_EQ(open.code, PLM_INVALID_ARGUMENT);
  EXPECT_NE(open.message.find("kept"), std::string::npos) << open.message;
  EXPECT_EQ(take(plm_program_check(bytes.data(), bytes.size(), "m", &kept, 1)).code, PLM_OK);
  EXPECT_EQ(take(plm_program_check("HloModule", 9, "m", nullptr, 0)).code, PLM_INVALID_ARGUMENT);
  EXPECT_EQ(take(plm_program_check(nullptr, 0, "m", nullptr, 0)).code, PLM_INVALID_ARGUMENT);
  EXPECT_EQ(take(plm_program_check("", 0, "m", nullptr, 1)).code, PLM_INVALID_ARGUMENT);
  plm_executable* made = nullptr;
  const Outcome outcome =
      take(plm_executable_create(context_.get(), bytes.data(), bytes.size(), "m", &options, &made));
  ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
  const ExecutableHandle program(made);
  const float x[] = {1, 2, 3, 4};
  std::vector<float> y(3);
  std::vector<std::uint8_t> z(4);
  const void* const given[] = {x};
  void* const results[] = {y.data(), z.data()};
  ASSERT_EQ(take(plm_executable_run(made, given, 1, results, 2)).code, PLM_OK);
  EXPECT_EQ(y, (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(z, (std::vector<std::uint8_t>{0, 1, 1, 1}));
}

TEST_F(Buffers, GiveTheirMemoryToResults) {
  BufferHandle w = filled(1);
  const BufferHandle x = filled(2);
  void* const before = address(w.get());
  const auto results = run(w.get(), x.get(), PLM_RUN_SYNCHRONOUS);
  EXPECT_EQ(plm_buffer_is_deleted(w.get()), 1);
  EXPECT_EQ(plm_buffer_is_deleted(x.get()), 0);
  EXPECT_EQ(address(results[0].get()), before);
  EXPECT_EQ(values(results[0].get())[0], 3.0F);
  EXPECT_EQ(values(results[1].get())[0], 3.0F * kCount);
  EXPECT_EQ(used(), static_cast<std::int64_t>(2 * kBytes + 64));
  const Outcome outcome = take(plm_buffer_wait(w.get()));
  EXPECT_EQ(outcome.code, PLM_FAILED_PRECONDITION);
  EXPECT_NE(outcome.message.find("deleted or donated"), std::string::npos) << outcome.message;
}

TEST_F(Buffers, StayWhereTheyAreHeldOrKept) {
  const BufferHandle w = filled(1), x = filled(2);
  void* data = nullptr;
  plm_hold* hold = nullptr;
  ASSERT_EQ(take(plm_buffer_hold(w.get(), &data, &hold)).code, PLM_OK);
  const unsigned char keep[2] = {1, 0};
  plm_buffer_run_options options = {};
  options.keep = keep;
  Outcome outcome;
  const auto kept = run(w.get(), x.get(), outcome, options);
  ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
  EXPECT_EQ(plm_buffer_is_deleted(w.get()), 0);
  EXPECT_EQ(values(w.get())[0], 1.0F);
  const auto results = run(w.get(), x.get(), PLM_RUN_SYNCHRONOUS);
  EXPECT_EQ(plm_buffer_is_deleted(w.get()), 1);
  EXPECT_EQ(static_cast<float*>(data)[9], 1.0F);
  EXPECT_EQ(values(results[0].get()), values(kept[0].get()));
  plm_hold_release(hold);
  EXPECT_EQ(used(), static_cast<std::int64_t>(3 * kBytes + 128));
}

TEST_F(Buffers, MayBeReadByRunsBeforeTheyAreThere) {
  const BufferHandle x = filled(1);
  std::vector<BufferHandle> w;
  w.push_back(filled(0));
  std::vector<BufferHandle> sums;
  for (int i = 0; i < 100; ++i) {
    auto results = run(w.back().get(), x.get(), PLM_RUN_ASYNCHRONOUS);
    w.back().reset();  // the run has it
    w.push_back(std::move(results[0]));
    sums.push_back(std::move(results[1]));
  }
  EXPECT_EQ(values(w.back().get())[77], 100.0F);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    EXPECT_EQ(values(sums[i].get())[0], static_cast<float>(i + 1) * kCount);
  }
  EXPECT_EQ(used(), static_cast<std::int64_t>(2 * kBytes + 100 * 64));
}

struct Seen {
  std::atomic<int> calls{0};
  std::atomic<int> code{-1};
  static void done(void* user, const plm_status* status) {
    auto* seen = static_cast<Seen*>(user);
    seen->code = plm_status_code(status);
    ++seen->calls;
  }
};

TEST_F(Buffers, TellWhenTheyAreReady) {
  const BufferHandle w = filled(1), x = filled(2);
  Seen ended, ready, late;
  plm_buffer_run_options options = {};
  options.mode = PLM_RUN_ASYNCHRONOUS;
  options.done = Seen::done;
  options.done_user = &ended;
  Outcome outcome;
  const auto results = run(w.get(), x.get(), outcome, options);
  ASSERT_EQ(outcome.code, PLM_OK);
  ASSERT_EQ(take(plm_buffer_when_ready(results[0].get(), Seen::done, &ready)).code, PLM_OK);
  // A run behind it ends after what it calls.
  (void)values(run(results[0].get(), x.get(), PLM_RUN_ASYNCHRONOUS)[0].get());
  EXPECT_EQ(ended.calls, 1);
  EXPECT_EQ(ended.code, PLM_OK);
  EXPECT_EQ(ready.calls, 1);
  ASSERT_EQ(take(plm_buffer_when_ready(results[1].get(), Seen::done, &late)).code, PLM_OK);
  EXPECT_EQ(late.calls, 1);
}

TEST_F(Buffers, FailAsTheRunThatMakesThem) {
  const BufferHandle x = filled(2);
  for (const plm_run_mode mode : {PLM_RUN_ASYNCHRONOUS, PLM_RUN_AUTOMATIC, PLM_RUN_SYNCHRONOUS}) {
    BufferHandle w = filled(1);
    const std::int64_t before = used();
    plm_context_fail_allocation(context_.get(), 1);
    plm_buffer_run_options options = {};
    options.mode = mode;
    Seen ended;
    options.done = Seen::done;
    options.done_user = &ended;
    Outcome outcome;
    const auto results = run(w.get(), x.get(), outcome, options);
    if (mode == PLM_RUN_SYNCHRONOUS) {
      EXPECT_EQ(outcome.code, PLM_RESOURCE_EXHAUSTED);
    } else {
      ASSERT_EQ(outcome.code, PLM_OK);
      EXPECT_EQ(take(plm_buffer_wait(results[0].get())).code, PLM_RESOURCE_EXHAUSTED);
      const auto next = run(results[0].get(), x.get(), PLM_RUN_ASYNCHRONOUS);
      const Outcome why = take(plm_buffer_wait(next[1].get()));
      EXPECT_EQ(why.code, PLM_RESOURCE_EXHAUSTED);
      EXPECT_NE(why.message.find("parameter 0 (w)"), std::string::npos) << why.message;
      // Further runs have that error as it is, however many there are.
      auto chain = run(next[0].get(), x.get(), PLM_RUN_ASYNCHRONOUS);
      for (int i = 0; i < 20; ++i) chain = run(chain[0].get(), x.get(), mode);
      EXPECT_EQ(take(plm_buffer_wait(chain[1].get())).message, why.message);
    }
    EXPECT_EQ(ended.calls, 1);
    EXPECT_EQ(ended.code, PLM_RESOURCE_EXHAUSTED);
    EXPECT_EQ(plm_buffer_is_deleted(w.get()), 1);
    EXPECT_EQ(used(), before - static_cast<std::int64_t>(kBytes));
  }
  plm_context_fail_allocation(context_.get(), 0);
}

TEST_F(Buffers, AreRefusedWithTheReason) {
  const BufferHandle w = filled(1), x = filled(2), gone = filled(3);
  plm_buffer_delete(gone.get());
  const ContextHandle other = make_context();
  const std::vector<float> data(kCount);
  plm_buffer* made = nullptr;
  ASSERT_EQ(
      take(plm_buffer_from_host(other.get(), PLM_F32, kDims, 2, data.data(), nullptr, &made)).code,
      PLM_OK);
  const BufferHandle foreign(made);
  ASSERT_EQ(
      take(plm_buffer_from_host(context_.get(), PLM_F32, kDims, 1, data.data(), nullptr, &made))
          .code,
      PLM_OK);
  const BufferHandle small(made);
  const auto refused = [&](plm_buffer* first, plm_buffer* second, plm_code code,
                           const std::string& part) {
    Outcome outcome;
    (void)run(first, second, outcome);
    EXPECT_EQ(outcome.code, code);
    EXPECT_NE(outcome.message.find(part), std::string::npos) << outcome.message;
  };
  refused(nullptr, x.get(), PLM_INVALID_ARGUMENT, "parameter 0 (w) is NULL");
  refused(w.get(), small.get(), PLM_INVALID_ARGUMENT, "is f32[64,64], the buffer f32[64]");
  refused(w.get(), foreign.get(), PLM_INVALID_ARGUMENT, "another context");
  refused(w.get(), gone.get(), PLM_FAILED_PRECONDITION, "deleted or donated");
  refused(w.get(), w.get(), PLM_INVALID_ARGUMENT,
          "parameter 0 (w) is donated, and passed as "
          "parameter 1, too");
  EXPECT_EQ(plm_buffer_is_deleted(w.get()), 0);
  Outcome outcome;
  plm_buffer_run_options options = {};
  options.mode = static_cast<plm_run_mode>(9);
  (void)run(w.get(), x.get(), outcome, options);
  EXPECT_NE(outcome.message.find("mode 9"), std::string::npos) << outcome.message;
  const ExecutableHandle host = compile(kStep, PLM_PLACEMENT_HOST);
  plm_buffer* parameters[2] = {w.get(), x.get()};
  plm_buffer* results[2] = {};
  outcome = take(plm_executable_run_buffers(host.get(), parameters, 2, results, 2, nullptr));
  EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;  // this device's memory is the host's
  for (plm_buffer* const result : results) plm_buffer_release(result);
  plm_buffer* nowhere = nullptr;
  const float value = 1;
  outcome = take(plm_buffer_from_host_in(context_.get(), static_cast<plm_memory>(3), PLM_F32,
                                         nullptr, 0, &value, nullptr, &nowhere));
  EXPECT_EQ(outcome.code, PLM_INVALID_ARGUMENT);
  EXPECT_NE(outcome.message.find("memory 3 does not exist"), std::string::npos) << outcome.message;
}

// A step whose two momenta are in host memory before and after, as JAX's memory kind `pinned_host`
// has it: it takes device memory only while it is needed, with the same bits at every limit.
TEST_F(Buffers, MayBeInHostMemoryWhichNoLimitCounts) {
  const std::string text =
      R"(HloModule step, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias), {2}: (3, {}, may-alias) }, host_parameters={1,2,3}, unpinned_parameters={3}, host_results={1,2}, unpinned_results={2}
ENTRY main {
  w = f32[64,64] parameter(0)
  m = f32[64,64] parameter(1)
  x = f32[64,64] parameter(2)
  s = f32[64,64] parameter(3)
  g = f32[64,64] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  half = f32[] constant(0.5)
  halves = f32[64,64] broadcast(half), dimensions={}
  old = f32[64,64] multiply(m, halves)
  n = f32[64,64] add(old, g)
  t = f32[64,64] add(s, g)
  u = f32[64,64] dot(n, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f32[64,64] subtract(w, u)
  ROOT r = (f32[64,64], f32[64,64], f32[64,64]) tuple(v, n, t)
}
)";
  std::string on_device = text;
  const auto host = on_device.find(", host_parameters");
  on_device.erase(host, on_device.find('\n') - host);
  const ExecutableHandle step = compile(text, PLM_PLACEMENT_PROGRAM);
  const ExecutableHandle other = compile(on_device, PLM_PLACEMENT_PROGRAM);
  ASSERT_TRUE(step != nullptr && other != nullptr);
  plm_value_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(take(plm_executable_result(step.get(), 1, &info)).code, PLM_OK);
  EXPECT_EQ(info.memory, PLM_MEMORY_HOST);
  ASSERT_EQ(take(plm_executable_result(step.get(), 2, &info)).code, PLM_OK);
  EXPECT_EQ(info.memory, PLM_MEMORY_UNPINNED_HOST);
  const plm_memory memories[4] = {PLM_MEMORY_DEVICE, PLM_MEMORY_HOST, PLM_MEMORY_HOST,
                                  PLM_MEMORY_UNPINNED_HOST};
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(take(plm_executable_parameter(step.get(), i, &info)).code, PLM_OK);
    EXPECT_EQ(info.memory, memories[i]) << i;
  }
  const auto in = [&](plm_memory memory, float value) {
    std::vector<float> data(kCount);
    for (std::size_t i = 0; i < kCount; ++i) data[i] = value * static_cast<float>(i % 17) - 0.1F;
    plm_buffer* made = nullptr;
    const Outcome outcome = take(plm_buffer_from_host_in(context_.get(), memory, PLM_F32, kDims, 2,
                                                         data.data(), nullptr, &made));
    EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
    EXPECT_EQ(plm_buffer_memory(made), memory);
    return BufferHandle(made);
  };
  // The results' values, and whether the donated ones are gone.
  const auto run_in = [&](plm_executable* executable, plm_memory memory, std::int64_t used_before) {
    const BufferHandle w = in(PLM_MEMORY_DEVICE, 0.01F), m = in(memory, 0.02F),
                       x = in(memory, 0.03F), s = in(memory, 0.04F);
    EXPECT_EQ(
        memory_of(context_.get()).used_bytes,
        used_before + static_cast<std::int64_t>((memory == PLM_MEMORY_DEVICE ? 4 : 1) * kBytes));
    plm_buffer* parameters[4] = {w.get(), m.get(), x.get(), s.get()};
    plm_buffer* results[3] = {};
    const Outcome outcome =
        take(plm_executable_run_buffers(executable, parameters, 4, results, 3, nullptr));
    EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
    std::vector<std::vector<float>> read;
    for (plm_buffer* const result : results) {
      const BufferHandle owner(result);
      if (result == nullptr) continue;
      read.push_back(values(result));
      if (executable != step.get()) continue;
      const plm_memory returned[3] = {PLM_MEMORY_DEVICE, PLM_MEMORY_HOST, PLM_MEMORY_UNPINNED_HOST};
      EXPECT_EQ(plm_buffer_memory(result), returned[read.size() - 1]);
    }
    EXPECT_EQ(plm_buffer_is_deleted(w.get()), 1);
    EXPECT_EQ(plm_buffer_is_deleted(m.get()), 1);
    EXPECT_EQ(plm_buffer_is_deleted(x.get()), 0);
    EXPECT_EQ(plm_buffer_is_deleted(s.get()), 1);
    return read;
  };
  const std::int64_t before = memory_of(context_.get()).used_bytes;
  const auto expected = run_in(other.get(), PLM_MEMORY_DEVICE, before);
  std::int64_t floor = 0, other_floor = 0;
  ASSERT_EQ(take(plm_executable_floor(step.get(), &floor)).code, PLM_OK);
  ASSERT_EQ(take(plm_executable_floor(other.get(), &other_floor)).code, PLM_OK);
  EXPECT_LT(floor, other_floor);
  // Buffers in host memory, or in this device's, which is the host's.
  EXPECT_EQ(run_in(step.get(), PLM_MEMORY_HOST, before), expected);
  EXPECT_EQ(run_in(step.get(), PLM_MEMORY_UNPINNED_HOST, before), expected);
  EXPECT_EQ(run_in(step.get(), PLM_MEMORY_DEVICE, before), expected);
  // A program that has them in device memory takes copies.
  EXPECT_EQ(run_in(other.get(), PLM_MEMORY_HOST, before), expected);
  ASSERT_EQ(take(plm_context_set_limit(context_.get(), before + floor)).code, PLM_OK);
  plm_context_reset_peak(context_.get());
  EXPECT_EQ(run_in(step.get(), PLM_MEMORY_HOST, before), expected);
  EXPECT_LE(memory_of(context_.get()).peak_bytes, before + floor);
}

TEST_F(Buffers, WaitForRoomThatRunsWillGiveBack) {
  const BufferHandle x = filled(1);
  BufferHandle w = filled(0);
  const std::int64_t room = plm_executable_peak(step_.get()) + static_cast<std::int64_t>(kBytes);
  ASSERT_EQ(take(plm_context_set_limit(context_.get(), room)).code, PLM_OK);
  for (int round = 0; round < 50; ++round) {
    auto results = run(w.get(), x.get(), PLM_RUN_ASYNCHRONOUS);
    const BufferHandle other = filled(5);  // beside the run, or after it
    ASSERT_NE(other, nullptr);
    w = std::move(results[0]);
  }
  EXPECT_EQ(values(w.get())[0], 50.0F);
  EXPECT_LE(memory_of(context_.get()).peak_bytes, room);
  plm_buffer* made = nullptr;
  const std::vector<float> data(2 * kCount);
  const std::int64_t dims[1] = {2 * kCount};
  const Outcome outcome =
      take(plm_buffer_from_host(context_.get(), PLM_F32, dims, 1, data.data(), nullptr, &made));
  EXPECT_EQ(outcome.code, PLM_RESOURCE_EXHAUSTED);
  EXPECT_NE(outcome.message.find("f32[8192]"), std::string::npos) << outcome.message;
}

// A training loop that waits for no step: batches of later steps leave earlier ones their room.
TEST_F(Buffers, LeaveTheirRoomToRunsThatWereHandedOver) {
  step_ = compile(R"(HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  w = f32[64,64] parameter(0)
  x = f32[64,64] parameter(1)
  a = f32[64,64] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] dot(a, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  c = f32[64,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  n = f32[64,64] tanh(c)
  s = f32[] constant(1)
  ROOT r = (f32[64,64], f32[]) tuple(n, s)
}
)",
                  PLM_PLACEMENT_PROGRAM);
  const auto train = [&] {
    BufferHandle w = filled(0.01F);
    for (int round = 0; round < 60; ++round) {
      const BufferHandle x = filled(0.001F * static_cast<float>(round));
      auto results = run(w.get(), x.get(), PLM_RUN_ASYNCHRONOUS);
      if (results.empty()) return std::vector<float>();
      w = std::move(results[0]);
    }
    return values(w.get());
  };
  const std::vector<float> expected = train();
  const std::int64_t room = plm_executable_peak(step_.get()) + static_cast<std::int64_t>(kBytes);
  ASSERT_EQ(take(plm_context_set_limit(context_.get(), room)).code, PLM_OK);
  plm_context_reset_peak(context_.get());
  EXPECT_EQ(train(), expected);
  EXPECT_LE(memory_of(context_.get()).peak_bytes, room);
}

TEST_F(Buffers, WhatIsInHostMemoryIsAListOfLeaves) {
  const std::string entry =
      "\nENTRY e {\n p = f32[64,64] parameter(0)\n q = f32[64,64] parameter(1)\n"
      " s = f32[64,64] add(p, q)\n ROOT r = (f32[64,64], f32[64,64]) tuple(s, p)\n}\n";
  const auto outcome_of = [&](const std::string& list) {
    plm_executable_options options = {};
    options.struct_size = sizeof options;
    options.default_placement = PLM_PLACEMENT_PROGRAM;
    const std::string text = "HloModule m, " + list + entry;
    plm_executable* made = nullptr;
    const Outcome outcome =
        take(plm_executable_create(context_.get(), text.data(), text.size(), "p", &options, &made));
    plm_executable_destroy(made);
    return outcome;
  };
  for (const char* good : {"host_parameters={0,1}", "host_results={1}", "host_results={}",
                           "host_parameters={0,1}, unpinned_parameters={1}"}) {
    EXPECT_EQ(outcome_of(good).code, PLM_OK) << good;
  }
  for (const char* bad :
       {"host_parameters={2}", "host_parameters={0,0}", "host_results={-1}", "host_results={p}",
        "host_parameters={99999999999999999999}", "host_results={1 0}", "host_results={0,}",
        "unpinned_parameters={2}", "unpinned_results={0}"}) {
    const Outcome outcome = outcome_of(bad);
    EXPECT_EQ(outcome.code, PLM_INVALID_ARGUMENT) << bad;
    EXPECT_NE(outcome.message.find(std::string(bad).substr(0, 12)), std::string::npos)
        << outcome.message;
  }
}

// A result that goes to host memory is not written over before it is there.
TEST_F(Buffers, AResultOnItsWayToTheHostKeepsItsPlace) {
  const ExecutableHandle program = compile(
      "HloModule m, host_results={0}\nENTRY e {\n p = f32[64,64] parameter(0)\n"
      " q = f32[64,64] parameter(1)\n s = f32[64,64] negate(p)\n d = f32[64,64] multiply(s, q)\n"
      " ROOT r = (f32[64,64], f32[64,64]) tuple(s, d)\n}\n",
      PLM_PLACEMENT_PROGRAM);
  ASSERT_NE(program, nullptr);
  std::int64_t floor = 0;
  ASSERT_EQ(take(plm_executable_floor(program.get(), &floor)).code, PLM_OK);
  const std::int64_t arena = memory_of(context_.get()).used_bytes;
  const BufferHandle p = filled(3), q = filled(5);
  for (const std::int64_t limit : {floor, floor + 1024, plm_executable_peak(program.get())}) {
    ASSERT_EQ(take(plm_context_set_limit(context_.get(), arena + limit)).code, PLM_OK);
    plm_buffer* parameters[2] = {p.get(), q.get()};
    plm_buffer* results[2] = {};
    const Outcome outcome =
        take(plm_executable_run_buffers(program.get(), parameters, 2, results, 2, nullptr));
    ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
    const BufferHandle s(results[0]), d(results[1]);
    EXPECT_EQ(values(s.get())[7], -3.0F);
    EXPECT_EQ(values(d.get())[7], -15.0F);
  }
}

TEST_F(Buffers, GiveTheSameBitsAtEveryLimit) {
  const std::string text = layers_text(64, 6);
  const ExecutableHandle layers = compile(text, PLM_PLACEMENT_RESIDENT);
  std::int64_t floor = 0;
  ASSERT_EQ(take(plm_executable_floor(layers.get(), &floor)).code, PLM_OK);
  const std::int64_t peak = plm_executable_peak(layers.get());
  ASSERT_LT(floor, peak);
  const std::size_t count = plm_executable_result_count(layers.get());
  BufferHandle x, w;
  {
    std::vector<float> data(kCount);
    for (std::size_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(i % 17) * 0.01F - 0.05F;
    plm_buffer* made = nullptr;
    ASSERT_EQ(
        take(plm_buffer_from_host(context_.get(), PLM_F32, kDims, 2, data.data(), nullptr, &made))
            .code,
        PLM_OK);
    x.reset(made);
    w = filled(0.01F);
  }
  std::vector<std::vector<float>> expected;
  for (int step = 0; step <= 8; ++step) {
    const std::int64_t limit = peak - (peak - floor) * step / 8;
    ASSERT_EQ(take(plm_context_set_limit(context_.get(), limit)).code, PLM_OK);
    plm_context_reset_peak(context_.get());
    plm_buffer* parameters[2] = {x.get(), w.get()};
    std::vector<plm_buffer*> results(count);
    const Outcome outcome = take(
        plm_executable_run_buffers(layers.get(), parameters, 2, results.data(), count, nullptr));
    ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
    for (std::size_t i = 0; i < count; ++i) {
      const BufferHandle result(results[i]);
      if (step == 0) {
        expected.push_back(values(results[i]));
      } else {
        EXPECT_EQ(values(results[i]), expected[i]) << limit;
      }
    }
    EXPECT_LE(memory_of(context_.get()).peak_bytes, limit);
  }
}

TEST_F(Buffers, AreForManyThreads) {
  constexpr int kThreads = 4, kRounds = 60;
  const BufferHandle x = filled(1);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      BufferHandle w = filled(static_cast<float>(t));
      for (int round = 0; round < kRounds; ++round) {
        const auto mode = static_cast<plm_run_mode>((round + t) % 3);
        auto results = run(w.get(), x.get(), mode);
        if (results.size() != 2) {
          ++wrong;
          return;
        }
        w = std::move(results[0]);
      }
      if (values(w.get())[3] != static_cast<float>(t + kRounds)) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(used(), static_cast<std::int64_t>(kBytes));
}

// What they need of it stays.
TEST_F(Buffers, OutliveTheirContext) {
  const BufferHandle w = filled(1), x = filled(2);
  const auto results = run(w.get(), x.get(), PLM_RUN_ASYNCHRONOUS);
  step_.reset();
  context_.reset();
  EXPECT_EQ(values(results[0].get())[0], 3.0F);
}

}  // namespace
}  // namespace plimsoll::testing
