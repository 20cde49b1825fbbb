// SPDX-License-Identifier: Apache-2.0
// Checks a schedule of a recorded training step by itself: `replayer MODEL.txt SCHEDULE`. Prints
// one JSON object: time, overhead, peak. Exit codes: 0; 1: the schedule breaks a rule; 2: the call
// is at fault.
#include "benchmarks/replayer/replay.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/base/byte_size.h"
#include "runtime/base/file.h"

namespace {

int fail(const plimsoll::Status& status, int exit_code) {
  std::cerr << "replayer: " << status.to_string() << "\n";
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  std::string model_path, schedule_path, limit_text = "100%peak";
  std::optional<std::string> speed_text, host_text;
  bool addresses = false;
  CLI::App app("Checks a schedule of a recorded training step.", "replayer");
  app.add_option("model", model_path, "The flattened step")->required();
  app.add_option("schedule", schedule_path,
                 "Actions: `c OPERATION [STORAGE@OFFSET ...]`, `f STORAGE`; with a link also "
                 "`o STORAGE`, `i STORAGE`, `w STORAGE`")
      ->required();
  app.add_option("--memory-limit", limit_text, "In bytes, or as a share such as 50%peak")
      ->capture_default_str();
  CLI::Option* by_address = app.add_flag("--addresses", addresses, "Count the limit in addresses");
  CLI::Option* link =
      app.add_option(
             "--link-speed", speed_text,
             "Bytes per second to and from host memory, such as 25GB, of a schedule with copies")
          ->excludes(by_address);
  app.add_option("--host-limit", host_text, "Bytes of host memory that copies may take")
      ->needs(link);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  const auto limit = plimsoll::parse_memory_limit(limit_text, "--memory-limit");
  if (!limit.ok()) return fail(limit.status(), 2);
  if (limit->is_of_device()) {
    return fail(plimsoll::invalid_argument("--memory-limit: a recording has no device"), 2);
  }
  std::int64_t speed = 0;
  if (speed_text) {
    const auto parsed = plimsoll::parse_byte_size(*speed_text, "--link-speed");
    if (!parsed.ok()) return fail(parsed.status(), 2);
    speed = *parsed;
  }
  std::int64_t host_limit = -1;
  if (host_text) {
    const auto parsed = plimsoll::parse_byte_size(*host_text, "--host-limit");
    if (!parsed.ok()) return fail(parsed.status(), 2);
    host_limit = *parsed;
  }
  const auto model_text = plimsoll::read_file(model_path);
  if (!model_text.ok()) return fail(model_text.status(), 2);
  const auto schedule = plimsoll::read_file(schedule_path);
  if (!schedule.ok()) return fail(schedule.status(), 2);
  const auto model = plimsoll::replayer::parse_model(*model_text, model_path);
  if (!model.ok()) return fail(model.status(), 2);

  const std::int64_t bytes = limit->resolve({}, model->peak_bytes);
  const auto replay =
      plimsoll::replayer::replay(*model, *schedule, {bytes, addresses, speed, host_limit});
  if (!replay.ok()) return fail(replay.status().with_context(schedule_path), 1);
  nlohmann::ordered_json json = {{"limit_bytes", bytes},
                                 {"nanoseconds", replay->nanoseconds},
                                 {"overhead", replay->overhead_percent},
                                 {"runs", replay->runs},
                                 {"peak_bytes", replay->peak_bytes}};
  if (addresses) json["peak_with_holes"] = replay->peak_with_holes;
  if (speed > 0) {
    json["swapped_bytes"] = replay->swapped_bytes;
    json["stalled_nanoseconds"] = replay->stalled_nanoseconds;
    json["host_peak_bytes"] = replay->host_peak_bytes;
  }
  std::cout << json.dump(2) << "\n";
  return 0;
}
