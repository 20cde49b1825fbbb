// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "benchmarks/eviction/replay.h"
#include "runtime/base/byte_size.h"
#include "runtime/base/file.h"
#include "tools/command.h"

namespace plimsoll::tools {
namespace {

struct Options {
  std::string path, policy = "default";
  std::optional<double> ratio;
  std::optional<std::string> limit_text;
};

Outcome run(const Options& options, Output& output) {
  if (options.ratio.has_value() == options.limit_text.has_value()) {
    return Outcome::call_fault(
        invalid_argument("replay: give either --memory-ratio or --memory-limit"));
  }
  if (options.ratio && !std::isfinite(*options.ratio)) {
    return Outcome::call_fault(invalid_argument("replay: --memory-ratio: not a number"));
  }
  const auto text = read_file(options.path);
  PLIMSOLL_CALL_FAULT(text.status());
  const auto log = import::parse_recorded_log(*text, options.path);
  PLIMSOLL_PROGRAM_FAULT(log.status());
  std::int64_t limit = 0;
  if (options.ratio) {
    limit = static_cast<std::int64_t>(*options.ratio * static_cast<double>(log->peak_bytes));
  } else {
    const auto asked = parse_memory_limit(*options.limit_text, "--memory-limit");
    PLIMSOLL_CALL_FAULT(asked.status());
    if (asked->is_of_device()) {
      return Outcome::call_fault(invalid_argument(
          "--memory-limit: a recorded log has no device (a size, or a share such as 50%peak)"));
    }
    limit = asked->resolve({}, log->peak_bytes);
  }
  const auto result = eviction_benchmark::replay(*log, limit, options.policy);
  PLIMSOLL_CALL_FAULT(result.status());
  output.json["budget_bytes"] = limit;
  output.json["unlimited_peak_bytes"] = log->peak_bytes;
  output.json["constant_bytes"] = log->constant_bytes;
  output.json["peak_bytes"] = result->peak_bytes;
  output.json["base_seconds"] = result->base_seconds;
  output.json["total_seconds"] = result->total_seconds;
  output.json["overhead"] = result->overhead();
  output.json["evictions"] = result->evictions;
  output.json["recomputes"] = result->recomputes;
  output.json["ok"] = result->ok;
  if (!result->ok) output.json["why"] = result->why.message();
  output.json["deciding_seconds"] = result->deciding_seconds;
  output.text = fmt::format(
      "{} of {}: {}{:.2f} % more time, {} evictions, {} operations run again, peak {}\n",
      format_bytes(limit), format_bytes(log->peak_bytes), result->ok ? "" : "gave up after ",
      result->overhead(), result->evictions, result->recomputes, format_bytes(result->peak_bytes));
  if (!result->ok) output.text += result->why.message() + "\n";
  return {};
}

}  // namespace

void add_replay(Commands& commands) {
  CLI::App* command = commands.add(
      "replay", "A recorded log under a limit, buffers evicted while it runs (simulated device)");
  auto options = std::make_shared<Options>();
  command->add_option("LOG", options->path, "Operations as they ran, one JSON object a line")
      ->required();
  command
      ->add_option("--memory-ratio", options->ratio,
                   "The limit as a share of the log's unlimited peak, e.g. 0.5")
      ->check(CLI::Range(1e-6, 10.0));
  command->add_option("--memory-limit", options->limit_text, "The limit, e.g. 2GiB or 50%peak");
  std::string names;
  for (const std::string_view name : eviction_benchmark::policy_names()) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  command->add_option("--policy", options->policy, "What is evicted first: " + names)
      ->capture_default_str();
  command->callback([options, &commands] {
    commands.action = [options](Output& output) { return run(*options, output); };
  });
}

}  // namespace plimsoll::tools
