// SPDX-License-Identifier: Apache-2.0
#include "tests/c_api/shared_budget.h"

#include <gtest/gtest.h>

#include <thread>

namespace plimsoll::testing {
namespace {

class SharedBudget : public ::testing::Test {
 protected:
  void SetUp() override {
    plm_context_options options = {};
    options.struct_size = sizeof options;
    options.memory_limit_bytes = PLM_NO_LIMIT;
    plm_context* made = nullptr;
    ASSERT_EQ(take(plm_context_create(&options, &made)).code, PLM_OK);
    context_.reset(made);
    layers_ = serve(made, layers_text(64, 6), true, 1);
    ASSERT_NE(layers_.executable, nullptr);
    ASSERT_LT(layers_.floor_bytes, layers_.peak_bytes);
    // Goes on until somebody stops it.
    endless_ = compile(loop_text(16, std::int64_t{1} << 60));
    ASSERT_NE(endless_, nullptr);
  }

  ExecutableHandle compile(const std::string& text) {
    plm_executable* made = nullptr;
    const Outcome outcome =
        take(plm_executable_create(context_.get(), text.data(), text.size(), "p", nullptr, &made));
    EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
    return ExecutableHandle(made);
  }
  void set_limit(std::int64_t bytes) {
    ASSERT_EQ(take(plm_context_set_limit(context_.get(), bytes)).code, PLM_OK);
  }
  plm_memory_statistics memory() const { return memory_of(context_.get()); }
  void expect_nothing_is_left() const {
    const plm_memory_statistics now = memory();
    EXPECT_EQ(now.used_bytes, 0);
    EXPECT_EQ(now.reserved_bytes, 0);
    EXPECT_EQ(now.running_runs, 0);
    EXPECT_EQ(now.waiting_runs, 0);
  }
  Outcome run_endless(const plm_run_options* options) {
    const std::vector<float> x(256, 0.5F);
    std::vector<float> y(256);
    const void* parameters[1] = {x.data()};
    void* results[1] = {y.data()};
    return take(plm_executable_run_with(endless_.get(), parameters, 1, results, 1, options));
  }

  ContextHandle context_;
  Served layers_;
  ExecutableHandle endless_;
};

struct Cancellation {
  Cancellation() { plm_status_free(plm_cancellation_create(&handle)); }
  ~Cancellation() { plm_cancellation_destroy(handle); }
  plm_run_options options() const {
    plm_run_options made = {};
    made.struct_size = sizeof made;
    made.cancellation = handle;
    return made;
  }
  plm_cancellation* handle = nullptr;
};

// A run on a thread of its own that goes on until it is cancelled, and has started.
class Endless {
 public:
  template <typename Run, typename Memory>
  Endless(Run run, Memory memory) {
    const std::int64_t before = memory().admitted_runs;
    thread_ = std::thread([this, run] {
      const plm_run_options options = cancellation_.options();
      outcome_ = run(&options);
    });
    while (memory().admitted_runs == before) std::this_thread::yield();
  }
  ~Endless() { end(); }
  Outcome end() {
    plm_cancellation_cancel(cancellation_.handle);
    if (thread_.joinable()) thread_.join();
    return outcome_;
  }

 private:
  Cancellation cancellation_;
  Outcome outcome_;
  std::thread thread_;
};

TEST_F(SharedBudget, ResultsAreTheSameAtEveryLimit) {
  Served::Buffers results;
  for (std::int64_t limit = layers_.peak_bytes; limit >= layers_.floor_bytes;
       limit -= (layers_.peak_bytes - layers_.floor_bytes) / 9) {
    set_limit(limit);
    plm_context_reset_peak(context_.get());
    const Outcome outcome = take(layers_.run(1, nullptr, results));
    EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
    EXPECT_TRUE(results == layers_.expected[1]);
    EXPECT_LE(memory().peak_bytes, limit);
  }
  set_limit(layers_.floor_bytes - 1);
  const Outcome refused = take(layers_.run(1, nullptr, results));
  EXPECT_EQ(refused.code, PLM_RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.floor_bytes, layers_.floor_bytes);
  expect_nothing_is_left();
}

TEST_F(SharedBudget, ALimitThatIsRaisedIsUsed) {
  set_limit(layers_.floor_bytes);
  const Served tight = serve(context_.get(), layers_text(64, 6), true, 1);
  ASSERT_NE(tight.executable, nullptr);
  EXPECT_LE(tight.peak_bytes, layers_.floor_bytes);
  set_limit(PLM_NO_LIMIT);
  plm_context_reset_peak(context_.get());
  Served::Buffers results;
  EXPECT_EQ(take(tight.run(0, nullptr, results)).code, PLM_OK);
  EXPECT_EQ(memory().peak_bytes, layers_.peak_bytes);
  EXPECT_TRUE(results == layers_.expected[0]);
}

TEST_F(SharedBudget, ARunBesideOthersTakesTheFastestPlanThatFits) {
  const std::int64_t other = plm_executable_peak(endless_.get());
  set_limit(layers_.peak_bytes + other - 1);
  Endless running([this](const plm_run_options* o) { return run_endless(o); },
                  [this] { return memory(); });
  plm_context_reset_peak(context_.get());
  Served::Buffers results;
  EXPECT_EQ(take(layers_.run(0, nullptr, results)).code, PLM_OK);
  EXPECT_TRUE(results == layers_.expected[0]);
  const std::int64_t peak = memory().peak_bytes - other;
  EXPECT_LT(peak, layers_.peak_bytes);
  EXPECT_GT(peak, layers_.floor_bytes);
  EXPECT_EQ(running.end().code, PLM_CANCELLED);
  expect_nothing_is_left();
}

TEST_F(SharedBudget, ARunThatIsRunningIsCancelled) {
  Endless running([this](const plm_run_options* o) { return run_endless(o); },
                  [this] { return memory(); });
  EXPECT_GT(memory().used_bytes + memory().reserved_bytes, 0);
  const Outcome outcome = running.end();
  EXPECT_EQ(outcome.code, PLM_CANCELLED);
  EXPECT_NE(outcome.message.find("cancelled"), std::string::npos) << outcome.message;
  expect_nothing_is_left();
}

TEST_F(SharedBudget, ARunThatWaitsIsCancelled) {
  set_limit(layers_.floor_bytes);
  Endless running([this](const plm_run_options* o) { return run_endless(o); },
                  [this] { return memory(); });
  Cancellation cancellation;
  Served::Buffers results;
  Outcome outcome;
  std::thread waiting([&] {
    const plm_run_options options = cancellation.options();
    outcome = take(layers_.run(0, &options, results));
  });
  while (memory().waiting_runs == 0) std::this_thread::yield();
  plm_cancellation_cancel(cancellation.handle);
  waiting.join();
  EXPECT_EQ(outcome.code, PLM_CANCELLED);
  EXPECT_TRUE(Served::is_untouched(results));
  EXPECT_EQ(memory().running_runs, 1);
  EXPECT_EQ(memory().waiting_runs, 0);
  running.end();
  expect_nothing_is_left();
}

TEST_F(SharedBudget, ADeadlineEndsWaitingAndRunning) {
  set_limit(layers_.floor_bytes);
  plm_run_options options = {};
  options.struct_size = sizeof options;
  options.deadline_seconds = 0.02;
  EXPECT_EQ(run_endless(&options).code, PLM_DEADLINE_EXCEEDED);
  expect_nothing_is_left();
  Endless running([this](const plm_run_options* o) { return run_endless(o); },
                  [this] { return memory(); });
  Served::Buffers results;
  EXPECT_EQ(take(layers_.run(0, &options, results)).code, PLM_DEADLINE_EXCEEDED);
  EXPECT_TRUE(Served::is_untouched(results));
  options.deadline_seconds = -1;
  EXPECT_EQ(take(layers_.run(0, &options, results)).code, PLM_INVALID_ARGUMENT);
  options.deadline_seconds = 0;
  options.dont_wait = 1;
  const Outcome full = take(layers_.run(0, &options, results));
  EXPECT_EQ(full.code, PLM_RESOURCE_EXHAUSTED);
  EXPECT_GT(full.floor_bytes, layers_.floor_bytes);
}

TEST_F(SharedBudget, WhatTensorsHoldIsNotWaitedFor) {
  const std::vector<float> values(4096, 1.0F);
  const std::int64_t dims[1] = {4096};
  plm_tensor* tensor = nullptr;
  ASSERT_EQ(
      take(plm_tensor_from_host(context_.get(), PLM_F32, dims, 1, values.data(), &tensor)).code,
      PLM_OK);
  ASSERT_EQ(take(plm_eval(context_.get(), &tensor, 1)).code, PLM_OK);
  const std::int64_t held = memory().used_bytes;
  set_limit(layers_.floor_bytes + held - 1);
  Served::Buffers results;
  const Outcome refused = take(layers_.run(0, nullptr, results));
  EXPECT_EQ(refused.code, PLM_RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.floor_bytes, layers_.floor_bytes + held);
  set_limit(refused.floor_bytes);
  EXPECT_EQ(take(layers_.run(0, nullptr, results)).code, PLM_OK);
  plm_tensor_release(tensor);
  EXPECT_TRUE(results == layers_.expected[0]);
}

TEST_F(SharedBudget, AFailedAllocationLeavesNothingBehind) {
  Served::Buffers results;
  set_limit((layers_.floor_bytes + layers_.peak_bytes) / 2);
  int failures = 0;
  for (std::int64_t n = 1; n < 50; ++n) {
    plm_context_fail_allocation(context_.get(), n);
    const Outcome outcome = take(layers_.run(0, nullptr, results));
    plm_context_fail_allocation(context_.get(), 0);
    expect_nothing_is_left();
    if (outcome.code == PLM_OK) {
      EXPECT_TRUE(results == layers_.expected[0]);
      break;
    }
    ++failures;
    EXPECT_EQ(outcome.code, PLM_RESOURCE_EXHAUSTED);
    EXPECT_TRUE(Served::is_untouched(results));
  }
  // Weights, two results, constants, arena.
  EXPECT_EQ(failures, 5);
}

TEST_F(SharedBudget, TheBooksAddUpNowAndAtThePeak) {
  set_limit((layers_.floor_bytes + layers_.peak_bytes) / 2);
  plm_context_reset_peak(context_.get());
  Served::Buffers results;
  EXPECT_EQ(take(layers_.run(0, nullptr, results)).code, PLM_OK);
  const auto sum_of_peak = [](const plm_memory_statistics& m) {
    return m.peak_parameters + m.peak_constants + m.peak_activations + m.peak_workspaces +
           m.peak_encoded + m.peak_all_staging;
  };
  plm_memory_statistics now = memory();
  EXPECT_GT(now.peak_bytes, 0);
  EXPECT_EQ(sum_of_peak(now), now.peak_bytes);
  EXPECT_GT(now.peak_activations, 0);
  EXPECT_EQ(now.peak_parameters + now.peak_constants + now.peak_outputs + now.peak_arena +
                now.peak_staging,
            now.peak_bytes);
  EXPECT_GT(now.code_bytes, 0);
  EXPECT_GE(now.peak_code_bytes, now.code_bytes);
  const float one = 1;
  plm_tensor* tensor = nullptr;
  ASSERT_EQ(take(plm_tensor_from_host(context_.get(), PLM_F32, nullptr, 0, &one, &tensor)).code,
            PLM_OK);
  ASSERT_EQ(take(plm_eval(context_.get(), &tensor, 1)).code, PLM_OK);
  plm_context_reset_peak(context_.get());
  now = memory();
  EXPECT_EQ(now.used_parameters + now.used_constants + now.used_activations + now.used_workspaces +
                now.used_encoded + now.used_all_staging,
            now.used_bytes);
  EXPECT_EQ(now.used_parameters, now.used_bytes);
  EXPECT_EQ(now.peak_bytes, now.used_bytes);
  EXPECT_EQ(sum_of_peak(now), now.peak_bytes);
  plm_tensor_release(tensor);
}

TEST_F(SharedBudget, WhatRunsRecomputeAndEncodeIsCounted) {
  Served::Buffers results;
  const plm_memory_statistics before = memory();
  EXPECT_EQ(take(layers_.run(0, nullptr, results)).code, PLM_OK);
  EXPECT_EQ(memory().recomputed_bytes, before.recomputed_bytes);
  EXPECT_EQ(memory().encoded_bytes, before.encoded_bytes);
  EXPECT_EQ(memory().swapped_out_bytes, 0);  // there is no tier
  EXPECT_EQ(memory().swapped_in_bytes, 0);
  set_limit(layers_.floor_bytes);
  EXPECT_EQ(take(layers_.run(0, nullptr, results)).code, PLM_OK);
  const plm_memory_statistics once = memory();
  EXPECT_GT(once.recomputed_bytes + once.encoded_bytes,
            before.recomputed_bytes + before.encoded_bytes);
  EXPECT_EQ(take(layers_.run(0, nullptr, results)).code, PLM_OK);
  EXPECT_EQ(memory().recomputed_bytes + memory().encoded_bytes -
                (once.recomputed_bytes + once.encoded_bytes),
            once.recomputed_bytes + once.encoded_bytes -
                (before.recomputed_bytes + before.encoded_bytes));
}

TEST_F(SharedBudget, ManyThreadsUnderAChangingLimit) {
  const StressReport report = stress(16, 0.4, 7);
  EXPECT_EQ(report.broken, "");
  EXPECT_GT(report.right, 0);
  EXPECT_GT(report.limits, 0);
}

}  // namespace
}  // namespace plimsoll::testing
