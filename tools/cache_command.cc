// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <string>

#include "jit/jit.h"
#include "runtime/base/byte_size.h"
#include "tools/command.h"

namespace plimsoll::tools {
namespace {

const char* mode_name(jit::DiskCacheMode mode) {
  switch (mode) {
    case jit::DiskCacheMode::off:
      return "off";
    case jit::DiskCacheMode::read_only:
      return "ro";
    case jit::DiskCacheMode::read_write:
      return "rw";
  }
  return "";
}

std::string ago(double seconds) {
  const auto whole = [](double count, const char* unit) {
    return fmt::format("{} {}", static_cast<long long>(count), unit);
  };
  if (seconds < 120) return whole(seconds < 0 ? 0 : seconds, "s");
  if (seconds < 7200) return whole(seconds / 60, "min");
  if (seconds < 172800) return whole(seconds / 3600, "h");
  return whole(seconds / 86400, "days");
}

Json contents_json(const jit::DiskCacheOptions& options, const jit::DiskCacheContents& contents) {
  Json json = {{"folder", options.folder},
               {"mode", mode_name(options.mode)},
               {"limit_bytes", options.limit_bytes},
               {"entries", contents.entries},
               {"bytes", contents.bytes},
               {"oldest_use_seconds", nullptr},
               {"newest_use_seconds", nullptr},
               {"hits", contents.counters.hits},
               {"misses", contents.counters.misses},
               {"stored", contents.counters.stored},
               {"evicted", contents.counters.evicted},
               {"damaged", contents.counters.damaged}};
  if (contents.entries > 0) {
    json["oldest_use_seconds"] = contents.oldest_use_seconds;
    json["newest_use_seconds"] = contents.newest_use_seconds;
  }
  return json;
}

std::string contents_text(const jit::DiskCacheOptions& options,
                          const jit::DiskCacheContents& contents) {
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<10} {}\n", name, value);
  };
  row("folder", options.folder.empty() ? "none" : options.folder);
  row("mode", mode_name(options.mode));
  row("entries", std::to_string(contents.entries));
  row("bytes", format_bytes(contents.bytes) + " of " + format_bytes(options.limit_bytes));
  if (contents.entries > 0) {
    row("used",
        ago(contents.newest_use_seconds) + " to " + ago(contents.oldest_use_seconds) + " ago");
  }
  row("hits", std::to_string(contents.counters.hits));
  row("misses", std::to_string(contents.counters.misses));
  row("stored", std::to_string(contents.counters.stored));
  row("evicted", std::to_string(contents.counters.evicted));
  row("damaged", std::to_string(contents.counters.damaged));
  return text;
}

Outcome stats(Output& output) {
  const auto options = jit::options_from_environment();
  PLIMSOLL_CALL_FAULT(options.status());
  const auto contents = jit::disk_cache_contents(options->disk_cache.folder);
  PLIMSOLL_CALL_FAULT(contents.status());
  output.json = contents_json(options->disk_cache, *contents);
  output.text = contents_text(options->disk_cache, *contents);
  return {};
}

Outcome clear(Output& output) {
  const auto options = jit::options_from_environment();
  PLIMSOLL_CALL_FAULT(options.status());
  const auto contents = jit::clear_disk_cache(options->disk_cache.folder);
  PLIMSOLL_CALL_FAULT(contents.status());
  output.json = {{"folder", options->disk_cache.folder},
                 {"removed_entries", contents->entries},
                 {"removed_bytes", contents->bytes}};
  output.text = fmt::format("removed {} kernels, {}, from {}\n", contents->entries,
                            format_bytes(contents->bytes), options->disk_cache.folder);
  return {};
}

}  // namespace

void add_cache(Commands& commands) {
  CLI::App* command = commands.add_group("cache", "Compiled kernels on disk");
  commands.add("stats", "What is in the folder, and what processes counted", command)
      ->callback([&commands] { commands.action = stats; });
  commands.add("clear", "Removes the kernels and their counters, and nothing else", command)
      ->callback([&commands] { commands.action = clear; });
}

}  // namespace plimsoll::tools
