// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/meeting_place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace plimsoll {
namespace {

using Group = std::vector<std::int64_t>;

// Runs `body(participant)` for each in a thread; what each returns, having left with it.
template <typename F>
std::vector<Status> run(MeetingPlace& place, std::int64_t participants, F&& body) {
  std::vector<Status> statuses(static_cast<std::size_t>(participants));
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < participants; ++i) {
    threads.emplace_back([&, i] {
      statuses[static_cast<std::size_t>(i)] = body(i);
      place.leave(i, statuses[static_cast<std::size_t>(i)]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

const auto nothing = [](std::span<const void* const>) { return ok_status(); };

TEST(MeetingPlace, EveryoneSeesWhatAllShowInTheGroupsOrder) {
  constexpr std::int64_t kParticipants = 5;
  MeetingPlace place(kParticipants);
  const Group group{3, 0, 4, 1, 2};
  std::vector<std::int64_t> sums(kParticipants, 0);
  const auto statuses = run(place, kParticipants, [&](std::int64_t self) {
    const auto position =
        static_cast<std::size_t>(std::find(group.begin(), group.end(), self) - group.begin());
    for (std::int64_t round = 0; round < 200; ++round) {
      const std::int64_t shown = self * 1000 + round;
      PLIMSOLL_RETURN_IF_ERROR(
          place.meet({group, position, "sum"}, &shown, [&](std::span<const void* const> all) {
            for (std::size_t i = 0; i < all.size(); ++i) {
              const auto value = *static_cast<const std::int64_t*>(all[i]);
              EXPECT_EQ(value, group[i] * 1000 + round);
              sums[static_cast<std::size_t>(self)] += value;
            }
            return ok_status();
          }));
    }
    return ok_status();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
  for (const std::int64_t sum : sums) EXPECT_EQ(sum, 200 * 10000 + 5 * 199 * 100);
}

TEST(MeetingPlace, GroupsMeetApart) {
  MeetingPlace place(4);
  const auto statuses = run(place, 4, [&](std::int64_t self) -> Status {
    const Group group{self / 2 * 2, self / 2 * 2 + 1};
    // The second pair meets more often than the first one.
    for (int i = 0; i < (self < 2 ? 3 : 50); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(
          place.meet({group, static_cast<std::size_t>(self % 2), "pair"}, nullptr, nothing));
    }
    return ok_status();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST(MeetingPlace, OneWhoHasLeftIsNotWaitedFor) {
  MeetingPlace place(3);
  const Group all{0, 1, 2};
  const auto statuses = run(place, 3, [&](std::int64_t self) -> Status {
    if (self == 1) return ok_status();
    return place.meet({all, static_cast<std::size_t>(self), "sum 'x'"}, nullptr, nothing);
  });
  EXPECT_TRUE(statuses[1].ok());
  for (const int i : {0, 2}) {
    const Status& status = statuses[static_cast<std::size_t>(i)];
    EXPECT_EQ(status.code(), StatusCode::failed_precondition);
    EXPECT_NE(status.message().find("participant 1 has ended"), std::string::npos)
        << status.to_string();
    EXPECT_NE(status.message().find("sum 'x'"), std::string::npos);
  }
}

TEST(MeetingPlace, AFailureIsEveryones) {
  MeetingPlace place(3);
  const Group all{0, 1, 2};
  const auto statuses = run(place, 3, [&](std::int64_t self) -> Status {
    if (self == 2) return data_loss("the disk of 2");
    return place.meet({all, static_cast<std::size_t>(self), "sum"}, nullptr, nothing);
  });
  for (const Status& status : statuses) EXPECT_EQ(status.message(), "the disk of 2");
}

TEST(MeetingPlace, AFailureOfTheWorkIsEveryonesAfterAllHaveDoneTheirs) {
  MeetingPlace place(3);
  const Group all{0, 1, 2};
  std::atomic<int> done = 0;
  const auto statuses = run(place, 3, [&](std::int64_t self) -> Status {
    const Status status = place.meet({all, static_cast<std::size_t>(self), "sum"}, nullptr,
                                     [&](std::span<const void* const>) -> Status {
                                       if (self == 0) return data_loss("0 can't");
                                       std::this_thread::sleep_for(std::chrono::milliseconds(5));
                                       ++done;
                                       return ok_status();
                                     });
    EXPECT_EQ(done.load(), 2);
    return status;
  });
  for (const Status& status : statuses) EXPECT_EQ(status.message(), "0 can't");
}

// Of both ends the second to begin moves; whoever waits for one that never comes is told.
TEST(MeetingPlace, PassagesMoveInOrderAndEndWithWhoLeaves) {
  constexpr int kRounds = 200;
  MeetingPlace place(3);
  const auto statuses = run(place, 3, [&](std::int64_t self) -> Status {
    const MeetingPlace::Passage out{self, (self + 1) % 3, "ring"}, in{(self + 2) % 3, self, "ring"};
    for (int round = 0; round < kRounds; ++round) {
      const std::int64_t shown[2] = {self * 1000 + 2 * round, self * 1000 + 2 * round + 1};
      std::int64_t got[2] = {-1, -1};
      for (int k = 0; k < 2; ++k) {
        PLIMSOLL_RETURN_IF_ERROR(place.begin_send(out, &shown[k]));
        PLIMSOLL_RETURN_IF_ERROR(place.begin_receive(in, [&got, k](const void* from) {
          got[k] = *static_cast<const std::int64_t*>(from);
          return ok_status();
        }));
      }
      for (int k = 0; k < 2; ++k) PLIMSOLL_RETURN_IF_ERROR(place.end_send(out, nullptr));
      for (int k = 0; k < 2; ++k) PLIMSOLL_RETURN_IF_ERROR(place.end_receive(in, nullptr));
      for (int k = 0; k < 2; ++k) EXPECT_EQ(got[k], (self + 2) % 3 * 1000 + 2 * round + k);
    }
    if (self == 0) return ok_status();
    const MeetingPlace::Passage last{0, self, "last"};
    PLIMSOLL_RETURN_IF_ERROR(
        place.begin_receive(last, [](const void*) { return internal_error("nobody sends"); }));
    const Status status = place.end_receive(last, nullptr);
    place.forget(self);
    return status;
  });
  EXPECT_TRUE(statuses[0].ok()) << statuses[0].to_string();
  for (const std::size_t i : {1, 2}) {
    EXPECT_EQ(statuses[i].code(), StatusCode::failed_precondition);
    EXPECT_NE(statuses[i].message().find("waits at last, but participant 0 has ended"),
              std::string::npos)
        << statuses[i].to_string();
  }
}

TEST(MeetingPlace, CirclesOfPassagesAreNamed) {
  MeetingPlace place(2);
  const auto statuses = run(place, 2, [&](std::int64_t self) -> Status {
    const MeetingPlace::Passage out{self, 1 - self, self == 0 ? "there" : "back"};
    PLIMSOLL_RETURN_IF_ERROR(place.begin_send(out, &self));
    return place.end_send(out, nullptr);
  });
  for (const Status& status : statuses) {
    EXPECT_NE(status.message().find("participant 0 at there, participant 1 at back"),
              std::string::npos)
        << status.to_string();
  }
}

TEST(MeetingPlace, WhoComesForSomethingElseIsNamed) {
  MeetingPlace place(2);
  const Group all{0, 1};
  const auto statuses = run(place, 2, [&](std::int64_t self) -> Status {
    return place.meet({all, static_cast<std::size_t>(self), self == 0 ? "sum" : "product"}, nullptr,
                      nothing);
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.message(),
              "participant 0 comes to sum, participant 1 to product (all must run the same "
              "operations, in the same order and on the same sizes)");
  }
}

TEST(MeetingPlace, ACircleIsFound) {
  MeetingPlace place(3);
  const auto statuses = run(place, 3, [&](std::int64_t self) -> Status {
    const Group pair{self, (self + 1) % 3};
    const std::string what = "pair " + std::to_string(self);
    return place.meet({pair, 0, what}, nullptr, nothing);
  });
  for (const Status& status : statuses) {
    EXPECT_NE(status.message().find("wait for each other"), std::string::npos)
        << status.to_string();
    EXPECT_NE(status.message().find("participant 2 at pair 2"), std::string::npos);
  }
}

// Who waits while somebody else is still at work is not in a circle.
TEST(MeetingPlace, TheSlowAreWaitedFor) {
  MeetingPlace place(3);
  const Group all{0, 1, 2};
  const auto statuses = run(place, 3, [&](std::int64_t self) -> Status {
    if (self == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return place.meet({all, static_cast<std::size_t>(self), "sum"}, nullptr, nothing);
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
}

}  // namespace
}  // namespace plimsoll
