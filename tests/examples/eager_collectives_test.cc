// SPDX-License-Identifier: Apache-2.0
// Operations between participants that are recorded like any other.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <nlohmann/json.hpp>

#include "tests/examples/participants.h"

namespace plimsoll::examples {
namespace {

using Floats = std::vector<float>;

// By participant and element: different everywhere.
Tensor own(std::int64_t participant, std::int64_t count, float scale = 1) {
  Floats values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(scale * static_cast<float>(100 * participant + i));
  }
  return Tensor::from_host(values, {count});
}

TEST(EagerCollectives, ReduceGatherScatterAndBroadcast) {
  const auto messages = run_participants(3, [](std::int64_t self) {
    const Tensor x = own(self, 3);
    EXPECT_EQ(all_reduce(x).to_vector<float>(), (Floats{300, 303, 306}));
    EXPECT_EQ(all_reduce(x, Reduction::max).to_vector<float>(), (Floats{200, 201, 202}));
    EXPECT_EQ(all_reduce(x, Reduction::min).to_vector<float>(), (Floats{0, 1, 2}));
    EXPECT_EQ(all_reduce(x, Reduction::product).to_vector<float>(),
              (Floats{0, 101 * 201, 2 * 102 * 202}));
    EXPECT_EQ(reduce_scatter(x).to_vector<float>(), (Floats{300 + 3 * static_cast<float>(self)}));
    EXPECT_EQ(all_gather(x).to_vector<float>(), (Floats{0, 1, 2, 100, 101, 102, 200, 201, 202}));
    EXPECT_EQ(all_gather(reshape(x, {3, 1}), -1).to_vector<float>(),
              (Floats{0, 100, 200, 1, 101, 201, 2, 102, 202}));
    EXPECT_EQ(broadcast(x).to_vector<float>(), (Floats{0, 1, 2}));
    EXPECT_EQ(broadcast(x, 2).to_vector<float>(), (Floats{200, 201, 202}));
    const Tensor is_last = Tensor::from_host<bool>({self == 2}, {1});
    EXPECT_TRUE(all_reduce(is_last, Reduction::logical_or).item<bool>());
    EXPECT_FALSE(all_reduce(is_last, Reduction::logical_and).item<bool>());
  });
  EXPECT_TRUE(ended_well(messages));
}

TEST(EagerCollectives, AreAmongTheMembersOfGroups) {
  const auto messages = run_participants(4, [](std::int64_t self) {
    const Tensor x = own(self, 2);
    const Groups pairs = {{0, 2}, {3, 1}};
    const bool is_even = self % 2 == 0;
    EXPECT_EQ(all_reduce(x, Reduction::sum, pairs).to_vector<float>(),
              (is_even ? Floats{200, 202} : Floats{400, 402}));
    EXPECT_EQ(all_gather(x, 0, pairs).to_vector<float>(),
              (is_even ? Floats{0, 1, 200, 201} : Floats{300, 301, 100, 101}));
    const float sums[] = {200, 402, 202, 400};
    EXPECT_EQ(reduce_scatter(x, 0, Reduction::sum, pairs).to_vector<float>(), (Floats{sums[self]}));
    EXPECT_EQ(broadcast(x, 1, pairs).to_vector<float>(),
              (is_even ? Floats{200, 201} : Floats{100, 101}));
    // A group of one keeps out.
    const Groups uneven = {{0, 1, 3}, {2}};
    EXPECT_EQ(all_reduce(x, Reduction::max, uneven).to_vector<float>(),
              (self == 2 ? Floats{200, 201} : Floats{300, 301}));
    const auto weight = static_cast<double>(self + 1);
    const std::vector<Tensor> both = all_gather(std::vector<Tensor>{x, x * 2.0}, 0, pairs);
    EXPECT_EQ(gradients(sum(both[0] + both[1]) * weight, {x})[0].to_vector<float>(),
              (is_even ? Floats{12, 12} : Floats{18, 18}));
    EXPECT_EQ(gradients(sum(reduce_scatter(x, 0, Reduction::sum, pairs)) * weight, {x})[0]
                  .to_vector<float>(),
              (is_even ? Floats{1, 3} : Floats{4, 2}));
  });
  EXPECT_TRUE(ended_well(messages));
}

TEST(EagerCollectives, SayWhichGroupIsWrong) {
  const auto messages = run_participants(3, [](std::int64_t self) {
    const Tensor x = own(self, 6);
    const auto message_of = [](const auto& record) -> std::string {
      try {
        record();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        return error.message();
      }
      return "";
    };
    const auto reduced = [&](const Groups& groups) {
      return message_of([&] { all_reduce(x, Reduction::sum, groups); });
    };
    EXPECT_EQ(reduced({{0, 1}}),
              "all-reduce: groups: participant 2 is in none (a group of its own keeps it out)");
    EXPECT_EQ(reduced({{0, 1}, {2, 1}}), "all-reduce: groups: participant 1 is named twice");
    EXPECT_EQ(reduced({{0, 1, 2, 3}}), "all-reduce: groups: there is no participant 3 of 3");
    EXPECT_EQ(reduced({{0, 1, 2}, {}}),
              "all-reduce: group_sizes: a group of 0 participants, of 0 that groups still lists");
    EXPECT_EQ(message_of([&] { all_gather(x, 0, {{0, 1}, {2}}); }),
              "all-gather: groups of 2 and of 1 participants, must be of one size");
    EXPECT_EQ(message_of([&] { broadcast(x, 1, {{0, 1}, {2}}); }),
              "collective-broadcast: there is no participant 1 of 1 in a group");
    plm_op_attributes attributes = internal::attributes();
    const std::int64_t size = 2;
    attributes.group_sizes = {&size, 1};
    const plm_tensor* operand = x.handle();
    plm_tensor* out = nullptr;
    EXPECT_EQ(message_of([&] {
                internal::check(plm_op(Context::current().handle(), PLM_OP_ALL_REDUCE, &operand, 1,
                                       &attributes, &out, 1));
              }),
              "all-reduce: group_sizes without groups");
  });
  EXPECT_TRUE(ended_well(messages));
}

// Collectives of what is to be evaluated.
int meetings(const std::vector<Tensor>& tensors) {
  std::vector<plm_tensor*> handles;
  for (const Tensor& tensor : tensors) handles.push_back(tensor.handle());
  const char* text = nullptr;
  internal::check(
      plm_trace_text(Context::current().handle(), handles.data(), handles.size(), &text));
  const std::string trace = text;
  int count = 0;
  for (const char* name :
       {" all-reduce(", " all-gather(", " reduce-scatter(", " collective-broadcast("}) {
    for (std::size_t at = 0; (at = trace.find(name, at)) != std::string::npos; ++at) ++count;
  }
  return count;
}

TEST(EagerCollectives, OfSeveralTensorsMeetOnce) {
  const auto messages = run_participants(2, [](std::int64_t self) {
    const std::vector<Tensor> x = {own(self, 2), reshape(own(self, 4, 2), {2, 2})};
    const auto check = [](const std::vector<Tensor>& results, const std::vector<Floats>& values) {
      EXPECT_EQ(meetings(results), 1);
      eval(results);
      ASSERT_EQ(results.size(), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(results[i].to_vector<float>(), values[i]);
      }
    };
    check(all_reduce(x), {{100, 102}, {200, 204, 208, 212}});
    check(all_gather(x), {{0, 1, 100, 101}, {0, 2, 4, 6, 200, 202, 204, 206}});
    const auto is_first = self == 0;
    check(reduce_scatter(x),
          {is_first ? Floats{100} : Floats{102}, is_first ? Floats{200, 204} : Floats{208, 212}});
    check(broadcast(x, 1), {{100, 101}, {200, 202, 204, 206}});
  });
  EXPECT_TRUE(ended_well(messages));
}

TEST(EagerCollectives, StandAmongOtherOperationsInCachedTraces) {
  const auto messages = run_participants(2, [](std::int64_t self) {
    Tensor total = zeros({3});
    for (int step = 0; step < 5; ++step) {
      // The constant changes with the step, and becomes an input of the program.
      const Tensor x = own(self, 3) * (step + 1.0);
      total.assign(total + all_reduce(x * 2.0) * 0.5);
      Context::current().step();
    }
    EXPECT_EQ(total.to_vector<float>(), (Floats{1500, 1530, 1560}));
    EXPECT_TRUE(contains(Context::current().report(), "\"hit\""));
  });
  EXPECT_TRUE(ended_well(messages));
}

// What is a constant in one participant's program may be another one in another's.
TEST(EagerCollectives, BelieveNobodysConstants) {
  const auto messages = run_participants(3, [](std::int64_t self) {
    const Tensor number = full({2}, static_cast<double>(self + 1));
    EXPECT_EQ(all_reduce(number).to_vector<float>(), (Floats{6, 6}));
    EXPECT_EQ(all_gather(number).to_vector<float>(), (Floats{1, 1, 2, 2, 3, 3}));
    EXPECT_EQ(all_reduce(number, Reduction::max).to_vector<float>(), (Floats{3, 3}));
    EXPECT_EQ(broadcast(number, 1).to_vector<float>(), (Floats{2, 2}));
  });
  EXPECT_TRUE(ended_well(messages));
}

TEST(EagerCollectives, HaveGradientsOfTheSumOfAllLosses) {
  const auto messages = run_participants(2, [](std::int64_t self) {
    const auto weight = static_cast<double>(self + 1);  // 1 and 2: 3 together
    const Tensor x = own(self, 4), w = own(self, 4, 0.5f);
    EXPECT_EQ(gradients(sum(all_reduce(x)) * weight, {x})[0].to_vector<float>(),
              (Floats{3, 3, 3, 3}));
    // Each element of the sum goes to one participant.
    const float mine = static_cast<float>(weight);
    EXPECT_EQ(gradients(sum(reduce_scatter(x)) * weight, {x})[0].to_vector<float>(),
              (Floats{1, 1, 2, 2}));
    EXPECT_EQ(gradients(sum(all_gather(x)) * weight, {x})[0].to_vector<float>(),
              (Floats{3, 3, 3, 3}));
    const std::vector<Tensor> sums = all_reduce(std::vector<Tensor>{x, w});
    const std::vector<Tensor> both = gradients(sum(sums[0] * sums[1]) * weight, {x, w});
    EXPECT_EQ(both[0].to_vector<float>(), (Floats{150, 153, 156, 159}));
    EXPECT_EQ(both[1].to_vector<float>(), (Floats{300, 306, 312, 318}));
    // Of one of several, and of what nobody differentiates.
    EXPECT_EQ(gradients(sum(sums[1]) * weight, {w})[0].to_vector<float>(), (Floats{3, 3, 3, 3}));
    EXPECT_EQ(gradients(sum(x * stop_gradient(all_reduce(x))) * weight, {x})[0].to_vector<float>(),
              (Floats{100 * mine, 102 * mine, 104 * mine, 106 * mine}));
  });
  EXPECT_TRUE(ended_well(messages));
}

TEST(EagerCollectives, OtherReductionsSayThatTheyHaveNoGradient) {
  const auto messages = run_participants(1, [](std::int64_t self) {
    const Tensor x = own(self, 2);
    const auto message_of = [&](const Tensor& y) -> std::string {
      try {
        gradients(sum(y), {x});
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unimplemented);
        return error.message();
      }
      return "";
    };
    EXPECT_EQ(message_of(all_reduce(x, Reduction::max)),
              "all-reduce: only sums over participants have a gradient");
    EXPECT_EQ(message_of(broadcast(x)), "collective-broadcast: has no gradient");
  });
  EXPECT_TRUE(ended_well(messages));
}

TEST(EagerCollectives, OfOneParticipantAreCopies) {
  const auto messages = run_participants(1, [](std::int64_t self) {
    const Tensor x = own(self, 2);
    for (const Tensor& y : {all_reduce(x), all_gather(x), reduce_scatter(x), broadcast(x)}) {
      EXPECT_EQ(y.to_vector<float>(), (Floats{0, 1}));
    }
    EXPECT_EQ(gradients(sum(all_reduce(x)), {x})[0].to_vector<float>(), (Floats{1, 1}));
  });
  EXPECT_TRUE(ended_well(messages));
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(EagerCollectives, SayWhatIsWrongWithThem) {
  EXPECT_TRUE(contains(message_of([] { all_reduce(zeros({2})); }),
                       "all-reduce: the context has no communicator"));
  const auto messages = run_participants(1, [](std::int64_t) {
    const Tensor x = zeros({2, 3});
    EXPECT_EQ(message_of([&] { all_reduce(std::vector<Tensor>{x, zeros({2}, DType::s32)}); }),
              "all-reduce: f32[2,3] and s32[2] differ in dtype (one collective for each dtype)");
    EXPECT_EQ(message_of([&] { broadcast(x, 1); }),
              "collective-broadcast: there is no participant 1 of 1");
    EXPECT_EQ(message_of([&] { all_gather(std::vector<Tensor>{x}, 2); }),
              "all-gather: dimensions must name one dim of f32[2,3]");
    EXPECT_EQ(message_of([&] { all_gather(zeros({0})); }), "all-gather: dim 0 of f32[0] is empty");
  });
  EXPECT_TRUE(ended_well(messages));
  const auto of_two = run_participants(2, [](std::int64_t) {
    EXPECT_EQ(message_of([&] { reduce_scatter(zeros({2, 3}), 1); }),
              "reduce-scatter: dim 1 of f32[2,3] is no multiple of the 2 participants (pad it)");
  });
  EXPECT_TRUE(ended_well(of_two));
}

TEST(EagerCollectives, NameWhoComesToAnotherOne) {
  const auto messages = run_participants(2, [](std::int64_t self) {
    const Tensor x = zeros({self == 0 ? 2 : 3});
    (void)all_reduce(x).to_vector<float>();
  });
  for (const std::string& message : messages) {
    EXPECT_TRUE(contains(message,
                         "participant 0 comes to all-reduce 'all-reduce.1' of f32[2], "
                         "participant 1 to all-reduce 'all-reduce.1' of f32[3]"));
  }
}

TEST(EagerCollectives, NameWhoHasEndedWithoutComing) {
  const auto messages = run_participants(3, [](std::int64_t self) {
    const Tensor sum = all_reduce(zeros({2}));
    if (self != 1) sum.eval();
    Context::current().wait();
  });
  EXPECT_TRUE(contains(messages[0],
                       "waits at all-reduce 'all-reduce.1' of f32[2], but "
                       "participant 1 has ended without coming there"));
  EXPECT_EQ(messages[1], "");
  EXPECT_EQ(messages[2], messages[0]);
}

TEST(EagerCollectives, EndForAllWithTheErrorOfOne) {
  std::latch have_met(2);  // else the error may find the other one on its way out of the first sum
  const auto messages = run_participants(2, [&](std::int64_t self) {
    const Tensor x = own(self, 1000);
    (void)all_reduce(x).to_vector<float>();
    have_met.arrive_and_wait();
    const Tensor sum = all_reduce(x * 2.0);
    if (self == 1) plm_context_fail_allocation(Context::current().handle(), 1);
    const std::string first = message_of([&] { (void)sum.to_vector<float>(); });
    EXPECT_TRUE(contains(first, self == 0 ? "participant 1: " : "allocat"));
    // For good: what is recorded later fails, too, and says the same.
    EXPECT_TRUE(contains(message_of([&] { (void)all_reduce(x).to_vector<float>(); }), "allocat"));
    // What meets nobody goes on.
    EXPECT_EQ((x + 1.0).to_vector<float>()[0], 100 * static_cast<float>(self) + 1);
  });
  EXPECT_TRUE(ended_well(messages));
}

// Layers whose gradients are summed as they are made, at every limit that has a plan. The other
// participant has no limit: each has plans of its own.
TEST(EagerCollectives, HaveTheSameBitsAtEveryLimit) {
  std::mutex mutex;
  std::vector<Floats> all;
  std::vector<std::int64_t> limits;
  const auto train = [&](std::int64_t percent) {
    const auto messages = run_participants(2, [&](std::int64_t self) {
      nn::Initializer init(3);
      std::vector<Tensor> weights;
      for (int i = 0; i < 12; ++i) weights.push_back(init.normal({16, 16}, 0.2));
      eval(weights);
      for (int step = 0; step < 3; ++step) {
        Floats values;
        for (int i = 0; i < 1024 * 16; ++i) {
          values.push_back(static_cast<float>((i * 7 + step + self) % 13) * 0.1f);
        }
        const auto loss = [&] {
          Tensor x = Tensor::from_host(values, {1024, 16});
          for (const Tensor& w : weights) x = tanh(matmul(x, w));
          return mean(square(x));
        };
        {
          const std::vector<Tensor> slopes = gradients(loss(), weights);
          for (std::size_t i = 0; i < weights.size(); ++i) {
            weights[i].assign(weights[i] - all_reduce(slopes[i]) * 0.1);
          }
        }
        if (step == 0 && self == 0 && percent > 0) {
          const MemoryNeeds needs = Context::current().measure_step();
          const std::int64_t limit =
              std::max(needs.floor_bytes, needs.unlimited_peak_bytes * percent / 100);
          Context::current().set_limit(limit);
          limits.push_back(limit);
        }
        Context::current().step();
      }
      Floats result;
      for (const Tensor& w : weights) {
        const Floats values = w.to_vector<float>();
        result.insert(result.end(), values.begin(), values.end());
      }
      const MemoryStatistics memory = Context::current().memory();
      if (memory.limit_bytes) {
        EXPECT_LE(memory.peak_bytes, *memory.limit_bytes);
      }
      const std::lock_guard lock(mutex);
      all.push_back(std::move(result));
    });
    EXPECT_TRUE(ended_well(messages));
  };
  for (const std::int64_t percent : {0, 75, 50, 1}) train(percent);
  ASSERT_EQ(all.size(), 8u);
  for (const Floats& result : all) EXPECT_EQ(result, all[0]);
  ASSERT_EQ(limits.size(), 3u);
  EXPECT_LT(limits[1], limits[0]);
  EXPECT_LT(limits[2], limits[1]);
}

// One participant has no room for all that the sums read, and runs them one by one; the other runs
// one plan.
TEST(EagerCollectives, MeetWhereOneRunsInSegments) {
  constexpr std::int64_t kCount = 1 << 14, kArrays = 12;
  const auto messages = run_participants(2, [](std::int64_t self) {
    std::vector<Tensor> arrays;
    const Tensor start = own(self, kCount);
    if (self == 0) Context::current().set_limit(6 * kCount * 4);
    for (std::int64_t i = 0; i < kArrays; ++i) {
      arrays.push_back(start * static_cast<double>(i + 1));
      arrays.back().eval();
    }
    Tensor total = zeros({kCount});
    for (const Tensor& array : arrays) total = total + all_reduce(array);
    total.eval();
    const auto report = nlohmann::json::parse(Context::current().report());
    EXPECT_EQ(report.at("segments") > 0, self == 0);
    const Floats values = total.to_vector<float>();
    for (std::size_t i = 0; i < values.size(); i += 1000) {
      EXPECT_EQ(values[i], 78.0f * (100.0f + 2 * static_cast<float>(i)));
    }
    if (self == 0) {
      EXPECT_LE(Context::current().memory().peak_bytes, 6 * kCount * 4);
    }
  });
  EXPECT_TRUE(ended_well(messages));
}

}  // namespace
}  // namespace plimsoll::examples
