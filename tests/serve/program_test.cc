// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tests/serve/test_server.h"

namespace plimsoll::testing {
namespace {

// The server as a program; what it writes to standard output.
class ServeProgram {
 public:
  explicit ServeProgram(std::vector<std::string> arguments) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    arguments.insert(arguments.begin(), PLIMSOLL_SERVE);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::execv(PLIMSOLL_SERVE, argv.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    output_ = ends[0];
  }
  ~ServeProgram() {
    if (process_ > 0 && !ended_) {
      ::kill(process_, SIGKILL);
      wait();
    }
    ::close(output_);
  }

  std::string read_line() {
    std::string line;
    char c = 0;
    while (::read(output_, &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  // The port in its first line; 0 where there is none.
  int port() {
    const std::string line = read_line();
    const auto colon = line.rfind(':');
    return line.rfind("serving on http://127.0.0.1:", 0) == 0 ? std::stoi(line.substr(colon + 1))
                                                              : 0;
  }
  void signal(int number) { ::kill(process_, number); }
  // Its exit code; -1 where a signal ended it.
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t process_ = -1;
  int output_ = -1;
  bool ended_ = false;
};

TEST(ServeProgram, AnswersWhatIsUnderWayWhenItIsToldToEnd) {
  ModelFolder folder;
  // The first request waits for others, which never come: it is under way for long.
  folder.add("rows", rows_hlo(8),
             R"({"batching": {"rows": 8, "whole": ["w"], "window_microseconds": 700000}})");
  ServeProgram program({folder.path().string(), "--port", "0", "--memory-limit", "64MiB"});
  const int port = program.port();
  ASSERT_GT(port, 0);
  std::thread under_way([&] {
    httplib::Client client("127.0.0.1", port);
    const auto result = infer(
        client, "rows",
        binary_request({{"x", "FP32", "[1,64]", std::string(256, '\0')},
                        {"w", "FP32", "[64,32]", std::string(std::size_t{64} * 32 * 4, '\0')}}));
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, 200) << result->body;
  });
  // Until it is counted among the bodies that are being worked on.
  httplib::Client client("127.0.0.1", port);
  for (bool waits = false; !waits;) {
    const auto metrics = client.Get("/metrics");
    ASSERT_TRUE(metrics);
    waits = metrics->body.find("plimsoll_host_buffer_bytes 0\n") == std::string::npos;
  }
  program.signal(SIGTERM);
  under_way.join();
  EXPECT_EQ(program.wait(), 0);
  httplib::Client late("127.0.0.1", port);
  EXPECT_FALSE(late.Get("/v2/health/live"));
}

TEST(ServeProgram, RefusesWhatItCannotServe) {
  ModelFolder folder;
  EXPECT_EQ(ServeProgram({(folder.path() / "none").string()}).wait(), 1);
  EXPECT_EQ(ServeProgram({}).wait(), 2);
  EXPECT_EQ(ServeProgram({folder.path().string(), "--memory-limit", "12parsecs"}).wait(), 1);
  ServeProgram first({folder.path().string(), "--port", "0"});
  const int port = first.port();
  ASSERT_GT(port, 0);
  // Two servers never share a port.
  EXPECT_EQ(ServeProgram({folder.path().string(), "--port", std::to_string(port)}).wait(), 1);
  first.signal(SIGINT);
  EXPECT_EQ(first.wait(), 0);
}

}  // namespace
}  // namespace plimsoll::testing
