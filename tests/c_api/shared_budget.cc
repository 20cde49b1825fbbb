// SPDX-License-Identifier: Apache-2.0
#include "tests/c_api/shared_budget.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "tests/c_api/eager_steps.h"

namespace plimsoll::testing {
namespace {

constexpr std::byte kPattern{0xA5};

std::string square(int n) { return "f32[" + std::to_string(n) + "," + std::to_string(n) + "]"; }

std::string product(const std::string& type, const std::string& name, const std::string& a,
                    const std::string& b) {
  return "  " + name + " = " + type + " dot(" + a + ", " + b +
         "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
}

std::string layer(const std::string& type, const std::string& name, const std::string& a,
                  const std::string& b) {
  return product(type, "d" + name, a, b) + "  s" + name + " = " + type + " multiply(d" + name +
         ", small)\n  " + name + " = " + type + " tanh(s" + name + ")\n";
}

}  // namespace

Outcome take(plm_status* status) {
  Outcome outcome{plm_status_code(status), plm_status_message(status),
                  plm_status_floor_bytes(status)};
  plm_status_free(status);
  return outcome;
}

plm_memory_statistics memory_of(plm_context* context) {
  plm_memory_statistics memory = {};
  memory.struct_size = sizeof memory;
  plm_status_free(plm_context_memory(context, &memory));
  return memory;
}

std::string layers_text(int n, int layers) {
  const std::string type = square(n);
  std::string text =
      "HloModule layers\n"
      "sum { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b) }\n"
      "ENTRY main {\n  x0 = " +
      type + " parameter(0)\n  w = " + type +
      " parameter(1)\n  tenth = f32[] constant(0.1)\n  zero = f32[] constant(0)\n  small = " +
      type + " broadcast(tenth), dimensions={}\n";
  const auto name = [](const char* prefix, int i) { return prefix + std::to_string(i); };
  for (int i = 0; i < layers; ++i) text += layer(type, name("x", i + 1), name("x", i), "w");
  std::string last = name("x", layers);
  for (int i = layers - 1; i >= 0; --i) {
    text += layer(type, name("g", i), last, name("x", i));
    last = name("g", i);
  }
  return text + "  total = f32[] reduce(" + last +
         ", zero), dimensions={0,1}, to_apply=sum\n  ROOT r = (" + type + ", f32[]) tuple(" + last +
         ", total)\n}\n";
}

std::string loop_text(int n, std::int64_t rounds) {
  const std::string type = square(n), state = "(s64[], " + type + ")";
  return "HloModule loop\n"
         "body { s = " +
         state +
         " parameter(0)\n"
         "  i = s64[] get-tuple-element(s), index=0\n"
         "  x = " +
         type +
         " get-tuple-element(s), index=1\n"
         "  one = s64[] constant(1)\n"
         "  j = s64[] add(i, one)\n"
         "  tenth = f32[] constant(0.1)\n"
         "  small = " +
         type + " broadcast(tenth), dimensions={}\n" + layer(type, "y", "x", "x") +
         "  ROOT t = " + state +
         " tuple(j, y) }\n"
         "condition { s = " +
         state +
         " parameter(0)\n"
         "  i = s64[] get-tuple-element(s), index=0\n"
         "  n = s64[] constant(" +
         std::to_string(rounds) +
         ")\n"
         "  ROOT p = pred[] compare(i, n), direction=LT }\n"
         "ENTRY main {\n"
         "  x = " +
         type +
         " parameter(0)\n"
         "  zero = s64[] constant(0)\n"
         "  s = " +
         state +
         " tuple(zero, x)\n"
         "  l = " +
         state +
         " while(s), condition=condition, body=body\n"
         "  ROOT r = " +
         type + " get-tuple-element(l), index=1\n}\n";
}

plm_status* Served::run(std::size_t input, const plm_run_options* options, Buffers& results) const {
  std::vector<const void*> parameters;
  std::vector<void*> into;
  for (const auto& buffer : inputs[input]) parameters.push_back(buffer.data());
  results.resize(result_bytes.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].assign(result_bytes[i], kPattern);
    into.push_back(results[i].data());
  }
  return plm_executable_run_with(executable.get(), parameters.data(), parameters.size(),
                                 into.data(), into.size(), options);
}

bool Served::is_untouched(const Buffers& results) {
  return std::all_of(results.begin(), results.end(), [](const std::vector<std::byte>& buffer) {
    return std::all_of(buffer.begin(), buffer.end(),
                       [](std::byte byte) { return byte == kPattern; });
  });
}

Served serve(plm_context* context, const std::string& text, bool resident, std::uint64_t seed) {
  Served made;
  const bool has_weights = text.find("parameter(1)\n  tenth") != std::string::npos;
  const plm_placement placements[2] = {PLM_PLACEMENT_HOST,
                                       resident ? PLM_PLACEMENT_RESIDENT : PLM_PLACEMENT_HOST};
  plm_executable_options options = {};
  options.struct_size = sizeof options;
  options.placements = placements;
  options.placement_count = has_weights ? 2 : 1;
  plm_executable* executable = nullptr;
  if (take(
          plm_executable_create(context, text.data(), text.size(), "served", &options, &executable))
          .code != PLM_OK) {
    return made;
  }
  made.executable.reset(executable);
  plm_status_free(plm_executable_floor(executable, &made.floor_bytes));
  made.peak_bytes = plm_executable_peak(executable);
  plm_value_info info = {};
  info.struct_size = sizeof info;
  for (std::size_t i = 0; i < plm_executable_parameter_count(executable); ++i) {
    plm_status_free(plm_executable_parameter(executable, i, &info));
    made.parameter_bytes.push_back(info.byte_size);
  }
  for (std::size_t i = 0; i < plm_executable_result_count(executable); ++i) {
    plm_status_free(plm_executable_result(executable, i, &info));
    made.result_bytes.push_back(info.byte_size);
  }
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  constexpr int kInputs = 2;
  for (std::size_t input = 0; input < kInputs; ++input) {
    Served::Buffers buffers;
    for (const std::size_t bytes : made.parameter_bytes) {
      std::vector<std::byte> buffer(bytes);
      for (std::size_t at = 0; at < bytes; at += sizeof(float)) {
        const float value = values(random);
        std::memcpy(buffer.data() + at, &value, sizeof value);
      }
      buffers.push_back(std::move(buffer));
    }
    made.inputs.push_back(std::move(buffers));
    made.expected.emplace_back();
    if (take(made.run(input, nullptr, made.expected.back())).code != PLM_OK) return {};
  }
  return made;
}

namespace {

class Stress {
 public:
  Stress(int threads, double seconds, std::uint64_t seed)
      : threads_(threads), seconds_(seconds), seed_(seed) {}

  StressReport run() {
    plm_context_options options = {};
    options.struct_size = sizeof options;
    options.memory_limit_bytes = PLM_NO_LIMIT;
    plm_context* made = nullptr;
    if (take(plm_context_create(&options, &made)).code != PLM_OK) return {"no context"};
    context_.reset(made);
    for (int i = 0; i < 8; ++i) {
      const std::string text = i == 7 ? loop_text(48, 20) : layers_text(32 + 8 * i, 4 + i % 4);
      programs_.push_back(serve(made, text, i % 2 == 1, seed_ + static_cast<std::uint64_t>(i)));
      if (programs_.back().executable == nullptr) return {"no program " + std::to_string(i)};
      most_floor_ = std::max(most_floor_, programs_.back().floor_bytes);
      sum_of_peaks_ += programs_.back().peak_bytes;
    }
    set_limit(most_floor_ * 2);
    plm_context_reset_peak(made);
    start_ = std::chrono::steady_clock::now();
    std::vector<std::thread> running;
    for (int i = 0; i < threads_; ++i) running.emplace_back([this, i] { serve_runs(i); });
    running.emplace_back([this] { change_limits(); });
    running.emplace_back([this] { cancel_runs(); });
    record_steps();
    for (std::thread& thread : running) thread.join();
    return sum_up();
  }

 private:
  bool goes_on() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() <
               seconds_ &&
           !failed_;
  }

  void fail(std::string what) {
    const std::lock_guard lock(mutex_);
    if (report_.broken.empty()) report_.broken = std::move(what);
    failed_ = true;
  }

  void set_limit(std::int64_t bytes) {
    // Noted first: what is let in under it is let in afterwards.
    report_.highest_limit_bytes = std::max(report_.highest_limit_bytes, bytes);
    plm_status_free(plm_context_set_limit(context_.get(), bytes));
    ++report_.limits;
  }

  void change_limits() {
    std::mt19937_64 random(seed_ + 1000);
    while (goes_on()) {
      // Now and then below what the largest program needs at least.
      std::uniform_int_distribution<std::int64_t> bytes(most_floor_ / 2, sum_of_peaks_);
      set_limit(bytes(random));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    }
    set_limit(sum_of_peaks_);
  }

  void cancel_runs() {
    while (goes_on()) {
      {
        const std::lock_guard lock(mutex_);
        for (plm_cancellation* one : to_cancel_) plm_cancellation_cancel(one);
        to_cancel_.clear();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }

  void serve_runs(int thread) {
    std::mt19937_64 random(seed_ + 2000 + static_cast<std::uint64_t>(thread));
    while (goes_on()) {
      const Served& program = programs_[random() % programs_.size()];
      const std::size_t input = random() % program.inputs.size();
      plm_run_options options = {};
      options.struct_size = sizeof options;
      const auto kind = random() % 8;
      if (kind == 0) options.deadline_seconds = 1e-6 * static_cast<double>(1 + random() % 5000);
      if (kind == 1) {
        plm_status_free(plm_cancellation_create(&options.cancellation));
        const std::lock_guard lock(mutex_);
        to_cancel_.push_back(options.cancellation);
      }
      options.dont_wait = kind == 2;
      Served::Buffers results;
      const Outcome outcome = take(program.run(input, &options, results));
      count(outcome, options, results, program.expected[input]);
      if (options.cancellation != nullptr) {
        const std::lock_guard lock(mutex_);
        std::erase(to_cancel_, options.cancellation);
        plm_cancellation_destroy(options.cancellation);
      }
    }
  }

  void count(const Outcome& outcome, const plm_run_options& options, const Served::Buffers& results,
             const Served::Buffers& expected) {
    if (outcome.code != PLM_OK && !Served::is_untouched(results)) {
      return fail("a run that failed has written results: " + outcome.message);
    }
    switch (outcome.code) {
      case PLM_OK:
        if (results != expected) return fail("a result has other bits");
        ++right_;
        return;
      case PLM_RESOURCE_EXHAUSTED:
        // Of one that may not wait it is not known where others come first.
        if (outcome.floor_bytes <= 0 && options.dont_wait == 0)
          return fail("no floor: " + outcome.message);
        ++refused_;
        return;
      case PLM_CANCELLED:
        if (options.cancellation == nullptr) break;
        ++cancelled_;
        return;
      case PLM_DEADLINE_EXCEEDED:
        if (!(options.deadline_seconds > 0)) break;
        ++late_;
        return;
      default:
        break;
    }
    fail("an error without a cause: " + outcome.message);
  }

  // The context's own thread beside them.
  void record_steps() {
    EagerSteps steps(seed_ + 3000);
    while (goes_on()) {
      switch (steps.step(context_.get())) {
        case EagerSteps::Answer::right:
          ++report_.steps;
          break;
        case EagerSteps::Answer::nothing_read:
          break;
        case EagerSteps::Answer::refused:
          ++refused_;
          (void)take(plm_wait(context_.get()));
          std::this_thread::sleep_for(std::chrono::microseconds(300));
          break;
        case EagerSteps::Answer::broken:
          return fail("a step failed: " + steps.message());
      }
    }
  }

  StressReport sum_up() {
    (void)take(plm_wait(context_.get()));
    const plm_memory_statistics memory = memory_of(context_.get());
    report_.right = right_;
    report_.refused = refused_;
    report_.cancelled = cancelled_;
    report_.late = late_;
    report_.peak_bytes = memory.peak_bytes;
    report_.waited = memory.waited_runs;
    report_.most_passed = memory.most_passed;
    if (memory.peak_bytes > report_.highest_limit_bytes) fail("the peak is above every limit");
    if (memory.used_bytes != 0 || memory.reserved_bytes != 0) {
      fail("in the end " + std::to_string(memory.used_bytes) + " bytes are in use, " +
           std::to_string(memory.reserved_bytes) + " reserved");
    }
    if (memory.running_runs != 0 || memory.waiting_runs != 0) fail("in the end runs are left");
    if (memory.most_passed > 16) fail("a run was passed too often");
    return report_;
  }

  const int threads_;
  const double seconds_;
  const std::uint64_t seed_;
  std::chrono::steady_clock::time_point start_;
  ContextHandle context_;
  std::vector<Served> programs_;
  std::int64_t most_floor_ = 0, sum_of_peaks_ = 0;
  std::atomic<bool> failed_{false};
  std::atomic<std::int64_t> right_{0}, refused_{0}, cancelled_{0}, late_{0};
  std::mutex mutex_;  // guards to_cancel_ and report_.broken
  std::vector<plm_cancellation*> to_cancel_;
  StressReport report_;
};

}  // namespace

StressReport stress(int threads, double seconds, std::uint64_t seed) {
  return Stress(threads, seconds, seed).run();
}

}  // namespace plimsoll::testing
