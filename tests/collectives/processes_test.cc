// SPDX-License-Identifier: Apache-2.0
// What becomes of processes when one of them dies, hangs or does something else.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/index.h"

namespace plimsoll::collectives {
namespace {

// What tells a hang from a slow machine.
constexpr int kLongestMilliseconds = 60'000;

class Process {
 public:
  // `arguments` of tests/collectives/process.cc.
  Process(int rank, int ranks, const std::string& rendezvous, const std::string& timeout,
          std::vector<std::string> arguments) {
    int pipe[2];
    EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), PLIMSOLL_COLLECTIVES_PROCESS);
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    ::setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
    ::setenv("PLIMSOLL_RENDEZVOUS", rendezvous.c_str(), 1);
    ::setenv("PLIMSOLL_COLLECTIVE_TIMEOUT", timeout.c_str(), 1);
    // All on this machine, whose name may lead anywhere.
    ::setenv("PLIMSOLL_COLLECTIVE_INTERFACE", "lo", 1);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(pipe[1], 1);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
    for (const char* name : {"RANK", "WORLD_SIZE", "PLIMSOLL_RENDEZVOUS",
                             "PLIMSOLL_COLLECTIVE_TIMEOUT", "PLIMSOLL_COLLECTIVE_INTERFACE"}) {
      ::unsetenv(name);
    }
    ::close(pipe[1]);
    out_ = pipe[0];
  }
  Process(Process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), out_(std::exchange(other.out_, -1)) {}
  ~Process() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::kill(pid_, SIGCONT);
    ::waitpid(pid_, nullptr, 0);
    ::close(out_);
  }

  void signal(int number) const { ::kill(pid_, number); }

  // Empty at the end of what it prints, and where nothing comes.
  std::string line() {
    std::string found;
    for (;;) {
      pollfd polled{out_, POLLIN, 0};
      char one = 0;
      if (::poll(&polled, 1, kLongestMilliseconds) <= 0) {
        ADD_FAILURE() << "nothing comes from the process";
        return {};
      }
      if (::read(out_, &one, 1) != 1 || one == '\n') return found;
      found += one;
    }
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
};

class Processes : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "plimsoll-run-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    processes_.clear();
    std::filesystem::remove_all(folder_);
  }

  void start(const std::vector<std::vector<std::string>>& arguments, const std::string& timeout) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      processes_.emplace_back(static_cast<int>(i), static_cast<int>(arguments.size()),
                              "file://" + folder_, timeout, arguments[i]);
    }
  }
  void expect_all_run() {
    for (Process& process : processes_) ASSERT_EQ(process.line(), "runs");
  }
  // An error with all these words, which stays the error of further calls.
  void expect_error(std::size_t rank, const std::vector<std::string>& words) {
    const std::string error = processes_[rank].line();
    for (const std::string& word : words) {
      EXPECT_NE(error.find(word), std::string::npos) << "rank " << rank << ": " << error;
    }
    EXPECT_EQ(processes_[rank].line(), "again");
    EXPECT_EQ(processes_[rank].line(), "");
  }

  std::string folder_;
  std::vector<Process> processes_;
};

constexpr const char* kForEver = "1000000000";

TEST_F(Processes, RunToTheEnd) {
  start({3, {"sum 'a'", "100000", "20"}}, "60");
  expect_all_run();
  for (Process& process : processes_) EXPECT_EQ(process.line(), "done");
}

// In small collectives, and in the middle of a large one.
TEST_F(Processes, OneThatIsKilledIsNamedByAllOthers) {
  for (const char* numbers : {"16", "4000000"}) {
    start({4, {"sum 'a'", numbers, kForEver}}, "60");
    expect_all_run();
    processes_[2].signal(SIGKILL);
    for (const std::size_t rank : {0, 1, 3}) {
      expect_error(rank, {"UNAVAILABLE", "participant 2 has gone", "sum 'a'"});
    }
    processes_.clear();
    std::filesystem::remove_all(folder_);
  }
}

// Those that wait for one that waits for it name it as well.
TEST_F(Processes, OneThatHangsIsNamedWithinTheTimeOut) {
  start({4, {"sum 'a'", "1000000", kForEver}}, "3");
  expect_all_run();
  processes_[1].signal(SIGSTOP);
  for (const std::size_t rank : {0, 2, 3}) {
    expect_error(rank, {"DEADLINE_EXCEEDED", "participant 1", "sum 'a'", "for 3 s",
                        "PLIMSOLL_COLLECTIVE_TIMEOUT"});
  }
  // Once it goes on, it ends as well.
  processes_[1].signal(SIGCONT);
  expect_error(1, {"sum 'a'"});
}

TEST_F(Processes, AnotherProgramIsNamedByAll) {
  std::vector<std::vector<std::string>> arguments(3, {"sum 'a'", "16", kForEver});
  arguments[1][0] = "sum 'b'";
  start(arguments, "60");
  for (const std::size_t rank : {0, 1, 2}) {
    expect_error(rank, {"FAILED_PRECONDITION", "participant 1", "sum 'a'", "sum 'b'"});
  }
}

TEST_F(Processes, AnotherShapeIsNamedByAll) {
  std::vector<std::vector<std::string>> arguments(3, {"sum 'a'", "1000000", kForEver});
  arguments[1][1] = "1000001";
  start(arguments, "60");
  for (const std::size_t rank : {0, 1, 2}) {
    expect_error(rank, {"FAILED_PRECONDITION", "participant 1", "sum 'a'"});
  }
}

TEST_F(Processes, OneThatEndsEarlyIsNamedByAll) {
  std::vector<std::vector<std::string>> arguments(3, {"sum 'a'", "1000", kForEver});
  arguments[2][2] = "10";
  start(arguments, "60");
  expect_all_run();
  EXPECT_EQ(processes_[2].line(), "done");
  for (const std::size_t rank : {0, 1}) {
    expect_error(rank,
                 {"FAILED_PRECONDITION", "participant 2 has ended without coming", "sum 'a'"});
  }
}

TEST_F(Processes, OneThatNeverComesIsNamed) {
  processes_.emplace_back(0, 2, "file://" + folder_, "1", std::vector<std::string>{"a", "1", "1"});
  const std::string error = processes_[0].line();
  for (const char* word : {"DEADLINE_EXCEEDED", "participant 1 has not come", "file://"}) {
    EXPECT_NE(error.find(word), std::string::npos) << error;
  }
}

TEST_F(Processes, TwoOfOneRankAreAnError) {
  for (int i = 0; i < 2; ++i) {
    processes_.emplace_back(1, 2, "file://" + folder_, "3",
                            std::vector<std::string>{"a", "1", "1"});
  }
  const std::string lines = processes_[0].line() + processes_[1].line();
  EXPECT_NE(lines.find("participant 1 comes to file://"), std::string::npos) << lines;
}

TEST_F(Processes, AnotherNumberOfParticipantsIsAnError) {
  for (int i = 0; i < 2; ++i) {
    processes_.emplace_back(i, 2 + i, "file://" + folder_, "3",
                            std::vector<std::string>{"a", "1", "1"});
  }
  const std::string lines = processes_[0].line() + processes_[1].line();
  EXPECT_NE(lines.find("WORLD_SIZE"), std::string::npos) << lines;
}

}  // namespace
}  // namespace plimsoll::collectives
