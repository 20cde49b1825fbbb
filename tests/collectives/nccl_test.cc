// SPDX-License-Identifier: Apache-2.0
// What the communicator of GPUs does beside what every one does (conformance_test.cc).
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/connect.h"
#include "kernels/cpu/collectives/reduction.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/ir/text/text.h"
#include "tests/collectives/nccl_participants.h"

namespace plimsoll::collectives {
namespace {

using device::Communicator;
using device::CopyKind;
using device::Rows;
using ir::DType;
using std::chrono::milliseconds;

std::vector<std::int64_t> all_of(std::int64_t count) {
  std::vector<std::int64_t> group(at(count));
  std::iota(group.begin(), group.end(), 0);
  return group;
}

std::shared_ptr<const device::Reduction> known_reduction(const std::string& opcode, DType dtype) {
  const std::string type(ir::to_string(dtype));
  const auto module =
      ir::parse_module("HloModule m\nENTRY e { a = " + type + "[] parameter(0) b = " + type +
                       "[] parameter(1) ROOT r = " + type + "[] " + opcode + "(a, b) }");
  return kernels::make_reduction(*(*module)->entry(), dtype).value();
}

// Adds 1e8, 1, 1, ... of participants 0, 1, 2, ..., of which f32 keeps no 1 beside the first.
Status sum(Communicator& communicator, const std::vector<std::int64_t>& group, float& out,
           std::string_view what = "sum 'a'") {
  const auto sums = known_reduction("add", DType::f32);
  const float in = communicator.participant() == 0 ? 1e8F : 3.0F;
  const Communicator::Reduce array{&in, &out, 1, 1, sums.get()};
  const auto self = std::find(group.begin(), group.end(), communicator.participant());
  return communicator.all_reduce({what, group, static_cast<std::size_t>(self - group.begin())},
                                 std::span(&array, 1));
}

void expect_all_ok(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST(Nccl, AddsFloatsInAnOrderOfItsOwnUnlessAskedNotTo) {
  for (const bool keeps_order : {false, true}) {
    NcclParticipants group(3, {.keeps_order = keeps_order});
    std::vector<float> results(3);
    expect_all_ok(group.run([&](Communicator& communicator) {
      return sum(communicator, all_of(3), results[at(communicator.participant())]);
    }));
    // ((1e8 + 3) + 3) and ((3 + 3) + 1e8).
    const float expected = keeps_order ? (1e8F + 3.0F) + 3.0F : 1e8F + 6.0F;
    EXPECT_NE(1e8F + 6.0F, (1e8F + 3.0F) + 3.0F);
    EXPECT_EQ(results, std::vector<float>(3, expected));
    EXPECT_EQ(group.gpu(0).driver.calls("ncclAllReduce"), keeps_order ? 0 : 1);
  }
}

// What NCCL has, by it; what it hasn't, in no call of it.
TEST(Nccl, ReducesWhatItKnows) {
  struct Case {
    const char* opcode;
    DType dtype;
    bool by_nccl;
  };
  for (const auto& [opcode, dtype, by_nccl] :
       {Case{"add", DType::s64, true}, Case{"maximum", DType::u8, true},
        Case{"or", DType::pred, true}, Case{"multiply", DType::bf16, true},
        Case{"or", DType::u32, false}, Case{"add", DType::s16, false},
        Case{"subtract", DType::f32, false}}) {
    NcclParticipants group(2, {});
    const auto reduces = known_reduction(opcode, dtype);
    expect_all_ok(group.run([&](Communicator& communicator) {
      const std::vector<std::byte> in(64, std::byte{1});
      std::vector<std::byte> out(64);
      const Communicator::Reduce array{in.data(), out.data(), 1, 64 / dtype_bytes(dtype),
                                       reduces.get()};
      const auto all = all_of(2);
      return communicator.all_reduce({"r", all, at(communicator.participant())},
                                     std::span(&array, 1));
    }));
    EXPECT_EQ(group.gpu(0).driver.calls("ncclAllReduce"), by_nccl ? 1 : 0)
        << opcode << " " << ir::to_string(dtype);
  }
}

// A communicator is made where its group first meets, and then stays.
TEST(Nccl, MakesACommunicatorForEachGroupOnce) {
  NcclParticipants group(4, {});
  expect_all_ok(group.run([&](Communicator& communicator) -> Status {
    for (int round = 0; round < 3; ++round) {
      for (const std::vector<std::int64_t>& some :
           {std::vector<std::int64_t>{2, 0}, std::vector<std::int64_t>{1, 2, 3}}) {
        if (std::find(some.begin(), some.end(), communicator.participant()) == some.end()) continue;
        float out = 0;
        PLIMSOLL_RETURN_IF_ERROR(sum(communicator, some, out));
      }
    }
    return ok_status();
  }));
  // With the one of all, which speeds are measured with.
  const std::int64_t expected[] = {2, 2, 3, 2};
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(group.gpu(i).driver.calls("ncclCommInitRankConfig"), expected[i]) << i;
  }
}

// One row for each member, one after the other: what all-gathers of a first dimension are.
TEST(Nccl, GathersInOneCall) {
  NcclParticipants group(3, {});
  expect_all_ok(group.run_nccl([&](NcclCommunicator& communicator) -> Status {
    constexpr std::int64_t kBytes = 1000;
    const auto self = communicator.participant();
    device::Device& device = *group.gpu(self).device;
    PLIMSOLL_ASSIGN_OR_RETURN(const auto stream, device.create_stream());
    PLIMSOLL_ASSIGN_OR_RETURN(void* const memory, device.allocate(4 * kBytes));
    auto* const out = static_cast<std::byte*>(memory);
    std::vector<std::byte> host(3 * kBytes, static_cast<std::byte>(self + 1));
    PLIMSOLL_RETURN_IF_ERROR(stream->copy(out, host.data(), kBytes, CopyKind::host_to_device));
    std::vector<Rows> sends, receives;
    for (std::int64_t m = 0; m < 3; ++m) {
      sends.push_back({out, 1, kBytes, kBytes});
      receives.push_back({out + (m + 1) * kBytes, 1, kBytes, kBytes});
    }
    const auto all = all_of(3);
    Communicator::Call call{"gather 'g'", all, at(self)};
    call.sends_the_same = true;
    PLIMSOLL_RETURN_IF_ERROR(communicator.on_device(*stream)->exchange(call, sends, receives));
    PLIMSOLL_RETURN_IF_ERROR(
        stream->copy(host.data(), out + kBytes, 3 * kBytes, CopyKind::device_to_host));
    PLIMSOLL_RETURN_IF_ERROR(stream->synchronize());
    device.deallocate(memory, 4 * kBytes);
    for (std::size_t i = 0; i < host.size(); ++i) {
      if (host[i] != static_cast<std::byte>(i / kBytes + 1)) return data_loss("a wrong byte");
    }
    return ok_status();
  }));
  EXPECT_EQ(group.gpu(0).driver.calls("ncclAllGather"), 1);
}

// Rows that are messages of their own, some at a time, and short ones that share them.
TEST(Nccl, TradesLongAndShortRowsThatLieApart) {
  for (const auto& [bytes, count] : {std::pair<std::int64_t, std::int64_t>{70'000, 130},
                                     std::pair<std::int64_t, std::int64_t>{60, 100'000}}) {
    NcclParticipants group(2, {});
    expect_all_ok(group.run([&, bytes = bytes, count = count](Communicator& communicator) {
      const auto self = communicator.participant(), other = 1 - self;
      const std::int64_t stride = bytes + 20;
      std::vector<std::byte> out(at(count * stride)), in(at(count * bytes));
      for (std::int64_t row = 0; row < count; ++row) {
        std::memset(out.data() + row * stride, static_cast<int>((row * 2 + self) % 251), at(bytes));
      }
      std::vector<Rows> sends(2), receives(2);
      sends[at(other)] = {out.data(), count, bytes, stride};
      receives[at(other)] = {in.data(), count, bytes, bytes};
      const auto all = all_of(2);
      const Status status = communicator.exchange({"x", all, at(self)}, sends, receives);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < count * bytes; ++i) {
        wrong += in[at(i)] != static_cast<std::byte>((i / bytes * 2 + other) % 251);
      }
      EXPECT_EQ(wrong, 0);
      return status;
    }));
  }
}

TEST(Nccl, WhatFailsInTheBackgroundIsEverybodysErrorAndAborts) {
  NcclParticipants group(3, {.timeout = std::chrono::seconds(30)});
  const auto statuses = group.run([&](Communicator& communicator) -> Status {
    float out = 0;
    PLIMSOLL_RETURN_IF_ERROR(sum(communicator, all_of(3), out));
    if (communicator.participant() == 1) group.nccl().fail_in_background(group.gpu(1).driver, 2);
    const Status status = sum(communicator, all_of(3), out);
    EXPECT_EQ(sum(communicator, all_of(3), out).to_string(), status.to_string());
    return status;
  });
  for (std::int64_t i = 0; i < 3; ++i) {
    const Status& status = statuses[at(i)];
    EXPECT_EQ(status.code(), StatusCode::unavailable) << status.to_string();
    EXPECT_NE(status.message().find("participant 1 at sum 'a'"), std::string::npos)
        << status.to_string();
    EXPECT_NE(status.message().find("remote process exited (6)"), std::string::npos)
        << status.to_string();
    EXPECT_EQ(group.gpu(i).driver.calls("ncclCommDestroy"), 0);
  }
}

TEST(Nccl, WhatHangsIsAbortedAfterTheTimeOut) {
  NcclParticipants group(2, {.timeout = milliseconds(400)});
  std::barrier all_are_here(2);
  const auto statuses = group.run([&](Communicator& communicator) -> Status {
    float out = 0;
    PLIMSOLL_RETURN_IF_ERROR(sum(communicator, all_of(2), out));
    all_are_here.arrive_and_wait();
    group.nccl().hang();
    return sum(communicator, all_of(2), out, "sum 'b'");
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::deadline_exceeded) << status.to_string();
    EXPECT_NE(status.message().find("waits at sum 'b', but NCCL was not done with it for 0.4 s "
                                    "(PLIMSOLL_COLLECTIVE_TIMEOUT"),
              std::string::npos)
        << status.to_string();
  }
}

TEST(Nccl, ACancellationEndsWhatHangs) {
  NcclParticipants group(2, {});
  std::barrier all_are_here(2);
  const auto statuses = group.run([&](Communicator& communicator) -> Status {
    float out = 0;
    PLIMSOLL_RETURN_IF_ERROR(sum(communicator, all_of(2), out));
    all_are_here.arrive_and_wait();
    group.nccl().hang();
    Stop stop;
    if (communicator.participant() == 1) stop.deadline = Stop::Clock::now() + milliseconds(200);
    communicator.set_stop(&stop);
    const Status status = sum(communicator, all_of(2), out, "sum 'b'");
    communicator.set_stop(nullptr);
    return status;
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::deadline_exceeded) << status.to_string();
    EXPECT_NE(status.message().find("participant 1 has left sum 'b'"), std::string::npos)
        << status.to_string();
  }
}

// One that is in no call of the group's, too.
TEST(Nccl, AFailureElsewhereEndsWhatHangs) {
  NcclParticipants group(3, {});
  std::barrier all_are_here(3);
  const auto statuses = group.run([&](Communicator& communicator) -> Status {
    float out = 0;
    PLIMSOLL_RETURN_IF_ERROR(sum(communicator, all_of(3), out));
    all_are_here.arrive_and_wait();
    group.nccl().hang();
    if (communicator.participant() == 2) return data_loss("participant 2: the disk is gone");
    return sum(communicator, {0, 1}, out, "sum 'b'");
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.to_string(), "DATA_LOSS: participant 2: the disk is gone");
  }
}

// Nothing is left, nobody waits for ever, and the error says what has failed.
TEST(Nccl, EveryCallThatFailsIsAnErrorOfAll) {
  int failures = 0, failures_of_both = 0;
  bool is_past_the_last = false;
  for (int n = 1; !is_past_the_last; n += 1 + n / 8) {
    NcclParticipants group(2, {.timeout = std::chrono::seconds(20)});
    group.gpu(1).driver.fail(n);
    const auto statuses = group.run([&](Communicator& communicator) -> Status {
      float out = 0;
      PLIMSOLL_RETURN_IF_ERROR(sum(communicator, all_of(2), out));
      std::vector<std::int32_t> from(6000), to(6000);
      auto* const in = reinterpret_cast<std::byte*>(to.data());
      auto* const data = reinterpret_cast<std::byte*>(from.data());
      const std::vector<Rows> sends(2, {data, 1000, 8, 24}), receives(2, {in, 1000, 8, 8});
      const auto all = all_of(2);
      return communicator.exchange({"swap 's'", all, at(communicator.participant())}, sends,
                                   {receives});
    });
    is_past_the_last = group.gpu(1).driver.is_failure_pending();
    group.gpu(1).driver.fail(0);
    if (statuses[1].ok()) continue;  // one that is asked again, or done in another way
    ++failures;
    EXPECT_FALSE(is_past_the_last) << statuses[1].to_string();
    failures_of_both += statuses[0].ok() ? 0 : 1;  // unless it had nothing left to do
    const std::string message = statuses[1].message();
    EXPECT_TRUE(message.find("cu") != std::string::npos ||
                message.find("nccl") != std::string::npos)
        << message;
  }
  EXPECT_GT(failures, 20);
  EXPECT_GT(failures_of_both, 15);
}

// Of the GPU's memory: for the communicator of all, and for rows that lie apart.
TEST(Nccl, WhatItTakesCountsAgainstLimits) {
  constexpr std::int64_t kBytes = 5 << 20, kScratch = 8 << 20;
  NcclParticipants group(2, {.communicator_bytes = kBytes});
  expect_all_ok(group.run_nccl([&](NcclCommunicator& communicator) -> Status {
    const auto& device = *group.gpu(communicator.participant()).device;
    EXPECT_EQ(device.overhead_bytes(), kBytes + kScratch);
    return ok_status();
  }));
}

TEST(Nccl, IsForGpusAlone) {
  const auto connected = connect_processes("nccl", {}, device::cpu_device());
  EXPECT_EQ(connected.status().code(), StatusCode::failed_precondition);
  EXPECT_NE(connected.status().message().find("participant 0 works on 'cpu', which is no GPU"),
            std::string::npos)
      << connected.status().message();
  EXPECT_EQ(connect_processes("mpi", {}, device::cpu_device()).status().code(),
            StatusCode::invalid_argument);
}

}  // namespace
}  // namespace plimsoll::collectives
