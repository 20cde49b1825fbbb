// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/replayer/replay.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::replayer {
namespace {

// Constant w (4 bytes); a = f(w) of 10 bytes, v a view of a, b = g(v) of 20 bytes, c = h(a, b)
// of 5. Times 1, 0, 2, 4; c is asked for.
constexpr const char* kText =
    "39 4 5 4 1\n"
    "4 1 0  10 0 0  20 0 0  5 0 1\n"
    "0 -1  1 0  1 1  2 2  3 3\n"
    "1 1 0 1 1 1\n"
    "0 1 1 1 2 0\n"
    "2 1 2 1 3 1\n"
    "4 2 1 3 1 4 1\n"
    "4\n";

constexpr const char* kPlain = "c 0\nc 1\nc 2\nc 3\nf 1\nf 2\n";

Model model() {
  auto parsed = parse_model(kText, "tiny");
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  return *parsed;
}

std::string error_of(const std::string& schedule, std::int64_t limit, bool addresses = false) {
  const auto result = replay(model(), schedule, {limit, addresses});
  return result.ok() ? "no error" : result.status().message();
}

TEST(Replayer, CountsConstantsAndTimeOfAPlainRun) {
  const auto result = replay(model(), kPlain, {39, false});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(result->nanoseconds, 7);
  EXPECT_EQ(result->overhead_percent, 0);
  EXPECT_EQ(result->peak_bytes, 39);
  EXPECT_EQ(result->runs, 4);
}

TEST(Replayer, CountsWhatRunsAgain) {
  const auto result = replay(model(), "c 0\nc 1\nc 2\nf 1\nc 0\nc 3\n", {39, false});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(result->nanoseconds, 8);
  EXPECT_NEAR(result->overhead_percent, 100.0 / 7, 1e-9);
}

TEST(Replayer, RefusesWhatIsOverTheLimit) {
  EXPECT_EQ(error_of(kPlain, 38), "line 4: operation 3 needs 39 bytes (limit 38)");
}

TEST(Replayer, RefusesConstantsOverTheLimit) {
  EXPECT_NE(error_of("", 3).find("constants take 4 bytes"), std::string::npos);
}

TEST(Replayer, CountsFreshOutputsThatAreStillThere) {
  const std::string again = "c 0\nc 1\nc 2\nc 0\nc 3\n";
  EXPECT_EQ(error_of("c 0\nc 0\nc 1\nc 2\nc 3\n", 23),
            "line 2: operation 0 needs 24 bytes (limit 23)");
  const auto result = replay(model(), again, {44, false});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(result->peak_bytes, 44);  // of the second run of operation 0, and not more after it
}

TEST(Replayer, RefusesAnArgumentThatWasFreed) {
  EXPECT_EQ(error_of("c 0\nc 1\nc 2\nf 2\nc 3\n", 99),
            "line 5: operation 3 reads tensor 3, which isn't there");
}

TEST(Replayer, LetsViewsDieWithTheirStorage) {
  EXPECT_EQ(error_of("c 0\nc 1\nf 1\nc 0\nc 2\n", 99),
            "line 5: operation 2 reads tensor 2, which isn't there");
  EXPECT_EQ(error_of("c 0\nc 1\nf 1\nc 0\nc 1\nc 2\nc 3\n", 99), "no error");
}

TEST(Replayer, RefusesAViewOfWhatWasFreed) {
  EXPECT_EQ(error_of("c 0\nf 1\nc 1\n", 99),
            "line 3: operation 1 reads tensor 1, which isn't there");
}

TEST(Replayer, RefusesToFreeWhatIsNotThere) {
  EXPECT_EQ(error_of("f 1\n", 99), "line 1: storage 1 isn't resident");
  EXPECT_EQ(error_of("c 0\nf 1\nf 1\n", 99), "line 3: storage 1 isn't resident");
  EXPECT_EQ(error_of("f 0\n", 99), "line 1: storage 0 is constant");
}

TEST(Replayer, RefusesAnEndWithoutAResult) {
  EXPECT_EQ(error_of("c 0\nc 1\nc 2\nc 3\nf 3\n", 99), "result 4 isn't there at the end");
}

TEST(Replayer, RefusesAnOperationThatNeverRuns) {
  EXPECT_EQ(error_of("c 0\n", 99), "operation 1 never runs");
}

TEST(Replayer, RefusesLinesThatAreNoActions) {
  for (const std::string line : {"c", "c 4", "c -1", "f 4", "x 1", "c 0 ", "c 0 1", "c 0 1@",
                                 "c 0 9@0", "c 0 1@-1", "f 1 1@0", "c 0x"}) {
    EXPECT_EQ(error_of(line, 99), "line 1: '" + line + "' is no action on this model");
  }
}

TEST(Replayer, CountsTheHighestEndOfAStorage) {
  const auto result = replay(model(), "c 0 1@20\nc 1\nc 2 2@0\nc 3 3@30\n", {39, true});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(result->peak_with_holes, 39);
  const auto high = replay(model(), "c 0 1@30\nc 1\nc 2 2@0\nc 3 3@20\n", {60, true});
  ASSERT_TRUE(high.ok()) << high.status().to_string();
  EXPECT_EQ(high->peak_with_holes, 44);
  EXPECT_EQ(high->peak_bytes, 39);
}

TEST(Replayer, RefusesStoragesThatOverlap) {
  EXPECT_EQ(error_of("c 0 1@20\nc 1\nc 2 2@1\n", 99, true),
            "line 3: operation 2 puts storage 2 at 1, which is taken or above the limit");
  EXPECT_EQ(error_of("c 0 1@5\nc 1\nc 2 2@0\n", 99, true),
            "line 3: operation 2 puts storage 2 at 0, which is taken or above the limit");
  EXPECT_EQ(error_of("c 0 1@0\nc 1\nc 2 2@9\n", 99, true),
            "line 3: operation 2 puts storage 2 at 9, which is taken or above the limit");
}

TEST(Replayer, LetsPlacesBeTakenAgainAfterAFree) {
  EXPECT_EQ(error_of("c 0 1@0\nc 1\nc 2 2@10\nf 1\nc 0 1@30\nc 3 3@0\n", 44, true), "no error");
}

TEST(Replayer, RefusesPlacesAboveTheLimit) {
  EXPECT_EQ(error_of("c 0 1@26\nc 1\nc 2 2@0\n", 39, true),
            "line 1: operation 0 puts storage 1 at 26, which is taken or above the limit");
}

TEST(Replayer, RefusesStoragesWithoutAPlace) {
  EXPECT_EQ(error_of("c 0\n", 99, true), "line 1: operation 0 doesn't say where storage 1 lies");
  EXPECT_EQ(error_of("c 0 2@0\n", 99, true), "line 1: operation 0 makes no storage 2 to be placed");
}

TEST(Replayer, NeedsAHoleForACopyOfWhatIsStillThere) {
  // 26 bytes beside the constant: with storage 1 at 8, the holes are of 8 bytes.
  EXPECT_EQ(error_of("c 0 1@8\nc 0\n", 30, true),
            "line 2: operation 0 finds no hole for its copy of storage 1");
  EXPECT_EQ(error_of("c 0 1@0\nc 0\nc 1\nc 2 2@10\nc 3 3@30\n", 44, true), "no error");
}

// Over a link of 1 GB/s: 10 bytes take 10 us and 10 ns, 20 bytes 10 us and 20 ns.
constexpr std::int64_t kSpeed = 1'000'000'000;

std::string error_with_link(const std::string& schedule, std::int64_t limit = 99) {
  const auto result = replay(model(), schedule, {limit, false, kSpeed});
  return result.ok() ? "no error" : result.status().message();
}

TEST(ReplayerLink, CountsWaitingAndWhatWasCopiedOut) {
  const auto result =
      replay(model(), "c 0\nc 1\no 1\nc 2\nw 1\nf 1\ni 1\nw 1\nc 3\n", {39, false, kSpeed});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  // Out from 1 to 10,011, of which operation 2 hides 2; in until 20,021, then 4.
  EXPECT_EQ(result->nanoseconds, 20'025);
  EXPECT_EQ(result->stalled_nanoseconds, 10'008 + 10'010);
  EXPECT_EQ(result->swapped_bytes, 10);
  EXPECT_EQ(result->runs, 4);
  EXPECT_EQ(result->peak_bytes, 39);
}

TEST(ReplayerLink, RunsCopiesOfOneDirectionOneAfterAnother) {
  const std::string head = "c 0\nc 1\nc 2\n";
  const auto both = replay(model(), head + "o 1\no 2\nw 1\nw 2\nc 3\n", {99, false, kSpeed});
  ASSERT_TRUE(both.ok()) << both.status().to_string();
  EXPECT_EQ(both->stalled_nanoseconds, 10'010 + 10'020);
  // The wait for the first one started has nothing left to wait for.
  const auto swapped = replay(model(), head + "o 1\no 2\nw 2\nw 1\nc 3\n", {99, false, kSpeed});
  ASSERT_TRUE(swapped.ok()) << swapped.status().to_string();
  EXPECT_EQ(swapped->stalled_nanoseconds, 10'010 + 10'020);
}

TEST(ReplayerLink, RunsDirectionsBesideOneAnother) {
  const auto result = replay(model(), "c 0\nc 1\nc 2\no 1\nw 1\nf 1\ni 1\no 2\nw 1\nw 2\nc 3\n",
                             {99, false, kSpeed});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(result->stalled_nanoseconds, 10'010 + 10'020);
}

TEST(ReplayerLink, RestoresViewsThatHadBeenMade) {
  EXPECT_EQ(error_with_link("c 0\nc 1\no 1\nw 1\nf 1\ni 1\nw 1\nc 2\nc 3\n"), "no error");
  EXPECT_EQ(error_with_link("c 0\no 1\nw 1\nc 1\nf 1\ni 1\nw 1\nc 2\nc 3\n"), "no error");
  EXPECT_EQ(error_with_link("c 0\no 1\nw 1\nf 1\ni 1\nw 1\nc 2\n"),
            "line 7: operation 2 reads tensor 2, which isn't there");
  // The view was of what had been freed before the storage was recomputed and copied out.
  EXPECT_EQ(error_with_link("c 0\nc 1\nf 1\nc 0\no 1\nw 1\nf 1\ni 1\nw 1\nc 2\n"),
            "line 10: operation 2 reads tensor 2, which isn't there");
}

TEST(ReplayerLink, CopiesInAnyNumberOfTimes) {
  EXPECT_EQ(error_with_link("c 0\nc 1\no 1\nw 1\nf 1\ni 1\nw 1\nc 2\nf 1\ni 1\nw 1\nc 3\n"),
            "no error");
}

TEST(ReplayerLink, BooksWhatIsCopiedOutUntilTheWait) {
  EXPECT_EQ(error_with_link("c 0\nc 1\no 1\nc 2\nc 3\nw 1\nf 1\n", 38),
            "line 5: operation 3 needs 39 bytes (limit 38)");
  EXPECT_EQ(error_with_link("c 0\nc 1\no 1\nf 1\n"),
            "line 4: storage 1 is still being copied out (w 1 must come first)");
}

TEST(ReplayerLink, HoldsACopyOnTheHostUntilTheLastCopyInOfIt) {
  const auto host_peak = [](const std::string& schedule, std::int64_t host_limit) {
    const auto result = replay(model(), schedule, {99, false, kSpeed, host_limit});
    return result.ok() ? std::to_string(result->host_peak_bytes) : result.status().message();
  };
  const std::string head = "c 0\nc 1\nc 2\no 1\nw 1\nf 1\n";
  const std::string one_by_one = head + "i 1\nw 1\no 2\nw 2\nc 3\n";
  EXPECT_EQ(host_peak(one_by_one, -1), "20");
  EXPECT_EQ(host_peak(one_by_one, 20), "20");
  const std::string together = head + "o 2\ni 1\nw 1\nw 2\nc 3\n";
  EXPECT_EQ(host_peak(together, 30), "30");
  EXPECT_EQ(host_peak(together, 29),
            "line 7: copying storage 2 out needs 30 bytes of host memory (limit 29)");
}

TEST(ReplayerLink, BooksWhatIsCopiedInFromTheStart) {
  const std::string head = "c 0\nc 1\no 1\nw 1\nf 1\n";
  EXPECT_EQ(error_with_link(head + "i 1\nc 0\n", 23),
            "line 7: operation 0 needs 24 bytes (limit 23)");
  EXPECT_EQ(error_with_link("c 0\nc 1\no 1\nw 1\nc 2\nf 1\ni 1\n", 33),
            "line 5: operation 2 needs 34 bytes (limit 33)");
  EXPECT_EQ(error_with_link("c 0\nc 1\no 1\nw 1\nc 2\nf 1\nc 0\nf 1\ni 1\nw 1\nc 3\n", 39),
            "no error");
}

TEST(ReplayerLink, RefusesToCopyInOverTheLimit) {
  // After operation 3 ran without storage 1 there: 4 + 20 + 5, and 10 more.
  const std::string text =
      "34 4 4 4 1\n4 1 0  10 0 0  20 0 0  5 0 1\n0 -1  1 0  2 1  3 2\n"
      "1 1 0 1 1 1\n2 1 1 1 2 1\n4 1 2 1 3 1\n1 1 1 0\n3\n";
  const auto parsed = parse_model(text, "apart");
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  const std::string schedule = "c 0\nc 1\no 1\nw 1\nf 1\nc 2\ni 1\nw 1\nc 3\n";
  const auto refused = replay(*parsed, schedule, {38, false, kSpeed});
  EXPECT_EQ(refused.status().message(), "line 7: copying storage 1 in needs 39 bytes (limit 38)");
  const auto fits = replay(*parsed, schedule, {39, false, kSpeed});
  ASSERT_TRUE(fits.ok()) << fits.status().to_string();
  EXPECT_EQ(fits->peak_bytes, 39);
}

TEST(ReplayerLink, RefusesToReadBeforeTheWait) {
  EXPECT_EQ(error_with_link("c 0\nc 1\no 1\nw 1\nf 1\ni 1\nc 2\n"),
            "line 7: operation 2 reads tensor 2, which isn't there");
  // Making it again doesn't make the copy readable either.
  EXPECT_EQ(error_with_link("c 0\nc 1\no 1\nw 1\nf 1\ni 1\nc 0\nc 1\n"),
            "line 8: operation 1 reads tensor 1, which isn't there");
}

TEST(ReplayerLink, RefusesToCopyInWithoutACopy) {
  EXPECT_EQ(error_with_link("i 1\n"), "line 1: storage 1 has no copy on the host");
  EXPECT_EQ(error_with_link("c 0\nf 1\ni 1\n"), "line 3: storage 1 has no copy on the host");
}

TEST(ReplayerLink, RefusesToCopyWhatIsElsewhere) {
  EXPECT_EQ(error_with_link("o 1\n"), "line 1: storage 1 isn't resident");
  EXPECT_EQ(error_with_link("o 0\n"), "line 1: storage 0 is constant");
  EXPECT_EQ(error_with_link("i 0\n"), "line 1: storage 0 is constant");
  EXPECT_EQ(error_with_link("c 0\no 1\nw 1\ni 1\n"), "line 4: storage 1 is resident already");
}

TEST(ReplayerLink, RefusesASecondCopyBeforeTheWait) {
  EXPECT_EQ(error_with_link("c 0\no 1\no 1\n"),
            "line 3: storage 1 is still being copied out (w 1 must come first)");
  EXPECT_EQ(error_with_link("c 0\no 1\ni 1\n"),
            "line 3: storage 1 is still being copied out (w 1 must come first)");
  EXPECT_EQ(error_with_link("c 0\no 1\nw 1\nf 1\ni 1\ni 1\n"),
            "line 6: storage 1 is still being copied in (w 1 must come first)");
  EXPECT_EQ(error_with_link("c 0\no 1\nw 1\nf 1\ni 1\nf 1\n"),
            "line 6: storage 1 is still being copied in (w 1 must come first)");
}

TEST(ReplayerLink, RefusesWaitsForNothing) {
  EXPECT_EQ(error_with_link("c 0\nw 1\n"), "line 2: storage 1 isn't being copied");
  EXPECT_EQ(error_with_link("c 0\no 1\nw 1\nw 1\n"), "line 4: storage 1 isn't being copied");
}

TEST(ReplayerLink, RefusesCopiesNeverWaitedFor) {
  EXPECT_EQ(error_with_link("c 0\nc 1\nc 2\no 1\nc 3\n"),
            "the copy of storage 1 is never waited for");
}

TEST(ReplayerLink, RefusesAResultLeftOnTheHost) {
  EXPECT_EQ(error_with_link("c 0\nc 1\nc 2\nc 3\no 3\nw 3\nf 3\n"),
            "result 4 isn't there at the end");
}

TEST(ReplayerLink, RefusesLinesThatAreNoActions) {
  for (const std::string line : {"o", "o 4", "i -1", "w 1 1@0", "o 1 ", "w"}) {
    EXPECT_EQ(error_with_link(line), "line 1: '" + line + "' is no action on this model");
  }
}

TEST(ReplayerLink, RefusesTimesBeyondCounting) {
  std::string text = kText;
  text.replace(text.find("10 0 0"), 6, "1000000000000000 0 0");
  const auto parsed = parse_model(text, "large");
  ASSERT_TRUE(parsed.ok());
  const auto result = replay(*parsed, "c 0\no 1\nw 1\n", {std::int64_t{1} << 60, false, 1});
  EXPECT_EQ(result.status().message(), "line 2: copying storage 1 ends later than can be counted");
}

TEST(ReplayerLink, SaysThatCopiesNeedALink) {
  for (const std::string line : {"o 1", "i 1", "w 1"}) {
    EXPECT_EQ(error_of("c 0\n" + line, 99),
              "line 2: copies to and from host memory need the speed that the schedule was planned "
              "with (--link-speed BYTES_PER_S)");
  }
  EXPECT_EQ(replay(model(), kPlain, {99, true, kSpeed}).status().code(),
            StatusCode::invalid_argument);
}

TEST(Replayer, ReadsWhatItWrites) {
  const std::string text = to_text(model());
  const auto again = parse_model(text, "again");
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(to_text(*again), text);
}

TEST(Replayer, RefusesBrokenModels) {
  const std::string text = kText;
  EXPECT_FALSE(parse_model("", "empty").ok());
  EXPECT_FALSE(parse_model(text.substr(0, text.size() - 2), "short").ok());
  EXPECT_FALSE(parse_model(text + "1", "long").ok());
  std::string early = text;  // operation 0 reads its own output
  early.replace(early.find("1 1 0 1 1 1"), 11, "1 1 1 1 1 1");
  const auto read_early = parse_model(early, "early");
  EXPECT_EQ(read_early.status().message(), "early: operation 0 reads tensor 1 before it is made");
  std::string twice = text;  // operation 1 makes the storage again
  twice.replace(twice.find("0 1 1 1 2 0"), 11, "0 1 1 1 2 1");
  const auto made_twice = parse_model(twice, "twice");
  EXPECT_EQ(made_twice.status().message(), "twice: operation 1 makes storage 1 a second time");
}

}  // namespace
}  // namespace plimsoll::replayer
