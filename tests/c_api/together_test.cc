// SPDX-License-Identifier: Apache-2.0
// Programs of several participants, each in a context of its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "tests/c_api/shared_budget.h"

namespace plimsoll::testing {
namespace {

struct FreeBuffer {
  void operator()(plm_buffer* buffer) const { plm_buffer_release(buffer); }
};
using BufferHandle = std::unique_ptr<plm_buffer, FreeBuffer>;

// A step of data-parallel training: the gradients are added up over all, and the weights, which
// everybody has, are changed in place.
std::string make_step() {
  std::string text =
      R"(HloModule step, replica_count=3, input_output_alias={ {0}: (0, {}, may-alias) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  w = f32[64,64] parameter(0)
  h0 = f32[64,64] parameter(1)
)";
  const auto line = [&](const std::string& name, const std::string& value) {
    text += "  " + name + " = f32[64,64] " + value + "\n";
  };
  constexpr int kLayers = 6;
  for (int i = 0; i < kLayers; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    line("y" + n, "dot(h" + n + ", w), lhs_contracting_dims={1}, rhs_contracting_dims={0}");
    line("h" + next, "tanh(y" + n + ")");
  }
  std::string gradient = "h6", sum;
  for (int i = kLayers - 1; i >= 0; --i) {
    const std::string n = std::to_string(i);
    line("g" + n,
         "dot(h" + n + ", " + gradient + "), lhs_contracting_dims={0}, rhs_contracting_dims={0}");
    line("s" + n, sum.empty() ? "copy(g" + n + ")" : "add(" + sum + ", g" + n + ")");
    line("d" + n, "dot(" + gradient + ", w), lhs_contracting_dims={1}, rhs_contracting_dims={1}");
    gradient = "d" + n;
    sum = "s" + n;
  }
  return text + R"(  sum = f32[64,64] all-reduce(s0), replica_groups={}, to_apply=add
  rate = f32[] constant(0.001)
  rates = f32[64,64] broadcast(rate), dimensions={}
  change = f32[64,64] multiply(sum, rates)
  n = f32[64,64] subtract(w, change)
  id = u32[] replica-id()
  ROOT r = (f32[64,64], u32[]) tuple(n, id)
}
)";
}
const std::string kStep = make_step();
constexpr std::int64_t kDims[2] = {64, 64};
constexpr std::size_t kReplicas = 3, kCount = 64 * 64;

struct Group {
  std::vector<ContextHandle> contexts;
  std::vector<ExecutableHandle> executables;
};

class Together : public ::testing::Test {
 protected:
  static std::vector<ContextHandle> make_contexts(std::size_t count, std::int64_t limit) {
    std::vector<ContextHandle> made;
    for (std::size_t i = 0; i < count; ++i) {
      plm_context_options options = {};
      options.struct_size = sizeof options;
      options.memory_limit_bytes = limit;
      plm_context* context = nullptr;
      EXPECT_EQ(take(plm_context_create(&options, &context)).code, PLM_OK);
      made.emplace_back(context);
    }
    return made;
  }
  static Group make_group(std::int64_t limit, Outcome& outcome, const std::string& text = kStep,
                          std::size_t count = kReplicas, std::int64_t partitions = 0) {
    Group group;
    group.contexts = make_contexts(count, limit);
    std::vector<plm_context*> contexts;
    for (const ContextHandle& context : group.contexts) contexts.push_back(context.get());
    plm_executable_options options = {};
    options.struct_size = sizeof options;
    options.default_placement = PLM_PLACEMENT_PROGRAM;
    options.partitions = partitions;
    std::vector<plm_executable*> made(count);
    outcome = take(plm_executable_create_together(contexts.data(), count, text.data(), text.size(),
                                                  "p", &options, made.data()));
    if (outcome.code == PLM_OK) {
      for (plm_executable* const one : made) group.executables.emplace_back(one);
    }
    return group;
  }
  static Group make_group(std::int64_t limit = PLM_NO_LIMIT) {
    Outcome outcome;
    Group group = make_group(limit, outcome);
    EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
    return group;
  }
  // Every participant in a thread, with a communicator of its own, as processes have them: what it
  // does with its executable of `text`.
  using OfConnected = std::function<void(std::size_t p, const ContextHandle&, plm_executable*)>;
  static void run_connected(const std::string& name, const std::string& text,
                            const OfConnected& body, plm_executable_options options = {}) {
    const std::string rendezvous =
        "file://" + ::testing::TempDir() + "/" + name + "_" + std::to_string(getpid());
    options.struct_size = sizeof options;
    std::vector<std::thread> threads;
    for (std::size_t p = 0; p < kReplicas; ++p) {
      threads.emplace_back([&, p, options]() mutable {
        plm_communicator_options connect = {};
        connect.struct_size = sizeof connect;
        connect.rank = static_cast<std::int64_t>(p);
        connect.world_size = kReplicas;
        connect.rendezvous = rendezvous.c_str();
        connect.timeout_seconds = 60;
        const Outcome connected = take(plm_communicator_connect(&connect, &options.communicator));
        ASSERT_EQ(connected.code, PLM_OK) << connected.message;
        EXPECT_EQ(plm_communicator_rank(options.communicator), static_cast<std::int64_t>(p));
        EXPECT_EQ(plm_communicator_size(options.communicator),
                  static_cast<std::int64_t>(kReplicas));
        {
          const auto contexts = make_contexts(1, PLM_NO_LIMIT);
          plm_executable* made = nullptr;
          const Outcome created = take(plm_executable_create(contexts[0].get(), text.data(),
                                                             text.size(), "p", &options, &made));
          ASSERT_EQ(created.code, PLM_OK) << created.message;
          const ExecutableHandle executable(made);
          body(p, contexts[0], made);
        }
        plm_communicator_destroy(options.communicator);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  static BufferHandle filled(const ContextHandle& context, float first) {
    std::vector<float> data(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      data[i] = first * static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 300;
    }
    plm_buffer* made = nullptr;
    EXPECT_EQ(
        take(plm_buffer_from_host(context.get(), PLM_F32, kDims, 2, data.data(), nullptr, &made))
            .code,
        PLM_OK);
    return BufferHandle(made);
  }
  template <typename T>
  static std::vector<T> values(plm_buffer* buffer, Outcome* outcome = nullptr) {
    std::vector<T> out(plm_buffer_byte_size(buffer) / sizeof(T));
    const Outcome read = take(plm_buffer_read(buffer, out.data(), plm_buffer_byte_size(buffer)));
    if (outcome == nullptr) {
      EXPECT_EQ(read.code, PLM_OK) << read.message;
    } else {
      *outcome = read;
    }
    return out;
  }
  // Results by participant, two each; none where the call is refused.
  static std::vector<std::vector<BufferHandle>> run(const Group& group,
                                                    const std::vector<BufferHandle>& weights,
                                                    const std::vector<BufferHandle>& inputs,
                                                    Outcome& outcome,
                                                    plm_buffer_run_options options = {}) {
    options.struct_size = sizeof options;
    const std::size_t count = group.executables.size();
    std::vector<const plm_executable*> executables;
    std::vector<std::vector<plm_buffer*>> given, got(count, std::vector<plm_buffer*>(2));
    std::vector<plm_buffer* const*> parameters;
    std::vector<plm_buffer**> results;
    for (std::size_t p = 0; p < count; ++p) {
      executables.push_back(group.executables[p].get());
      given.push_back({weights[p].get(), inputs[p].get()});
    }
    for (std::size_t p = 0; p < count; ++p) {
      parameters.push_back(given[p].data());
      results.push_back(got[p].data());
    }
    outcome = take(plm_executable_run_buffers_together(executables.data(), count, parameters.data(),
                                                       2, results.data(), 2, &options));
    std::vector<std::vector<BufferHandle>> made;
    for (std::size_t p = 0; outcome.code == PLM_OK && p < count; ++p) {
      made.emplace_back();
      for (plm_buffer* const one : got[p]) made.back().emplace_back(one);
    }
    return made;
  }
  // The weights after some steps, of every participant.
  static std::vector<std::vector<float>> train(const Group& group, int steps, plm_run_mode mode) {
    std::vector<BufferHandle> weights, inputs;
    for (std::size_t p = 0; p < kReplicas; ++p) {
      weights.push_back(filled(group.contexts[p], 1));
      inputs.push_back(filled(group.contexts[p], static_cast<float>(p) + 2));
    }
    plm_buffer_run_options options = {};
    options.mode = mode;
    for (int step = 0; step < steps; ++step) {
      Outcome outcome;
      auto results = run(group, weights, inputs, outcome, options);
      EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
      for (std::size_t p = 0; p < results.size(); ++p) weights[p] = std::move(results[p][0]);
    }
    std::vector<std::vector<float>> made;
    for (const BufferHandle& one : weights) made.push_back(values<float>(one.get()));
    return made;
  }
};

TEST_F(Together, EveryoneHasTheSameWeightsAtEveryLimit) {
  const Group free = make_group();
  const auto expected = train(free, 5, PLM_RUN_SYNCHRONOUS);
  EXPECT_EQ(expected[1], expected[0]);
  EXPECT_EQ(expected[2], expected[0]);
  const std::int64_t peak = plm_executable_peak(free.executables[0].get());
  std::int64_t floor = 0;
  ASSERT_EQ(take(plm_executable_floor(free.executables[0].get(), &floor)).code, PLM_OK);
  ASSERT_LT(floor, peak);
  for (const std::int64_t limit : {floor, (floor + peak) / 2, peak}) {
    for (const plm_run_mode mode : {PLM_RUN_SYNCHRONOUS, PLM_RUN_ASYNCHRONOUS}) {
      const Group group = make_group(limit);
      ASSERT_EQ(group.executables.size(), kReplicas);
      EXPECT_EQ(train(group, 5, mode), expected) << limit;
      for (const ContextHandle& context : group.contexts) {
        EXPECT_LE(memory_of(context.get()).peak_bytes, limit);
      }
    }
  }
  Outcome below;
  (void)make_group(floor - 1, below);
  EXPECT_EQ(below.code, PLM_RESOURCE_EXHAUSTED);
}

TEST_F(Together, ParticipantsKnowTheirNumbers) {
  const Group group = make_group();
  std::vector<BufferHandle> weights, inputs;
  for (std::size_t p = 0; p < kReplicas; ++p) {
    weights.push_back(filled(group.contexts[p], 1));
    inputs.push_back(filled(group.contexts[p], 1));
  }
  Outcome outcome;
  const auto results = run(group, weights, inputs, outcome);
  ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
  for (std::uint32_t p = 0; p < kReplicas; ++p) {
    EXPECT_EQ(values<std::uint32_t>(results[p][1].get()), std::vector<std::uint32_t>{p});
  }
}

// Runs of several threads begin in one order in all contexts.
TEST_F(Together, ThreadsDoNotWaitForEachOtherCrosswise) {
  const Group group = make_group();
  const auto expected = train(group, 3, PLM_RUN_SYNCHRONOUS);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto mode = t % 2 == 0 ? PLM_RUN_SYNCHRONOUS : PLM_RUN_AUTOMATIC;
      for (int i = 0; i < 5; ++i) right += train(group, 3, mode) == expected ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 20);
}

TEST_F(Together, DoneIsToldOnce) {
  const Group group = make_group();
  std::atomic<int> calls = 0;
  {
    std::vector<BufferHandle> weights, inputs;
    for (std::size_t p = 0; p < kReplicas; ++p) {
      weights.push_back(filled(group.contexts[p], 1));
      inputs.push_back(filled(group.contexts[p], 1));
    }
    plm_buffer_run_options options = {};
    options.mode = PLM_RUN_ASYNCHRONOUS;
    options.done = [](void* user, const plm_status* status) {
      EXPECT_EQ(status, nullptr);
      ++*static_cast<std::atomic<int>*>(user);
    };
    options.done_user = &calls;
    Outcome outcome;
    const auto results = run(group, weights, inputs, outcome, options);
    ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
    for (const auto& one : results) (void)values<float>(one[0].get());
  }
  while (calls.load() == 0) std::this_thread::yield();
  EXPECT_EQ(calls.load(), 1);
}

// One whose memory is taken by somebody else fails, and with it those that wait for it.
TEST_F(Together, AFailureIsEveryones) {
  const Group free = make_group();
  const std::int64_t limit = plm_executable_peak(free.executables[0].get());
  const Group group = make_group(limit);
  std::vector<BufferHandle> weights, inputs;
  for (std::size_t p = 0; p < kReplicas; ++p) {
    weights.push_back(filled(group.contexts[p], 1));
    inputs.push_back(filled(group.contexts[p], 1));
  }
  std::vector<BufferHandle> taken;
  while (memory_of(group.contexts[1].get()).used_bytes + 16384 <= limit) {
    taken.push_back(filled(group.contexts[1], 0));
  }
  plm_buffer_run_options options = {};
  options.run.dont_wait = 1;
  Outcome outcome;
  (void)run(group, weights, inputs, outcome, options);
  EXPECT_EQ(outcome.code, PLM_RESOURCE_EXHAUSTED) << outcome.message;
  EXPECT_NE(outcome.message.find("participant 1"), std::string::npos) << outcome.message;
  // What was donated is gone; the contexts go on.
  taken.clear();
  weights.clear();
  for (std::size_t p = 0; p < kReplicas; ++p) weights.push_back(filled(group.contexts[p], 1));
  (void)run(group, weights, inputs, outcome, options);
  EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
}

TEST_F(Together, WrongCallsAreRefusedAndDeleteNothing) {
  const Group group = make_group();
  Outcome outcome;
  const Group few = make_group(PLM_NO_LIMIT, outcome, kStep, 2);
  EXPECT_EQ(outcome.code, PLM_FAILED_PRECONDITION);
  EXPECT_NE(outcome.message.find("3 replicas x 1 partitions, for 2 contexts"), std::string::npos)
      << outcome.message;
  plm_executable* alone = nullptr;
  outcome = take(plm_executable_create(group.contexts[0].get(), kStep.data(), kStep.size(), "p",
                                       nullptr, &alone));
  EXPECT_EQ(outcome.code, PLM_FAILED_PRECONDITION);
  EXPECT_NE(outcome.message.find("plm_executable_create_together"), std::string::npos);

  std::vector<BufferHandle> weights, inputs;
  for (std::size_t p = 0; p < kReplicas; ++p) {
    weights.push_back(filled(group.contexts[p], 1));
    inputs.push_back(filled(group.contexts[p], 1));
  }
  plm_buffer* parameters[2] = {weights[0].get(), inputs[0].get()};
  plm_buffer* results[2] = {};
  outcome = take(
      plm_executable_run_buffers(group.executables[0].get(), parameters, 2, results, 2, nullptr));
  EXPECT_EQ(outcome.code, PLM_FAILED_PRECONDITION) << outcome.message;
  // A buffer of another participant.
  std::swap(inputs[1], inputs[2]);
  (void)run(group, weights, inputs, outcome);
  EXPECT_EQ(outcome.code, PLM_INVALID_ARGUMENT) << outcome.message;
  EXPECT_NE(outcome.message.find("participant 1"), std::string::npos) << outcome.message;
  std::swap(inputs[1], inputs[2]);
  // Executables in another order.
  const plm_executable* order[] = {group.executables[1].get(), group.executables[0].get(),
                                   group.executables[2].get()};
  std::vector<std::vector<plm_buffer*>> given, got(kReplicas, std::vector<plm_buffer*>(2));
  std::vector<plm_buffer* const*> all;
  std::vector<plm_buffer**> out;
  for (std::size_t p = 0; p < kReplicas; ++p) {
    given.push_back({weights[p].get(), inputs[p].get()});
  }
  for (std::size_t p = 0; p < kReplicas; ++p) {
    all.push_back(given[p].data());
    out.push_back(got[p].data());
  }
  outcome = take(
      plm_executable_run_buffers_together(order, kReplicas, all.data(), 2, out.data(), 2, nullptr));
  EXPECT_EQ(outcome.code, PLM_INVALID_ARGUMENT) << outcome.message;
  EXPECT_NE(outcome.message.find("is participant 1 of 3"), std::string::npos) << outcome.message;
  EXPECT_NE(take(plm_executable_run_buffers_together(nullptr, kReplicas, all.data(), 2, out.data(),
                                                     2, nullptr))
                .code,
            PLM_OK);
  // Nothing was deleted by any of these.
  (void)run(group, weights, inputs, outcome);
  EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
}

// Every participant with a communicator of its own, as processes have them: the bits are the same.
TEST_F(Together, ConnectedParticipantsComputeWhatOneProcessDoes) {
  const auto expected = train(make_group(), 4, PLM_RUN_SYNCHRONOUS);
  std::vector<std::vector<float>> got(kReplicas);
  plm_executable_options options = {};
  options.default_placement = PLM_PLACEMENT_PROGRAM;
  const auto body = [&](std::size_t p, const ContextHandle& context, plm_executable* step) {
    BufferHandle weights = filled(context, 1);
    const BufferHandle input = filled(context, static_cast<float>(p) + 2);
    for (int i = 0; i < 4; ++i) {
      plm_buffer* parameters[2] = {weights.get(), input.get()};
      plm_buffer* results[2] = {};
      const Outcome ran =
          take(plm_executable_run_buffers(step, parameters, 2, results, 2, nullptr));
      ASSERT_EQ(ran.code, PLM_OK) << ran.message;
      weights.reset(results[0]);
      const BufferHandle number(results[1]);
      EXPECT_EQ(values<std::uint32_t>(number.get())[0], p);
    }
    got[p] = values<float>(weights.get());
  };
  run_connected("together", kStep, body, options);
  EXPECT_EQ(got, expected);
}

// Programs and what is recorded meet by the same communicator, in the order of the calls.
TEST_F(Together, ThreadsRunProgramsAndRecordedOperationsByOneCommunicator) {
  const std::string program = R"(HloModule sum, replica_count=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main { x = f32[2] parameter(0) ROOT r = f32[2] all-reduce(x), to_apply=add }
)";
  plm_communicator* communicators[2];
  ASSERT_EQ(take(plm_communicator_create_local(2, communicators)).code, PLM_OK);
  std::vector<std::vector<float>> got(2);
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < 2; ++p) {
    threads.emplace_back([&, p] {
      plm_context_options with = {};
      with.struct_size = sizeof with;
      with.communicator = communicators[p];
      plm_context* context = nullptr;
      EXPECT_EQ(take(plm_context_create(&with, &context)).code, PLM_OK);
      const ContextHandle owned(context);
      plm_executable_options options = {};
      options.struct_size = sizeof options;
      options.communicator = communicators[p];
      plm_executable* made = nullptr;
      EXPECT_EQ(take(plm_executable_create(context, program.data(), program.size(), "sum.hlo",
                                           &options, &made))
                    .code,
                PLM_OK);
      const ExecutableHandle executable(made);
      // The context keeps it.
      plm_communicator_destroy(communicators[p]);
      float value[2] = {1.0f + static_cast<float>(p), 10};
      for (int round = 0; round < 3; ++round) {
        const void* const parameter = value;
        float result[2];
        void* const output = result;
        EXPECT_EQ(take(plm_executable_run(executable.get(), &parameter, 1, &output, 1)).code,
                  PLM_OK);
        const std::int64_t dims[] = {2};
        plm_tensor *x = nullptr, *sum = nullptr;
        EXPECT_EQ(take(plm_tensor_from_host(context, PLM_F32, dims, 1, result, &x)).code, PLM_OK);
        plm_op_attributes attributes = {};
        attributes.struct_size = sizeof attributes;
        const plm_tensor* operand = x;
        EXPECT_EQ(take(plm_op(context, PLM_OP_ALL_REDUCE, &operand, 1, &attributes, &sum, 1)).code,
                  PLM_OK);
        EXPECT_EQ(take(plm_tensor_read(sum, value, sizeof value)).code, PLM_OK);
        got[p].insert(got[p].end(), value, value + 2);
        plm_tensor_release(x);
        plm_tensor_release(sum);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Each sum doubles what both have, but for the first.
  EXPECT_EQ(got[0], (std::vector<float>{6, 40, 24, 160, 96, 640}));
  EXPECT_EQ(got[1], got[0]);
}

// As programs for GPUs are written: what is sent in one channel is received in another.
TEST_F(Together, SendsMeetReceivesOfAnotherChannel) {
  const std::string text = R"(HloModule stages, num_partitions=3
ENTRY main {
  w = f32[64,64] parameter(0)
  h = f32[64,64] parameter(1)
  t = token[] after-all()
  s = (f32[64,64], u32[], token[]) send(w, t), channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
  r = (f32[64,64], u32[], token[]) recv(t), channel_id=2, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}, control-predecessors={s}
  sd = token[] send-done(s), channel_id=1
  rd = (f32[64,64], token[]) recv-done(r), channel_id=2
  g = f32[64,64] get-tuple-element(rd), index=0
  sum = f32[64,64] add(g, h)
  id = u32[] partition-id()
  ROOT result = (f32[64,64], u32[]) tuple(sum, id)
})";
  Outcome outcome;
  const Group group = make_group(PLM_NO_LIMIT, outcome, text);
  ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
  std::vector<BufferHandle> weights, inputs;
  for (std::size_t p = 0; p < kReplicas; ++p) {
    weights.push_back(filled(group.contexts[p], static_cast<float>(p) + 1));
    inputs.push_back(filled(group.contexts[p], static_cast<float>(p) + 2));
  }
  const auto results = run(group, weights, inputs, outcome);
  ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
  for (std::size_t p = 0; p < kReplicas; ++p) {
    std::vector<float> expected = values<float>(inputs[p].get());
    if (p > 0) {
      const std::vector<float> sent = values<float>(weights[p - 1].get());
      for (std::size_t i = 0; i < kCount; ++i) expected[i] += sent[i];
    }
    EXPECT_EQ(values<float>(results[p][0].get()), expected) << p;
  }
}

// A pipeline of three stages, and a ring: by threads and by processes.
TEST_F(Together, SendsReachTheNextParticipant) {
  const std::string text = R"(HloModule stages, replica_count=3
ENTRY main {
  w = f32[64,64] parameter(0)
  h = f32[64,64] parameter(1)
  t = token[] after-all()
  r = (f32[64,64], u32[], token[]) recv(t), channel_id=0, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
  rd = (f32[64,64], token[]) recv-done(r), channel_id=0
  g = f32[64,64] get-tuple-element(rd), index=0
  in = f32[64,64] add(g, h)
  out = f32[64,64] multiply(in, w)
  s = (f32[64,64], u32[], token[]) send(out, t), channel_id=0, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
  sd = token[] send-done(s), channel_id=0
  r2 = (f32[64,64], u32[], token[]) recv(t), channel_id=0, frontend_attributes={_xla_send_recv_source_target_pairs={{0,2},{1,0},{2,1}}}
  s2 = (f32[64,64], u32[], token[]) send(out, t), channel_id=0, frontend_attributes={_xla_send_recv_source_target_pairs={{0,2},{1,0},{2,1}}}
  sd2 = token[] send-done(s2), channel_id=0
  rd2 = (f32[64,64], token[]) recv-done(r2), channel_id=0
  ring = f32[64,64] get-tuple-element(rd2), index=0
  id = u32[] replica-id()
  ROOT result = (f32[64,64], u32[]) tuple(ring, id)
})";
  Outcome outcome;
  const Group group = make_group(PLM_NO_LIMIT, outcome, text);
  ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
  std::vector<BufferHandle> weights, inputs;
  std::vector<std::vector<float>> w, h;
  for (std::size_t p = 0; p < kReplicas; ++p) {
    weights.push_back(filled(group.contexts[p], static_cast<float>(p) + 1));
    inputs.push_back(filled(group.contexts[p], static_cast<float>(p) + 2));
    w.push_back(values<float>(weights[p].get()));
    h.push_back(values<float>(inputs[p].get()));
  }
  std::vector<std::vector<float>> stages(kReplicas, std::vector<float>(kCount));
  for (std::size_t p = 0; p < kReplicas; ++p) {
    for (std::size_t i = 0; i < kCount; ++i) {
      stages[p][i] = ((p == 0 ? 0.0f : stages[p - 1][i]) + h[p][i]) * w[p][i];
    }
  }
  for (int round = 0; round < 3; ++round) {
    const auto results = run(group, weights, inputs, outcome);
    ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
    for (std::size_t p = 0; p < kReplicas; ++p) {
      EXPECT_EQ(values<float>(results[p][0].get()), stages[(p + 1) % kReplicas]) << p;
    }
  }
  run_connected(
      "together_send", text, [&](std::size_t p, const ContextHandle&, plm_executable* executable) {
        std::vector<float> out(kCount);
        std::uint32_t id = 0;
        const void* parameters[2] = {w[p].data(), h[p].data()};
        void* results[2] = {out.data(), &id};
        const Outcome ran = take(plm_executable_run(executable, parameters, 2, results, 2));
        EXPECT_EQ(ran.code, PLM_OK) << ran.message;
        EXPECT_EQ(out, stages[(p + 1) % kReplicas]) << p;
      });
}

// Keeps participant 0 busy where it is closed.
std::atomic<bool> gate_is_open = true;

plm_status* pass_gate(void*, const plm_call_arguments* arguments) {
  std::uint32_t id = 0;
  std::memcpy(&id, arguments->inputs[1], sizeof id);
  while (id == 0 && !gate_is_open) std::this_thread::yield();
  std::memcpy(arguments->outputs[0], arguments->inputs[0], arguments->input_arrays[0].byte_size);
  return nullptr;
}

std::string gated_sum() {
  static const Outcome registered =
      take(plm_register_custom_call("together_test.gate", pass_gate, nullptr));
  EXPECT_EQ(registered.code, PLM_OK) << registered.message;
  return R"(HloModule gated, replica_count=3
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  p = f32[64,64] parameter(0)
  q = f32[64,64] parameter(1)
  id = u32[] replica-id()
  g = f32[64,64] custom-call(p, id), custom_call_target="together_test.gate"
  s = f32[64,64] all-reduce(g), replica_groups={}, to_apply=add
  ROOT r = (f32[64,64], u32[]) tuple(s, id)
})";
}

// Whoever waits for others is told of a deadline and of a cancellation at once, however long those
// are busy; the contexts go on.
TEST_F(Together, AStopEndsTheWaitForParticipantsThatAreBusy) {
  Outcome outcome;
  const Group group = make_group(PLM_NO_LIMIT, outcome, gated_sum());
  ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
  std::vector<BufferHandle> ones, inputs;
  for (std::size_t p = 0; p < kReplicas; ++p) {
    ones.push_back(filled(group.contexts[p], 1));
    inputs.push_back(filled(group.contexts[p], 1));
  }
  plm_cancellation* cancellation = nullptr;
  ASSERT_EQ(take(plm_cancellation_create(&cancellation)).code, PLM_OK);
  for (const bool by_deadline : {true, false}) {
    gate_is_open = false;
    plm_buffer_run_options options = {};
    options.mode = PLM_RUN_ASYNCHRONOUS;
    if (by_deadline) options.run.deadline_seconds = 0.2;
    if (!by_deadline) options.run.cancellation = cancellation;
    auto results = run(group, ones, inputs, outcome, options);
    ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
    if (!by_deadline) plm_cancellation_cancel(cancellation);
    for (const std::size_t p : {1, 2}) {
      const Outcome waited = take(plm_buffer_wait(results[p][0].get()));
      EXPECT_EQ(waited.code, by_deadline ? PLM_DEADLINE_EXCEEDED : PLM_CANCELLED);
    }
    gate_is_open = true;
    EXPECT_NE(take(plm_buffer_wait(results[0][0].get())).code, PLM_OK);
  }
  plm_cancellation_destroy(cancellation);
  const auto results = run(group, ones, inputs, outcome);
  EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
}

TEST_F(Together, AStopEndsTheWaitForProcesses) {
  gate_is_open = false;
  std::vector<Outcome> outcomes(kReplicas);
  const auto body = [&](std::size_t p, const ContextHandle&, plm_executable* executable) {
    const std::vector<float> in(kCount, 1);
    std::vector<float> out(kCount);
    std::uint32_t id = 0;
    const void* parameters[2] = {in.data(), in.data()};
    void* results[2] = {out.data(), &id};
    plm_run_options control = {};
    control.struct_size = sizeof control;
    if (p == 1) control.deadline_seconds = 0.5;
    outcomes[p] = take(plm_executable_run_with(executable, parameters, 2, results, 2, &control));
    if (p == 1) gate_is_open = true;
  };
  run_connected("together_stop", gated_sum(), body);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, PLM_DEADLINE_EXCEEDED) << outcome.message;
    EXPECT_NE(outcome.message.find("participant 1 has left all-reduce 's' of f32[64,64]"),
              std::string::npos)
        << outcome.message;
  }
}

TEST_F(Together, ACommunicatorThatDoesNotFitIsRefused) {
  plm_communicator_options options = {};
  options.struct_size = sizeof options;
  options.world_size = 2;
  options.rank = 2;
  options.rendezvous = "file:///nowhere";
  plm_communicator* made = nullptr;
  Outcome outcome = take(plm_communicator_connect(&options, &made));
  EXPECT_EQ(outcome.code, PLM_INVALID_ARGUMENT);
  EXPECT_NE(outcome.message.find("RANK: '2'"), std::string::npos) << outcome.message;
  options.rank = 0;
  options.timeout_seconds = -1;
  outcome = take(plm_communicator_connect(&options, &made));
  EXPECT_EQ(outcome.code, PLM_INVALID_ARGUMENT);
  EXPECT_NE(outcome.message.find("timeout_seconds: '-1' (seconds above zero"), std::string::npos)
      << outcome.message;
  options.timeout_seconds = 0;
  options.rendezvous = "nowhere";
  outcome = take(plm_communicator_connect(&options, &made));
  EXPECT_EQ(outcome.code, PLM_INVALID_ARGUMENT);
  EXPECT_NE(outcome.message.find("tcp://HOST:PORT"), std::string::npos) << outcome.message;
  options.rendezvous = "file:///nowhere";
  options.communicator = "mpi";
  outcome = take(plm_communicator_connect(&options, &made));
  EXPECT_EQ(outcome.code, PLM_INVALID_ARGUMENT);
  EXPECT_NE(outcome.message.find("communicator 'mpi' (gloo or nccl)"), std::string::npos)
      << outcome.message;
  EXPECT_EQ(plm_communicator_size(nullptr), 1);
}

TEST_F(Together, NcclIsRefusedWhereThereIsNoGpu) {
  const char* const device = std::getenv("PLIMSOLL_DEVICE");
  if (device != nullptr && std::string(device).starts_with("cuda")) {
    GTEST_SKIP() << "the device is a GPU, whose other participant would be waited for";
  }
  plm_communicator_options options = {};
  options.struct_size = sizeof options;
  options.world_size = 2;
  options.rendezvous = "file:///nowhere";
  options.communicator = "nccl";
  plm_communicator* made = nullptr;
  const Outcome outcome = take(plm_communicator_connect(&options, &made));
  EXPECT_EQ(outcome.code, PLM_FAILED_PRECONDITION);
  EXPECT_NE(outcome.message.find("works on 'cpu', which is no GPU of NVIDIA's"), std::string::npos)
      << outcome.message;
}

}  // namespace
}  // namespace plimsoll::testing
