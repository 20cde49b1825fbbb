// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/planner/pack.h"
#include "runtime/planner/pack_csv.h"
#include "tools/command.h"
#include "tools/program_file.h"

namespace plimsoll::tools {
namespace {

struct Options {
  std::string path, output;
  std::int64_t capacity = -1, alignment = 1;
  double seconds = 1;
};

Outcome run(const Options& options, Output& output) {
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
  how.target = options.capacity;
  how.seconds = options.seconds;
  const planner::Packing packing = planner::pack(buffers->lifetimes, how);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.capacity >= 0 && packing.height > options.capacity) {
    const bool never = packing.load > options.capacity;
    return Outcome::program_fault(Status::resource_exhausted(
        options.path + ": no packing within " + std::to_string(options.capacity) +
            " bytes: the best found takes " + std::to_string(packing.height) +
            ", the live bytes alone " + std::to_string(packing.load) +
            (never ? "" : " (a larger --capacity or more --seconds may do)"),
        {options.capacity, packing.height, ""}));
  }
  if (!options.output.empty()) {
    const Outcome written =
        write_file(options.output, planner::write_packing(*buffers, packing.offsets));
    if (!written.ok()) return written;
  }
  output.json["arena_bytes"] = packing.height;
  output.json["liveness_bytes"] = packing.load;
  output.json["buffers"] = buffers->lifetimes.size();
  output.json["seconds"] = seconds;
  char line[160];
  std::snprintf(line, sizeof line, "%zu buffers in %lld bytes (live at most: %lld), %.3f s\n",
                buffers->lifetimes.size(), static_cast<long long>(packing.height),
                static_cast<long long>(packing.load), seconds);
  output.text = line;
  return {};
}

}  // namespace

void add_pack(Commands& commands) {
  CLI::App* command = commands.add("pack", "Offsets for buffers with given lives (CSV)");
  auto options = std::make_shared<Options>();
  command->add_option("FILE", options->path, "id,lower,upper,size with a header; - is stdin")
      ->required();
  command->add_option("--capacity", options->capacity, "Bytes that do; fail when they don't")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--alignment", options->alignment, "What offsets are multiples of")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  command->add_option("--output", options->output, "The same CSV with a column `offset`");
  command->add_option("--seconds", options->seconds, "How long to look for a lower packing")
      ->check(CLI::PositiveNumber);
  command->callback([options, &commands] {
    commands.action = [options](Output& output) { return run(*options, output); };
  });
}

}  // namespace plimsoll::tools
