// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <utility>

namespace plimsoll::benchmarks {

// Reads the command line of a benchmark. What it gives is the exit status of a program that must
// end here: 0 after --help, 2 after arguments it can't take, of which it has told.
inline std::optional<int> read_arguments(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

// The same for a benchmark without arguments.
inline std::optional<int> read_no_arguments(std::string name, int argc, char** argv) {
  CLI::App app("Takes no arguments (docs/benchmarks.md says what it measures).", std::move(name));
  return read_arguments(app, argc, argv);
}

}  // namespace plimsoll::benchmarks
