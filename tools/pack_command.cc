// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "benchmarks/recorded/pack_csv.h"
#include "runtime/base/byte_size.h"
#include "runtime/base/environment.h"
#include "runtime/base/file.h"
#include "runtime/planner/pack/pack.h"
#include "tools/command.h"
#include "tools/program_file.h"

namespace plimsoll::tools {
namespace {

struct Options {
  std::string path, output;
  std::optional<std::string> capacity_text, seconds_text;
  std::int64_t alignment = 1;
};

Outcome run(const Options& options, Output& output) {
  std::int64_t capacity = -1;
  if (options.capacity_text) {
    const auto size = parse_size(*options.capacity_text, "--capacity");
    PLIMSOLL_CALL_FAULT(size.status());
    capacity = *size;
  }
  double search_seconds = 1;
  if (options.seconds_text) {
    const auto number = parse_number(*options.seconds_text, "--seconds");
    PLIMSOLL_CALL_FAULT(number.status());
    search_seconds = *number;
  }
  std::string text;
  if (options.path == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  } else {
    auto read = read_file(options.path);
    PLIMSOLL_CALL_FAULT(read.status());
    text = std::move(*read);
  }
  const auto buffers =
      planner::parse_lifetimes(text, options.path == "-" ? "<stdin>" : options.path);
  PLIMSOLL_PROGRAM_FAULT(buffers.status());

  const auto start = std::chrono::steady_clock::now();
  planner::PackOptions how;
  how.alignment = options.alignment;
  how.target = capacity;
  how.seconds = search_seconds;
  const planner::Packing packing = planner::pack(buffers->lifetimes, how);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (capacity >= 0 && packing.height > capacity) {
    const bool never = packing.load > capacity;
    return Outcome::program_fault(Status::resource_exhausted(
        fmt::format(
            "{}: no packing within {} bytes: the best found takes {}, the live bytes alone {}{}",
            options.path, capacity, packing.height, packing.load,
            never ? "" : " (a larger --capacity or more --seconds may do)"),
        {capacity, packing.height, ""}));
  }
  const bool to_output = options.output == "-";
  if (!options.output.empty() && !to_output) {
    const Outcome written =
        write_file(options.output, planner::write_packing(*buffers, packing.offsets));
    if (!written.ok()) return written;
  }
  output.json["arena_bytes"] = packing.height;
  output.json["liveness_bytes"] = packing.load;
  output.json["buffers"] = buffers->lifetimes.size();
  output.json["seconds"] = seconds;
  output.text = to_output
                    ? planner::write_packing(*buffers, packing.offsets)
                    : fmt::format("{} buffers in {} bytes (live at most: {}), {:.3f} s\n",
                                  buffers->lifetimes.size(), packing.height, packing.load, seconds);
  return {};
}

}  // namespace

void add_pack(Commands& commands) {
  CLI::App* command = commands.add("pack", "Offsets for buffers with given lives (CSV)");
  auto options = std::make_shared<Options>();
  command->add_option("FILE", options->path, "id,lower,upper,size with a header; - is stdin")
      ->required();
  command->add_option("--capacity", options->capacity_text,
                      "Bytes that do, e.g. 1MiB; fail when they don't");
  command->add_option("--alignment", options->alignment, "What offsets are multiples of")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  command->add_option("--output", options->output,
                      "The same CSV with a column `offset` (-: standard output)");
  command->add_option("--seconds", options->seconds_text,
                      "How long to look for a lower packing (0: a fixed amount of work)");
  command->callback([options, &commands] {
    commands.action = [options](Output& output) { return run(*options, output); };
  });
}

}  // namespace plimsoll::tools
