// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace plimsoll {

enum class LogLevel : std::uint8_t { off, error, warning, info, debug };

// Where log lines go; called under a lock, must not log. Null: standard error.
using LogSink = std::function<void(LogLevel, std::string_view line)>;
void set_log_sink(LogSink sink);

// The level in force: PLIMSOLL_LOG_LEVEL at first use (a bad value counts as its default), or what
// was set since. Thread-safe.
LogLevel log_level();
void set_log_level(LogLevel level);
inline bool logs(LogLevel level) { return level <= log_level() && level != LogLevel::off; }

// Writes one line (no newline in it) when `level` is logged. Thread-safe.
void log_line(LogLevel level, std::string_view line);

}  // namespace plimsoll
