// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace CLI {
class App;  // whose header takes some ten seconds to compile
}

namespace plimsoll::examples {

// What every training program asks.
struct TrainingOptions {
  std::int64_t batch = 128;
  std::uint64_t seed = 1;
  std::optional<std::string> memory_limit;
  std::string planner;
  std::string remedies;  // empty: by the environment
  std::string report;
  // A file that the run is saved to, every so many steps and at its end; empty: none.
  std::string checkpoint;
  std::int64_t checkpoint_interval = 100;
  bool resume = false;  // from the file, where it is there
  bool no_progress = false;
  bool json = false;

  void add_to(CLI::App& app);
  // Of programs that can be resumed.
  void add_checkpoint_to(CLI::App& app);
};

// What is wrong with an option's value; empty where nothing is.
std::string check_above_zero(const std::string& text);
std::string check_not_negative(const std::string& text);
// A file that can be made or replaced: found out before a run that would be lost without it.
std::string check_writable(const std::string& text);

// Parses the command line and calls `body`; says what went wrong in one sentence on standard error.
// Gives the exit code: 0, 1 when the program or its data are at fault, 2 when the call is.
int run_program(CLI::App& app, int argc, char** argv, const std::function<void()>& body);

}  // namespace plimsoll::examples
