// SPDX-License-Identifier: Apache-2.0
// What every communicator has to do, run on each there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/gloo.h"
#include "collectives/local.h"
#include "collectives/process_communicator.h"
#include "collectives/store.h"
#include "kernels/cpu/collectives/reduction.h"
#include "kernels/kernels.h"
#include "runtime/base/index.h"
#include "runtime/device/communicator.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/random.h"
#include "tests/collectives/nccl_participants.h"

namespace plimsoll::collectives {
namespace {

using device::Communicator;
using device::Rows;
using ir::DType;
using Group = std::vector<std::int64_t>;

// A kind of communicator: runs a body for every participant at once.
struct Kind {
  std::string name;
  std::vector<Status> (*run)(std::int64_t participants, const Body& body,
                             std::chrono::duration<double> timeout);
  bool keeps_order = true;  // floats are reduced in the group's order
};

constexpr std::chrono::duration<double> kLongTimeout = std::chrono::seconds(60);

std::vector<Status> run_local(std::int64_t participants, const Body& body,
                              std::chrono::duration<double> timeout) {
  LocalGroup group(participants, timeout);
  std::vector<Status> statuses(at(participants));
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < participants; ++i) {
    threads.emplace_back([&, i] {
      statuses[at(i)] = body(group.communicator(i));
      group.leave(i, statuses[at(i)]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

// Each participant with connections of its own, as if it were a process.
std::vector<Status> run_gloo(std::int64_t participants, const Body& body,
                             std::chrono::duration<double> timeout) {
  std::vector<Status> statuses(at(participants));
  const auto server = StoreServer::create("127.0.0.1", 0);
  if (!server.ok()) return std::vector<Status>(at(participants), server.status());
  const auto run_one = [&](std::int64_t i) -> Status {
    Membership membership;
    membership.rank = i;
    membership.world_size = participants;
    membership.timeout = timeout;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    PLIMSOLL_ASSIGN_OR_RETURN(const auto store,
                              connect_store("127.0.0.1", (*server)->port(), deadline));
    PLIMSOLL_ASSIGN_OR_RETURN(const auto communicator, connect_gloo(membership, *store));
    const Status status = body(*communicator);
    communicator->leave(status);
    return status;
  };
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < participants; ++i) {
    threads.emplace_back([&, i] { statuses[at(i)] = run_one(i); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

std::vector<Status> run_nccl(std::int64_t participants, const Body& body,
                             std::chrono::duration<double> timeout) {
  NcclParticipants group(participants, {.timeout = timeout, .keeps_order = true});
  return group.run(body);
}

std::vector<Status> run_nccl_fast(std::int64_t participants, const Body& body,
                                  std::chrono::duration<double> timeout) {
  NcclParticipants group(participants, {.timeout = timeout});
  return group.run(body);
}

class Conformance : public ::testing::TestWithParam<Kind> {
 protected:
  static std::vector<Status> statuses_of(std::int64_t participants, const Body& body,
                                         std::chrono::duration<double> timeout = kLongTimeout) {
    return GetParam().run(participants, body, timeout);
  }
  void run(std::int64_t participants, const Body& body) const {
    const auto statuses = statuses_of(participants, body);
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
  }
};

INSTANTIATE_TEST_SUITE_P(All, Conformance,
                         ::testing::Values(Kind{"local", run_local}, Kind{"gloo", run_gloo},
                                           Kind{"nccl", run_nccl},
                                           Kind{"nccl_fast", run_nccl_fast, false}),
                         [](const auto& info) { return info.param.name; });

Communicator::Call call_of(const Communicator& communicator, const Group& group,
                           std::string_view what = "test") {
  const auto self = std::find(group.begin(), group.end(), communicator.participant());
  return {what, group, static_cast<std::size_t>(self - group.begin())};
}

std::shared_ptr<const device::Reduction> reduction(const std::string& opcode, DType dtype) {
  const std::string type(ir::to_string(dtype));
  auto module =
      ir::parse_module("HloModule m\nENTRY e { a = " + type + "[] parameter(0) b = " + type +
                       "[] parameter(1) ROOT r = " + type + "[] " + opcode + "(a, b) }");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  auto made = kernels::make_reduction(*(*module)->entry(), dtype);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.ok() ? *made : nullptr;
}

// Elements of a participant, small integers, so that sums and products are exact in every dtype.
std::vector<std::byte> elements_of(std::int64_t participant, DType dtype, std::int64_t count) {
  ir::Literal literal(ir::Shape(dtype, {count}));
  cases::Random random(static_cast<std::uint64_t>(participant) + 7);
  for (std::int64_t i = 0; i < count; ++i) {
    literal.set(i, dtype == DType::pred ? static_cast<double>(random.below(2))
                                        : static_cast<double>(random.below(3)));
  }
  const auto bytes = literal.bytes();
  return {bytes.begin(), bytes.end()};
}

std::vector<double> values_of(const std::vector<std::byte>& bytes, DType dtype) {
  const auto count = static_cast<std::int64_t>(bytes.size()) / dtype_bytes(dtype);
  const ir::Literal literal = ir::Literal::from_bytes(ir::Shape(dtype, {count}), bytes);
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(literal.at(i));
  return values;
}

double combined(const std::string& opcode, double a, double b, DType dtype) {
  if (opcode == "maximum") return std::max(a, b);
  if (opcode == "minimum") return std::min(a, b);
  if (opcode == "and") return a != 0 && b != 0 ? 1 : 0;
  if (opcode == "or") return a != 0 || b != 0 ? 1 : 0;
  if (dtype == DType::pred) return opcode == "add" ? (a + b > 0 ? 1 : 0) : a * b;
  return opcode == "add" ? a + b : a * b;
}

TEST_P(Conformance, ReducesEveryDTypeAndSizeInPlaceAndOut) {
  constexpr std::int64_t kParticipants = 3;
  const Group all{2, 0, 1};
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::s32, DType::u8,
                            DType::s64, DType::s8, DType::u16, DType::pred}) {
    std::vector<std::string> opcodes{"add", "multiply", "maximum", "minimum"};
    if (dtype == DType::pred) opcodes = {"and", "or"};
    run(kParticipants, [&](Communicator& communicator) -> Status {
      for (const std::string& opcode : opcodes) {
        const auto reduces = reduction(opcode, dtype);
        for (const std::int64_t count : {0, 1, 2, 5, 4097, 20'000}) {
          std::vector<double> expected = values_of(elements_of(all[0], dtype, count), dtype);
          for (const std::size_t m : {1, 2}) {
            const auto next = values_of(elements_of(all[m], dtype, count), dtype);
            for (std::size_t i = 0; i < expected.size(); ++i) {
              expected[i] = combined(opcode, expected[i], next[i], dtype);
            }
          }
          const bool in_place = communicator.participant() == 1;
          std::vector<std::byte> in = elements_of(communicator.participant(), dtype, count);
          std::vector<std::byte> other(in.size());
          std::vector<std::byte>& out = in_place ? in : other;
          const Communicator::Reduce array{in.data(), out.data(), 1, count, reduces.get()};
          PLIMSOLL_RETURN_IF_ERROR(
              communicator.all_reduce(call_of(communicator, all), std::span(&array, 1)));
          EXPECT_EQ(values_of(out, dtype), expected)
              << opcode << " of " << count << " " << ir::to_string(dtype);
        }
      }
      return ok_status();
    });
  }
}

// Float sums depend on the order: it is the group's, whatever the participants' numbers and who
// computes what.
TEST_P(Conformance, SumsInTheGroupsOrder) {
  if (!GetParam().keeps_order) GTEST_SKIP() << "NCCL adds floats in an order of its own";
  constexpr std::int64_t kParticipants = 4;
  constexpr std::int64_t kCount = 10007;
  const Group all{3, 1, 0, 2};
  const auto sums = reduction("add", DType::f32);
  const auto elements = [&](std::int64_t participant) {
    std::vector<float> made(kCount);
    cases::Random random(static_cast<std::uint64_t>(participant) + 1);
    for (float& x : made) x = static_cast<float>(random.unit() - 0.5) * 1e3f;
    return made;
  };
  std::vector<float> expected = elements(all[0]);
  for (std::size_t m = 1; m < all.size(); ++m) {
    const std::vector<float> next = elements(all[m]);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += next[i];
  }
  run(kParticipants, [&](Communicator& communicator) -> Status {
    const std::vector<float> in = elements(communicator.participant());
    std::vector<float> out(kCount);
    const Communicator::Reduce array{in.data(), out.data(), 1, kCount, sums.get()};
    PLIMSOLL_RETURN_IF_ERROR(
        communicator.all_reduce(call_of(communicator, all), std::span(&array, 1)));
    EXPECT_EQ(out, expected);
    return ok_status();
  });
}

// Sums of halves are rounded once.
TEST_P(Conformance, HalvesAreSummedInSinglePrecision) {
  if (!GetParam().keeps_order) GTEST_SKIP() << "NCCL adds floats in an order of its own";
  const Group all{0, 1, 2};
  const auto sums = reduction("add", DType::bf16);
  run(3, [&](Communicator& communicator) -> Status {
    // 256 + 1 + 1: each 1 alone would be lost.
    const Bfloat16 in(communicator.participant() == 0 ? 256.0f : 1.0f);
    Bfloat16 out(0.0f);
    const Communicator::Reduce array{&in, &out, 1, 1, sums.get()};
    PLIMSOLL_RETURN_IF_ERROR(
        communicator.all_reduce(call_of(communicator, all), std::span(&array, 1)));
    EXPECT_EQ(static_cast<float>(out), 258.0f);
    return ok_status();
  });
}

TEST_P(Conformance, SeveralArraysOfDifferentDTypesAtOnce) {
  const Group all{0, 1};
  const auto floats = reduction("add", DType::f32), integers = reduction("maximum", DType::s32);
  run(2, [&](Communicator& communicator) -> Status {
    const auto self = static_cast<float>(communicator.participant());
    const std::vector<float> x{self, 1}, none;
    const std::vector<std::int32_t> y{communicator.participant() == 0 ? 5 : -5};
    std::vector<float> x_out(2), none_out;
    std::vector<std::int32_t> y_out(1);
    const std::vector<Communicator::Reduce> arrays{
        {x.data(), x_out.data(), 1, 2, floats.get()},
        {none.data(), none_out.data(), 1, 0, floats.get()},
        {y.data(), y_out.data(), 1, 1, integers.get()}};
    PLIMSOLL_RETURN_IF_ERROR(communicator.all_reduce(call_of(communicator, all), arrays));
    EXPECT_EQ(x_out, (std::vector<float>{1, 2}));
    EXPECT_EQ(y_out[0], 5);
    return ok_status();
  });
}

// Many small arrays and large ones, of sizes that no share and no message divides: as many bits as
// one by one.
TEST_P(Conformance, ManyArraysOfMixedSizesInTheGroupsOrder) {
  if (!GetParam().keeps_order) GTEST_SKIP() << "NCCL adds floats in an order of its own";
  const Group all{2, 0, 1};
  const auto floats = reduction("add", DType::f32), halves = reduction("add", DType::bf16),
             bytes = reduction("add", DType::u8);
  const std::vector<std::int64_t> counts{3, 1'000'003, 0, 17, 64, 5'000, 300'007, 1, 70'000, 11};
  const auto array_of = [&](std::int64_t participant, std::size_t i) {
    std::vector<float> made(at(counts[i]));
    cases::Random random(static_cast<std::uint64_t>(participant) * 100 + i + 1);
    for (float& x : made) x = static_cast<float>(random.unit() - 0.5) * 1e3f;
    return made;
  };
  run(3, [&](Communicator& communicator) -> Status {
    std::vector<std::vector<float>> in, expected;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      in.push_back(array_of(communicator.participant(), i));
      expected.push_back(array_of(all[0], i));
      for (const std::size_t m : {1, 2}) {
        const auto next = array_of(all[m], i);
        for (std::size_t j = 0; j < next.size(); ++j) expected.back()[j] += next[j];
      }
    }
    std::vector<std::uint8_t> small(3, 1), small_out(3);
    std::vector<Bfloat16> half(100'001, Bfloat16(0.5f)), half_out(half.size(), Bfloat16(0.0f));
    for (int round = 0; round < 2; ++round) {
      std::vector<std::vector<float>> out = in;
      std::vector<Communicator::Reduce> arrays{{small.data(), small_out.data(), 1, 3, bytes.get()}};
      for (std::size_t i = 0; i < counts.size(); ++i) {
        // Every second one in place.
        arrays.push_back(
            {i % 2 == 0 ? in[i].data() : out[i].data(), out[i].data(), 1, counts[i], floats.get()});
      }
      arrays.push_back({half.data(), half_out.data(), 1, std::ssize(half), halves.get()});
      PLIMSOLL_RETURN_IF_ERROR(communicator.all_reduce(call_of(communicator, all), arrays));
      EXPECT_EQ(out, expected);
      EXPECT_EQ(small_out, (std::vector<std::uint8_t>(3, 3)));
      for (const Bfloat16& x : half_out) EXPECT_EQ(static_cast<float>(x), 1.5f);
    }
    return ok_status();
  });
}

// Rows with gaps between them, of more bytes than one message takes.
TEST_P(Conformance, LargeRowsWithGapsAndLargeScatters) {
  constexpr std::int64_t kRows = 301, kRow = 1001, kMembers = 3;
  const Group all{1, 2, 0};
  const auto sums = reduction("add", DType::s32);
  run(kMembers, [&](Communicator& communicator) -> Status {
    const auto self = communicator.participant();
    const auto call = call_of(communicator, all);
    const auto value = [&](std::int64_t participant, std::int64_t place) {
      return static_cast<std::int32_t>(place * 10 + participant);
    };
    std::vector<std::int32_t> in(kRows * kMembers * kRow), out(kRows * kRow), swapped(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = value(self, static_cast<std::int64_t>(i));
    const Communicator::Reduce array{in.data(), out.data(), kRows, kRow, sums.get()};
    PLIMSOLL_RETURN_IF_ERROR(communicator.reduce_scatter(call, std::span(&array, 1)));
    std::vector<Rows> sends, receives;
    const auto piece = [&](std::vector<std::int32_t>& memory, std::size_t m) {
      return Rows{reinterpret_cast<std::byte*>(memory.data() + static_cast<std::int64_t>(m) * kRow),
                  kRows, kRow * 4, kMembers * kRow * 4};
    };
    for (std::size_t m = 0; m < all.size(); ++m) {
      sends.push_back(piece(in, m));
      receives.push_back(piece(swapped, m));
    }
    PLIMSOLL_RETURN_IF_ERROR(communicator.exchange(call, sends, receives));
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = 0; i < kRow; ++i) {
        const auto mine = (row * kMembers + static_cast<std::int64_t>(call.self)) * kRow + i;
        wrong += out[at(row * kRow + i)] != 3 * mine * 10 + 0 + 1 + 2;
        for (std::int64_t m = 0; m < kMembers; ++m) {
          wrong += swapped[at((row * kMembers + m) * kRow + i)] != value(all[at(m)], mine);
        }
      }
    }
    EXPECT_EQ(wrong, 0);
    return ok_status();
  });
}

// Who is late is named, with who waits and where.
TEST_P(Conformance, OneThatDoesNotComeIsNamedAfterTheTimeOut) {
  const Group all{0, 1, 2};
  const auto sums = reduction("add", DType::f32);
  std::atomic<int> told = 0;
  const auto statuses = statuses_of(
      3,
      [&](Communicator& communicator) -> Status {
        if (communicator.participant() != 0) {
          while (told == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        const float in = 1;
        float out = 0;
        const Communicator::Reduce array{&in, &out, 1, 1, sums.get()};
        const Status status =
            communicator.all_reduce(call_of(communicator, all, "sum 'a'"), std::span(&array, 1));
        told = 1;
        return status;
      },
      std::chrono::milliseconds(200));
  EXPECT_EQ(statuses[0].code(), StatusCode::deadline_exceeded) << statuses[0].to_string();
  EXPECT_NE(statuses[0].message().find("participant 0 waits at sum 'a', but participants 1, 2 did "
                                       "not come for 0.2 s (PLIMSOLL_COLLECTIVE_TIMEOUT"),
            std::string::npos)
      << statuses[0].to_string();
  for (const Status& status : statuses) EXPECT_FALSE(status.ok());
}

TEST_P(Conformance, APassageThatIsNotBegunEndsWithTheTimeOut) {
  std::atomic<int> told = 0;
  const auto statuses = statuses_of(
      2,
      [&](Communicator& communicator) -> Status {
        std::int32_t value = 7;
        const Communicator::Passage passage{"send 'x'", 1, 0};
        if (communicator.participant() == 1) {
          while (told == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return ok_status();
        }
        PLIMSOLL_RETURN_IF_ERROR(communicator.begin_receive(passage, &value, 4));
        const Status status = communicator.end_receive(passage);
        communicator.forget();
        told = 1;
        return status;
      },
      std::chrono::milliseconds(200));
  EXPECT_EQ(statuses[0].code(), StatusCode::deadline_exceeded) << statuses[0].to_string();
  EXPECT_NE(
      statuses[0].message().find("participant 0 waits at send 'x', but participant 1 did not"),
      std::string::npos)
      << statuses[0].to_string();
}

// One that is cancelled, or whose deadline passes, does not wait for those that do not come: its
// error is everybody's, and says where it left.
TEST_P(Conformance, AStopEndsTheWaitsOfAll) {
  const Group all{0, 1, 2};
  const auto sums = reduction("add", DType::f32);
  const auto sum = [&](Communicator& communicator, std::string_view what) {
    const std::vector<float> in(100'000, 1);
    std::vector<float> out(in.size());
    const Communicator::Reduce array{in.data(), out.data(), 1, std::ssize(in), sums.get()};
    return communicator.all_reduce(call_of(communicator, all, what), std::span(&array, 1));
  };
  for (const bool by_deadline : {false, true}) {
    std::atomic<bool> has_left = false;
    const auto statuses = statuses_of(3, [&](Communicator& communicator) -> Status {
      PLIMSOLL_RETURN_IF_ERROR(sum(communicator, "all-reduce 'first'"));
      if (communicator.participant() == 0) {
        // Is busy, and not asked for anything, until the one that waits for it has left.
        while (!has_left) std::this_thread::yield();
      }
      if (communicator.participant() != 1) return sum(communicator, "all-reduce 'second'");
      Stop stop;
      std::thread canceller;
      if (by_deadline) {
        stop.deadline = Stop::Clock::now() + std::chrono::milliseconds(200);
      } else {
        stop.cancellation = std::make_shared<Cancellation>();
        canceller = std::thread([shared = stop.cancellation] {
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          shared->cancel();
        });
      }
      communicator.set_stop(&stop);
      const Status status = sum(communicator, "all-reduce 'second'");
      has_left = true;
      communicator.set_stop(nullptr);
      if (canceller.joinable()) canceller.join();
      return status;
    });
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), by_deadline ? StatusCode::deadline_exceeded : StatusCode::cancelled)
          << status.to_string();
      EXPECT_NE(status.message().find("participant 1 has left all-reduce 'second'"),
                std::string::npos)
          << status.to_string();
    }
  }
}

// Of any size, in rings and to oneself, whichever end begins first.
TEST_P(Conformance, PassagesBringWhatWasSent) {
  for (const std::int64_t count : {0, 1, 1000, 3'000'000}) {
    run(3, [&](Communicator& communicator) -> Status {
      const std::int64_t self = communicator.participant();
      const auto filled = [&](std::int64_t whose) {
        std::vector<std::int32_t> made(at(count));
        for (std::size_t i = 0; i < made.size(); ++i) {
          made[i] = static_cast<std::int32_t>(i) * 4 + static_cast<std::int32_t>(whose);
        }
        return made;
      };
      const std::vector<std::int32_t> mine = filled(self);
      std::vector<std::int32_t> own(at(count)), next(at(count)), other(at(count));
      const Communicator::Passage to_self{"own", self, self}, out{"ring", self, (self + 1) % 3},
          in{"ring", (self + 2) % 3, self}, across_out{"across", self, (self + 2) % 3},
          across_in{"across", (self + 1) % 3, self};
      const auto send = [&](const Communicator::Passage& passage) {
        return communicator.begin_send(passage, mine.data(), count * 4);
      };
      const auto receive = [&](const Communicator::Passage& passage,
                               std::vector<std::int32_t>& to) {
        return communicator.begin_receive(passage, to.data(), count * 4);
      };
      if (self == 1) PLIMSOLL_RETURN_IF_ERROR(receive(in, next));
      PLIMSOLL_RETURN_IF_ERROR(send(out));
      PLIMSOLL_RETURN_IF_ERROR(send(across_out));
      PLIMSOLL_RETURN_IF_ERROR(receive(across_in, other));
      if (self != 1) PLIMSOLL_RETURN_IF_ERROR(receive(in, next));
      PLIMSOLL_RETURN_IF_ERROR(receive(to_self, own));
      PLIMSOLL_RETURN_IF_ERROR(send(to_self));
      for (const auto& passage : {out, across_out, to_self}) {
        PLIMSOLL_RETURN_IF_ERROR(communicator.end_send(passage));
      }
      for (const auto& passage : {to_self, in, across_in}) {
        PLIMSOLL_RETURN_IF_ERROR(communicator.end_receive(passage));
      }
      communicator.forget();
      EXPECT_EQ(own, mine);
      EXPECT_EQ(next, filled((self + 2) % 3));
      EXPECT_EQ(other, filled((self + 1) % 3));
      return ok_status();
    });
  }
}

// A half that is never ended is forgotten with the run; who waits for one that has left is told.
TEST_P(Conformance, APassageToOneThatHasLeftIsAnError) {
  const auto statuses = statuses_of(2, [&](Communicator& communicator) -> Status {
    std::int32_t value = 7;
    const Communicator::Passage passage{"send 'x'", 0, 1};
    if (communicator.participant() == 1) return ok_status();
    PLIMSOLL_RETURN_IF_ERROR(communicator.begin_send(passage, &value, 4));
    const Status status = communicator.end_send(passage);
    communicator.forget();
    return status;
  });
  EXPECT_EQ(statuses[0].code(), StatusCode::failed_precondition);
  EXPECT_NE(statuses[0].message().find("send 'x', but participant 1 has ended"), std::string::npos)
      << statuses[0].to_string();
}

// What has failed elsewhere is everybody's error, and stays it.
TEST_P(Conformance, AFailureElsewhereEndsAllWaits) {
  const Group all{0, 1, 2}, pair{0, 2};
  const auto sums = reduction("add", DType::f32);
  const auto statuses = statuses_of(3, [&](Communicator& communicator) -> Status {
    const float in = 1;
    float out = 0;
    const Communicator::Reduce array{&in, &out, 1, 1, sums.get()};
    PLIMSOLL_RETURN_IF_ERROR(
        communicator.all_reduce(call_of(communicator, all), std::span(&array, 1)));
    if (communicator.participant() == 1) return data_loss("participant 1: the disk is gone");
    Status status;
    for (int i = 0; i < 1000 && status.ok(); ++i) {
      status = communicator.all_reduce(call_of(communicator, all), std::span(&array, 1));
    }
    const Status again = communicator.all_reduce(call_of(communicator, pair), std::span(&array, 1));
    EXPECT_EQ(again.to_string(), status.to_string());
    return status;
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.to_string(), "DATA_LOSS: participant 1: the disk is gone");
  }
}

TEST_P(Conformance, ScattersWhatItReduces) {
  constexpr std::int64_t kRows = 3, kRow = 5, kMembers = 4;
  const Group all{1, 3, 2, 0};
  const auto sums = reduction("add", DType::s32);
  run(kMembers, [&](Communicator& communicator) -> Status {
    std::vector<std::int32_t> in(kRows * kMembers * kRow), out(kRows * kRow);
    for (std::size_t i = 0; i < in.size(); ++i) {
      in[i] =
          static_cast<std::int32_t>(i * 10 + static_cast<std::size_t>(communicator.participant()));
    }
    const auto call = call_of(communicator, all);
    const Communicator::Reduce array{in.data(), out.data(), kRows, kRow, sums.get()};
    PLIMSOLL_RETURN_IF_ERROR(communicator.reduce_scatter(call, std::span(&array, 1)));
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = 0; i < kRow; ++i) {
        const std::int64_t place =
            (row * kMembers + static_cast<std::int64_t>(call.self)) * kRow + i;
        EXPECT_EQ(out[at(row * kRow + i)], place * 10 * kMembers + 0 + 1 + 2 + 3);
      }
    }
    return ok_status();
  });
}

// Everybody sends a different number of rows to each other, some none.
TEST_P(Conformance, ExchangesRowsOfAnySize) {
  const Group all{0, 1, 2};
  const auto rows_between = [](std::int64_t from, std::int64_t to) { return (from + 2 * to) % 4; };
  run(3, [&](Communicator& communicator) -> Status {
    const auto self = communicator.participant();
    std::vector<Rows> sends, receives;
    std::vector<std::vector<std::int32_t>> out(3), in(3);
    for (std::int64_t m = 0; m < 3; ++m) {
      // Two of the three numbers of a row are sent.
      for (std::int64_t i = 0; i < rows_between(self, m) * 3; ++i) {
        out[at(m)].push_back(static_cast<std::int32_t>(self * 100 + m * 10 + i));
      }
      in[at(m)].assign(at(rows_between(m, self) * 2), -1);
      sends.push_back(
          {reinterpret_cast<std::byte*>(out[at(m)].data()), rows_between(self, m), 8, 12});
      receives.push_back(
          {reinterpret_cast<std::byte*>(in[at(m)].data()), rows_between(m, self), 8, 8});
    }
    PLIMSOLL_RETURN_IF_ERROR(communicator.exchange(call_of(communicator, all), sends, receives));
    for (std::int64_t m = 0; m < 3; ++m) {
      for (std::int64_t i = 0; i < rows_between(m, self) * 2; ++i) {
        EXPECT_EQ(in[at(m)][at(i)], m * 100 + self * 10 + i / 2 * 3 + i % 2);
      }
    }
    return ok_status();
  });
}

// Rows of [3,2] arrays to each other's [6,2] ones, as tables by sender and receiver say.
struct RaggedTables {
  std::vector<std::int32_t> begins{0, 1, 0, 2, 9, 1, 1, 0, 0};
  std::vector<std::int32_t> rows{1, 2, 3, 1, 0, 2, 2, 1, 1};
  std::vector<std::int32_t> places{5, 0, 0, 0, 9, 3, 2, 4, 5};
};

Status run_ragged(Communicator& communicator, const RaggedTables& tables,
                  std::vector<float>& result) {
  auto module = ir::parse_module(
      "HloModule m, replica_count=3\nENTRY e {\n  x = f32[3,2] parameter(0)\n"
      "  y = f32[6,2] parameter(1)\n  a = s32[3] parameter(2)\n  b = s32[3] parameter(3)\n"
      "  c = s32[3] parameter(4)\n  d = s32[3] parameter(5)\n"
      "  ROOT r = f32[6,2] ragged-all-to-all(x, y, a, b, c, d), replica_groups={{0,1,2}}\n}\n");
  if (!module.ok()) return module.status();
  PLIMSOLL_ASSIGN_OR_RETURN(const auto kernel, kernels::make_kernel(*(*module)->entry()->root()));
  const auto self = at(communicator.participant());
  std::vector<float> x(6), y(12, -1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(100 * self + i);
  std::vector<std::int32_t> expected;
  for (std::size_t m = 0; m < 3; ++m) expected.push_back(tables.rows[m * 3 + self]);
  result.assign(12, 0);
  std::vector<std::byte> workspace(at(kernel->workspace_bytes()));
  const void* const inputs[] = {x.data(),
                                y.data(),
                                tables.begins.data() + self * 3,
                                tables.rows.data() + self * 3,
                                tables.places.data() + self * 3,
                                expected.data()};
  void* const outputs[] = {result.data()};
  PLIMSOLL_ASSIGN_OR_RETURN(const auto stream, device::cpu_device()->create_stream());
  stream->set_communicator(&communicator);
  const device::KernelArguments arguments{inputs, outputs, workspace.data()};
  PLIMSOLL_RETURN_IF_ERROR(stream->launch(*kernel, arguments));
  return stream->synchronize();
}

TEST_P(Conformance, TradesRowsAsEachMemberSays) {
  const RaggedTables tables;
  run(3, [&](Communicator& communicator) -> Status {
    std::vector<float> result;
    for (int round = 0; round < 3; ++round) {
      PLIMSOLL_RETURN_IF_ERROR(run_ragged(communicator, tables, result));
      std::vector<float> expected(12, -1);
      for (std::size_t m = 0; m < 3; ++m) {
        const std::size_t i = m * 3 + at(communicator.participant());
        for (std::int32_t k = 0; k < 2 * tables.rows[i]; ++k) {
          expected[at(2 * tables.places[i] + k)] =
              static_cast<float>(100 * m + at(2 * tables.begins[i] + k));
        }
      }
      EXPECT_EQ(result, expected);
    }
    return ok_status();
  });
}

// What one says is wrong is everybody's error, and nothing is written where it must not be.
TEST_P(Conformance, RowsThatCannotBeTradedAreAnErrorOfAll) {
  const auto expect_error = [&](const RaggedTables& tables, const std::string& what) {
    const auto statuses = statuses_of(3, [&](Communicator& communicator) -> Status {
      std::vector<float> result;
      PLIMSOLL_RETURN_IF_ERROR(run_ragged(communicator, tables, result));
      return run_ragged(communicator, tables, result);
    });
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), StatusCode::invalid_argument) << status.to_string();
      EXPECT_NE(status.message().find(what), std::string::npos) << status.to_string();
    }
  };
  RaggedTables outside;
  outside.begins[5] = 2;
  expect_error(outside, "participant 1 sends 2 rows from row 2 on, of 3");
  outside.begins[5] = -1;
  expect_error(outside, "participant 1 sends 2 rows from row -1 on, of 3");
  RaggedTables beyond;
  beyond.places[1] = 5;
  expect_error(beyond, "participant 0 sends participant 1 2 rows to row 5, of 6");
  RaggedTables twice;
  twice.places[0] = 3;
  expect_error(twice, "both send participant 0 its row 3");
}

// What prices are made of is the same for all, whoever is slow.
TEST_P(Conformance, AllAgreeOnTheSpeedsOfMessages) {
  std::vector<std::optional<Communicator::Speeds>> speeds(3);
  run(3, [&](Communicator& communicator) -> Status {
    speeds[at(communicator.participant())] = communicator.speeds();
    return ok_status();
  });
  for (const auto& one : speeds) {
    ASSERT_EQ(one.has_value(), GetParam().name != "local");
    if (!one.has_value()) continue;
    EXPECT_GT(one->message_seconds, 0);
    EXPECT_GT(one->bytes_per_second, 0);
    EXPECT_EQ(one->message_seconds, speeds[0]->message_seconds);
    EXPECT_EQ(one->bytes_per_second, speeds[0]->bytes_per_second);
  }
}

TEST_P(Conformance, AllKnowWhoIsOnTheirMachine) {
  std::vector<std::int64_t> here(3);
  run(3, [&](Communicator& communicator) -> Status {
    here[at(communicator.participant())] = communicator.participants_here();
    return ok_status();
  });
  EXPECT_EQ(here, (std::vector<std::int64_t>{3, 3, 3}));
  // As if participant 1 were on another machine.
  if (GetParam().name != "gloo") return;
  run(3, [&](Communicator& communicator) -> Status {
    auto& processes = dynamic_cast<collectives::ProcessCommunicator&>(communicator);
    const bool is_elsewhere = communicator.participant() == 1;
    PLIMSOLL_RETURN_IF_ERROR(processes.count_here(is_elsewhere ? 8 : 7));
    here[at(communicator.participant())] = communicator.participants_here();
    return ok_status();
  });
  EXPECT_EQ(here, (std::vector<std::int64_t>{2, 1, 2}));
}

TEST_P(Conformance, GroupsOfOneUnevenOnesAndTwoAtOnce) {
  const auto sums = reduction("add", DType::f32);
  const std::vector<Group> groups{{4}, {0, 2, 3}, {5, 1}};
  run(6, [&](Communicator& communicator) -> Status {
    for (int round = 0; round < 20; ++round) {
      for (const Group& group : groups) {
        if (std::find(group.begin(), group.end(), communicator.participant()) == group.end()) {
          continue;
        }
        const auto in = static_cast<float>(communicator.participant() + round);
        float out = 0, expected = 0;
        for (const std::int64_t m : group) expected += static_cast<float>(m + round);
        const Communicator::Reduce array{&in, &out, 1, 1, sums.get()};
        PLIMSOLL_RETURN_IF_ERROR(
            communicator.all_reduce(call_of(communicator, group), std::span(&array, 1)));
        EXPECT_EQ(out, expected);
      }
    }
    return ok_status();
  });
}

TEST_P(Conformance, AnotherOperationIsAnErrorOfAll) {
  const Group all{0, 1};
  const auto sums = reduction("add", DType::f32);
  const auto statuses = statuses_of(2, [&](Communicator& communicator) -> Status {
    const float in = 1;
    float out = 0;
    const Communicator::Reduce array{&in, &out, 1, 1, sums.get()};
    return communicator.all_reduce(
        call_of(communicator, all, communicator.participant() == 0 ? "sum 'a'" : "sum 'b'"),
        std::span(&array, 1));
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::failed_precondition);
    EXPECT_NE(status.message().find("sum 'a'"), std::string::npos) << status.to_string();
    EXPECT_NE(status.message().find("sum 'b'"), std::string::npos) << status.to_string();
  }
}

TEST_P(Conformance, OtherSizesAreAnErrorOfAll) {
  const Group all{0, 1};
  const auto statuses = statuses_of(2, [&](Communicator& communicator) -> Status {
    const std::int64_t mine = communicator.participant() == 0 ? 4 : 8;
    std::vector<std::byte> out(16), in(16);
    const std::vector<Rows> sends(2, Rows{out.data(), 1, mine, mine}),
        receives(2, Rows{in.data(), 1, mine, mine});
    return communicator.exchange(call_of(communicator, all, "swap 's'"), sends, receives);
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::failed_precondition);
    EXPECT_NE(status.message().find("swap 's'"), std::string::npos) << status.to_string();
  }
}

TEST_P(Conformance, OneThatHasEndedIsNamed) {
  const Group all{0, 1, 2};
  const auto sums = reduction("add", DType::f32);
  const auto statuses = statuses_of(3, [&](Communicator& communicator) -> Status {
    if (communicator.participant() == 1) return ok_status();
    const float in = 1;
    float out = 0;
    const Communicator::Reduce array{&in, &out, 1, 1, sums.get()};
    return communicator.all_reduce(call_of(communicator, all, "sum 'a'"), std::span(&array, 1));
  });
  for (const int i : {0, 2}) {
    const Status& status = statuses[static_cast<std::size_t>(i)];
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("participant 1"), std::string::npos) << status.to_string();
    EXPECT_NE(status.message().find("sum 'a'"), std::string::npos) << status.to_string();
  }
}

}  // namespace
}  // namespace plimsoll::collectives
