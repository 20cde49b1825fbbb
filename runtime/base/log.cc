// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/fork.h"

namespace plimsoll {
namespace {

constexpr std::string_view kNames[] = {"off", "error", "warning", "info", "debug"};

LogLevel level_from_environment() {
  const auto word = choice_variable(Variable::log_level);
  if (word.ok()) {
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      if (kNames[i] == *word) return static_cast<LogLevel>(i);
    }
  }
  return LogLevel::warning;
}

std::atomic<LogLevel>& level() {
  static std::atomic<LogLevel> instance{level_from_environment()};
  return instance;
}

struct Sink {
  ProcessMutex mutex;
  LogSink function;
};
Sink& sink() {
  static Sink* const instance = new Sink;  // outlives static destructors that log
  return *instance;
}

}  // namespace

void set_log_sink(LogSink function) {
  const std::lock_guard lock(sink().mutex);
  sink().function = std::move(function);
}

LogLevel log_level() { return level().load(std::memory_order_relaxed); }
void set_log_level(LogLevel value) { level().store(value, std::memory_order_relaxed); }

void log_line(LogLevel at, std::string_view line) {
  if (!logs(at)) return;
  const std::lock_guard lock(sink().mutex);
  if (sink().function) {
    sink().function(at, line);
    return;
  }
  std::fprintf(stderr, "plimsoll %s: %.*s\n", kNames[static_cast<std::size_t>(at)].data(),
               static_cast<int>(line.size()), line.data());
}

}  // namespace plimsoll
