// SPDX-License-Identifier: Apache-2.0
// What the children of fork() may do with what their parent made, and with what they make.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/c_api/shared_budget.h"

namespace plimsoll::testing {
namespace {

// A child that hangs is killed after that.
constexpr unsigned kLongestSeconds = 100;

struct FreeBuffer {
  void operator()(plm_buffer* buffer) const { plm_buffer_release(buffer); }
};
using BufferHandle = std::unique_ptr<plm_buffer, FreeBuffer>;

// Runs `body` in a child that fork() makes: what it says is wrong, or how it was killed; empty
// where all is well.
std::string in_child(const std::function<std::string()>& body) {
  int pipe[2];
  if (::pipe(pipe) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[0]);
    ::alarm(kLongestSeconds);
    const std::string wrong = body();
    const bool is_written =
        ::write(pipe[1], wrong.data(), wrong.size()) == static_cast<ssize_t>(wrong.size());
    ::_exit(is_written ? 0 : 1);
  }
  ::close(pipe[1]);
  std::string said;
  char part[4096];
  for (ssize_t n = 0; (n = ::read(pipe[0], part, sizeof part)) > 0;) {
    said.append(part, static_cast<std::size_t>(n));
  }
  ::close(pipe[0]);
  int how = 0;
  ::waitpid(child, &how, 0);
  if (WIFSIGNALED(how)) said += "; killed by signal " + std::to_string(WTERMSIG(how));
  return said;
}

ContextHandle make_context() {
  plm_context_options options = {};
  options.struct_size = sizeof options;
  plm_context* context = nullptr;
  const Outcome made = take(plm_context_create(&options, &context));
  if (made.code != PLM_OK) ADD_FAILURE() << made.message;
  return ContextHandle(context);
}

// Of rows that all threads of the pool share; empty where it went wrong.
std::vector<std::byte> compute(plm_context* context) {
  const Served served = serve(context, layers_text(256, 4), false, 7);
  Served::Buffers results;
  const Outcome ran = take(served.run(0, nullptr, results));
  if (ran.code != PLM_OK || results != served.expected[0]) return {};
  std::vector<std::byte> all;
  for (const auto& one : results) all.insert(all.end(), one.begin(), one.end());
  return all;
}

class Fork : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef PLIMSOLL_TSAN
    GTEST_SKIP() << "ThreadSanitizer ends children that start threads";
#endif
  }
};

TEST_F(Fork, InheritedHandlesAreRefusedAndGoAtOnce) {
  ContextHandle context = make_context();
  Served served = serve(context.get(), layers_text(64, 3), true, 3);
  constexpr std::int64_t kDims[1] = {4};
  const float numbers[4] = {1, 2, 3, 4};
  plm_tensor* tensor = nullptr;
  ASSERT_EQ(take(plm_tensor_from_host(context.get(), PLM_F32, kDims, 1, numbers, &tensor)).code,
            PLM_OK);
  ASSERT_EQ(take(plm_eval(context.get(), &tensor, 1)).code, PLM_OK);
  plm_buffer* made = nullptr;
  ASSERT_EQ(
      take(plm_buffer_from_host(context.get(), PLM_F32, kDims, 1, numbers, nullptr, &made)).code,
      PLM_OK);
  plm_hold* hold = nullptr;
  ASSERT_EQ(take(plm_buffer_hold(made, nullptr, &hold)).code, PLM_OK);
  plm_cancellation* cancellation = nullptr;
  ASSERT_EQ(take(plm_cancellation_create(&cancellation)).code, PLM_OK);
  const std::string wrong = in_child([&] {
    std::string found;
    const auto refused = [&](const char* what, plm_status* status) {
      const Outcome outcome = take(status);
      if (outcome.code == PLM_FAILED_PRECONDITION &&
          outcome.message.find("made before fork()") != std::string::npos &&
          outcome.message.find("make a new context") != std::string::npos) {
        return;
      }
      found += std::string(what) + ": '" + outcome.message + "'; ";
    };
    Served::Buffers results;
    float out[4];
    void* data = nullptr;
    plm_tensor* other = nullptr;
    plm_hold* other_hold = nullptr;
    const char* json = nullptr;
    std::int64_t floor = 0;
    refused("run", served.run(0, nullptr, results));
    refused("floor", plm_executable_floor(served.executable.get(), &floor));
    refused("eval", plm_eval(context.get(), &tensor, 1));
    refused("wait", plm_wait(context.get()));
    refused("report", plm_context_report(context.get(), &json));
    refused("set limit", plm_context_set_limit(context.get(), 1 << 20));
    refused("scalar", plm_scalar(context.get(), PLM_F32, 1, &other));
    refused("tensor read", plm_tensor_read(tensor, out, sizeof out));
    refused("set variable", plm_tensor_set_variable(tensor, 1));
    refused("buffer read", plm_buffer_read(made, out, sizeof out));
    refused("buffer wait", plm_buffer_wait(made));
    refused("hold", plm_buffer_hold(made, &data, &other_hold));
    // What is new does not take what is old.
    const ContextHandle own = make_context();
    refused("cancellation", [&] {
      const Served fresh = serve(own.get(), layers_text(32, 2), false, 3);
      plm_run_options options = {};
      options.struct_size = sizeof options;
      options.cancellation = cancellation;
      return fresh.run(0, &options, results);
    }());
    if (take(plm_eval(own.get(), &tensor, 1)).code == PLM_OK) found += "a tensor of the parent; ";
    plm_cancellation_cancel(cancellation);
    plm_cancellation_destroy(cancellation);
    plm_hold_release(hold);
    plm_buffer_delete(made);
    plm_buffer_release(made);
    plm_tensor_release(tensor);
    served.executable.reset();
    context.reset();
    return found;
  });
  EXPECT_EQ(wrong, "");
  // The parent goes on.
  Served::Buffers results;
  EXPECT_EQ(take(served.run(0, nullptr, results)).code, PLM_OK);
  EXPECT_EQ(results, served.expected[0]);
  plm_hold_release(hold);
  plm_buffer_release(made);
  plm_tensor_release(tensor);
  plm_cancellation_destroy(cancellation);
}

// In the child, in its child, and beside the parent's.
TEST_F(Fork, ANewContextInTheChildComputesTheSame) {
  const ContextHandle context = make_context();
  const std::vector<std::byte> expected = compute(context.get());
  ASSERT_FALSE(expected.empty());
  const auto compute_anew = [&]() -> std::string {
    const ContextHandle own = make_context();
    return compute(own.get()) == expected ? "" : "other bits; ";
  };
  EXPECT_EQ(in_child([&] { return compute_anew() + in_child(compute_anew) + compute_anew(); }), "");
  EXPECT_EQ(compute(context.get()), expected);
}

// What only threads of the parent could reach is out of reach in a child, and looks leaked there.
bool is_forked_child = false;

TEST_F(Fork, AChildThatEndsAsProgramsDoEnds) {
  const ContextHandle context = make_context();
  ASSERT_FALSE(compute(context.get()).empty());
  const pid_t child = ::fork();
  if (child == 0) {
    is_forked_child = true;
    ::alarm(kLongestSeconds);
    const ContextHandle own = make_context();
    std::exit(compute(own.get()).empty() ? 2 : 0);
  }
  int how = 0;
  ::waitpid(child, &how, 0);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << how;
}

// Threads of the parent are anywhere: in its pool, its log, its caches.
TEST_F(Fork, ThreadsThatWorkMeanwhileLeaveNothingLocked) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer's own allocator stays locked in the child";
#endif
  std::atomic<bool> ends = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!ends) {
        const ContextHandle context = make_context();
        EXPECT_FALSE(compute(context.get()).empty());
      }
    });
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(in_child([]() -> std::string {
                const ContextHandle own = make_context();
                return compute(own.get()).empty() ? "wrong" : "";
              }),
              "");
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Fork, AnInheritedCommunicatorIsRefused) {
  constexpr std::size_t kRanks = 2;
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("plimsoll-fork-" + std::to_string(::getpid())))
          .string();
  const std::string rendezvous = "file://" + folder;
  plm_communicator* communicators[kRanks] = {};
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      plm_communicator_options options = {};
      options.struct_size = sizeof options;
      options.rank = static_cast<std::int64_t>(rank);
      options.world_size = kRanks;
      options.rendezvous = rendezvous.c_str();
      options.timeout_seconds = 60;
      const Outcome made = take(plm_communicator_connect(&options, &communicators[rank]));
      EXPECT_EQ(made.code, PLM_OK) << made.message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_NE(communicators[0], nullptr);
  ASSERT_NE(communicators[1], nullptr);
  const std::string text = R"(HloModule sum, replica_count=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main { p = f32[4] parameter(0) ROOT r = f32[4] all-reduce(p), to_apply=add })";
  const auto create = [&](plm_context* context, std::size_t rank, plm_executable** made) {
    plm_executable_options options = {};
    options.struct_size = sizeof options;
    options.communicator = communicators[rank];
    return plm_executable_create(context, text.data(), text.size(), "p", &options, made);
  };
  EXPECT_EQ(in_child([&]() -> std::string {
              const ContextHandle own = make_context();
              plm_executable* made = nullptr;
              const Outcome outcome = take(create(own.get(), 0, &made));
              plm_context_options with = {};
              with.struct_size = sizeof with;
              with.communicator = communicators[0];
              plm_context* bound = nullptr;
              if (take(plm_context_create(&with, &bound)).code != PLM_FAILED_PRECONDITION) {
                return "a context with a communicator of the parent";
              }
              // Says nothing to the parent's others.
              plm_communicator_leave(communicators[0], PLM_ABORTED, "in a child");
              plm_communicator_destroy(communicators[0]);
              plm_communicator_destroy(communicators[1]);
              return outcome.message.find("communicator: made before fork()") == 0
                         ? ""
                         : "'" + outcome.message + "'";
            }),
            "");
  // The parent's participants still reach each other.
  threads.clear();
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const ContextHandle context = make_context();
      plm_executable* made = nullptr;
      const Outcome outcome = take(create(context.get(), rank, &made));
      ASSERT_EQ(outcome.code, PLM_OK) << outcome.message;
      const ExecutableHandle executable(made);
      const float in[4] = {1, 2, 3, 4};
      float out[4] = {};
      const void* parameters[1] = {in};
      void* results[1] = {out};
      const Outcome ran = take(plm_executable_run(made, parameters, 1, results, 1));
      EXPECT_EQ(ran.code, PLM_OK) << ran.message;
      EXPECT_EQ(out[3], 8);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (plm_communicator* one : communicators) plm_communicator_destroy(one);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace plimsoll::testing

// LeakSanitizer asks for this before it looks for leaks.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {
  return plimsoll::testing::is_forked_child ? 1 : 0;
}
